// Threads: running, ready and waiting as bars, and over time as strips.

import type { Group, Page, Row } from './data';
import { choice, color, h, onTheme, section, type Child } from './dom';
import { count, counted, seconds, share } from './format';
import { flash, type Places } from './links';
import { bar, table, type Column } from './table';
import type { Axis } from './time';

const STRIP = { width: 320, height: 18 };

export function threads(page: Page, axis: Axis, places: Places): HTMLElement {
  const { report } = page;
  const info = report.threads;
  const whole = page.window_ms;
  const functionName = (index: number | null) => (index === null ? null : page.functions.rows[index]?.[0] ?? null);
  const stripped = page.threads.some((row) => row.strip.length > 0);
  const several = new Set(page.threads.map((row) => row.pid)).size > 1;

  const rowColumns: Column<Row>[] = [
    { title: 'Thread', cell: (row) => [h('b', { class: 'ellipsis', title: row.name }, row.name), h('small', null, several ? `${row.tid} of ${row.pid}` : row.tid)], sort: (row) => row.name, class: 'who' },
    { title: info.exact ? 'Running · ready · waiting' : 'Running (by samples)', cell: (row) => bar(parts(row.times, whole)), class: 'bars' },
    time('CPU', info.exact ? 'Time on a CPU, exact' : 'Time on a CPU, by samples', (row: Row) => row.times[0]),
    ...(info.exact ? [time('Ready', 'Time ready, but without a CPU', (row: Row) => row.times[1])] : []),
    {
      title: 'Switches',
      about: 'Times it was switched out: because it waited, and while it could have gone on',
      numeric: true,
      cell: (row) => [count(row.switches[0]), h('small', null, row.switches[1] > 0 ? `+ ${count(row.switches[1])}` : '')],
      sort: (row) => row.switches[0] + row.switches[1],
      class: 'optional',
    },
    ...(stripped ? [{ title: 'Over the window', cell: (row: Row) => strip(row, page, axis), class: 'strips' }] : []),
    {
      title: 'Hottest function',
      cell: (row) => {
        const name = functionName(row.top);
        return name === null ? null : h('div', { class: 'pair' }, h('span', { class: 'function ellipsis', title: name }, name), h('small', null, share(row.top_share)));
      },
      class: 'top optional',
    },
  ];
  const groupColumns: Column<Group>[] = [
    { title: 'Group', cell: (group) => [h('b', { class: 'ellipsis', title: group.name }, group.name), h('small', null, counted(group.threads, 'thread', 'threads'))], sort: (group) => group.name, class: 'who' },
    { title: info.exact ? 'Running · ready · waiting' : 'Running (by samples)', cell: (group) => bar(parts(groupTimes(group), whole * Math.max(group.threads, 1))), class: 'bars' },
    time('CPU', 'Time on CPUs of all its threads', (group: Group) => group.running_ns / 1e6),
    ...(info.exact ? [time('Ready', 'Time ready, but without a CPU', (group: Group) => (group.ready_ns ?? 0) / 1e6)] : []),
    { title: 'Switches', numeric: true, cell: (group) => count(group.voluntary + group.involuntary), sort: (group) => group.voluntary + group.involuntary, class: 'optional' },
    { title: 'Hottest function', cell: (group) => (group.top_function ? h('span', { class: 'function', title: group.top_function }, group.top_function) : null), class: 'top optional' },
  ];
  const rows = table(rowColumns, page.threads, { first: 20, class: 'threads' });
  const groups = table(groupColumns, info.groups, { first: 20, class: 'threads groups' });
  const body = h('div', null);
  const filter = h('input', { type: 'search', placeholder: 'filter by name or id', 'aria-label': 'Filter threads', input: () => sift() });
  let pattern = '';
  function sift(): void {
    pattern = filter.value.toLowerCase();
    rows.update(page.threads.filter((row) => `${row.name} ${row.tid}`.toLowerCase().includes(pattern)));
    groups.update(info.groups.filter((group) => group.name.toLowerCase().includes(pattern)));
  }
  const grouped = info.groups.length > 1 && page.threads.length > 24;
  const switcher = choice('Rows', [['threads', 'Threads'], ['groups', 'Groups']], grouped ? 'groups' : 'threads', (value) =>
    body.replaceChildren(value === 'threads' ? rows.element : groups.element),
  );
  body.append(grouped ? groups.element : rows.element);
  places.showThread = (tid) => {
    filter.value = '';
    sift();
    switcher.set('threads');
    const row = page.threads.find((candidate) => candidate.tid === tid);
    flash(row ? rows.reveal(row) : document.getElementById('threads'));
  };
  places.showGroup = (index) => {
    filter.value = '';
    sift();
    switcher.set('groups');
    flash(groups.reveal(info.groups[index]) ?? document.getElementById('threads'));
  };
  if (page.threads.length === 0) return section('threads', 'Threads', 'No threads were recorded.');
  const lead: Child = [
    `${counted(info.seen, 'thread', 'threads')}; ${count(info.peak)} at one time at most`,
    info.born > 0 ? `, ${count(info.born)} began` : null,
    info.exited > 0 ? `, ${count(info.exited)} ended` : null,
    info.exact ? '. Times are exact: the scheduler told them.' : '. Times come from samples; ready and waiting are not known.',
  ];
  return section(
    'threads',
    'Threads',
    lead,
    h('div', { class: 'tools' }, switcher.element, filter, keys(info.exact)),
    body,
  );
}

