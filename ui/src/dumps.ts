// Dumps: the memory of processes at one moment.

import type { Whole } from './data';
import type { Dump, Managed, Queue } from './dump-data';
import { h, marked, section, svg, type Child } from './dom';
import { bytes, count, counted, ns, share } from './format';
import { draw, pictures } from './graph';
import { flash, type Places } from './links';
import { stacks } from './stacks';
import { strands } from './strands';
import { table } from './table';

/** Pictures of waits of one dump. */
const PICTURES = 12;

/** Colours of the kinds of memory: the same in the bar and in the table. */
const COLORS: Record<string, string> = {
  'anonymous memory': 'c1',
  'heap (brk)': 'c7',
  'thread stacks': 'c5',
  'compiled at run time': 'c3',
  'shared memory': 'c4',
  'code of files': 'c2',
  'variables of files': 'c6',
  'mapped files': 'c8',
};
const color = (kind: string) => COLORS[kind] ?? 'unknown';

type Block = (id: string, title: string, lead: Child, ...children: Child[]) => HTMLElement;

/** A single dump is the page; of several, each is a section of its own, drawn when it is opened. */
export function dumps(page: Whole, alone: boolean, places: Places): HTMLElement[] {
  const all = page.report.dumps ?? [];
  const shows: ((group: number) => void)[] = [];
  places.showStack = (dump, group) => shows[dump]?.(group);
  places.groupOf = (dump, tid) => all[dump]?.threads.find((thread) => thread.tid === tid)?.group;
  if (alone) {
    const drawn = parts(all[0], section);
    shows.push(drawn.show);
    return drawn.elements;
  }
  const details = all.map((dump, index) => {
    const body = h('div', { class: 'body' });
    let show: ((group: number) => void) | undefined;
    const element = h(
      'details',
      { class: 'dump', id: `dump-${index}`, toggle: () => element.open && fill() },
      h('summary', null, h('b', null, dump.identity.name), ` pid ${dump.identity.pid}`, h('span', { class: 'muted' }, ` · ${counted(dump.threads.length, 'thread', 'threads')}`)),
      body,
    );
    function fill(): void {
      if (show) return;
      const block: Block = (id, title, lead, ...children) => h('div', { class: `block ${id}` }, h('h3', null, title), lead ? h('p', { class: 'lead' }, lead) : null, ...children);
      const drawn = parts(dump, block);
      show = drawn.show;
      body.append(facts(dump), tiles(dump), ...drawn.elements);
    }
    shows.push((group) => {
      element.open = true;
      fill();
      show?.(group);
    });
    if (all.length === 1) {
      element.open = true;
      fill();
    }
    return element;
  });
  const rows = all.map((dump, index) => ({ dump, index, finding: page.report.findings.find((finding) => finding.of?.kind === 'dump' && finding.of.index === index) }));
  const list = table(
    [
      {
        title: 'Process',
        class: 'text',
        cell: ({ dump, index }) => [
          h('button', { type: 'button', class: 'plain', click: () => open(index) }, dump.identity.name),
          h('small', null, `pid ${dump.identity.pid}${dump.identity.parent ? `, of ${dump.identity.parent}` : ''}`),
        ],
        sort: ({ dump }) => dump.identity.name,
      },
      {
        title: 'Most important finding',
        class: 'text',
        cell: ({ dump, finding }) => [dump.identity.partial ? h('b', { class: 'bad' }, 'not whole ') : null, finding ? [h('span', { class: 'badge' }, finding.severity), ' ', marked(finding.title)] : h('span', { class: 'muted' }, 'none')],
      },
      { title: 'Why and when', class: 'text optional', cell: ({ dump }) => [dump.identity.reason ?? '', h('small', null, dump.identity.taken_at ?? '')] },
      { title: 'Threads', numeric: true, cell: ({ dump }) => count(dump.threads.length), sort: ({ dump }) => dump.threads.length },
      { title: 'Pause', numeric: true, cell: ({ dump }) => (dump.identity.pause_ns === undefined ? '–' : ns(dump.identity.pause_ns)), sort: ({ dump }) => dump.identity.pause_ns ?? 0 },
      { title: 'Size', numeric: true, cell: ({ dump }) => (dump.identity.file_bytes === undefined ? '–' : bytes(dump.identity.file_bytes)), sort: ({ dump }) => dump.identity.file_bytes ?? 0 },
    ],
    rows,
    { first: 40 },
  );
  function open(index: number): void {
    details[index].open = true;
    flash(details[index], 'start');
  }
  return [section('dumps', all.length === 1 ? 'Dump' : 'Dumps', null, all.length > 1 ? list.element : null, details)];
}

