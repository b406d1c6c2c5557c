// The plans of this page side by side, and the table of `relibra compare`.
function renderPlans(state) {
  const shown = (s, figure, digits = 4) => s && s[figure] !== undefined && s[figure] !== null ? s[figure].toFixed(digits) : '–';
  const rows = plans.map((plan, i) => {
    const o = plan.json.overall;
    return [
      {text: plan.name, kind: 'text'}, {text: plan.header.policy, kind: 'text'},
      ...['mean', 'p50', 'p99', 'max'].map(f => ({text: shown(o.after.skew, f), key: `plans.${i}.skew.${f}`})),
      shown(o.after.node_skew, 'mean'), shown(o.after.over_node_bound, 'mean'), shown(o.after.over_replica_bound, 'mean'),
      count(o.after.cross_node_pairs), shown(o.copies, 'mean', 1), shown(o.fan_out, 'max', 0), count(o.moves.experts)
    ];
  });
  fillTable(
      $('plans-table'),
      [
        {text: 'plan', kind: 'text'}, {text: 'policy', kind: 'text'}, 'skew, mean', 'median', 'p99', 'max', 'node skew',
        'over node bound', 'over replica bound', 'cross-node pairs', 'copies a cell', 'most fan-out', 'moves'
      ],
      rows, plans.indexOf(state.plan));
}

// Columns of a comparison: name, field by path, decimals.
const kCompareColumns = [
  ['skew, mean', 'skew.mean', 4],
  ['p99', 'skew.p99', 4],
  ['max', 'skew.max', 4],
  ['over node bound', 'over_node_bound.mean', 4],
  ['node skew', 'node_skew.mean', 4],
  ['pairs of the busiest node', 'pairs_busiest.mean', 3],
  ['copies a cell', 'copies.mean', 1],
  ['most fan-out', 'fan_out.max', 0],
  ['spare slots', 'spare_slots', 0],
  ['slots, GB a rank', 'slot_bytes', -9],
  ['moves', 'moves.experts', 0],
  ['planning, s', 'planning_seconds', 3],
];

/// A field of nested objects as text: `digits` decimals, or divided by 10^-digits.
function field(object, path, digits) {
  const value = path.split('.').reduce((inner, name) => inner === null || inner === undefined ? null : inner[name], object);
  if (typeof value !== 'number') return '–';
  return digits === 0 ? count(value) : digits > 0 ? value.toFixed(digits) : (value * 10 ** digits).toFixed(2);
}

function compareTable(comparison, c) {
  const table = el('table'), steps = ['step, s', 'over static', 'of balanced'];
  const rows = comparison.policies.map(policy => {
    const name = {text: policy.policy, kind: 'text', key: `compare.${c}.${policy.policy}`};
    if (policy.refusal) return [name, {text: policy.refusal, kind: 'text', span: steps.length + kCompareColumns.length}];
    return [
      name,
      ...['seconds', 'over_static', 'of_balanced'].map(
          part => field(policy.step, part, part === 'seconds' ? 4 : 3)),
      ...kCompareColumns.map(
          ([, path, digits]) => ({text: field(policy, path, digits), key: `compare.${c}.${policy.policy}.${path}`}))
    ];
  });
  fillTable(table, [{text: 'policy', kind: 'text'}, ...steps, ...kCompareColumns.map(([name]) => name)], rows);
  return el('div', {class: 'wide'}, table);
}

/// The document of `relibra compare --json`.
function renderCompare(compare) {
  if (!compare) {
    $('compare').replaceChildren(
        el('p', {class: 'note'},
           'relibra report --compare FILE.json adds the table of policies that relibra compare --json prints.'));
    return;
  }
  const parts = [];
  compare.comparisons.forEach((comparison, c) => {
    parts.push(
        el('h3', {},
           `Policies compared on ${comparison.cluster}: EP ${comparison.ep_size} in ${comparison.num_ep_groups} group${
               comparison.num_ep_groups > 1 ? 's' : ''}, ` +
               `nodes of ${comparison.gpus_per_node}, ${comparison.replica_slots} spare slots, ${
                   comparison.num_micro_batches} micro-batches`));
    parts.push(compareTable(comparison, c));
  });
  parts.push(
      el('p', {class: 'note'},
         `Step ${compare.dump.step}, ${compare.dump.model || 'a dump without a model name'}, digest ${
             compare.dump.digest}. Step times are modelled; relibra compare prints every term.`));
  $('compare').replaceChildren(...parts);
}