function time<T>(title: string, about: string, of: (row: T) => number): Column<T> {
  return { title, about, numeric: true, cell: (row) => seconds(of(row) / 1e3), sort: of };
}

function keys(exact: boolean): HTMLElement {
  const key = (kind: string, text: string) => h('li', null, h('i', { class: `key k-${kind}` }), text);
  return h('ul', { class: 'keys' }, key('running', 'running'), exact ? [key('ready', 'ready, no CPU'), key('waiting', 'waiting')] : null);
}

function groupTimes(group: Group): [number, number, number, number] {
  return [group.running_ns, group.ready_ns ?? 0, group.waiting_ns ?? 0, group.sampled_ns].map((time) => time / 1e6) as [number, number, number, number];
}

function parts(times: [number, number, number, number], whole: number): [number, string, string][] {
  const known = Math.max(whole, times[0] + times[1] + times[2], 1e-9);
  return (['running', 'ready', 'waiting'] as const).map((kind, index) => [
    times[index] / known,
    kind,
    `${kind} ${seconds(times[index] / 1e3)} (${share(times[index] / known)})`,
  ]);
}

/** Activity over the window: from the bottom running, ready, waiting. */
function strip(row: Row, page: Page, axis: Axis): Child {
  const buckets = row.strip.length / 3;
  if (buckets === 0) return null;
  const canvas = h('canvas', { class: 'strip', width: STRIP.width, height: STRIP.height, role: 'img', 'aria-label': `activity of ${row.name} over the window` });
  const draw = () => {
    const pen = canvas.getContext('2d');
    if (!pen) return;
    pen.clearRect(0, 0, STRIP.width, STRIP.height);
    const colors = ['running', 'ready', 'waiting'].map((kind) => color(kind));
    for (let bucket = 0; bucket < buckets; bucket += 1) {
      const left = Math.floor((bucket / buckets) * STRIP.width);
      const right = Math.floor(((bucket + 1) / buckets) * STRIP.width);
      let bottom = STRIP.height;
      for (let part = 0; part < 3; part += 1) {
        const height = (parseInt(row.strip[bucket * 3 + part], 16) / 15) * STRIP.height;
        pen.fillStyle = colors[part];
        pen.fillRect(left, bottom - height, right - left, height);
        bottom -= height;
      }
    }
  };
  draw();
  onTheme(draw);
  // Pointing at a strip moves the cursor of the charts too.
  canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * axis.whole;
    axis.point(at);
    const bucket = Math.min(Math.floor(at / page.bucket_ms), buckets - 1);
    const part = (index: number) => share(parseInt(row.strip[bucket * 3 + index] ?? '0', 16) / 15);
    canvas.title = `${axis.label(at)}\nrunning ${part(0)}, ready ${part(1)}, waiting ${part(2)}`;
  });
  canvas.addEventListener('pointerleave', () => axis.point(null));
  return canvas;
}