/** Which process, and which file. */
export function facts(dump: Dump): HTMLElement {
  const { identity } = dump;
  const file = [identity.format, identity.kind ? `kind ${identity.kind}` : null, identity.file_bytes === undefined ? null : bytes(identity.file_bytes), identity.writer ? `written by ${identity.writer}` : null];
  const code = (text: string | undefined) => (text ? h('code', null, text) : null);
  const rows: [string, Child][] = [
    ['Taken', identity.taken_at],
    ['Because', identity.reason],
    ['File', file.filter(Boolean).join(', ')],
    ['Executable', code(identity.executable)],
    ['Command', code(identity.command_line)],
    ['Kernel', identity.kernel ? `Linux ${identity.kernel}` : null],
    ['Signature', signature(dump)],
    ['Looks', dump.looks?.summary],
    ['Paused', identity.pause_ns === undefined ? null : ns(identity.pause_ns)],
  ];
  return h('dl', { class: 'facts' }, rows.filter(([, value]) => value).map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

/** What a tracker of crashes is searched for, and how it was made. */
function signature({ signature }: Dump): Child {
  if (!signature) return null;
  const how = `${signature.how}; the same for crashes like this one (rules of version ${signature.version})`;
  const theirs = signature.socorro ? [' by the rules of Socorro alone: ', h('code', null, signature.socorro)] : null;
  return [h('code', null, signature.text), h('small', null, ` ${how}`, theirs)];
}

/** How much of it there is. */
export function tiles(dump: Dump): HTMLElement {
  const { identity } = dump;
  const all: [value: string, label: string, state?: 'good' | 'bad'][] = [
    [count(dump.groups.reduce((sum, group) => sum + group.threads.length, 0)), 'threads'],
    [count(dump.groups.length), 'different stacks'],
  ];
  const judged = (part: number | undefined, label: string, enough: number) => {
    if (part !== undefined) all.push([share(part), label, part >= enough ? 'good' : 'bad']);
  };
  if (identity.partial) all.unshift(['partial', 'it ends before everything was written', 'bad']);
  judged(identity.whole_stacks, 'of the stacks are whole', 0.95);
  judged(identity.named_frames, 'of the frames have names', 0.9);
  all.push([bytes(dump.memory.in_dump_bytes), 'of memory are in the dump']);
  if (identity.scrubbed === true) all.push(['scrubbed', 'secrets of known shapes were masked; handle it as confidential', 'good']);
  if (identity.scrubbed === false) all.push(['not scrubbed', 'the dump holds whatever the process held', 'bad']);
  return h('ul', { class: 'tiles' }, all.map(([value, label, state]) => h('li', { class: state ?? null }, h('b', null, value), h('span', null, label))));
}

function parts(dump: Dump, block: Block): { elements: HTMLElement[]; show: (group: number) => void } {
  const drawn = stacks(dump);
  const threads = dump.groups.reduce((sum, group) => sum + group.threads.length, 0);
  const lead = `${counted(threads, 'thread', 'threads')} in ${counted(dump.groups.length, 'group of equal stacks', 'groups of equal stacks')}. Innermost function first; threads that stand in the same functions are one group.`;
  const elements: (HTMLElement | null)[] = [
    dump.waits.queues.length > 0 ? waits(dump, block, drawn.show) : null,
    block('threads', 'Threads', lead, drawn.elements),
    dump.managed ? managed(dump.managed, block) : null,
    ...(dump.runtimes ?? []).map((runtime, index) => block(index === 0 ? 'language' : `language-${index}`, runtime.name, null, strands(runtime))),
    memory(dump, block),
    modules(dump, block),
    dump.undetermined.length > 0 ? block('unknown', 'What could not be determined', null, h('ul', { class: 'undetermined' }, dump.undetermined.map((text) => h('li', null, marked(text))))) : null,
  ];
  return { elements: elements.filter((element): element is HTMLElement => element !== null), show: drawn.show };
}

function waits(dump: Dump, block: Block, show: (group: number) => void): HTMLElement {
  const drawn = pictures(dump);
  const threads = new Map(dump.threads.map((thread) => [thread.tid, thread]));
  const label = (tid: number) => (threads.get(tid)?.name ? `${threads.get(tid)?.name} (${tid})` : `thread ${tid}`);
  const owner = ({ lock }: Queue): Child => {
    if (lock.owner === undefined) return h('span', { class: 'muted' }, 'nobody, or not known');
    return lock.owner_is_gone ? [`thread ${lock.owner}, `, h('span', { class: 'bad' }, 'not in the dump')] : label(lock.owner);
  };
  const rows = (queues: Queue[]) =>
    table(
      [
        { title: 'What', cell: ({ lock }) => [lock.kind, lock.object ? h('small', null, lock.object) : null], sort: ({ lock }) => lock.kind },
        { title: 'At', cell: ({ lock }) => h('code', null, lock.address) },
        { title: 'Held by', cell: owner },
        { title: 'Waiting', numeric: true, cell: ({ waiters }) => count(waiters.length), sort: ({ waiters }) => waiters.length },
        { title: 'Who waits', class: 'text', cell: ({ waiters }) => `${waiters.slice(0, 4).map(label).join(', ')}${waiters.length > 4 ? ` and ${waiters.length - 4} more` : ''}` },
      ],
      queues,
      { first: 25, attributes: ({ lock }) => ({ title: lock.proof ?? '' }) },
    ).element;
  const owned = dump.waits.queues.filter(({ lock }) => lock.owner !== undefined);
  const others = dump.waits.queues.filter(({ lock }) => lock.owner === undefined);
  return block(
    'waits',
    'Waits',
    drawn.length === 0
      ? 'No thread waits for a lock that another one holds, as far as locks have owners that can be read.'
      : 'An arrow leads from who waits to who has what it waits for. Owners were read from the locks in memory.',
    drawn.slice(0, PICTURES).map((picture, index) => draw(dump, picture, index, (tid) => show(threads.get(tid)?.group ?? -1))),
    drawn.length > PICTURES ? h('p', { class: 'note' }, 'There are more: see the table.') : null,
    owned.length > 0 ? rows(owned) : null,
    others.length > 0
      ? h('details', { class: 'more' }, h('summary', null, `${counted(others.length, 'wait', 'waits')} without an owner: conditions, semaphores, futexes of runtimes`), rows(others))
      : null,
  );
}

function managed(from: Managed, block: Block): HTMLElement {
  const { thread_pool: pool, operations, heap } = from;
  return block(
    'managed',
    'Managed code',
    from.runtimes.map((runtime) => runtime.name).join(', '),
    from.runtimes.filter((runtime) => runtime.problem).map((runtime) => h('p', { class: 'note' }, h('span', { class: 'bad' }, `${runtime.name} is not read:`), ` ${runtime.problem}`)),
    pool
      ? [
          h('h3', null, 'Thread pool'),
          h('p', null, `${counted(pool.workers, 'worker', 'workers')}: ${pool.idle} waiting for work, ${pool.blocked.length} blocked, ${pool.waiting_for_tasks.length} of these until a task completes.`),
          h('ul', null, pool.places.slice(0, 10).map((place) => h('li', null, `${counted(place.threads, 'worker', 'workers')} in `, h('span', { class: 'function' }, place.function)))),
        ]
      : null,
    operations && operations.groups.length > 0
      ? [
          h('h3', null, 'Asynchronous operations'),
          h('p', null, `${count(operations.pending)} at an `, h('code', null, 'await'), '. Each row is a chain of async methods that await each other, the innermost first.'),
          table(
            [
              { title: 'Count', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
              { title: 'Methods', class: 'text', cell: (row) => row.methods.map((method) => h('div', { class: 'function' }, method)) },
              { title: 'Awaits', class: 'text', cell: (row) => [row.awaits, row.object && row.count > 1 ? `, all on one ${row.object_type} at ${row.object}` : null] },
            ],
            operations.groups,
          ).element,
        ]
      : null,
    heap
      ? [
          h('h3', null, 'Objects by type'),
          h('p', null, `${bytes(heap.bytes)} in ${counted(heap.objects, 'object', 'objects')}, ${counted(heap.type_count, 'type', 'types')} of ${heap.server ? 'the server collector' : 'the workstation collector'}; ${bytes(heap.free_bytes)} of holes between them. Reachable or not.`),
          table(
            [
              { title: 'Type', class: 'text', cell: (row) => h('code', { title: row.module }, row.name), sort: (row) => row.name },
              { title: 'Objects', numeric: true, cell: (row) => count(row.objects), sort: (row) => row.objects },
              { title: 'Bytes', numeric: true, cell: (row) => bytes(row.bytes), sort: (row) => row.bytes },
            ],
            heap.types,
            { sorted: 2 },
          ).element,
        ]
      : null,
  );
}

function memory(dump: Dump, block: Block): HTMLElement {
  const { memory: all } = dump;
  const whole = Math.max(all.in_dump_bytes, 1);
  let x = 0;
  const split = all.classes
    .filter((row) => row.in_dump_bytes > 0)
    .map((row) => {
      const width = (row.in_dump_bytes / whole) * 1000;
      x += width;
      return svg('rect', { class: `f-${color(row.kind)}`, x: x - width, y: 0, width: Math.max(width - 1, 0.5), height: 26 }, svg('title', null, `${row.kind}: ${bytes(row.in_dump_bytes)}`));
    });
  return block(
    'memory',
    'Memory',
    `${bytes(all.in_dump_bytes)} in the dump, of ${bytes(all.mapped_bytes)} of addresses in ${count(all.mappings)} mappings.`,
    split.length > 0 ? svg('svg', { class: 'split', viewBox: '0 0 1000 26', preserveAspectRatio: 'none', role: 'img', 'aria-label': 'Memory in the dump by kind' }, split) : null,
    table(
      [
        { title: 'Kind', cell: (row) => [h('i', { class: `key k-${color(row.kind)}` }), row.kind] },
        { title: 'In the dump', numeric: true, cell: (row) => bytes(row.in_dump_bytes), sort: (row) => row.in_dump_bytes },
        { title: 'Share', numeric: true, cell: (row) => (row.in_dump_bytes > 0 ? share(row.in_dump_bytes / whole) : '–') },
        { title: 'Mapped', numeric: true, cell: (row) => bytes(row.mapped_bytes), sort: (row) => row.mapped_bytes },
        { title: 'Mappings', numeric: true, cell: (row) => count(row.mappings), sort: (row) => row.mappings, class: 'optional' },
      ],
      all.classes,
    ).element,
    all.names.length > 0
      ? h(
          'details',
          { class: 'more' },
          h('summary', null, 'By file and label'),
          table(
            [
              { title: 'Name', class: 'text', cell: (row) => h('code', null, row.name) },
              { title: 'Kind', cell: (row) => row.kind, class: 'optional' },
              { title: 'In the dump', numeric: true, cell: (row) => bytes(row.in_dump_bytes), sort: (row) => row.in_dump_bytes },
              { title: 'Mapped', numeric: true, cell: (row) => bytes(row.mapped_bytes), sort: (row) => row.mapped_bytes },
            ],
            all.names,
          ).element,
        )
      : null,
    all.missing.length > 0 ? [h('h3', null, 'Not in the dump'), h('ul', { class: 'missing' }, all.missing.map((one) => h('li', null, h('b', null, bytes(one.bytes)), ' ', h('span', null, one.reason))))] : null,
    all.not_frozen_bytes ? h('p', { class: 'note' }, `${bytes(all.not_frozen_bytes)} are of another moment than the rest: a copy made by fork does not have them.`) : null,
  );
}

function modules(dump: Dump, block: Block): HTMLElement {
  return block(
    'modules',
    'Modules',
    'Mapped code, with what is known of its functions. A build id says exactly which file it is.',
    table(
      [
        { title: 'Module', class: 'text', cell: (row) => [h('code', { title: `${row.start} to ${row.end}` }, row.path), row.deleted ? h('small', null, 'deleted') : null], sort: (row) => row.path },
        { title: 'Frames', numeric: true, cell: (row) => count(row.frames), sort: (row) => row.frames },
        { title: 'Build id', cell: (row) => (row.build_id ? h('code', { class: 'id' }, row.build_id) : h('span', { class: 'muted' }, 'none')), class: 'optional' },
        { title: 'Names', cell: (row) => row.status },
      ],
      dump.modules,
      { first: 20 },
    ).element,
  );
}
