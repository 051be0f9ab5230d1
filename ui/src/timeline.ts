// The window on one time axis: a lane of events, then charts, with one cursor and one zoom for all.

import { ChartView, type Shade } from './chart';
import type { Page } from './data';
import { h, onWidth, section, svg } from './dom';
import { count, moment } from './format';
import type { Axis } from './time';

const LANE = 20;
/** Rows of a lane at most. */
const ROWS = 4;

interface Event {
  from: number;
  to: number;
  label: string;
  kind: string;
}

export function timeline(page: Page, axis: Axis): HTMLElement {
  const { charts } = page;
  const lanes = eventLanes(page);
  const lost: Shade[] = page.report.losses.map((loss) => ({ ...span(loss), kind: 'lost' as const }));
  const views = charts.charts.map((chart) => {
    const notables: Shade[] = page.report.metrics.notables
      .filter((notable) =>
        chart.lines.some((line) => line.source[0] === notable.table && line.source[1].includes(notable.column)),
      )
      .map((notable) => ({ ...span(notable), kind: 'notable' as const }));
    return new ChartView(chart, page, axis, [...notables, ...lost]);
  });
  const plots = lanes.map(() => h('div', { class: 'plot lane-plot' }));
  const rows = lanes.map((lane, index) =>
    h('div', { class: 'chart lane' }, h('div', { class: 'gutter' }, h('h3', null, lane.title), h('span', { class: 'value' }, count(lane.total ?? lane.events.length))), plots[index]),
  );
  const scale = h('div', { class: 'plot' });
  const clock = h('span', { class: 'clock' });
  const reset = h('button', { type: 'button', class: 'small', click: () => axis.reset() }, 'show all');
  const head = h('div', { class: 'chart axis' }, h('div', { class: 'gutter' }, clock, reset), scale);
  const cursor = h('div', { class: 'cursor', hidden: true });
  const drag = h('div', { class: 'drag', hidden: true });
  const board = h(
    'div',
    {
      class: 'board',
      tabindex: 0,
      role: 'group',
      'aria-label': 'Charts over time. Arrow keys move the cursor, plus and minus zoom, Escape shows all.',
    },
    head,
    rows,
    views.map((view) => view.element),
    cursor,
    drag,
  );

  const place = () => {
    const box = scale.getBoundingClientRect();
    return { left: box.left - board.getBoundingClientRect().left, width: box.width };
  };
  const draw = () => {
    const { width } = place();
    if (width <= 0) return;
    views.forEach((view) => view.draw(width));
    lanes.forEach((lane, index) => plots[index].replaceChildren(drawLane(lane.events, axis, width)));
    scale.replaceChildren(drawScale(axis, width));
    reset.hidden = !axis.zoomed;
    clock.textContent = `${moment(axis.from)} to ${moment(axis.to)}`;
  };
  const point = () => {
    views.forEach((view) => view.cursor());
    const at = axis.cursor;
    cursor.hidden = at === null || at < axis.from || at > axis.to;
    if (at !== null) {
      const { left, width } = place();
      cursor.style.left = `${left + ((at - axis.from) / (axis.to - axis.from)) * width}px`;
      clock.textContent = axis.label(at);
    } else {
      clock.textContent = `${moment(axis.from)} to ${moment(axis.to)}`;
    }
  };
  axis.onView(draw);
  axis.onCursor(point);
  onWidth(board, () => {
    draw();
    point();
  });
  addEventListener('beforeprint', draw);
  pointer(board, axis, place, drag);
  keys(board, axis);

  const quiet = charts.quiet.length > 0 ? `Zero all the time, so not drawn: ${charts.quiet.join(', ')}.` : null;
  const merged = Math.max(1, ...charts.charts.map((chart) => chart.merged));
  return section(
    'timeline',
    'Timeline',
    charts.charts.length > 0
      ? 'Everything on one time axis. Point to read values, drag to zoom, double-click to show all.'
      : 'No metrics and no trace were recorded: there is nothing to draw.',
    charts.charts.length > 0 || lanes.length > 0 ? board : null,
    quiet ? h('p', { class: 'note' }, quiet) : null,
    merged > 1 ? h('p', { class: 'note' }, `Each point of a line is the mean of ${merged} readings.`) : null,
  );
}

