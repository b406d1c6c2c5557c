// Elements, numbers as text, colours. Everything from files goes in as text, never as HTML.
const $ = id => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name === 'style')
      Object.assign(element.style, value);
    else
      element.setAttribute(name, value);
  element.append(...children.map(child => child instanceof Node ? child : String(child)));
  return element;
}

const count = n => n === null || n === undefined ? '–' : Math.round(n).toLocaleString('en-US').replaceAll(',', '\u202f');
const ratio = x => x === null || x === undefined || Number.isNaN(x) ? '–' : x.toFixed(4);
const percent = x => (100 * x).toFixed(1) + '\u00a0%';

/// Rows of cells, the first row a head. A cell is a text or {text, key, kind, span}.
function fillTable(table, head, rows, chosen = -1) {
  const cell = (tag, content) => {
    const parts = typeof content === 'object' && content !== null && !(content instanceof Node) ? content : {text: content};
    const element = el(tag, parts.kind ? {class: parts.kind} : {}, parts.text);
    if (parts.key) element.dataset.key = parts.key;
    if (parts.span) element.colSpan = parts.span;
    return element;
  };
  const body = rows.map((row, i) => el('tr', i === chosen ? {class: 'chosen'} : {}, ...row.map(c => cell('td', c))));
  table.replaceChildren(el('thead', {}, el('tr', {}, ...head.map(c => cell('th', c)))), el('tbody', {}, ...body));
}

function fillSelect(select, texts, value) {
  select.replaceChildren(...texts.map((text, i) => el('option', {value: i}, text)));
  select.value = value;
}

const css = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

/// Colours between stops given as [r, g, b], for t in 0..1.
function between(stops, t) {
  const at = Math.min(1, Math.max(0, t)) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
  return `rgb(${stops[i].map((a, c) => Math.round(a + (stops[i + 1][c] - a) * (at - i))).join(' ')})`;
}
// One hue range from blue to yellow, its lightness rising all the way: told apart by people with any colour vision, and in grey.
const kSequential = [[0, 32, 77], [49, 68, 107], [102, 105, 112], [149, 143, 120], [201, 185, 93], [255, 234, 70]];
// Blue below, orange above, light between (dark on a dark page).
const kDiverging = {
  light: [[5, 72, 140], [110, 165, 210], [243, 243, 243], [240, 160, 90], [166, 66, 0]],
  dark: [[120, 190, 255], [50, 100, 150], [38, 42, 50], [165, 90, 30], [255, 165, 90]],
};
// Okabe and Ito's colours, for the experts that stand out.
const kNamed = ['#0072b2', '#e69f00', '#009e73', '#d55e00', '#cc79a7', '#56b4e9', '#f0e442'];

const dark = () => document.documentElement.dataset.theme === 'dark';
const sequential = t => between(kSequential, t);
const diverging = t => between(kDiverging[dark() ? 'dark' : 'light'], t);

/// A bar of colours from `low` to `high`.
function fillScale(host, colour, low, high, text) {
  const stops = Array.from({length: 11}, (_, i) => colour(i / 10)).join(', ');
  host.className = 'scale';
  host.replaceChildren(
      el('span', {}, low), el('i', {style: {background: `linear-gradient(90deg, ${stops})`}}), el('span', {}, high),
      el('span', {}, text));
}
