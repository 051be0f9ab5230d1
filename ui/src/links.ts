// Links from evidence to the place in the page that shows it.

import type { Finding, Page, Reference } from './data';
import type { Axis } from './time';

/** What sections offer to links; each section fills in its own. */
export interface Places {
  showFunction?: (index: number | undefined, name: string, waiting: boolean) => void;
  showThread?: (tid: number) => void;
  showGroup?: (index: number) => void;
  showLog?: (log: number, line: number) => void;
  showRuntime?: (runtime: number, table: string, row?: number) => void;
  showStack?: (dump: number, group: number) => void;
  groupOf?: (dump: number, tid: number) => number | undefined;
}

/** Scrolls to an element and makes it stand out for a moment. */
export function flash(element: Element | null, block: ScrollLogicalPosition = 'center'): void {
  if (!element) return;
  element.scrollIntoView({ block, behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
  element.classList.remove('flash');
  requestAnimationFrame(() => element.classList.add('flash'));
  setTimeout(() => element.classList.remove('flash'), 2200);
}

/** The same for what a finding in a dump refers to. */
export function linkInDump(places: Places, of: Finding['of'], reference: Reference): { text: string; go: () => void } | null {
  if (of?.kind !== 'dump') return null;
  const group = reference.kind === 'group' ? reference.index : reference.kind === 'thread' ? places.groupOf?.(of.index, reference.tid) : undefined;
  return group === undefined ? null : { text: 'stack', go: () => places.showStack?.(of.index, group) };
}

/** What a link to `reference` says, and what it does. */
export function link(
  page: Page,
  axis: Axis,
  places: Places,
  reference: Reference,
): { text: string; go: () => void } | null {
  switch (reference.kind) {
    case 'function':
      return {
        text: reference.waiting ? 'waiting flame graph' : 'flame graph',
        go: () => places.showFunction?.(reference.index, reference.name, reference.waiting),
      };
    case 'thread':
      return { text: `thread ${reference.tid}`, go: () => places.showThread?.(reference.tid) };
    case 'group':
      return { text: 'threads', go: () => places.showGroup?.(reference.index) };
    case 'metric': {
      const { table, column, key } = reference;
      const draws = (exact: boolean) =>
        page.charts.charts.find((chart) =>
          chart.lines.some(
            (line) => line.source[0] === table && line.source[1].includes(column) && (!exact || line.source[2] === key),
          ),
        );
      // A column that no chart draws by itself (`cpu.busy`) is shown by the chart of its family.
      const family = `${column.split('.')[0]}.`;
      const related = page.charts.charts.find((chart) =>
        chart.lines.some((line) => line.source[0] === table && line.source[1].some((other) => other.startsWith(family))),
      );
      const chart = draws(true) ?? draws(false) ?? related;
      if (!chart) return { text: 'readings', go: () => flash(document.getElementById('readings'), 'start') };
      return { text: 'chart', go: () => flash(document.getElementById(`chart-${chart.id}`)) };
    }
    case 'time':
      return {
        text: 'timeline',
        go: () => {
          axis.reveal(reference.from * 1e3, reference.to * 1e3);
          flash(document.getElementById('timeline'), 'start');
        },
      };
    case 'log':
      return { text: 'log', go: () => places.showLog?.(reference.log, reference.line) };
    case 'runtime':
      return {
        text: reference.table.replace('_', ' '),
        go: () => places.showRuntime?.(reference.runtime, reference.table === 'coincidences' ? 'requests' : reference.table, reference.row),
      };
  }
}
