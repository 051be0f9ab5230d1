// What is alive, and what the holders that grew most keep, over the snapshots: on the time axis of the recording, where there is one.

import { ChartView } from './chart';
import { isRecorded, type Chart, type Page, type Whole } from './data';
import type { Growth } from './heap-data';
import { h, onWidth } from './dom';
import { Axis } from './time';

/** Holders that have a line. */
const LINES = 5;

export function growthChart(of: Growth, whole: Whole, shared: Axis | null): HTMLElement | null {
  if (of.moments.length < 2) return null;
  const taken = (whole.report.heaps ?? []).map((heap) => (heap.taken_at_unix_seconds ?? 0) * 1000);
  const known = taken.length === of.moments.length && taken.every((time, index) => time > 0 && (index === 0 || time > taken[index - 1]));
  const start = isRecorded(whole) ? whole.wall_ms : null;
  const recorded = known && shared && start !== null ? taken.map((time) => time - start) : [];
  // The last one is taken when the recording has ended.
  const on = shared && recorded.length > 0 && recorded[0] >= 0 && recorded[0] <= shared.whole ? shared : null;
  const times = on ? recorded.map((time) => Math.min(time, on.whole)) : known ? taken.map((time) => time - taken[0]) : of.moments.map((_, index) => index * 1000);
  const chart: Chart = { id: 'growth', title: 'Alive', unit: 'bytes', about: 'What is alive at each snapshot, and what lives because of the holders that grew most', stacked: false, ceiling: null, lines: [], merged: 0 };
  const line = (label: string, values: number[]) => chart.lines.push({ label, grid: 0, values, role: '', source: ['', [], ''] });
  line('all', of.moments.map((one) => one.bytes));
  for (const one of of.holders.slice(0, LINES)) line(`${one.keeps ?? one.type} by ${one.way.split(' → ')[0]}`, one.retained);
  const page = { charts: { grids: [times], charts: [], quiet: [] }, window_ms: times[times.length - 1], wall_ms: known ? taken[0] : null, utc_offset: 0 } as unknown as Page;
  const axis = on ?? new Axis(page);
  const view = new ChartView(chart, page, axis, []);
  const element = h('div', { class: 'plate growth' }, view.element);
  const draw = () => {
    const width = view.element.lastElementChild?.getBoundingClientRect().width ?? 0;
    if (width > 0) view.draw(width);
  };
  onWidth(element, draw);
  axis.onView(draw);
  axis.onCursor(() => view.cursor());
  return element;
}
