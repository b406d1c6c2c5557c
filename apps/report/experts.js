// Hot experts, moved experts, copies.
let expertGrid = null, copyGrid = null;
const kRowsShown = 300;

/// Load of an expert over the mean of its layer; without a dump, its copies.
function heatOfExperts(plan) {
  if (!plan.expertTokens) return (l, e) => plan.expertCopies[l * plan.E + e];
  const sums =
      Array.from({length: plan.L}, (_, l) => plan.expertTokens.subarray(l * plan.E, (l + 1) * plan.E).reduce((a, b) => a + b, 0));
  return (l, e) => sums[l] ? plan.expertTokens[l * plan.E + e] * plan.E / sums[l] : NaN;
}

function homeText(plan, l, e) {
  const home = plan.homeOf(l, e), before = plan.previousOf(l, e);
  return home === before ? `home rank ${home}` : `moved from rank ${before} to ${home}`;
}

function renderExperts(state) {
  const {plan, layer: l} = state, heat = heatOfExperts(plan), most = largestExpert(plan, heat);
  const what = plan.expertTokens ? 'load over the mean of its layer, in the whole step' :
                                   'number of copies (a load by expert needs the dump)';
  $('experts-lead').textContent = `A row is a layer, a column an expert, the colour its ${
      what}. A dot: its home moved since the plan before. Homes are ranks of an EP group, the same in every group.`;
  expertGrid ??= new Grid($('experts-heat'), 'Experts');
  expertGrid.update({
    rows: plan.L,
    cols: plan.E,
    rowsAre: 'layers',
    colsAre: 'experts',
    rowLabel: i => plan.layers[i],
    colLabel: e => e,
    value: heat,
    colour: value => sequential(value / most),
    mark: (i, e) => plan.moved(i, e),
    describe: (i, e) => `layer ${plan.layers[i]}, expert ${e}: ${plan.expertTokens ? ratio(heat(i, e)) + ' of the mean, ' : ''}` +
        `${count(plan.expertCopies[i * plan.E + e])} copies, ${homeText(plan, i, e)}`,
    pick: (i, e) => openLayer(i),
  });
  fillScale(
      $('experts-scale'), sequential, '0', plan.expertTokens ? most.toFixed(1) + ' x mean' : count(most),
      'click a row to choose its layer');
  renderHot(state, heat);
  renderMoves(plan);
}

function largestExpert(plan, heat) {
  let most = 1;
  for (let l = 0; l < plan.L; ++l)
    for (let e = 0; e < plan.E; ++e) most = Math.max(most, heat(l, e) || 0);
  return most;
}

function renderHot(state, heat) {
  const {plan, layer: l} = state, experts = Array.from({length: plan.E}, (_, e) => e);
  $('hot-title').textContent = `Hottest in layer ${plan.layers[l]}`;
  experts.sort((a, b) => heat(l, b) - heat(l, a) || a - b);
  fillTable(
      $('hot'), ['expert', ...(plan.expertTokens ? ['assignments', 'of the mean'] : []), 'copies', 'home', 'before'],
      experts.slice(0, 20).map(
          e =>
              [e, ...(plan.expertTokens ? [count(plan.expertTokens[l * plan.E + e]), heat(l, e).toFixed(2)] : []),
               count(plan.expertCopies[l * plan.E + e]), plan.homeOf(l, e), plan.previousOf(l, e)]));
}

function renderMoves(plan) {
  const moves = [];
  for (let l = 0; l < plan.L; ++l)
    for (let e = 0; e < plan.E; ++e)
      if (plan.moved(l, e)) moves.push([l, e, plan.previousOf(l, e), plan.homeOf(l, e)]);
  const nodeOf = rank => Math.floor(rank / Math.min(plan.G, plan.P)),
        away = moves.filter(move => nodeOf(move[2]) !== nodeOf(move[3])).length;
  $('moves-title').textContent = `Moved since the plan before: ${count(moves.length)}, ${count(away)} to another node` +
      (moves.length > kRowsShown ? `; the first ${kRowsShown}` : '');
  const rows =
      moves.slice(0, kRowsShown)
          .map(([l, e, from,
                 to]) => [plan.layers[l], e, from, to, {text: nodeOf(from) === nodeOf(to) ? 'same' : 'another', kind: 'text'}]);
  fillTable(
      $('moves'), ['layer', 'expert', 'from rank', 'to rank', {text: 'node', kind: 'text'}],
      rows.length ? rows : [[{text: 'none', kind: 'text'}]]);
}

function renderCopies(state) {
  const {plan} = state, only = $('copies-of').value === 'layer' ? state.layer : -1, P = plan.P;
  const table = new Float64Array(P * P), layers = only < 0 ? Array.from({length: plan.L}, (_, l) => l) : [only];
  for (const l of layers)
    for (let i = 0; i < P * P; ++i) table[i] += plan.copyRoutes[l * P * P + i];
  const most = Math.max(1, table.reduce((a, b) => Math.max(a, b), 0));
  copyGrid ??= new Grid($('copies-heat'), 'Copies');
  copyGrid.update({
    rows: P,
    cols: P,
    rowsAre: 'home ranks',
    colsAre: 'ranks with copies',
    rowLabel: p => p,
    colLabel: p => p,
    square: true,
    value: (from, to) => table[from * P + to] || NaN,
    colour: value => sequential(value / most),
    describe: (from, to) => `from home rank ${from} to rank ${to} of an EP group: ${count(table[from * P + to])} copies`,
  });
  fillScale($('copies-scale'), sequential, '0', count(most), 'copies; row: home, column: where the copy is');
  const experts = [];
  for (const l of layers)
    for (let e = 0; e < plan.E; ++e)
      if (plan.expertCopies[l * plan.E + e]) experts.push([l, e, plan.expertCopies[l * plan.E + e]]);
  experts.sort((a, b) => b[2] - a[2]);
  const rows = experts.slice(0, 30).map(
      ([l, e, n]) => [plan.layers[l], e, count(n), (n / (plan.M * plan.D)).toFixed(2), plan.homeOf(l, e)]);
  fillTable(
      $('copied'), ['layer', 'expert', 'copies', 'a micro-batch and group', 'home'],
      rows.length ? rows : [[{text: 'none', kind: 'text'}]]);
}
