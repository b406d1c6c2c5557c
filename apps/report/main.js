// What is chosen, where it is kept (the address), and who draws it.
let report = null, plans = [], current = null;

const cellKey = state => [plans.indexOf(state.plan), state.group, state.layer, state.microBatch].join(' ');

/// The choice as it stands in the address, within range.
function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1)),
        number = (name, end) => Math.min(end - 1, Math.max(0, parseInt(words.get(name)) || 0));
  const plan = plans[number('plan', plans.length)];
  return {
    plan,
    group: number('group', plan.D),
    layer: number('layer', plan.L),
    microBatch: number('micro-batch', plan.M),
    given: words.has('layer')
  };
}

function change(choice) {
  const next = {...current, ...choice};
  location.hash = `plan=${plans.indexOf(next.plan)}&group=${next.group}&layer=${next.layer}&micro-batch=${next.microBatch}`;
}

function openCell(layer, microBatch) {
  change({layer, microBatch});
  $('cell').scrollIntoView({block: 'start'});
  $('cell').focus({preventScroll: true});
}
const openLayer = layer => change({layer});

function renderChoice(state) {
  const {plan} = state, ranges = (n, text) => Array.from({length: n}, (_, i) => text(i));
  fillSelect($('plan'), plans.map(p => `${p.name} (${p.header.policy})`), plans.indexOf(plan));
  fillSelect($('group'), ranges(plan.D, g => `${g}: ranks ${g * plan.P}–${(g + 1) * plan.P - 1}`), state.group);
  fillSelect($('layer'), ranges(plan.L, l => plan.layers[l]), state.layer);
  fillSelect($('micro-batch'), ranges(plan.M, m => m), state.microBatch);
  $('choose-plan').hidden = plans.length < 2;
  $('choose-group').hidden = plan.D < 2;
}

/// Draws what `state` changes against what is shown; all of it after a change of colours.
function render(state, everything = false) {
  const planChanged = everything || !current || current.plan !== state.plan,
        layerChanged = planChanged || current.layer !== state.layer || current.group !== state.group;
  current = state;
  renderChoice(state);
  if (planChanged) renderSummary(state), renderLayers(state), renderPlans(state);
  renderHeat(state);
  if (layerChanged) renderDistribution(state), renderRanks(state), renderExperts(state), renderCopies(state);
  return renderCell(state);
}

/// The cell with the largest skew after the plan: what to look at first.
function worstCell(plan) {
  let worst = {group: 0, layer: 0, microBatch: 0}, most = 0;
  for (let l = 0; l < plan.L; ++l)
    for (let m = 0; m < plan.M; ++m)
      for (let g = 0; g < plan.D; ++g)
        if (plan.ratio('after', l, m, g) > most) most = plan.ratio('after', l, m, g), worst = {group: g, layer: l, microBatch: m};
  return worst;
}

const themes = ['system', 'light', 'dark'];
let theme = 'system', printing = false;
const systemDark = matchMedia('(prefers-color-scheme: dark)');

function applyTheme() {
  document.documentElement.dataset.theme =
      !printing && (theme === 'dark' || (theme === 'system' && systemDark.matches)) ? 'dark' : 'light';
  $('theme').textContent = `Colours: ${theme}`;
  $('theme').setAttribute('aria-label', `Colours: ${theme}. Press to change`);
  if (current) render(current, true);
  if (timeline) timeline.draw();
}

function listen() {
  window.addEventListener('hashchange', () => render(readAddress()));
  const choose = (id, of) => $(id).addEventListener('change', () => change(of(Number($(id).value))));
  choose('plan', p => ({plan: plans[p], group: 0, layer: 0, microBatch: 0, ...worstCell(plans[p])}));
  choose('group', group => ({group}));
  choose('layer', layer => ({layer}));
  choose('micro-batch', microBatch => ({microBatch}));
  $('choice').addEventListener('submit', event => event.preventDefault());
  $('bound').addEventListener('change', () => renderBound(current));
  $('distribution-of').addEventListener('change', () => renderDistribution(current));
  $('copies-of').addEventListener('change', () => renderCopies(current));
  $('theme').addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    applyTheme();
  });
  systemDark.addEventListener('change', applyTheme);
  for (const [event, value] of [['beforeprint', true], ['afterprint', false]])
    window.addEventListener(event, () => {
      printing = value;
      applyTheme();
    });
}

async function start() {
  report = JSON.parse($('data').textContent);
  plans = await Promise.all(report.plans.map(PlanData.load));
  applyTheme();
  listen();
  renderCompare(report.compare);
  const address = readAddress();
  await render(address.given ? address : {...address, ...worstCell(address.plan)});
  await renderTimeline(report.trace);
  $('footer').textContent = `Written by ${report.tool}. Everything on this page is in this one file.`;
  document.documentElement.dataset.ready = 'yes';
}

start().catch(error => {
  $('fault').textContent =
      `This page cannot be shown: ${error.message}. It needs a browser with DecompressionStream (2023 or later).`;
  $('fault').hidden = false;
  throw error;
});
