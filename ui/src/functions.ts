// The hottest functions: own and total time, on CPUs and waiting.

import type { Page } from './data';
import { choice, h, section } from './dom';
import { count, seconds, share } from './format';
import { flash, type Places } from './links';
import { table, type Column } from './table';

export const KINDS = ['kernel', 'native', 'jit', 'unknown', 'heading'];

export function functions(page: Page, places: Places): HTMLElement {
  const { rows, times, modules } = page.functions;
  const placeOf = new Map(page.functions.places);
  const totals = { cpu: page.flames[0]?.cpu.totals[0] ?? 0, waiting: page.flames[0]?.waiting.totals[0] ?? 0 };
  const indices = rows.map((_, index) => index);
  let waiting = totals.cpu === 0 && totals.waiting > 0;
  const own = (index: number) => times[index][waiting ? 2 : 0];
  const total = (index: number) => times[index][waiting ? 3 : 1];
  const whole = () => Math.max(waiting ? totals.waiting : totals.cpu, 1e-9);
  const amount = (of: (index: number) => number) => (index: number) => {
    const part = of(index) / whole();
    if (part === 0) return h('span', { class: 'amount muted' }, '–');
    const cell = h('div', { class: `amount ${waiting ? 'wait' : 'cpu'}` }, h('i', null), h('span', null, share(part)), h('small', null, seconds(of(index) / 1e6)));
    (cell.firstChild as HTMLElement).style.width = `${Math.min(part, 1) * 100}%`;
    return cell;
  };
  const columns: Column<number>[] = [
    { title: 'Self', about: 'Time in the function itself', cell: amount(own), sort: own, class: 'amounts' },
    { title: 'Total', about: 'Time in the function and in what it called; recursion counts once', cell: amount(total), sort: total, class: 'amounts' },
    {
      title: 'Function',
      cell: (index) => [
        h('i', { class: `dot k-${KINDS[rows[index][2]]}`, title: KINDS[rows[index][2]] }),
        h('button', { type: 'button', class: 'function', title: `${rows[index][0]}\nshow in the flame graph`, click: () => places.showFunction?.(index, rows[index][0], waiting) }, rows[index][0]),
        placeOf.has(index) ? h('small', { class: 'place', title: placeOf.get(index) }, placeOf.get(index)?.split('/').pop()) : null,
      ],
      sort: (index) => rows[index][0],
      class: 'name',
    },
    { title: 'Module', cell: (index) => modules[rows[index][1]] || '–', sort: (index) => modules[rows[index][1]], class: 'module optional' },
  ];
  const view = table(columns, indices, { first: 20, sorted: 0, class: 'functions', empty: 'no such function' });
  const filter = h('input', { type: 'search', placeholder: 'filter by function or module', 'aria-label': 'Filter functions', input: () => sift() });
  function sift(): void {
    const pattern = filter.value.toLowerCase();
    view.update(
      indices.filter(
        (index) =>
          total(index) > 0 &&
          (pattern === '' || rows[index][0].toLowerCase().includes(pattern) || modules[rows[index][1]].toLowerCase().includes(pattern)),
      ),
    );
  }
  const switcher = choice('Time', [['cpu', 'On CPU'], ['waiting', 'Waiting']], waiting ? 'waiting' : 'cpu', (value) => {
    waiting = value === 'waiting';
    sift();
  });
  sift();
  if (totals.cpu === 0 && totals.waiting === 0) return section('functions', 'Hottest functions', 'No stacks were recorded.');
  const key = (kind: string, text: string) => h('li', null, h('i', { class: `key k-${kind}` }), text);
  const seen = page.report.functions_seen;
  const element = section(
    'functions',
    'Hottest functions',
    `Time in a function itself (self) and below it (total). ${count(seen)} functions were seen${seen > rows.length ? `; the ${count(rows.length)} with most time are here` : ''}.`,
    h('div', { class: 'tools' }, switcher.element, filter, h('ul', { class: 'keys' }, key('native', 'native'), key('kernel', 'kernel'), key('jit', 'JIT, managed'), key('unknown', 'no mapping'))),
    view.element,
  );
  const show = places.showFunction;
  places.showFunction = (index, name, waits) => {
    if (show) show(index, name, waits);
    else flash(element);
  };
  return element;
}
