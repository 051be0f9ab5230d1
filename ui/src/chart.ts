// One chart: lines or stacked areas over the shared time axis, as SVG.

import type { Chart, Line, Page } from './data';
import { h, svg } from './dom';
import { reading } from './format';
import type { Axis } from './time';

export interface Shade {
  from: number;
  to: number;
  kind: 'lost' | 'notable';
}

const HEIGHT = 92;
/** Room above the highest value, so that its label does not cover it. */
const TOP = 14;

const ROLES: Record<string, string> = {
  user: 'c1',
  native: 'native',
  kernel: 'kernel',
  jit: 'jit',
  unknown: 'unknown',
  irq: 'c5',
  steal: 'c6',
  iowait: 'iowait',
  memory: 'c1',
  cache: 'c3',
  read: 'c1',
  write: 'c2',
  running: 'running',
  ready: 'ready',
  limit: 'limit',
  'limit-plain': 'c6',
};
const PALETTE = ['c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8'];

export class ChartView {
  readonly element: HTMLElement;
  private readonly plot: HTMLElement;
  private readonly values: HTMLElement[];
  private readonly colors: string[];
  /** Of each line, its values; of a stacked chart, the sums up to it. */
  private readonly tops: (number | null)[][];

  constructor(
    readonly chart: Chart,
    private readonly page: Page,
    private readonly axis: Axis,
    private readonly shades: Shade[],
  ) {
    const taken = new Set(chart.lines.map((line) => ROLES[line.role]).filter(Boolean));
    const free = PALETTE.filter((name) => !taken.has(name));
    let next = 0;
    this.colors = chart.lines.map((line) => ROLES[line.role] ?? free[next++ % free.length]);
    this.tops = stack(chart);
    this.plot = h('div', { class: 'plot' });
    this.values = chart.lines.map(() => h('span', { class: 'value' }));
    // The topmost area first, as the eye meets it.
    const order = chart.lines.map((_, index) => index);
    if (chart.stacked) order.reverse();
    this.element = h(
      'div',
      { class: 'chart', id: `chart-${chart.id}` },
      h(
        'div',
        { class: 'gutter' },
        h('h3', { title: chart.about || null }, chart.title),
        h(
          'ul',
          { class: 'legend' },
          order.map((index) =>
            h(
              'li',
              null,
              h('i', { class: `key k-${this.colors[index]}` }),
              h('span', { class: 'name', title: chart.lines[index].label }, chart.lines[index].label || chart.title),
              this.values[index],
            ),
          ),
        ),
      ),
      this.plot,
    );
    if (chart.about) this.plot.title = chart.about;
    this.cursor();
  }

  draw(width: number): void {
    const { axis, chart } = this;
    const x = (at: number) => ((at - axis.from) / (axis.to - axis.from)) * width;
    const highest = this.highest();
    const y = (value: number) => HEIGHT - Math.min(value / highest, 1.1) * (HEIGHT - TOP);
    const root = svg('svg', {
      width,
      height: HEIGHT,
      viewBox: `0 0 ${width} ${HEIGHT}`,
      role: 'img',
      'aria-label': `${chart.title}: ${this.summary()}`,
    });
    for (const shade of this.shades) {
      if (shade.to < axis.from || shade.from > axis.to) continue;
      const left = Math.max(x(shade.from), 0);
      const right = Math.min(Math.max(x(shade.to), left + 2), width);
      root.append(svg('rect', { class: shade.kind, x: left, y: 0, width: right - left, height: HEIGHT }));
    }
    for (const part of [0.5, 1]) {
      root.append(svg('line', { class: 'grid', x1: 0, x2: width, y1: y(highest * part), y2: y(highest * part) }));
    }
    for (let index = chart.lines.length - 1; index >= 0; index -= 1) this.line(root, index, x, y);
    root.append(svg('line', { class: 'base', x1: 0, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }));
    root.append(svg('text', { class: 'scale', x: 0, y: y(highest) - 3 }, reading(chart.unit, highest)));
    this.plot.replaceChildren(root);
  }

  /** The legend shows the values at the cursor, or else the mean of what is shown. */
  cursor(): void {
    this.chart.lines.forEach((line, index) => {
      const value = this.axis.cursor === null ? this.mean(line) : this.at(line, this.axis.cursor);
      this.values[index].textContent = value === null ? '–' : reading(this.chart.unit, value);
      this.values[index].classList.toggle('mean', this.axis.cursor === null);
    });
  }

