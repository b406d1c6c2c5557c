// Charts of the embedded Chart.js; a line of text where the program was built without it.
const charts = new Map();

function showChart(hostId, label, configuration) {
  const host = $(hostId);
  if (charts.has(hostId)) charts.get(hostId).destroy();
  charts.delete(hostId);
  if (typeof Chart === 'undefined') {
    host.replaceChildren(el(
        'p', {class: 'note'}, 'Built without Chart.js (Debian: libjs-chart.js): no chart here, the numbers are in the tables.'));
    return;
  }
  const canvas = el('canvas', {role: 'img', 'aria-label': label});
  host.replaceChildren(el('div', {class: 'chart'}, canvas));
  Chart.defaults.color = css('faint');
  Chart.defaults.borderColor = css('line');
  Chart.defaults.font.family = 'system-ui, sans-serif';
  charts.set(hostId, new Chart(canvas, {
               ...configuration,
               options: {animation: false, maintainAspectRatio: false, responsive: true, ...configuration.options}
             }));
}

/// Waiting of the slowest rank, upper edges of skew: narrow where plans are, wide where placements without one are.
const kEdges = [1.005, 1.01, 1.02, 1.03, 1.05, 1.1, 1.2, 1.5, 2, 3, 4, 6, Infinity];

function histogram(plan, side, layer) {
  const counts = kEdges.map(() => 0);
  for (let m = 0; m < plan.M; ++m)
    for (let l = layer < 0 ? 0 : layer; l < (layer < 0 ? plan.L : layer + 1); ++l)
      for (let g = 0; g < plan.D; ++g) {
        const skew = plan.ratio(side, l, m, g);
        if (!Number.isNaN(skew)) ++counts[kEdges.findIndex(edge => skew <= edge)];
      }
  return counts;
}

function renderDistribution(state) {
  const layer = $('distribution-of').value === 'layer' ? state.layer : -1;
  const sides = ['before', 'after'].map(side => histogram(state.plan, side, layer));
  const names = kEdges.map(
      (edge, i) => i === 0  ? '1.0 – 1.005' :
          edge === Infinity ? `> ${kEdges[i - 1]}` :
                              `${kEdges[i - 1]} – ${edge}`);
  const first = names.findIndex((_, i) => sides[0][i] + sides[1][i] > 0),
        last = names.findLastIndex((_, i) => sides[0][i] + sides[1][i] > 0) + 1;
  fillTable(
      $('distribution-table'), ['max / mean', 'before', 'after'],
      names
          .map(
              (name, i) =>
                  [name, ...['before', 'after'].map((side, s) => ({text: count(sides[s][i]), key: `distribution.${side}.${i}`}))])
          .slice(first, last));
  if (typeof Chart === 'undefined') $('distribution-numbers').open = true;
  showChart(
      'distribution-chart', 'Number of (cell, group) pairs by max / mean, before and after; the table below holds the numbers', {
        type: 'bar',
        data: {
          labels: names.slice(first, last),
          datasets:
              ['before', 'after'].map((side, s) => ({label: side, data: sides[s].slice(first, last), backgroundColor: css(side)}))
        },
        options: {
          scales: {
            x: {title: {display: true, text: 'slowest rank / mean'}, grid: {display: false}},
            y: {title: {display: true, text: '(cell, group) pairs'}, beginAtZero: true}
          }
        },
      });
}

function fillLayers(plan, summaries) {
  const skew = (summary, side, figure) => ratio(summary[side].skew ? summary[side].skew[figure] : null);
  fillTable(
      $('layer-table'), ['layer', 'before, mean', 'p99', 'after, mean', 'p99', 'copies', 'moves'],
      summaries.map(
          (summary, l) =>
              [plan.layers[l],
               ...['before', 'after'].flatMap(
                   side => ['mean', 'p99'].map(
                       figure => ({text: skew(summary, side, figure), key: `layer.${l}.${side}.${figure}`}))),
               count(summary.copies.total), count(summary.moves.experts)]));
}

function renderLayers(state) {
  const summaries = state.plan.json.by_layer;
  fillLayers(state.plan, summaries);
  if (typeof Chart === 'undefined') $('layer-numbers').open = true;
  const line = (side, figure, dash) => ({
    label: `${side}, ${figure}`,
    data: summaries.map(s => s[side].skew ? s[side].skew[figure] : null),
    borderColor: css(side),
    backgroundColor: css(side),
    borderDash: dash,
    pointRadius: summaries.length > 40 ? 0 : 2,
    borderWidth: 1.5,
    tension: 0,
  });
  showChart('layer-chart', 'Skew by layer, mean and 99th percentile, before and after', {
    type: 'line',
    data: {
      labels: state.plan.layers,
      datasets:
          [line('before', 'mean', []), line('before', 'p99', [4, 3]), line('after', 'mean', []), line('after', 'p99', [4, 3])]
    },
    options: {
      interaction: {mode: 'index', intersect: false},
      plugins: {legend: {labels: {usePointStyle: true, pointStyle: 'line', boxWidth: 34}}},
      scales: {
        x: {title: {display: true, text: 'layer (model block)'}, grid: {display: false}},
        y: {title: {display: true, text: 'skew'}, suggestedMin: 1}
      }
    },
  });
}
