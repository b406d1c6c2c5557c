// A heat map on a canvas that a mouse, a finger and the keyboard can read.
class Grid {
  /// Options of update(): rows, cols, value(i, j) (NaN: empty), colour(value), describe(i, j), rowLabel(i), colLabel(j), rowsAre,
  /// colsAre; optional pick(i, j), chosen {i, j}, mark(i, j), square.
  constructor(host, label) {
    this.host = host;
    this.canvas = el('canvas', {tabindex: 0, role: 'img', 'aria-label': label});
    this.label = label;
    this.readout = el('p', {class: 'readout', 'aria-live': 'polite'});
    host.replaceChildren(this.canvas, this.readout);
    this.cursor = {i: 0, j: 0};
    this.canvas.addEventListener('mousemove', event => this.pointAt(event));
    this.canvas.addEventListener('mouseleave', () => this.tell(''));
    this.canvas.addEventListener('click', event => {
      if (this.pointAt(event)) this.pick();
    });
    this.canvas.addEventListener('keydown', event => this.press(event));
    this.canvas.addEventListener('focus', () => this.moveTo(this.cursor));
    this.canvas.addEventListener('blur', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(host);
  }

  update({pick, ...options}) {
    Object.assign(this, {chosen: null, mark: null, square: false, picked: pick}, options);
    this.cursor = {...(this.chosen || {i: Math.min(this.cursor.i, this.rows - 1), j: Math.min(this.cursor.j, this.cols - 1)})};
    this.canvas.setAttribute(
        'aria-label',
        `${this.label}: ${this.rows} ${this.rowsAre} by ${this.cols} ${this.colsAre}. Arrow keys move` +
            (pick ? ', Enter opens.' : '.'));
    this.canvas.style.cursor = pick ? 'pointer' : 'default';
    this.readout.textContent = '';
    this.draw();
  }

  layout() {
    const left = 46, top = 6, bottom = 20, width = this.host.clientWidth - left - 2;
    const cellWidth = Math.min(26, width / this.cols);
    const cellHeight = this.square ? Math.min(26, Math.max(4, cellWidth)) : Math.max(3, Math.min(20, 330 / this.rows));
    return {
      left,
      top,
      bottom,
      cellWidth,
      cellHeight,
      width: left + 2 + cellWidth * this.cols,
      height: top + bottom + 1 + cellHeight * this.rows
    };
  }

  draw() {
    if (!this.rows || !this.cols || this.host.clientWidth < 60) return;
    const at = this.at = this.layout(), context = prepare(this.canvas, at.width, at.height);
    const x = j => Math.round(at.left + j * at.cellWidth), y = i => Math.round(at.top + i * at.cellHeight);
    const gapX = at.cellWidth >= 6 ? 1 : 0, gapY = at.cellHeight >= 6 ? 1 : 0;
    for (let i = 0; i < this.rows; ++i)
      for (let j = 0; j < this.cols; ++j) {
        const value = this.value(i, j);
        context.fillStyle = Number.isNaN(value) ? css('panel') : this.colour(value);
        context.fillRect(x(j), y(i), Math.max(1, x(j + 1) - x(j) - gapX), Math.max(1, y(i + 1) - y(i) - gapY));
        if (this.mark && this.mark(i, j)) this.dot(context, (x(j) + x(j + 1) - gapX) / 2, (y(i) + y(i + 1) - gapY) / 2);
      }
    this.axes(context, x, y);
    const outline = (where, colour, width) => {
      context.strokeStyle = colour, context.lineWidth = width;
      context.strokeRect(
          x(where.j) - 1, y(where.i) - 1, x(where.j + 1) - x(where.j) + 2 - gapX, y(where.i + 1) - y(where.i) + 2 - gapY);
    };
    if (this.chosen) outline(this.chosen, css('focus'), 2);
    if (document.activeElement === this.canvas) outline(this.cursor, css('ink'), 2);
  }

  dot(context, x, y) {
    const size = Math.max(1, Math.min(2.5, this.at.cellWidth / 4, this.at.cellHeight / 4));
    for (const [radius, colour] of [[size + 1, '#000'], [size, '#fff']]) {
      context.fillStyle = colour;
      context.beginPath(), context.arc(x, y, radius, 0, 7), context.fill();
    }
  }

  axes(context, x, y) {
    context.fillStyle = css('faint');
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle', context.textAlign = 'right';
    const rowStep = Math.ceil(14 / this.at.cellHeight), colStep = Math.ceil(30 / this.at.cellWidth);
    for (let i = 0; i < this.rows; i += rowStep) context.fillText(this.rowLabel(i), this.at.left - 5, y(i + 0.5));
    context.textBaseline = 'top', context.textAlign = 'center';
    for (let j = 0; j < this.cols; j += colStep)
      context.fillText(this.colLabel(j), x(j + 0.5), this.at.height - this.at.bottom + 5);
  }

  pointAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - this.at.left) / this.at.cellWidth),
          i = Math.floor((event.clientY - box.top - this.at.top) / this.at.cellHeight);
    if (i < 0 || j < 0 || i >= this.rows || j >= this.cols) return false;
    this.cursor = {i, j};
    this.tell(this.describe(i, j));
    return true;
  }

  press(event) {
    const steps = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      PageUp: [-10, 0],
      PageDown: [10, 0],
      Home: [0, -this.cols],
      End: [0, this.cols]
    };
    if (event.key === 'Enter' || event.key === ' ')
      this.pick();
    else if (steps[event.key])
      this.moveTo({i: this.cursor.i + steps[event.key][0], j: this.cursor.j + steps[event.key][1]});
    else
      return;
    event.preventDefault();
  }

  moveTo({i, j}) {
    this.cursor = {i: Math.min(this.rows - 1, Math.max(0, i)), j: Math.min(this.cols - 1, Math.max(0, j))};
    this.draw();
    this.tell(this.describe(this.cursor.i, this.cursor.j));
  }

  pick() {
    if (this.picked) this.picked(this.cursor.i, this.cursor.j);
  }

  tell(text) {
    this.readout.textContent = text;
  }
}

/// A canvas of this size in CSS pixels, sharp on any screen and empty.
function prepare(canvas, width, height) {
  const sharp = window.devicePixelRatio || 1;
  canvas.style.width = width + 'px', canvas.style.height = height + 'px';
  canvas.width = Math.round(width * sharp), canvas.height = Math.round(height * sharp);
  const context = canvas.getContext('2d');
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
