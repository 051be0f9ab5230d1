// What managed runtimes said of themselves: tables that search together.

import type { Page, Request, Runtime } from './data';
import { choice, h, section, type Child } from './dom';
import { bytes, count, counted, moment, ns, number, reading, share } from './format';
import { flash, type Places } from './links';
import { bar, table, type Column, type TableView } from './table';
import type { Axis } from './time';

interface Sheet {
  id: string;
  title: string;
  rows: number;
  note: string;
  element: HTMLElement;
  search: (text: string) => number;
  reveal: (row: number) => HTMLElement | null;
}

export function runtimes(page: Page, axis: Axis, places: Places): HTMLElement {
  const all = page.report.runtimes ?? [];
  const shown = all.map((runtime, index) => one(page, axis, runtime, index));
  places.showRuntime = (index, name, row) => shown[index]?.show(name, row);
  return section(
    'runtimes',
    'Runtime',
    'What the runtime, and the application on it, said of themselves while they were recorded. Places are the innermost function of the application.',
    shown.map((item) => item.element),
  );
}

function one(page: Page, axis: Axis, runtime: Runtime, index: number): { element: HTMLElement; show: (name: string, row?: number) => void } {
  const sheets = sheetsOf(page, axis, runtime);
  const heading = h('h3', null, `${runtime.label}, pid ${runtime.pid}`, runtime.entry ? h('small', null, runtime.entry) : null);
  const tiles = h('ul', { class: 'tiles' }, tilesOf(runtime).map(([value, label, state]) => h('li', { class: state || null }, h('b', null, value), h('span', null, label))));
  if (sheets.length === 0) return { element: h('div', { class: 'runtime' }, heading, tiles), show: () => undefined };
  let current = sheets[0];
  const place = h('div', { class: 'sheet' });
  const note = h('p', { class: 'note under' });
  const search = h('input', { type: 'search', placeholder: 'search all tables', 'aria-label': `Search the tables of ${runtime.label}`, input: () => find() });
  const tabs = choice(
    'Table',
    sheets.map((sheet) => [sheet.id, sheet.title]),
    current.id,
    (id) => {
      current = sheets.find((sheet) => sheet.id === id) ?? current;
      place.replaceChildren(current.element);
      note.textContent = current.note;
    },
  );
  const buttons = [...tabs.element.querySelectorAll('button')];
  function find(): void {
    sheets.forEach((sheet, at) => {
      const found = sheet.search(search.value.trim().toLowerCase());
      buttons[at].replaceChildren(sheet.title, h('span', { class: 'badge' }, count(found)));
      buttons[at].classList.toggle('nothing', found === 0);
    });
  }
  find();
  place.append(current.element);
  note.textContent = current.note;
  const element = h('div', { class: 'runtime', id: `runtime-${index}` }, heading, tiles, h('div', { class: 'tools' }, tabs.element, search), note, place);
  return {
    element,
    show(name, row) {
      const sheet = sheets.find((candidate) => candidate.id === name);
      if (sheet) tabs.set(sheet.id);
      search.value = '';
      find();
      flash((row === undefined ? null : sheet?.reveal(row)) ?? (sheet ? place : tiles));
    },
  };
}

function tilesOf(runtime: Runtime): [string, string, string][] {
  const tiles: [string, string, string][] = [];
  const gc = runtime.collections;
  if (gc.total > 0) {
    tiles.push([share(gc.pause_share), 'of the time paused for garbage collection', gc.pause_share >= 0.1 ? 'bad' : '']);
    tiles.push([ns(gc.longest_ns), `longest of ${counted(gc.total, 'collection', 'collections')}`, gc.longest_ns >= 5e8 ? 'bad' : '']);
  }
  if (gc.heap_last_bytes !== undefined) tiles.push([bytes(gc.heap_last_bytes), `managed heap at the end${gc.heap_first_bytes !== undefined ? `, ${bytes(gc.heap_first_bytes)} at first` : ''}`, '']);
  if (runtime.exceptions_total > 0) tiles.push([count(runtime.exceptions_total), 'exceptions thrown, caught ones too', '']);
  if (runtime.contentions_total > 0) tiles.push([count(runtime.contentions_total), 'waits for locks', '']);
  const pool = runtime.thread_pool;
  if (pool.threads) tiles.push([count(pool.threads[1]), `pool threads at the end, ${count(pool.threads[3])} at most`, '']);
  if (pool.starved + pool.blocked > 0) tiles.push([count(pool.starved + pool.blocked), 'times the pool was short of threads', 'bad']);
  if (runtime.compiled) tiles.push([count(runtime.compiled.methods), `methods compiled${runtime.compiled.time_ns > 0 ? ` in ${ns(runtime.compiled.time_ns)}` : ''}`, '']);
  if (runtime.lost > 0) tiles.push([count(runtime.lost), 'events lost', 'bad']);
  for (const row of runtime.sampled ?? []) tiles.push([share(row.share), `of the ${row.what} taken: ${row.why}`, '']);
  return tiles;
}

