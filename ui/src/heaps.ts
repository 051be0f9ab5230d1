// Heaps: what they hold by type, who holds it, and what grew.

import type { Whole } from './data';
import type { Growth, Heap, InspectionRow } from './heap-data';
import { h, section, type Child } from './dom';
import { bytes, count, seconds } from './format';
import { growthChart } from './growth-chart';
import { table } from './table';
import type { Axis } from './time';
import { treemap } from './treemap';

export function heaps(page: Whole, axis: Axis | null): HTMLElement[] {
  const all = page.report.heaps ?? [];
  const sections = all.map((heap, index) => {
    const id = index === 0 ? 'heap' : `heap-${index}`;
    const title = all.length === 1 ? 'Heap' : `Heap ${index + 1}${heap.taken_at ? `, ${heap.taken_at}` : ''}`;
    return section(id, title, lead(heap), heapTiles(heap), notes(heap), held(heap), generations(heap), types(heap));
  });
  const grown = page.report.growth;
  return grown ? [growth(grown, page, axis), ...sections] : sections;
}

/** What grew between snapshots: where it is held, and by type. */
function growth(of: Growth, page: Whole, axis: Axis | null): HTMLElement {
  const change = (values: number[]) => values[values.length - 1] - values[0];
  const signed = (value: number, text: string) => `${value < 0 ? '−' : '+'}${text}`;
  const row = (values: number[], show: (value: number) => string) => values.map(show).join(' → ');
  const several = of.moments.length > 2;
  const notes = of.is_one_process
    ? several
      ? null
      : h('p', { class: 'note' }, 'Two snapshots cannot tell a leak from a cache that fills: a third one, taken later, can.')
    : h('p', { class: 'note' }, 'These are snapshots of different processes, or do not say of which: what differs need not be what one of them gained.');
  const holders = table(
    [
      { title: 'More', numeric: true, cell: (one) => signed(change(one.retained), bytes(Math.abs(change(one.retained)))), sort: (one) => change(one.retained) },
      { title: 'Objects', cell: (one) => row(one.objects, count) },
      { title: 'Held', class: 'text', cell: (one) => [h('code', null, one.keeps ?? one.type), one.keeps ? [' by ', h('code', null, one.type)] : null, several && one.always ? h('small', null, 'more in every interval') : null] },
      { title: 'By', class: 'text', cell: (one) => h('code', null, one.way) },
    ],
    of.holders,
    { first: 20, empty: 'nothing holds much more than before' },
  );
  const types = table(
    [
      { title: 'More', numeric: true, cell: (one) => signed(change(one.bytes), bytes(Math.abs(change(one.bytes)))), sort: (one) => change(one.bytes) },
      { title: 'Objects', numeric: true, cell: (one) => signed(change(one.objects), count(Math.abs(change(one.objects)))), sort: (one) => change(one.objects) },
      { title: 'Type', class: 'text', cell: (one) => [h('code', null, one.name), one.module ? h('small', null, one.module) : null], sort: (one) => one.name },
    ],
    of.types,
    { first: 20, class: 'types', empty: 'no type changed' },
  );
  return section('growth', 'Growth', `Alive: ${of.moments.map((one) => `${bytes(one.bytes)}${one.taken_at ? ` at ${one.taken_at}` : ''}`).join(', ')}.`, notes, growthChart(of, page, axis), h('h3', null, 'By what holds it'), holders.element, h('h3', null, 'By type'), types.element);
}

/** What holds the most, and the tree of holders. */
function held(heap: Heap): Child {
  const of = heap.held;
  if (!of) return null;
  const suspects = of.suspects.map((one) =>
    h('p', null, h('b', null, `${bytes(one.retained)} (${Math.round(one.share * 100)} %)`), ' held by ', h('code', null, one.way), one.held ? [`, which holds ${count(one.held.objects)} × `, h('code', null, one.held.type)] : null),
  );
  const tree = table(
    [
      { title: 'Retained', numeric: true, cell: (one) => bytes(one.retained) },
      { title: 'Objects', numeric: true, cell: (one) => count(one.objects) },
      {
        title: 'Holder',
        class: 'text',
        cell: (one) => {
          const cell = h('div', null, one.via ? h('small', null, `${one.via} → `) : null, h('code', null, one.type));
          cell.style.paddingLeft = `${Math.min(one.depth, 24) * 14}px`;
          return cell;
        },
      },
    ],
    of.holders,
    { first: 25, empty: 'nothing holds a hundredth of what is alive' },
  );
  return [h('h3', null, 'Who holds it'), suspects, treemap(of), tree.element, inspections(heap)];
}

/** Known ways in which memory is wasted or kept. */
function inspections(heap: Heap): Child {
  const found = (heap.held?.inspections ?? []).flatMap((one) => [{ one, row: null as null | InspectionRow }, ...one.rows.map((row) => ({ one, row: row as null | InspectionRow }))]);
  if (found.length === 0) return null;
  const rows = table(
    [
      { title: 'Bytes', numeric: true, cell: ({ one, row }) => bytes((row ?? one).bytes) },
      { title: 'Objects', numeric: true, cell: ({ one, row }) => count((row ?? one).objects) },
      {
        title: 'What',
        class: 'text',
        cell: ({ one, row }) => {
          const cell = h('div', null, row ? h('code', null, row.what) : [h('b', null, one.title), h('small', null, ` ${one.measure}`)]);
          if (row) cell.style.paddingLeft = '14px';
          return cell;
        },
      },
    ],
    found,
    { first: 25, empty: '' },
  );
  return [h('h3', null, 'Inspections'), rows.element];
}