/** From seconds to milliseconds. */
function span(interval: { from?: number; to?: number }): { from: number; to: number } {
  return { from: (interval.from ?? 0) * 1e3, to: (interval.to ?? interval.from ?? 0) * 1e3 };
}

function eventLanes(page: Page): { title: string; total?: number; events: Event[] }[] {
  const { report } = page;
  const lost = new Map(page.lost);
  const lanes: { title: string; total?: number; events: Event[] }[] = [
    {
      title: 'Marks',
      events: report.marks.map((mark) => ({ from: mark.at * 1e3, to: mark.at * 1e3, label: mark.label, kind: 'mark' })),
    },
    {
      title: 'Worth a look',
      events: report.metrics.notables.map((notable) => ({ ...span(notable), label: notable.text, kind: 'notable' })),
    },
    ...page.lanes,
    {
      title: 'Log errors, warnings',
      events: page.lines.map((line) => ({ from: line.at, to: line.at, label: line.text, kind: `log ${line.level}` })),
    },
    {
      title: 'Lost',
      events: report.losses.map((loss) => ({
        ...span(loss),
        label: `${loss.count ? `${count(loss.count)} ` : ''}${lost.get(loss.kind) ?? loss.kind} lost`,
        kind: 'lost',
      })),
    },
  ];
  return lanes.filter((lane) => lane.events.length > 0);
}

/** Events that overlap lie below each other, in at most four rows. */
function stacked(events: Event[]): { event: Event; row: number }[] {
  const ends: number[] = [];
  return [...events]
    .sort((a, b) => a.from - b.from)
    .map((event) => {
      if (event.to <= event.from) return { event, row: 0 };
      let row = ends.findIndex((end) => end <= event.from);
      if (row < 0) row = Math.min(ends.length, ROWS - 1);
      ends[row] = Math.max(ends[row] ?? 0, event.to);
      return { event, row };
    });
}

