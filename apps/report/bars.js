// Ranks as horizontal bars stacked by expert, with counts where they fit.
class Bars {
  constructor(host, label) {
    this.host = host;
    this.label = label;
    this.canvas = el('canvas', {tabindex: 0, role: 'img', 'aria-label': label});
    this.readout = el('p', {class: 'readout', 'aria-live': 'polite'});
    host.replaceChildren(this.canvas, this.readout);
    this.cursor = {i: 0, j: 0};
    this.canvas.addEventListener('mousemove', event => this.pointAt(event));
    this.canvas.addEventListener('mouseleave', () => this.readout.textContent = '');
    this.canvas.addEventListener('keydown', event => this.press(event));
    this.canvas.addEventListener('focus', () => this.moveTo(0, 0));
    this.canvas.addEventListener('blur', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(host);
  }

  /// bars: per rank {label, parts: [{tokens, colour, hatched, text, title}]}; mean and most: loads.
  update({bars, mean, most}) {
    Object.assign(this, {bars, mean, most});
    this.cursor = {i: 0, j: 0};
    this.canvas.setAttribute(
        'aria-label',
        `${this.label}: ${bars.length} ranks, mean load ${count(mean)}. Up and down choose a rank, left and right a part.`);
    this.readout.textContent = '';
    this.draw();
  }

  draw() {
    if (!this.bars || this.host.clientWidth < 60) return;
    const left = 34, right = 58, step = this.bars.length > 40 ? 17 : 20, width = this.host.clientWidth,
          height = this.bars.length * step + 18;
    const context = this.context = prepare(this.canvas, width, height);
    this.scale = (width - left - right) / Math.max(1, this.most), this.step = step, this.left = left;
    context.font = '11px system-ui, sans-serif', context.textBaseline = 'middle';
    const placed = this.bars.flatMap((bar, i) => {
      let done = 0;
      return bar.parts.map((part, j) => ({part, i, j, before: (done += part.tokens) - part.tokens}));
    });
    for (const {part, i, j, before} of placed)
      this.part(part, i, before, document.activeElement === this.canvas && this.cursor.i === i && this.cursor.j === j);
    this.meanLine();
    for (const {part, i, before} of placed) this.words(part, i, before);
    this.bars.forEach((bar, i) => this.rank(bar, i));
  }

  /// Its number and, behind the bar, its load, readable across the line of the mean.
  rank(bar, i) {
    const context = this.context, load = bar.parts.reduce((sum, part) => sum + part.tokens, 0),
          x = this.left + load * this.scale + 5, y = (i + 0.5) * this.step;
    context.fillStyle = css('faint'), context.textAlign = 'right';
    context.fillText(bar.label, this.left - 5, y);
    context.textAlign = 'left', context.strokeStyle = css('ground'), context.lineWidth = 4;
    context.strokeText(count(load), x, y);
    context.fillStyle = css('ink');
    context.fillText(count(load), x, y);
  }

  meanLine() {
    const context = this.context, x = this.left + this.mean * this.scale, bottom = this.bars.length * this.step;
    context.strokeStyle = css('ink'), context.setLineDash([4, 3]), context.lineWidth = 1.5;
    context.beginPath(), context.moveTo(x, 0), context.lineTo(x, bottom + 3), context.stroke(), context.setLineDash([]);
    context.fillStyle = css('ink'), context.textAlign = 'center';
    context.fillText('mean ' + count(this.mean), x, bottom + 10);
  }

  part(part, i, before, focused) {
    const context = this.context, x = this.left + before * this.scale, y = i * this.step + 1.5, width = part.tokens * this.scale,
          height = this.step - 3;
    context.fillStyle = part.colour;
    context.fillRect(x, y, Math.max(0.5, width - (width > 3 ? 1 : 0)), height);
    if (part.hatched) this.hatch(x, y, width - 1, height);
    if (focused)
      context.strokeStyle = css('focus'), context.lineWidth = 2, context.strokeRect(x, y, Math.max(2, width - 1), height);
  }

  /// Expert and count inside a part, as much as fits.
  words(part, i, before) {
    const context = this.context, x = this.left + before * this.scale, y = i * this.step + 1.5, width = part.tokens * this.scale,
          height = this.step - 3;
    context.textAlign = 'left';
    const numbers = count(part.tokens), texts = [`${part.text}: ${numbers}`, numbers];
    const text = texts.find(candidate => context.measureText(candidate).width + 8 <= width);
    if (!text || part.expert < 0) return;
    context.fillStyle = part.colour;
    context.fillRect(x + 2, y + 2, context.measureText(text).width + 4, height - 4);  // over hatching and the line of the mean
    context.fillStyle = inkOn(part.colour);
    context.fillText(text, x + 4, y + height / 2 + 0.5);
  }

  hatch(x, y, width, height) {
    const context = this.context;
    context.save();
    context.beginPath(), context.rect(x, y, width, height), context.clip();
    context.strokeStyle = css('ink'), context.lineWidth = 1, context.globalAlpha = 0.75;
    context.beginPath();
    for (let at = x - height; at < x + width; at += 6) context.moveTo(at, y + height), context.lineTo(at + height, y);
    context.stroke(), context.restore();
  }

  pointAt(event) {
    const box = this.canvas.getBoundingClientRect(), i = Math.floor((event.clientY - box.top) / this.step);
    let load = (event.clientX - box.left - this.left) / this.scale;
    if (!this.bars[i] || load < 0) return;
    const j = this.bars[i].parts.findIndex(part => (load -= part.tokens) < 0);
    this.tell(i, j);
  }

  press(event) {
    const steps = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    if (!steps[event.key]) return;
    event.preventDefault();
    this.moveTo(this.cursor.i + steps[event.key][0], this.cursor.j + steps[event.key][1]);
  }

  moveTo(i, j) {
    if (!this.bars || !this.bars.length) return;
    this.cursor.i = Math.min(this.bars.length - 1, Math.max(0, i));
    this.cursor.j = Math.min(Math.max(0, this.bars[this.cursor.i].parts.length - 1), Math.max(0, j));
    this.draw();
    this.tell(this.cursor.i, this.cursor.j);
  }

  tell(i, j) {
    const bar = this.bars[i], load = bar.parts.reduce((sum, part) => sum + part.tokens, 0);
    const rank = `rank ${bar.label}: ${count(load)} assignments, ${ratio(load / this.mean)} of the mean`;
    this.readout.textContent = j >= 0 && bar.parts[j] ? `${bar.parts[j].title}: ${count(bar.parts[j].tokens)}; ${rank}` : rank;
  }
}

/// Black or white, whichever reads better on a colour of six hexadecimal digits.
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
  return 0.3 * r + 0.59 * g + 0.11 * b > 140 ? '#000000' : '#ffffff';
}
