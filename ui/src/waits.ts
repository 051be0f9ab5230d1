// What waits for what, and who wakes whom.

import type { Page } from './data';
import { h, section, type Child } from './dom';
import { count, counted, ns, number, share } from './format';
import type { Places } from './links';
import { bar, table } from './table';
import type { Axis } from './time';

export function waits(page: Page, axis: Axis, places: Places): HTMLElement {
  const all = page.report.waits;
  const meaning = new Map(page.reasons);
  const reason = (word: string) => meaning.get(word) ?? word;
  /** Without the remark in brackets. */
  const brief = (word: string) => reason(word).replace(/ \(.*/, '');
  if (all.reasons.length === 0 && all.functions.length === 0 && all.activations.length === 0)
    return section('waits', 'Waiting', 'No waits were recorded.');
  const names = new Map(page.threads.map((row) => [row.tid, row.name]));
  const thread = (tid: number): Child =>
    tid === 0 ? 'an interrupt' : [h('button', { type: 'button', class: 'plain', click: () => places.showThread?.(tid) }, names.get(tid) ?? 'thread'), h('small', null, tid)];
  const functionCell = (name: string | undefined, module?: string): Child =>
    name === undefined
      ? h('span', { class: 'muted' }, 'no stack')
      : [h('button', { type: 'button', class: 'function', title: `${name}\nshow in the waiting flame graph`, click: () => places.showFunction?.(undefined, name, true) }, name), module ? h('small', null, module) : null];
  const sum = Math.max(all.reasons.reduce((total, row) => total + row.time_ns, 0), 1);
  const sumFunctions = Math.max(all.functions.reduce((total, row) => total + row.time_ns, 0), 1);

  const reasons = table(
    [
      { title: 'Waiting for', cell: (row) => [h('b', null, reason(row.reason)), row.syscalls?.length ? h('small', null, row.syscalls.slice(0, 3).map((call) => call[0]).join(', ')) : null] },
      { title: '', cell: (row) => bar([[row.time_ns / sum, tone(row.reason), `${share(row.time_ns / sum)} of the waiting`]]), class: 'bars' },
      { title: 'Time', about: 'Summed over all threads', numeric: true, cell: (row) => ns(row.time_ns), sort: (row) => row.time_ns },
      { title: 'Waits', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { title: 'Longest', numeric: true, cell: (row) => ns(row.longest_ns), sort: (row) => row.longest_ns },
      { title: 'Threads', numeric: true, cell: (row) => count(row.threads), sort: (row) => row.threads, class: 'optional' },
    ],
    all.reasons,
    { first: 16 },
  );
  const byFunction = table(
    [
      { title: 'Function', about: 'The innermost function outside the plumbing of the C library and the kernel', cell: (row) => functionCell(row.function, row.module), class: 'name' },
      { title: 'For', cell: (row) => brief(row.reason) },
      { title: '', cell: (row) => bar([[row.time_ns / sumFunctions, tone(row.reason), `${share(row.time_ns / sumFunctions)} of the waiting`]]), class: 'bars' },
      { title: 'Time', numeric: true, cell: (row) => ns(row.time_ns), sort: (row) => row.time_ns },
      { title: 'Longest', numeric: true, cell: (row) => ns(row.longest_ns), sort: (row) => row.longest_ns, class: 'optional' },
      { title: 'Threads', numeric: true, cell: (row) => count(row.threads), sort: (row) => row.threads },
      { title: 'Who', cell: (row) => row.groups.slice(0, 3).join(', '), class: 'optional' },
    ],
    all.functions,
    { first: 12 },
  );
  const behind = table(
    [
      { title: 'Waited in', cell: (row) => functionCell(row.function), class: 'name' },
      { title: 'For', cell: (row) => brief(row.reason) },
      { title: 'While the one waited for', cell: (row) => brief(row.cause) },
      { title: 'In', cell: (row) => functionCell(row.cause_function), class: 'name' },
      { title: 'Share', about: 'Share of all waits at that place whose waker is known', numeric: true, cell: (row) => share(row.share), sort: (row) => row.share },
      { title: 'Times', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { title: 'Both waited', about: 'A lower bound: only the last wait of the waker counts', numeric: true, cell: (row) => ns(row.time_ns), sort: (row) => row.time_ns },
      { title: 'Threads', numeric: true, cell: (row) => count(row.threads), sort: (row) => row.threads, class: 'optional' },
    ],
    all.behind ?? [],
    { first: 12 },
  );
  const activations = table(
    [
      { title: 'Woken', cell: (row) => group(row.woken, row.woken_group) },
      { title: 'By', cell: (row) => (row.waker_group === undefined ? row.waker : row.waker_group === row.woken_group ? 'each other' : group(row.waker, row.waker_group)) },
      { title: 'Times', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { title: 'Waiting ended', about: 'Waiting time that these wake-ups ended', numeric: true, cell: (row) => ns(row.time_ns), sort: (row) => row.time_ns },
      { title: 'Then ready', about: 'Time the woken then still had no CPU', numeric: true, cell: (row) => ns(row.ready_ns), sort: (row) => row.ready_ns },
      { title: 'Had waited for', cell: (row) => brief(row.reason), class: 'optional' },
    ],
    all.activations,
    { first: 12 },
  );
  const longest = table(
    [
      { title: 'Thread', cell: (row) => thread(row.tid) },
      { title: 'At', numeric: true, cell: (row) => h('button', { type: 'button', class: 'plain', click: () => axis.reveal(row.from * 1e3, row.from * 1e3 + row.time_ns / 1e6) }, `${row.from.toFixed(2)} s`), sort: (row) => -row.from },
      { title: 'Waited', numeric: true, cell: (row) => ns(row.time_ns), sort: (row) => row.time_ns },
      { title: 'For', cell: (row) => brief(row.reason) },
      { title: 'In', cell: (row) => functionCell(row.function), class: 'name' },
      { title: 'Woken by', cell: (row) => (row.waker === undefined ? h('span', { class: 'muted' }, 'not recorded') : thread(row.waker)), class: 'optional' },
    ],
    all.longest,
    { first: 8 },
  );
  function group(name: string, index: number): Child {
    return h('button', { type: 'button', class: 'plain', click: () => places.showGroup?.(index) }, name);
  }
  return section(
    'waits',
    'Waiting',
    `${ns(all.total_ns)} of waiting over all threads; ${all.count > 0 ? `${count(all.count)} waits recorded one by one explain ${ns(all.recorded_ns)}` : `off-CPU samples stand for ${ns(all.sampled_ns)}`}. Much of it is idleness: a server waits for work.`,
    all.convoys.map((convoy) =>
      h(
        'p',
        { class: 'convoy' },
        h('b', null, 'Queue for a lock: '),
        `${counted(convoy.threads, 'thread', 'threads')} in `,
        h('code', null, convoy.function ?? 'a function without a name'),
        `, ${number(convoy.mean_queue)} waiting at a time on average, ${share(convoy.share)} of their time`,
        convoy.handed_on === undefined ? '' : `; ${share(convoy.handed_on)} of the wake-ups came from a thread that queues there too`,
        convoy.reason === 'condition' ? '. That it is a lock is told only by how it is handed on' : '',
        '.',
      ),
    ),
    all.reasons.length > 0 ? [h('h3', null, 'By reason'), reasons.element] : null,
    all.functions.length > 0 ? [h('h3', null, 'By function'), byFunction.element] : null,
    (all.behind ?? []).length > 0
      ? [h('h3', null, 'Behind the waits'), h('p', { class: 'note under' }, 'The thread that ended these waits had itself waited, for something else, in the meantime.'), behind.element]
      : null,
    all.activations.length > 0 ? [h('h3', null, 'Activated by'), activations.element] : null,
    all.longest.length > 0 ? [h('h3', null, 'The longest single waits'), longest.element] : null,
  );
}

/** Waits that are usually trouble stand out from those that are usually idleness. */
function tone(reason: string): string {
  if (['lock', 'lock-or-condition', 'kernel-lock', 'preempted', 'throttled', 'memory'].includes(reason)) return 'ready';
  if (reason === 'disk') return 'iowait';
  if (reason === 'peer' || reason === 'pipe' || reason === 'descriptor' || reason === 'child') return 'c1';
  return 'waiting';
}
