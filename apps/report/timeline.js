// The timeline of a run: tracks of spans on a canvas, to zoom and to move.
class Timeline {
  constructor(host, trace, events) {
    this.trace = trace;
    this.unpackEvents(events);
    this.canvas = el('canvas', {
      tabindex: 0,
      role: 'img',
      'aria-label': `Timeline of ${trace.tracks.length} tracks. Plus and minus zoom, arrow keys move and choose a track.`
    });
    this.readout = el('p', {class: 'readout', 'aria-live': 'polite'});
    const button = (text, label, act) => {
      const b = el('button', {type: 'button', 'aria-label': label}, text);
      b.addEventListener('click', act);
      return b;
    };
    host.replaceChildren(
        el('p', {}, button('+', 'zoom in', () => this.zoom(0.5, 0.5)), ' ', button('−', 'zoom out', () => this.zoom(2, 0.5)), ' ',
           button('all', 'show all', () => this.show(0, this.end))),
        this.canvas, this.readout);
    this.host = host, this.from = 0, this.to = this.end, this.track = 0;
    this.listen();
    new ResizeObserver(() => this.draw()).observe(host);
  }

  unpackEvents(e) {
    this.spans = this.trace.tracks.map(() => []);
    this.end = 1;
    let begin = 0;
    for (let i = 0; i < e.track.length; ++i) {
      begin = i > 0 && e.track[i] === e.track[i - 1] ? begin + e.gap[i] : e.gap[i];
      this.spans[e.track[i]].push({
        begin,
        end: begin + e.length[i],
        name: e.name[i],
        microBatch: e.micro_batch[i] - 1,
        layer: e.layer[i] - 1,
        backward: e.backward[i] > 0
      });
      this.end = Math.max(this.end, begin + e.length[i]);
    }
  }

