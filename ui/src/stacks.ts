// Groups of equal stacks of a dump, with a search in them.

import type { Dump, Frame, StackGroup } from './dump-data';
import { h, marked, type Child } from './dom';
import { count, counted } from './format';
import { flash } from './links';

/** Groups that are open from the start, when they matter. */
const OPEN = 4;
/** Threads of a group that are listed. */
const MEMBERS = 200;

export interface Stacks {
  elements: HTMLElement[];
  /** Opens a group of stacks and scrolls to it. */
  show: (group: number) => void;
}

export function stacks(dump: Dump): Stacks {
  const threads = new Map(dump.threads.map((thread) => [thread.tid, thread]));
  const drawn = dump.groups.map((group, index) => {
    const matters = (group.crashed || group.deadlocked || dump.groups.length === 1) && index < OPEN;
    return stack(group, Boolean(matters), threads);
  });
  const matches = h('span', { class: 'matches', 'aria-live': 'polite' });
  const search = h('input', { type: 'search', placeholder: 'Function, module, thread …', 'aria-label': 'Search in stacks', input: () => later() });
  const all = (open: boolean) => () => drawn.forEach((one) => one.hidden || (one.open = open));
  const opened = drawn.map((one) => one.open);
  const texts = drawn.map((one) => one.textContent?.toLowerCase() ?? '');
  let waiting = 0;
  function later(): void {
    clearTimeout(waiting);
    waiting = setTimeout(find, 120);
  }
  function find(): void {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    drawn.forEach((one, index) => {
      const hit = texts[index].includes(wanted);
      one.hidden = !hit;
      one.open = wanted ? hit && shown < 20 : opened[index];
      if (hit) shown += 1;
      one.querySelectorAll('.frames li').forEach((frame) => frame.classList.toggle('hit', wanted !== '' && (frame.textContent ?? '').toLowerCase().includes(wanted)));
    });
    matches.textContent = wanted ? `${shown} of ${drawn.length} groups` : '';
  }
  const tools = h(
    'div',
    { class: 'tools' },
    search,
    matches,
    h('button', { type: 'button', class: 'small', click: all(true) }, 'Open all'),
    h('button', { type: 'button', class: 'small', click: all(false) }, 'Close all'),
  );
  return {
    elements: [tools, ...drawn],
    show(group) {
      const one = drawn[group];
      if (!one) return;
      one.hidden = false;
      one.open = true;
      flash(one, 'start');
    },
  };
}

function stack(group: StackGroup, open: boolean, threads: Map<number, Dump['threads'][number]>): HTMLDetailsElement {
  const [tone, mark] = group.crashed ? ['critical', 'crashed'] : group.deadlocked ? ['critical', 'deadlock'] : group.running ? ['running', 'running'] : ['', ''];
  let inside = 0;
  const rows = group.frames.map((row) => {
    if (row.repeated) inside = row.repeated_rows ?? 1;
    const drawn = frame(row, inside > 0);
    inside = Math.max(inside - 1, 0);
    return [row.skipped ? h('li', { class: 'gap' }, `… ${count(row.skipped)} more frames …`) : null, drawn];
  });
  const members = group.threads.slice(0, MEMBERS).map((tid) => {
    const thread = threads.get(tid);
    return h('li', null, h('b', null, thread?.name ? `${thread.name} (${tid})` : `thread ${tid}`), ' ', h('span', null, thread?.doing.replace(/`/g, '')));
  });
  return h(
    'details',
    { class: `stack ${tone}`.trim(), open },
    h(
      'summary',
      null,
      h('span', { class: 'count' }, count(group.threads.length)),
      h(
        'span',
        { class: 'what' },
        h('b', null, group.names),
        mark ? h('span', { class: 'mark' }, mark) : null,
        still(group, threads) ? h('span', { class: 'mark still' }, still(group, threads)) : null,
        h('span', { class: 'doing' }, marked(group.doing), group.own_function ? [', in ', h('span', { class: 'function' }, group.own_function)] : null),
      ),
    ),
    group.threads.length > 1
      ? h(
          'details',
          { class: 'members' },
          h('summary', null, counted(group.threads.length, 'thread', 'threads')),
          h('ul', null, members, group.threads.length > MEMBERS ? h('li', null, `… ${count(group.threads.length - MEMBERS)} more`) : null),
        )
      : null,
    h('ol', { class: 'frames' }, rows, rows.length === 0 ? h('li', { class: 'gap' }, 'no frames') : null),
    group.ends_early ? h('p', { class: 'end' }, group.ends_early) : null,
  );
}

/** What all threads of a group did between several looks, where they did the same. */
const MOVEMENTS: Record<string, string> = { stuck: 'did not run', 'same-place': 'same place', again: 'ran in between', moved: 'moved', new: 'new' };

function still(group: StackGroup, threads: Map<number, Dump['threads'][number]>): string | null {
  const moved = new Set(group.threads.map((tid) => threads.get(tid)?.movement));
  const [only] = moved;
  return moved.size === 1 && only ? (MOVEMENTS[only] ?? only) : null;
}

function frame(row: Frame, repeats: boolean): HTMLElement {
  const guessed = row.found_by === 'frame-pointer';
  const times = row.repeated ? (row.repeated_rows === 1 ? `× ${count(row.repeated)}` : `these ${row.repeated_rows} × ${count(row.repeated)}`) : null;
  const source: Child = row.file ? h('span', { title: row.file }, `${row.file.split('/').pop()}${row.line === undefined ? '' : `:${row.line}`}`) : null;
  return h(
    'li',
    { class: [row.inlined ? 'inlined' : '', repeats ? 'repeats' : '', guessed ? 'guessed' : ''].join(' ').trim() || null, title: row.address },
    h('span', { class: row.function ? 'function' : 'function unnamed' }, row.label),
    times ? h('span', { class: 'times' }, times) : null,
    row.inlined ? h('small', null, 'inlined') : null,
    guessed ? h('small', { title: 'found by frame pointer, for want of unwind information' }, 'by frame pointer') : null,
    h('span', { class: 'where' }, source, row.function ? h('span', { class: 'module' }, row.module) : null),
  );
}