function drawLane(events: Event[], axis: Axis, width: number): SVGElement {
  const x = (at: number) => ((at - axis.from) / (axis.to - axis.from)) * width;
  const placed = stacked(events);
  const height = LANE * (Math.max(0, ...placed.map((item) => item.row)) + 1);
  const root = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${events.length} events` });
  const labels: SVGElement[] = [];
  const free: number[] = [];
  // Errors lie above warnings where both are at one place.
  placed.sort((a, b) => Number(a.event.kind === 'log error') - Number(b.event.kind === 'log error') || a.event.from - b.event.from);
  for (const { event, row } of placed) {
    if (event.to < axis.from || event.from > axis.to) continue;
    const top = row * LANE;
    const left = Math.max(x(event.from), 0);
    const wide = event.to > event.from;
    const right = wide ? Math.min(Math.max(x(event.to), left + 3), width) : left + 2;
    const mark = event.kind === 'mark';
    root.append(
      svg(
        'rect',
        wide
          ? { class: `event ${event.kind}`, x: left, y: top + 3, width: right - left, height: LANE - 6, rx: 2 }
          : { class: `event ${event.kind}`, x: left - 1, y: top + (mark ? 0 : 4), width: mark ? 2 : 2.5, height: LANE - (mark ? 0 : 8) },
        svg('title', null, `${axis.label(event.from)}\n${event.label}`),
      ),
    );
    // In the last row events may lie on each other, and so would their labels.
    if (event.kind.startsWith('log') || row === ROWS - 1) continue;
    // A label goes where there is more room: inside its box, or between it and the next.
    const next = Math.min(...placed.filter((other) => other.row === row && other.event.from > event.from).map((other) => x(other.event.from)), width);
    const inside = wide ? right - left - 10 : 0;
    const after = next - right - 10;
    const start = inside >= after ? left + 5 : right + 5;
    const letters = Math.floor(Math.max(inside, after) / 6.4);
    if (letters < 4 || start < (free[row] ?? 0)) continue;
    const text = event.label.length > letters ? `${event.label.slice(0, letters - 1)}…` : event.label;
    free[row] = start + text.length * 6.4;
    labels.push(svg('text', { class: 'label', x: start, y: top + LANE / 2 + 4 }, text));
  }
  root.append(...labels);
  return root;
}

function drawScale(axis: Axis, width: number): SVGElement {
  const root = svg('svg', { width, height: 24, viewBox: `0 0 ${width} 24`, 'aria-hidden': 'true' });
  for (const { at, step } of axis.ticks(width, 84)) {
    const x = ((at - axis.from) / (axis.to - axis.from)) * width;
    root.append(svg('line', { class: 'tick', x1: x, x2: x, y1: 17, y2: 24 }));
    if (x <= width - 30) root.append(svg('text', { class: 'label', x: x < 10 ? 0 : x, y: 13, 'text-anchor': x < 10 ? 'start' : 'middle' }, moment(at, step)));
  }
  return root;
}

function pointer(
  board: HTMLElement,
  axis: Axis,
  place: () => { left: number; width: number },
  drag: HTMLElement,
): void {
  let start: number | null = null;
  const position = (event: PointerEvent) => event.clientX - board.getBoundingClientRect().left;
  const time = (x: number) => {
    const { left, width } = place();
    return axis.from + (Math.min(Math.max(x - left, 0), width) / width) * (axis.to - axis.from);
  };
  const inside = (x: number) => {
    const { left, width } = place();
    return x >= left - 3 && x <= left + width + 3;
  };
  board.addEventListener('pointermove', (event) => {
    const x = position(event);
    if (start === null && !inside(x)) {
      axis.point(null);
      return;
    }
    axis.point(time(x));
    if (start === null) return;
    const { left, width } = place();
    const end = Math.min(Math.max(x, left), left + width);
    drag.hidden = Math.abs(end - start) < 5;
    drag.style.left = `${Math.min(start, end)}px`;
    drag.style.width = `${Math.abs(end - start)}px`;
  });
  board.addEventListener('pointerdown', (event) => {
    const x = position(event);
    if (event.button === 0 && event.pointerType !== 'touch' && inside(x)) start = x;
  });
  addEventListener('pointerup', (event) => {
    if (start === null) return;
    const from = time(start);
    const to = time(position(event));
    const far = !drag.hidden;
    start = null;
    drag.hidden = true;
    if (far) axis.show(Math.min(from, to), Math.max(from, to));
  });
  board.addEventListener('pointerleave', () => {
    if (start === null) axis.point(null);
  });
  board.addEventListener('dblclick', () => axis.reset());
}

function keys(board: HTMLElement, axis: Axis): void {
  board.addEventListener('keydown', (event) => {
    const length = axis.to - axis.from;
    const at = axis.cursor ?? (axis.from + axis.to) / 2;
    switch (event.key) {
      case 'ArrowLeft':
      case 'ArrowRight': {
        const next = at + (event.key === 'ArrowLeft' ? -1 : 1) * length * (event.shiftKey ? 0.1 : 0.01);
        axis.point(next);
        if (next < axis.from || next > axis.to) axis.show(axis.from + next - at, axis.to + next - at);
        break;
      }
      case '+':
      case '=':
        axis.show(at - length / 4, at + length / 4);
        break;
      case '-':
        axis.show(at - length, at + length);
        break;
      case 'Escape':
        axis.reset();
        axis.point(null);
        break;
      default:
        return;
    }
    event.preventDefault();
  });
}
