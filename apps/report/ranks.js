// Load of each rank over micro-batches, in one layer and EP group.
let rankGrids = null;
const kRankSpan = 2;  // colours end at half and at double the mean

function renderRanks(state) {
  const {plan, layer: l, group: g} = state;
  rankGrids ??= {
    before: new Grid($('ranks-before'), 'Shares of ranks before'),
    after: new Grid($('ranks-after'), 'Shares of ranks after')
  };
  $('ranks-lead').textContent = `Layer ${plan.layers[l]}` + (plan.D > 1 ? `, EP group ${g}` : '') +
      ': what a rank (row) computes in a micro-batch (column), over the mean of its group. Click to open the cell.';
  for (const side of ['before', 'after']) {
    const sums = Array.from({length: plan.M}, (_, m) => {
      let sum = 0;
      for (let p = 0; p < plan.P; ++p) sum += plan.load(side, l, m, g * plan.P + p);
      return sum;
    });
    const share = (p, m) => sums[m] ? plan.load(side, l, m, g * plan.P + p) * plan.P / sums[m] : NaN;
    rankGrids[side].update({
      rows: plan.P,
      cols: plan.M,
      rowsAre: 'ranks',
      colsAre: 'micro-batches',
      rowLabel: p => g * plan.P + p,
      colLabel: m => m,
      value: share,
      colour: value => diverging(0.5 + 0.5 * Math.log(Math.max(1e-9, value)) / Math.log(kRankSpan)),
      describe: (p, m) =>
          `rank ${g * plan.P + p}, micro-batch ${m}: ${count(plan.load(side, l, m, g * plan.P + p))} assignments, ` +
          `${ratio(share(p, m))} of the mean, ${percent(share(p, m) / plan.P)} of the group`,
      pick: (p, m) => openCell(l, m),
    });
  }
  fillScale($('ranks-scale'), diverging, 'half the mean or less', 'double or more', 'the mean is in the middle');
}