/** Which process, and how it was seen. */
export function heapFacts(heap: Heap): [string, Child][] {
  return [
    ['Taken', heap.taken_at],
    ['Runtime', heap.runtime ? `${heap.source === 'blocks' ? '' : '.NET '}${heap.runtime}${heap.collector ? `, ${heap.collector} collector` : ''}` : null],
    ['Seen', heap.source === 'runtime' ? 'reported by the runtime, behind a collection' : 'read from memory, no collection forced'],
    ['Paused', heap.attempts > 0 || heap.pause_ms > 0 ? seconds(heap.pause_ms / 1e3) : null],
  ];
}

function lead(heap: Heap): string {
  const roots = (heap.roots ?? []).map(([kind, number]) => `${count(number)} ${kind}`);
  return `${count(heap.references)} references between objects${roots.length > 0 ? `; roots: ${roots.join(', ')}` : ''}.`;
}

function heapTiles(heap: Heap): HTMLElement {
  const all: [value: string, label: string, state?: 'good' | 'bad'][] = [
    [count(heap.objects), `objects, ${bytes(heap.bytes)}`],
    [count(heap.type_count), 'types'],
  ];
  if (heap.live_objects !== undefined && heap.live_bytes !== undefined && heap.source !== 'runtime') {
    all.push([bytes(heap.live_bytes), `live, in ${count(heap.live_objects)} objects`]);
    all.push([bytes(heap.bytes - heap.live_bytes), `garbage, in ${count(heap.objects - heap.live_objects)} objects`]);
  }
  if (heap.free_bytes > 0) all.push([bytes(heap.free_bytes), 'free between objects']);
  all.push(heap.whole ? ['whole', 'nothing is known to be missing', 'good'] : ['not whole', `${count(heap.problems)} places could not be read, ${bytes(heap.skipped_bytes)} skipped, ${count(heap.dangling)} references lead nowhere`, 'bad']);
  return h('ul', { class: 'tiles' }, all.map(([value, label, state]) => h('li', { class: state ?? null }, h('b', null, value), h('span', null, label))));
}

function notes(heap: Heap): Child {
  return (heap.warnings ?? []).map((text) => h('p', { class: 'note' }, text));
}

function generations(heap: Heap): Child {
  const rows = heap.generations ?? [];
  if (rows.length === 0) return null;
  return [
    h('h3', null, 'By generation'),
    table(
      [
        { title: 'Generation', cell: (row) => row.name },
        { title: 'Objects', numeric: true, cell: (row) => count(row.objects), sort: (row) => row.objects },
        { title: 'Bytes', numeric: true, cell: (row) => bytes(row.bytes), sort: (row) => row.bytes },
      ],
      rows,
    ).element,
  ];
}

function types(heap: Heap): Child {
  const live = heap.live_objects !== undefined && heap.source !== 'runtime';
  const whole = Math.max(...heap.types.map((row) => row.bytes), 1);
  const size = (of: number) => {
    const cell = h('div', { class: 'amount cpu' }, h('i', null), h('span', null, bytes(of)));
    (cell.firstChild as HTMLElement).style.width = `${Math.min(of / whole, 1) * 100}%`;
    return cell;
  };
  const view = table(
    [
      { title: 'Bytes', class: 'amounts', cell: (row) => size(row.bytes), sort: (row) => row.bytes },
      { title: 'Objects', numeric: true, cell: (row) => count(row.objects), sort: (row) => row.objects },
      ...(live
        ? [
            { title: 'Live bytes', numeric: true, cell: (row: Heap['types'][number]) => bytes(row.live_bytes ?? 0), sort: (row: Heap['types'][number]) => row.live_bytes ?? 0 },
            { title: 'Live', numeric: true, cell: (row: Heap['types'][number]) => count(row.live_objects ?? 0), sort: (row: Heap['types'][number]) => row.live_objects ?? 0, class: 'optional' },
          ]
        : []),
      ...(heap.held
        ? [{ title: 'Retained', numeric: true, cell: (row: Heap['types'][number]) => bytes(row.retained_bytes ?? 0), sort: (row: Heap['types'][number]) => row.retained_bytes ?? 0, class: 'optional' }]
        : []),
      { title: 'Type', class: 'text', cell: (row) => [h('code', null, row.name), row.module ? h('small', null, row.module) : null], sort: (row) => row.name },
    ],
    heap.types,
    { first: 30, sorted: 0, class: 'types', empty: 'no such type' },
  );
  const filter = h('input', {
    type: 'search',
    placeholder: 'filter by type or module',
    'aria-label': 'Filter types',
    input: () => {
      const wanted = filter.value.toLowerCase();
      view.update(heap.types.filter((row) => row.name.toLowerCase().includes(wanted) || (row.module ?? '').toLowerCase().includes(wanted)));
    },
  });
  const left = heap.type_count - heap.types.length;
  return [h('h3', null, 'By type'), h('div', { class: 'tools' }, filter), view.element, left > 0 ? h('p', { class: 'note' }, `${count(left)} smaller types are in report.json.`) : null];
}