function sheetsOf(page: Page, axis: Axis, runtime: Runtime): Sheet[] {
  const sheets: Sheet[] = [];
  const go = (seconds: number, length = 0): Child =>
    h(
      'button',
      {
        type: 'button',
        class: 'plain',
        title: 'show on the timeline',
        click: () => {
          axis.reveal(seconds * 1e3, seconds * 1e3 + length / 1e6);
          flash(document.getElementById('timeline'), 'start');
        },
      },
      moment(seconds * 1e3),
    );
  function add<T>(id: string, title: string, rows: T[] | undefined, columns: Column<T>[], text: (row: T) => string, note = '', before: Child = null): void {
    if (!rows || rows.length === 0) return;
    const view: TableView<T> = table(columns, rows, { first: 15, empty: 'nothing like that here' });
    const texts = rows.map((row) => text(row).toLowerCase());
    let last = '';
    sheets.push({
      id,
      title,
      rows: rows.length,
      note,
      element: before ? h('div', null, before, view.element) : view.element,
      search(wanted) {
        const found = wanted === '' ? rows : rows.filter((_, at) => texts[at].includes(wanted));
        if (wanted !== last) view.update(found);
        last = wanted;
        return found.length;
      },
      reveal: (row) => (row < rows.length ? view.reveal(rows[row]) : null),
    });
  }

  const timed = (total: number): Column<Request>[] => [
    { title: 'Request', cell: (row) => [h('b', null, row.method), ' ', h('code', null, row.route)], sort: (row) => `${row.route} ${row.method}`, class: 'name' },
    { title: '', cell: (row) => bar([[row.total_ns / total, 'c1', `${share(row.total_ns / total)} of the time of all`]]), class: 'bars' },
    { title: 'Count', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
    { title: 'p50', about: 'Half took less. Taken from a histogram whose steps double', numeric: true, cell: (row) => some(row.count, ns(row.p50_ns)), sort: (row) => row.p50_ns },
    { title: 'p95', about: '95 of 100 took less. Taken from a histogram whose steps double', numeric: true, cell: (row) => some(row.count, ns(row.p95_ns)), sort: (row) => row.p95_ns },
    { title: 'p99', about: '99 of 100 took less. Taken from a histogram whose steps double', numeric: true, cell: (row) => some(row.count, ns(row.p99_ns)), sort: (row) => row.p99_ns },
    { title: 'Longest', numeric: true, cell: (row) => some(row.count, ns(row.longest_ns)), sort: (row) => row.longest_ns },
    { title: 'Failed', about: 'Status 500 and above, or no answer', numeric: true, cell: (row) => marked(row.failed), sort: (row) => row.failed },
    { title: 'Open', about: 'Not answered before the end of the recording', numeric: true, cell: (row) => marked(row.unanswered), sort: (row) => row.unanswered },
    { title: 'Sent for one', about: 'Commands and requests sent on behalf of one, on average, and at most', numeric: true, cell: (row) => (row.children_most > 0 ? `${number(row.children_mean)} (${count(row.children_most)})` : ''), sort: (row) => row.children_most, class: 'optional' },
  ];
  const sum = (rows: { total_ns: number }[] | undefined) => Math.max((rows ?? []).reduce((total, row) => total + row.total_ns, 0), 1);
  const hints = (runtime.coincidences ?? []).filter((row) => row.share >= 0.05);
  const words: Record<string, string> = {
    collection: 'all threads stood still for garbage collection',
    starvation: 'the thread pool was short of threads',
    contention: 'threads waited for locks',
    outgoing: 'an outgoing request was not answered',
    command: 'a command to a data base was running',
  };
  const coincidences =
    hints.length > 0
      ? h(
          'ul',
          { class: 'meanwhile' },
          hints.map((row) => h('li', null, `For ${share(row.share)} of the time of ${counted(row.requests, 'slow request', 'slow requests')} ${words[row.what] ?? row.what}`, h('small', null, `${share(row.usual)} of the whole recording`))),
        )
      : null;
  add('requests', 'Requests', runtime.requests, timed(sum(runtime.requests)), (row) => `${row.method} ${row.route}`, 'Requests that the application served, by route.', coincidences);
  add(
    'slowest',
    'Slowest requests',
    runtime.slowest,
    [
      { title: 'At', numeric: true, cell: (row) => go(row.at, row.duration_ns ?? 0), sort: (row) => -row.at },
      { title: 'Request', cell: (row) => [h('b', null, row.method), ' ', h('code', null, row.path)], class: 'name', sort: (row) => row.path },
      { title: 'Took', numeric: true, cell: (row) => (row.duration_ns === undefined ? h('span', { class: 'bad' }, 'no answer') : ns(row.duration_ns)), sort: (row) => row.duration_ns ?? Infinity },
      { title: 'Status', numeric: true, cell: (row) => (row.status === undefined ? '' : h('span', { class: row.status >= 500 || row.status === 0 ? 'bad' : null }, row.status === 0 ? 'failed' : String(row.status))), sort: (row) => row.status ?? 0 },
      { title: 'Sent for it', numeric: true, cell: (row) => (row.children > 0 ? count(row.children) : ''), sort: (row) => row.children, class: 'optional' },
    ],
    (row) => `${row.method} ${row.path} ${row.status ?? ''}`,
    'The slowest single requests, slowest first.',
  );
  add('outgoing', 'Outgoing', runtime.outgoing, timed(sum(runtime.outgoing)), (row) => `${row.method} ${row.route}`, 'Requests that the application sent to others.');
  const commands = sum(runtime.commands);
  add(
    'commands',
    'Commands',
    runtime.commands,
    [
      { title: 'Command', cell: (row) => [h('code', null, row.text || '(no text)'), row.source ? h('small', null, row.source) : null], class: 'name wide', sort: (row) => row.text },
      { title: '', cell: (row) => bar([[row.total_ns / commands, 'c1', `${share(row.total_ns / commands)} of the time of all`]]), class: 'bars' },
      { title: 'Count', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { title: 'Mean', numeric: true, cell: (row) => ns(row.mean_ns), sort: (row) => row.mean_ns },
      { title: 'Longest', numeric: true, cell: (row) => ns(row.longest_ns), sort: (row) => row.longest_ns },
      { title: 'Failed', numeric: true, cell: (row) => marked(row.failed), sort: (row) => row.failed },
      { title: 'In one request', about: 'The most of them within one request', numeric: true, cell: (row) => h('span', { class: row.most_in_one_request >= 15 ? 'bad' : null }, count(row.most_in_one_request)), sort: (row) => row.most_in_one_request },
    ],
    (row) => `${row.text} ${row.source}`,
    'Commands to data bases, equal but for their literals.',
  );
  add(
    'exceptions',
    'Exceptions',
    runtime.exceptions,
    [
      { title: 'Type', cell: (row) => [h('b', null, row.type), row.message ? h('div', { class: 'message' }, row.message) : null], sort: (row) => row.type, class: 'name' },
      { title: 'Thrown in', cell: (row) => place(row.function, row.via, row.stack), sort: (row) => row.function ?? '', class: 'name' },
      { title: 'Count', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { title: 'First', numeric: true, cell: (row) => go(row.first), sort: (row) => -row.first, class: 'optional' },
      { title: 'Last', numeric: true, cell: (row) => go(row.last), sort: (row) => -row.last, class: 'optional' },
    ],
    (row) => `${row.type} ${row.message ?? ''} ${row.function ?? ''} ${(row.stack ?? []).join(' ')}`,
    `${counted(runtime.exceptions_total, 'exception was', 'exceptions were')} thrown, whether caught or not.`,
  );
  const waited = sum(runtime.contention);
  const threads = new Map(page.threads.map((row) => [row.tid, row.name]));
  add(
    'contention',
    'Lock waits',
    runtime.contention,
    [
      { title: 'Waited in', cell: (row) => place(row.function, undefined, row.stack), sort: (row) => row.function ?? '', class: 'name' },
      { title: '', cell: (row) => bar([[row.total_ns / waited, 'ready', `${share(row.total_ns / waited)} of the time of all`]]), class: 'bars' },
      { title: 'Waits', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { title: 'Time', numeric: true, cell: (row) => ns(row.total_ns), sort: (row) => row.total_ns },
      { title: 'Longest', numeric: true, cell: (row) => ns(row.longest_ns), sort: (row) => row.longest_ns },
      { title: 'Threads', about: 'Of the longest waits', numeric: true, cell: (row) => count(row.threads), sort: (row) => row.threads },
      { title: 'Mostly held by', cell: (row) => (row.owner === undefined ? '' : [threads.get(row.owner) ?? 'thread', h('small', null, row.owner)]), class: 'optional' },
    ],
    (row) => `${row.function ?? ''} ${(row.stack ?? []).join(' ')}`,
    'Waits for monitors and locks, as the runtime counts them.',
  );
  const allocated = Math.max(runtime.allocated_bytes, 1);
  add(
    'allocations',
    'Allocations',
    runtime.allocations,
    [
      { title: 'Type', cell: (row) => h('b', null, row.type), sort: (row) => row.type, class: 'name' },
      { title: 'Allocated in', cell: (row) => place(row.function, row.via, row.stack), sort: (row) => row.function ?? '', class: 'name' },
      { title: '', cell: (row) => bar([[row.bytes / allocated, 'c1', `${share(row.bytes / allocated)} of all bytes`]]), class: 'bars' },
      { title: 'Bytes', about: 'Estimated from samples', numeric: true, cell: (row) => bytes(row.bytes), sort: (row) => row.bytes },
      { title: 'Large', about: 'Of these, on the large object heap', numeric: true, cell: (row) => (row.large_bytes > 0 ? bytes(row.large_bytes) : ''), sort: (row) => row.large_bytes, class: 'optional' },
      { title: 'Samples', numeric: true, cell: (row) => count(row.samples), sort: (row) => row.samples, class: 'optional' },
    ],
    (row) => `${row.type} ${row.function ?? ''} ${(row.stack ?? []).join(' ')}`,
    `About ${bytes(runtime.allocated_bytes)} were allocated; the runtime tells of one allocation in each hundred kilobytes or so.`,
  );
  const gc = runtime.collections;
  const generations = (gc.generations ?? []).map((row) => `${count(row.count)} of generation ${row.generation}${row.background ? ' in the background' : ''} (paused ${ns(row.paused_ns)}, ${ns(row.longest_ns)} at most)`);
  const reasons = (gc.reasons ?? []).map(([reason, times]) => `${reason}: ${count(times)}`);
  add(
    'collections',
    'Collections',
    gc.longest,
    [
      { title: 'At', numeric: true, cell: (row) => go(row.at, row.pause_ns), sort: (row) => -row.at },
      { title: 'Generation', cell: (row) => `${row.generation}${row.background ? ' (background)' : ''}`, sort: (row) => row.generation },
      { title: 'Paused', numeric: true, cell: (row) => ns(row.pause_ns), sort: (row) => row.pause_ns },
      { title: 'Heap after', numeric: true, cell: (row) => (row.heap_bytes === undefined ? '' : bytes(row.heap_bytes)), sort: (row) => row.heap_bytes ?? 0 },
      { title: 'Survived', numeric: true, cell: (row) => (row.promoted_bytes === undefined ? '' : bytes(row.promoted_bytes)), sort: (row) => row.promoted_bytes ?? 0, class: 'optional' },
      { title: 'Why', cell: (row) => row.reason, sort: (row) => row.reason },
    ],
    (row) => `${row.reason} ${row.generation}`,
    `${[generations.join(', '), reasons.join(', '), gc.pinned === undefined ? '' : `${count(gc.pinned)} pinned objects met`].filter(Boolean).join('. ')}. The longest pauses first.`,
  );
  const pool = runtime.thread_pool;
  add(
    'thread_pool',
    'Thread pool',
    pool.reasons,
    [
      { title: 'Adjusted because', cell: (row) => h('b', null, row[0]), sort: (row) => row[0] },
      { title: 'Times', numeric: true, cell: (row) => count(row[1]), sort: (row) => row[1] },
    ],
    (row) => row[0],
    `Reasons in the runtime's words. ${pool.threads ? `${count(pool.threads[0])} threads at first, ${count(pool.threads[1])} at the end, ${count(pool.threads[3])} at most.` : ''}`,
  );
  add(
    'events',
    'Events',
    runtime.providers?.flatMap((row) => row.events.map(([event, number]) => ({ provider: row.provider, all: row.count, event, number }))),
    [
      { title: 'Provider', cell: (row) => h('code', null, row.provider), sort: (row) => row.provider, class: 'name' },
      { title: 'Event', cell: (row) => h('code', null, row.event), sort: (row) => row.event, class: 'name' },
      { title: 'Events', numeric: true, cell: (row) => count(row.number), sort: (row) => row.number },
      { title: 'of the provider', numeric: true, cell: (row) => count(row.all), sort: (row) => row.all },
    ],
    (row) => `${row.provider} ${row.event}`,
    `${counted(runtime.events_total, 'event', 'events')} heard, by provider: what other readers of the same stream count too.`,
  );
  add(
    'messages',
    'Messages',
    runtime.messages,
    [
      { title: 'Level', cell: (row) => h('span', { class: `level ${tone(row.level)}` }, row.level), sort: (row) => row.level },
      { title: 'Category', cell: (row) => h('code', null, row.category), sort: (row) => row.category, class: 'name' },
      { title: 'Messages', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
    ],
    (row) => `${row.level} ${row.category}`,
    `${counted(runtime.messages_total, 'message', 'messages')} of the application, by category.`,
  );
  add(
    'lines',
    'Log',
    runtime.message_lines,
    [
      { title: 'At', numeric: true, cell: (row) => go(row.at), sort: (row) => -row.at },
      { title: 'Level', cell: (row) => h('span', { class: `level ${row.level}` }, row.level), sort: (row) => row.level },
      { title: 'Message', cell: (row) => [h('span', { class: 'line' }, row.text), h('small', null, row.category), row.exception ? h('div', { class: 'message' }, row.exception) : null], class: 'name wide', sort: (row) => row.text },
    ],
    (row) => `${row.level} ${row.category} ${row.text} ${row.exception ?? ''}`,
    'Single messages that were kept, gravest first where there was no room for all.',
  );
  add(
    'counters',
    'Counters',
    runtime.counters,
    [
      { title: 'Counter', cell: (row) => [row.name, row.column !== 'value' ? h('small', null, row.column) : null], sort: (row) => row.name, class: 'name' },
      { title: 'First', numeric: true, cell: (row) => reading(row.unit, row.first), sort: (row) => row.first },
      { title: 'Last', numeric: true, cell: (row) => reading(row.unit, row.last), sort: (row) => row.last },
      { title: 'Mean', numeric: true, cell: (row) => reading(row.unit, row.mean), sort: (row) => row.mean },
      { title: 'Smallest', numeric: true, cell: (row) => reading(row.unit, row.min), sort: (row) => row.min, class: 'optional' },
      { title: 'Largest', numeric: true, cell: (row) => reading(row.unit, row.max), sort: (row) => row.max },
    ],
    (row) => `${row.name} ${row.column}`,
    'EventCounters and meters, as the application reports them.',
  );
  return sheets;
}

/** The application's function, what it called, and the whole stack behind a click. */
function place(name: string | undefined, via: string | undefined, stack: string[] | undefined): Child {
  if (!name) return h('span', { class: 'muted' }, 'no stack');
  const head: Child = [h('code', null, name), via ? h('small', null, `by ${via}`) : null];
  if (!stack || stack.length < 2) return head;
  return h('details', { class: 'calls' }, h('summary', null, head), h('ol', null, stack.map((frame) => h('li', null, frame))));
}

function some(total: number, text: string): Child {
  return total > 0 ? text : '';
}

function marked(value: number): Child {
  return value > 0 ? h('span', { class: 'bad' }, count(value)) : '';
}

function tone(level: string): string {
  if (['Critical', 'Error', 'Fatal'].includes(level)) return 'error';
  return level === 'Warning' ? 'warning' : level.startsWith('Info') ? 'info' : 'debug';
}
