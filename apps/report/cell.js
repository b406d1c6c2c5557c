// One cell: its ranks as bars stacked by expert, before and after, and its copies.
let cellBars = null;
const kStandOut = 6;

/// Colour of every expert: the largest of the cell by name, the others in two tints.
function cellColours(loads) {
  const totals = new Map();
  for (const list of loads.after)
    for (const part of list)
      if (part.expert >= 0) totals.set(part.expert, (totals.get(part.expert) || 0) + part.tokens);
  const top = [...totals].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, kStandOut);
  const named = new Map(top.map(([expert], i) => [expert, kNamed[i]]));
  return {totals, top, colourOf: expert => named.get(expert) || css(expert % 2 ? 'rest-2' : 'rest-1')};
}

function barsOf(state, loads, side, colours) {
  const {plan, group} = state;
  return loads[side].map(
      (list, p) => ({
        label: group * plan.P + p,
        parts:
            list.map(part => ({
                       tokens: part.tokens,
                       expert: part.expert,
                       hatched: part.copy,
                       colour: colours.colourOf(part.expert),
                       text: part.copy ? `c${part.expert}` : `e${part.expert}`,
                       title: part.expert < 0 ? (loads.byExpert || side === 'before' ? 'all experts' : 'experts without copies') :
                           part.copy          ? `copy of expert ${part.expert}` :
                                                `expert ${part.expert}, at home`,
                     })),
      }));
}

function renderCellFigures(state) {
  const {plan, layer: l, microBatch: m, group: g} = state,
                                               row = (text, name, key) => [text, ratio(plan.ratio(name, l, m, g)), key];
  const rows = [
    row('skew before', 'before', 'cell.before'), row('skew after', 'after', 'cell.after'),
    row('node skew before', 'node_before', 'cell.node_before'), row('node skew after', 'node_after', 'cell.node_after')
  ];
  for (const [name, text] of kBounds)
    if (plan.skew[name]) rows.push(row(`at best: ${text}`, name, `cell.${name}`));
  if (plan.traffic)
    for (const side of ['before', 'after'])
      rows.push([`(token, node) pairs ${side}`, count(plan.traffic['pairs_' + side][m * plan.L + l]), `cell.pairs_${side}`]);
  $('cell-figures').replaceChildren(...rows.map(([text, value,
                                                  key]) => el('span', {}, el('b', {'data-key': key}, value), ' ' + text)));
}

function renderLegend(state, loads, colours) {
  const items = colours.top.map(
      ([expert, tokens]) =>
          el('span', {}, el('i', {style: {background: colours.colourOf(expert)}}), `expert ${expert}: ${count(tokens)}`));
  if (loads.byExpert)
    items.push(
        el('span', {}, el('i', {style: {background: css('rest-1')}}), el('i', {style: {background: css('rest-2')}}),
           'other experts'));
  else
    items.push(
        el('span', {}, el('i', {style: {background: css('rest-2')}}),
           loads.kept && loads.parts.length ? 'experts without copies' : 'all experts'));
  if (loads.parts.some(part => part.copy)) items.push(el('span', {}, el('i', {class: 'hatched'}), 'copy'));
  $('cell-legend').replaceChildren(...items);
}

function renderCellTables(state, loads, colours) {
  const {plan, layer: l, group: g, microBatch: m} = state;
  const list = parts =>
      parts.map(part => `${part.expert < 0 ? 'others' : (part.copy ? 'copy of ' : '') + part.expert}: ${count(part.tokens)}`)
          .join(', ');
  fillTable($('cell-table'), ['rank', 'before', 'after', {text: 'experts after', kind: 'text'}], loads.after.map((parts, p) => {
    const rank = g * plan.P + p;
    return [
      rank, {text: count(plan.load('before', l, m, rank)), key: `rank.${rank}.before`},
      {text: count(plan.load('after', l, m, rank)), key: `rank.${rank}.after`}, {text: list(parts), kind: 'text'}
    ];
  }));
  const replicated = [...new Set(loads.parts.filter(part => part.copy).map(part => part.expert))];
  replicated.sort((a, b) => (colours.totals.get(b) || 0) - (colours.totals.get(a) || 0));
  const rows = replicated.map(expert => {
    const home = g * plan.P + plan.homeOf(l, expert), parts = loads.parts.filter(part => part.expert === expert),
          atHome = parts.find(part => !part.copy);
    return [
      expert, count(colours.totals.get(expert)),
      {text: `${home} (node ${plan.node(home)}): ${count(atHome ? atHome.tokens : 0)}`, kind: 'text'}, {
        text: parts.filter(part => part.copy).map(part => `${part.rank} (slot ${part.slot}): ${count(part.tokens)}`).join(', '),
        kind: 'text'
      }
    ];
  });
  if (!rows.length) rows.push([{text: loads.kept ? 'none' : 'not kept on this page', kind: 'text'}]);
  fillTable(
      $('cell-copies'), ['expert', 'assignments', {text: 'at home, rank', kind: 'text'}, {text: 'copies, rank', kind: 'text'}],
      rows);
}

async function renderCell(state) {
  const {plan, layer: l, microBatch: m, group: g} = state, wanted = cellKey(state), loads = await loadsByExpert(plan, l, m, g);
  if (wanted !== cellKey(current)) return;  // another cell was opened meanwhile
  $('cell-title').textContent = `Layer ${plan.layers[l]}, micro-batch ${m}` + (plan.D > 1 ? `, EP group ${g}` : '');
  $('cell-lead').textContent = leadOf(plan, loads);
  cellBars ??= {before: new Bars($('cell-before'), 'Loads before'), after: new Bars($('cell-after'), 'Loads after')};
  const colours = cellColours(loads), ranks = Array.from({length: plan.P}, (_, p) => g * plan.P + p);
  const sums = side => ranks.map(rank => plan.load(side, l, m, rank)), all = [...sums('before'), ...sums('after')];
  const mean = sums('after').reduce((a, b) => a + b, 0) / plan.P;
  for (const side of ['before', 'after'])
    cellBars[side].update({bars: barsOf(state, loads, side, colours), mean, most: Math.max(...all)});
  renderCellFigures(state);
  renderLegend(state, loads, colours);
  renderCellTables(state, loads, colours);
  $('cell').dataset.shown = wanted;
}

function leadOf(plan, loads) {
  if (!loads.kept)
    return 'This page was kept small: loads by expert of this micro-batch are left out (relibra report --max-size).';
  const what =
      'Assignments that each rank of the EP group computes; the dashed line is their mean. e12 is expert 12 at home, c12 a copy of it, hatched.';
  return loads.byExpert ? what : what + ' Without the dump only experts with copies are told apart.';
}
