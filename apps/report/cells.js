// Skew of every cell as heat maps (layer x micro-batch).
const kBounds = [
  ['replica_bound', 'least for these homes and slots'],
  ['node_bound', 'bound of its node'],
  ['mean_bound', 'ceil(mean)'],
];
let heats = null;

function describeCell(plan, g, l, m) {
  if (Number.isNaN(plan.ratio('after', l, m, g))) return `layer ${plan.layers[l]}, micro-batch ${m}: no load`;
  const bounds = kBounds.filter(([name]) => plan.skew[name]).map(([name, text]) => `${text} ${ratio(plan.ratio(name, l, m, g))}`);
  return `layer ${plan.layers[l]}, micro-batch ${m}: before ${ratio(plan.ratio('before', l, m, g))}, after ${
      ratio(plan.ratio('after', l, m, g))}; at best ${bounds.join(', ')}`;
}

function largest(plan, value) {
  let most = 1;
  for (let l = 0; l < plan.L; ++l)
    for (let m = 0; m < plan.M; ++m) {
      const v = value(l, m);
      if (v > most) most = v;
    }
  return most;
}

function heatOf(state, value, colour) {
  const {plan, group: g} = state;
  return {
    rows: plan.L,
    cols: plan.M,
    rowsAre: 'layers',
    colsAre: 'micro-batches',
    rowLabel: l => plan.layers[l],
    colLabel: m => m,
    value,
    colour,
    describe: (l, m) => describeCell(plan, g, l, m),
    pick: (l, m) => openCell(l, m),
    chosen: {i: state.layer, j: state.microBatch},
  };
}

function renderHeat(state) {
  const {plan, group: g} = state;
  heats ??= {
    before: new Grid($('heat-before'), 'Skew before'),
    after: new Grid($('heat-after'), 'Skew after'),
    bound: new Grid($('heat-bound'), 'Skew after, over its bound')
  };
  const most = largest(plan, (l, m) => Math.max(plan.ratio('before', l, m, g) || 0, plan.ratio('after', l, m, g) || 0));
  const colour = skew => sequential(Math.log(skew) / Math.log(Math.max(1.0001, most)));
  for (const side of ['before', 'after']) heats[side].update(heatOf(state, (l, m) => plan.ratio(side, l, m, g), colour));
  fillScale($('heat-scale'), sequential, '1.0', most.toFixed(2), 'the same colours before and after, by logarithm');
  renderBound(state);
}

function renderBound(state) {
  const {plan, group: g} = state, select = $('bound'), known = kBounds.filter(([name]) => plan.skew[name]);
  const wanted = known.some(([name]) => name === select.value) ? select.value : known[0][0];
  select.replaceChildren(...known.map(([name, text]) => el('option', {value: name}, text)));
  select.value = wanted;
  const over = (l, m) => plan.ratio('after', l, m, g) / plan.ratio(wanted, l, m, g), most = Math.max(1.01, largest(plan, over));
  heats.bound.update(heatOf(state, over, value => sequential((value - 1) / (most - 1))));
  fillScale($('bound-scale'), sequential, '1.0', most.toFixed(3), 'what was left to gain');
}