  listen() {
    const share = event =>
        (event.clientX - this.canvas.getBoundingClientRect().left - this.left) / (this.host.clientWidth - this.left);
    this.canvas.addEventListener('wheel', event => {
      if (document.activeElement !== this.canvas) return;  // the page scrolls until the timeline was clicked
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, share(event));
    }, {passive: false});
    let held = null;
    this.canvas.addEventListener('pointerdown', event => held = {x: event.clientX, from: this.from, to: this.to});
    window.addEventListener('pointerup', () => held = null);
    this.canvas.addEventListener('pointermove', event => {
      if (held) {
        const shift = (held.x - event.clientX) / (this.host.clientWidth - this.left) * (held.to - held.from);
        this.show(held.from + shift, held.to + shift);
      } else
        this.tell(this.trackAt(event), this.from + share(event) * (this.to - this.from));
    });
    this.canvas.addEventListener('keydown', event => {
      const span = this.to - this.from;
      const keys = {
        '+': () => this.zoom(0.5, 0.5),
        '=': () => this.zoom(0.5, 0.5),
        '-': () => this.zoom(2, 0.5),
        ArrowLeft: () => this.show(this.from - span / 4, this.to - span / 4),
        ArrowRight: () => this.show(this.from + span / 4, this.to + span / 4),
        ArrowUp: () => this.choose(this.track - 1),
        ArrowDown: () => this.choose(this.track + 1)
      };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    for (const name of ['focus', 'blur']) this.canvas.addEventListener(name, () => this.draw());
  }

  show(from, to) {
    const span = Math.min(this.end, to - from);
    this.from = Math.min(Math.max(0, from), this.end - span), this.to = this.from + span;
    this.draw();
  }
  zoom(by, at) {
    const span = Math.max(10, (this.to - this.from) * by), centre = this.from + at * (this.to - this.from);
    this.show(centre - at * span, centre + (1 - at) * span);
  }
  choose(track) {
    this.track = Math.min(this.spans.length - 1, Math.max(0, track));
    this.draw();
    this.tell(this.track, (this.from + this.to) / 2);
  }
  trackAt(event) {
    return Math.floor((event.clientY - this.canvas.getBoundingClientRect().top - 16) / this.step);
  }

  /// Time in tenths of microseconds as text.
  static time(tenths) {
    return tenths >= 1e7 ? (tenths / 1e7).toFixed(3) + ' s' :
        tenths >= 1e4    ? (tenths / 1e4).toFixed(3) + ' ms' :
                           (tenths / 10).toFixed(1) + ' µs';
  }

  draw() {
    if (this.host.clientWidth < 60) return;
    const width = this.host.clientWidth;
    this.left = width < 700 ? 90 : 240, this.step = this.spans.length > 40 ? 11 : 17;
    const context = prepare(this.canvas, width, this.spans.length * this.step + 18),
          scale = (width - this.left) / (this.to - this.from);
    context.font = '11px system-ui, sans-serif', context.textBaseline = 'middle';
    context.fillStyle = css('faint');
    const ticks = width < 700 ? 2 : 4;
    for (let i = 0; i <= ticks; ++i) {
      context.textAlign = i === 0 ? 'left' : i === ticks ? 'right' : 'center';
      context.fillText(
          Timeline.time(this.from + (this.to - this.from) * i / ticks), this.left + (width - this.left) * i / ticks, 7);
    }
    this.spans.forEach((spans, t) => this.drawTrack(context, spans, t, scale, width));
  }

  drawTrack(context, spans, t, scale, width) {
    const y = 16 + t * this.step, track = this.trace.tracks[t];
    context.fillStyle = t === this.track && document.activeElement === this.canvas ? css('focus') : css('faint');
    context.textAlign = 'left';
    if (this.step > 12 || t % 2 === 0)
      context.fillText(shorten(context, `${track.process}: ${track.name}`, this.left - 6), 0, y + this.step / 2);
    let drawnTo = -1;
    for (const span of spans) {
      if (span.end < this.from || span.begin > this.to) continue;
      const x = this.left + Math.max(0, (span.begin - this.from) * scale),
            end = Math.min(width, this.left + (span.end - this.from) * scale);
      if (end - drawnTo < 0.4) continue;  // thinner than what is seen
      context.fillStyle = timelineColour(this.trace.names[span.name], span.name);
      context.fillRect(x, y + 1, Math.max(0.5, end - x), this.step - 2);
      drawnTo = end;
    }
  }

  tell(track, time) {
    const span = (this.spans[track] || []).find(candidate => candidate.begin <= time && time <= candidate.end);
    const name = this.trace.tracks[track] ? `${this.trace.tracks[track].process}, ${this.trace.tracks[track].name}` : '';
    if (!span) return void (this.readout.textContent = name);
    this.readout.textContent = `${name}: ${this.trace.names[span.name]}, ${span.backward ? 'backward' : 'forward'}` +
        (span.microBatch >= 0 ? `, micro-batch ${span.microBatch}, layer ${span.layer} (counted from 0)` : '') +
        `: ${Timeline.time(span.end - span.begin)} from ${Timeline.time(span.begin)}`;
  }
}

/// The text, cut to a width.
function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  while (text && context.measureText(text + '…').width > width) text = text.slice(0, -1);
  return text + '…';
}

/// Waiting stands out from work, the other spans have colours of their own.
function timelineColour(name, index) {
  const fixed = {
    'wait for the slowest': '#d55e00',
    'wait for weights': '#e69f00',
    experts: '#0072b2',
    'weight gradients': '#56b4e9',
    dispatch: '#009e73',
    combine: '#66c7a5',
    attention: css('rest-2'),
    gather: css('rest-1'),
    'add up': css('rest-1'),
    'weights of copies': '#cc79a7',
    'gradients of copies': '#8f4f76',
    'add gradients of copies': '#f0e442'
  };
  return fixed[name] || kNamed[index % kNamed.length];
}

async function renderTimeline(trace) {
  $('timeline').hidden = !trace;
  if (!trace) return;
  const names = Object.keys(trace.events), values = await Promise.all(names.map(name => unpack(trace.events[name])));
  timeline = new Timeline($('timeline-canvas'), trace, Object.fromEntries(names.map((name, i) => [name, values[i]])));
  const legend = trace.names.map((name, i) => el('span', {}, el('i', {style: {background: timelineColour(name, i)}}), name));
  if (trace.left_out) legend.push(el('span', {}, `${count(trace.left_out)} later spans are left out`));
  $('timeline-legend').replaceChildren(...legend);
}
let timeline = null;
