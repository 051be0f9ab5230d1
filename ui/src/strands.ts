// Goroutines, and threads and tasks of Python, Java, JavaScript: equal ones together.

import type { LanguageRuntime, StrandFrame } from './dump-data';
import { h, type Child } from './dom';
import { count, counted } from './format';

/** Members of a group that are named. */
const NAMED = 8;
/** Groups that are open from the start, when they are in a circle. */
const OPEN = 4;

export function strands(runtime: LanguageRuntime): Child[] {
  const inCircle = new Set((runtime.cycles ?? []).flat());
  const own = runtime.groups.filter((group) => !group.of_runtime);
  const hidden = runtime.groups.filter((group) => group.of_runtime).reduce((sum, group) => sum + group.count, 0);
  const word = runtime.groups[0]?.kind ?? 'strand';
  return [
    h('p', null, `${counted(runtime.strands, word, `${word}s`)} in ${counted(runtime.groups.length, 'different stack', 'different stacks')}${hidden > 0 ? `; ${count(hidden)} of the runtime itself are not shown` : ''}.`),
    (runtime.problems ?? []).map((text) => h('p', { class: 'note' }, h('span', { class: 'bad' }, 'not read: '), text)),
    own.map((group, index) => drawn(group, group.ids.some((id) => inCircle.has(id)), index)),
  ];
}

function drawn(group: LanguageRuntime['groups'][number], deadlocked: boolean, index: number): HTMLElement {
  const names = (group.names?.length ? group.names : group.ids).slice(0, NAMED).join(', ');
  const more = group.count - NAMED;
  const running = group.state === 'running';
  return h(
    'details',
    { class: `stack strand ${deadlocked ? 'critical' : running ? 'running' : ''}`.trim(), open: deadlocked && index < OPEN },
    h(
      'summary',
      null,
      h('span', { class: 'count' }, count(group.count)),
      h(
        'span',
        { class: 'what' },
        h('b', null, `${group.kind} ${names}${more > 0 ? ` and ${count(more)} more` : ''}`),
        deadlocked ? h('span', { class: 'mark' }, 'deadlock') : running ? h('span', { class: 'mark' }, 'running') : null,
        h('span', { class: 'doing' }, waiting(group) ?? group.state, group.frames[0] ? [', in ', h('span', { class: 'function' }, group.frames[0].function)] : null),
      ),
    ),
    h(
      'ol',
      { class: 'frames' },
      group.frames.map(frame),
      group.cut ? h('li', { class: 'gap' }, '… more frames …') : null,
      group.frames.length === 0 ? h('li', { class: 'gap' }, 'no frames') : null,
    ),
    group.started_by ? h('p', { class: 'end start' }, `started by ${group.started_by.function}`) : null,
  );
}

function waiting({ wait }: LanguageRuntime['groups'][number]): string | null {
  if (!wait) return null;
  const owners = (wait.owners ?? []).slice(0, 3).map((owner) => `${owner.strand === undefined ? `thread ${owner.thread}` : owner.strand} (${owner.confidence})`);
  return [
    `waits for ${wait.kind}`,
    wait.address ? ` at ${wait.address}` : '',
    wait.reason ? ` (${wait.reason})` : '',
    wait.never_ends ? ', which nothing can end' : '',
    owners.length > 0 ? `, held by ${owners.join(', ')}` : '',
  ].join('');
}

function frame(row: StrandFrame): HTMLElement {
  const source: Child = row.file ? h('span', { title: row.file }, `${row.file.split('/').pop()}${row.line === undefined ? '' : `:${row.line}`}`) : null;
  return h('li', { class: row.inlined ? 'inlined' : null }, h('span', { class: 'function' }, row.function), row.inlined ? h('small', null, 'inlined') : null, h('span', { class: 'where' }, source));
}