  private line(root: SVGElement, index: number, x: (at: number) => number, y: (value: number) => number): void {
    const times = this.page.charts.grids[this.chart.lines[index].grid] ?? [];
    const tops = this.tops[index];
    const color = this.colors[index];
    for (const [first, last] of this.runs(times, tops)) {
      let path = '';
      for (let point = first; point <= last; point += 1) {
        path += `${point === first ? 'M' : 'L'}${x(times[point]).toFixed(1)} ${y(tops[point] as number).toFixed(1)}`;
      }
      if (first === last) {
        root.append(
          svg('circle', { class: `f-${color}`, cx: x(times[first]).toFixed(1), cy: y(tops[first] as number).toFixed(1), r: 2 }),
        );
        continue;
      }
      if (this.chart.stacked) {
        let floor = '';
        for (let point = last; point >= first; point -= 1) {
          const below = index > 0 ? (this.tops[index - 1][point] ?? 0) : 0;
          floor += `L${x(times[point]).toFixed(1)} ${y(below).toFixed(1)}`;
        }
        root.append(svg('path', { class: `area f-${color}`, d: `${path}${floor}Z` }));
      } else {
        const limit = this.chart.lines[index].role === 'limit';
        root.append(svg('path', { class: `line${limit ? ' dashed' : ''} s-${color}`, d: path }));
        if (this.chart.lines.length === 1) {
          const floor = `L${x(times[last]).toFixed(1)} ${HEIGHT}L${x(times[first]).toFixed(1)} ${HEIGHT}Z`;
          root.append(svg('path', { class: `under f-${color}`, d: path + floor }));
        }
      }
    }
  }

  /** Stretches without a gap: a missing reading, or a pause of several readings, interrupts a line. */
  private *runs(times: number[], values: (number | null)[]): Generator<[number, number]> {
    const steps = times.slice(1).map((time, index) => time - times[index]);
    const usual = steps.sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
    let first = -1;
    for (let point = 0; point <= times.length; point += 1) {
      const there = point < times.length && values[point] !== null && values[point] !== undefined;
      const gap = there && first >= 0 && times[point] - times[point - 1] > usual * 3.5;
      if ((!there || gap) && first >= 0) {
        yield [first, point - 1];
        first = -1;
      }
      if (there && first < 0) first = point;
    }
  }

  private highest(): number {
    let highest = 0;
    for (const tops of this.tops) for (const value of tops) highest = Math.max(highest, value ?? 0);
    const ceiling = this.chart.ceiling;
    if (ceiling !== null && (this.chart.stacked || highest > ceiling * 0.4)) {
      // Readings are not taken at one moment: a sum a little above the ceiling is at the ceiling.
      return highest > ceiling * 1.1 ? highest : ceiling;
    }
    return nice(highest, this.chart.unit);
  }

  private shown(line: Line): number[] {
    const times = this.page.charts.grids[line.grid] ?? [];
    return line.values.filter(
      (value, index): value is number => value !== null && times[index] >= this.axis.from && times[index] <= this.axis.to,
    );
  }

  private mean(line: Line): number | null {
    const values = this.shown(line);
    return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  }

  private at(line: Line, at: number): number | null {
    const times = this.page.charts.grids[line.grid] ?? [];
    let low = 0;
    let high = times.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < at) low = middle + 1;
      else high = middle;
    }
    if (low > 0 && at - times[low - 1] < times[low] - at) low -= 1;
    const near = Math.abs((times[low] ?? Infinity) - at);
    const step = times.length > 1 ? (times[times.length - 1] - times[0]) / (times.length - 1) : Infinity;
    return near <= Math.max(step * 2, 1) ? (line.values[low] ?? null) : null;
  }

  private summary(): string {
    return this.chart.lines
      .map((line) => {
        const mean = this.mean(line);
        return `${line.label} ${mean === null ? 'not known' : `${reading(this.chart.unit, mean)} on average`}`;
      })
      .join(', ');
  }
}

function stack(chart: Chart): (number | null)[][] {
  if (!chart.stacked) return chart.lines.map((line) => line.values);
  const tops: (number | null)[][] = [];
  chart.lines.forEach((line, index) => {
    // A reading missing in one layer leaves the others where they are.
    tops.push(
      line.values.map((value, point) => {
        const below = index > 0 ? tops[index - 1][point] : null;
        return value === null ? below : Math.min(value + (below ?? 0), Number.MAX_VALUE);
      }),
    );
  });
  return tops;
}

/** The next round number above: 1, 2, 2.5, 5 times a power of ten (of two for bytes). */
function nice(value: number, unit: string): number {
  if (!(value > 0)) return 1;
  const base = unit.startsWith('bytes') ? 1024 ** Math.floor(Math.log(value) / Math.log(1024)) : 1;
  const scaled = value / base;
  const power = 10 ** Math.floor(Math.log10(scaled));
  const factor = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * power >= scaled * 0.999) ?? 10;
  const rounded = factor * power * base;
  return Number.isFinite(rounded) ? rounded : value;
}
