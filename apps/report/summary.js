// Tiles and the table of figures, from the summary of the program: nothing here is counted again.
function tile(value, text, key, note = '') {
  const number = el('b', {}, value, note ? el('i', {}, ' ' + note) : '');
  if (key) number.dataset.key = key;
  return el('div', {class: 'tile'}, number, el('span', {}, text));
}

const short = x => x.toFixed(x < 10 ? 3 : 2);

function renderTiles(plan) {
  const h = plan.header, skew = side => plan.json.overall[side].skew;
  const tiles = [
    tile(count(plan.M * plan.L), `cells: ${count(plan.M)} micro-batches x ${count(plan.L)} layers`, 'cells'),
    tile(count(plan.L), 'layers', 'layers'),
    tile(count(plan.W), `ranks: ${plan.D} EP group${plan.D > 1 ? 's' : ''} of ${plan.P}, nodes of ${plan.G}`, 'ranks'),
    tile(count(plan.E), `experts a layer, top ${h.top_k}`, 'experts'),
    tile(count(h.replica_slots), `spare slots a rank, copies within the ${h.replica_domain}`, 'slots'),
  ];
  if (skew('before'))
    for (const figure of ['p50', 'p99'])
      tiles.push(tile(
          `${short(skew('before')[figure])} → ${short(skew('after')[figure])}`,
          `max / mean, ${figure === 'p50' ? 'median' : '99th percentile'}`, figure));
  if (skew('before'))
    tiles.push(tile(
        `${(skew('before').mean / skew('after').mean).toFixed(2)} ×`, 'expert compute, slowest rank, before / after', 'gain'));
  $('tiles').replaceChildren(...tiles);
}

function renderFigures(plan) {
  const overall = plan.json.overall, rows = [];
  const statistics = (side, name, text, kind) => {
    const s = overall[side][name];
    if (s)
      rows.push([
        {text, kind: 'text'}, {text: side, kind: 'key-' + side},
        ...['mean', 'p50', 'p99', 'max'].map(f => ({text: ratio(s[f]), key: `${side}.${name}.${f}`}))
      ]);
  };
  for (const [name, text] of [
           ['skew', 'slowest rank / mean'], ['node_skew', 'most loaded node / mean'],
           ['over_mean_bound', 'slowest rank / ceil(mean)'], ['over_node_bound', 'slowest rank / bound of its node'],
           ['pairs_busiest', '(token, node) pairs of the busiest node, a token']])
    for (const side of ['before', 'after']) statistics(side, name, text);
  statistics('after', 'over_replica_bound', 'slowest rank / least for these homes and slots');
  for (const [name, text] of [['copies', 'copies a cell'], ['fan_out', 'most copies sent by one home']])
    if (overall[name] && overall[name].mean !== undefined)
      rows.push([
        {text, kind: 'text'}, {text: 'after', kind: 'key-after'}, {text: ratio(overall[name].mean), key: `${name}.mean`},
        ...['p50', 'p99', 'max'].map(f => ({text: overall[name][f].toFixed(0), key: `${name}.${f}`}))
      ]);
  fillTable($('figures'), ['', '', 'mean', 'median', 'p99', 'max'], rows);
  $('sentence').textContent = sentence(plan);
}

function sentence(plan) {
  const overall = plan.json.overall, parts = [
    `${count(overall.copies.total)} copies in all; ${count(overall.moves.experts)} experts moved since the plan before.`
  ];
  if (plan.recounted)
    parts.push(`(token, node) pairs between nodes: ${count(overall.before.cross_node_pairs)} before, ${
        count(overall.after.cross_node_pairs)} after.`);
  else
    parts.push('Written without the dump: loads by expert and traffic between nodes are not known.');
  return parts.join(' ');
}

function renderSummary(state) {
  const plan = state.plan, h = plan.header;
  $('subtitle').textContent = `${plan.name}: step ${h.step}, policy ${h.policy}, ${count(plan.json.sequences)} sequences`;
  document.title = `relibra report: step ${h.step}, ${h.policy}`;
  renderTiles(plan);
  renderFigures(plan);
}
