// Logs, processes, readings, context, and what was masked.

import { isRecorded, type Page, type Whole } from './data';
import { h, section, type Child } from './dom';
import { count, counted, moment, reading } from './format';
import { flash, type Places } from './links';
import { table } from './table';
import type { Axis } from './time';

export function logs(page: Page, axis: Axis, places: Places): HTMLElement {
  const all = page.report.logs;
  if (all.sources.length === 0) return section('logs', 'Logs', 'No logs were recorded. `--logs GLOB` and `--journal UNIT` add them.'.replace(/`/g, ''));
  const when = (seconds: number | undefined): Child =>
    seconds === undefined ? h('span', { class: 'muted' }, '–') : h('button', { type: 'button', class: 'plain', click: () => show(seconds * 1e3) }, moment(seconds * 1e3));
  function show(at: number): void {
    axis.reveal(at, at);
    flash(document.getElementById('timeline'), 'start');
  }
  const topics = table(
    [
      { title: 'Level', cell: (row) => h('span', { class: `level ${row.level}` }, row.level), sort: (row) => ['error', 'warning', 'info', 'debug', 'unknown'].indexOf(row.level) * -1 },
      { title: 'Lines', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { title: 'First', numeric: true, cell: (row) => when(row.first), sort: (row) => -(row.first ?? 0) },
      { title: 'Last', numeric: true, cell: (row) => when(row.last), sort: (row) => -(row.last ?? 0), class: 'optional' },
      { title: 'Example', cell: (row) => [h('span', { class: 'line' }, row.example), all.sources.length > 1 ? h('small', null, row.source) : null], class: 'text' },
    ],
    all.topics,
    { first: 12, empty: 'no errors and no warnings' },
  );
  const lines = table(
    [
      { title: 'Time', numeric: true, cell: (row) => when(row.at / 1e3), sort: (row) => -row.at },
      { title: 'Level', cell: (row) => h('span', { class: `level ${row.level}` }, row.level), sort: (row) => row.level },
      { title: 'Line', cell: (row) => h('span', { class: 'line' }, row.text), class: 'text' },
    ],
    page.lines,
    { first: 12, empty: 'none with a time' },
  );
  places.showLog = (log, line) => {
    const row = page.lines.find((candidate) => candidate.log === log && candidate.line === line);
    if (row) axis.point(row.at);
    flash(row ? lines.reveal(row) : document.getElementById('logs'));
  };
  return section(
    'logs',
    'Logs',
    `${counted(all.lines, 'line', 'lines')} in the window from ${all.sources.join(', ')}: ${counted(all.errors, 'error', 'errors')}, ${counted(all.warnings, 'warning', 'warnings')}${all.without_time > 0 ? `; ${counted(all.without_time, 'line has', 'lines have')} no time that could be read` : ''}.`,
    h('h3', null, 'By topic'),
    topics.element,
    page.lines.length > 0 ? [h('h3', null, 'Errors and warnings in the order of time'), lines.element] : null,
  );
}

export function context(page: Page): HTMLElement {
  const { report } = page;
  const processes = table(
    [
      { title: 'Process', cell: (row) => [h('b', null, row.name), h('small', null, `${row.pid}${row.ns_pid ? ` (${row.ns_pid} inside)` : ''}`)], sort: (row) => row.name },
      { title: 'Parent', numeric: true, cell: (row) => row.parent, class: 'optional' },
      { title: 'Runtime', cell: (row) => [row.runtime, ' ', row.runtime_version ?? '', row.entry ? h('small', null, row.entry) : null] },
      { title: 'User', numeric: true, cell: (row) => row.uid, class: 'optional' },
      { title: 'Command line', cell: (row) => [h('code', { class: 'line' }, row.command_line.join(' ')), row.exe_deleted ? h('small', { class: 'bad' }, 'the executable is deleted') : null], class: 'text' },
      { title: 'Unit or container', cell: (row) => row.container_id?.slice(0, 12) ?? row.unit ?? row.cgroup ?? '', class: 'optional' },
    ],
    report.processes,
    { first: 10, empty: 'not recorded' },
  );
  const readings = table(
    [
      { title: 'Table', cell: (row) => row.table, sort: (row) => row.table },
      { title: 'Key', cell: (row) => row.key ?? '', sort: (row) => row.key ?? '', class: 'text' },
      { title: 'Column', cell: (row) => row.column, sort: (row) => row.column },
      { title: 'Mean', numeric: true, cell: (row) => reading(row.unit, row.mean) },
      { title: 'Least', numeric: true, cell: (row) => reading(row.unit, row.min), class: 'optional' },
      { title: 'Most', numeric: true, cell: (row) => reading(row.unit, row.max) },
      { title: 'Last', numeric: true, cell: (row) => reading(row.unit, row.last), class: 'optional' },
      { title: 'Missing', numeric: true, about: 'Readings that could not be taken', cell: (row) => (row.missing > 0 ? `${row.missing} of ${row.missing + row.readings}` : ''), class: 'optional' },
    ],
    report.metrics.summary ?? [],
    { first: 30 },
  );
  const growing = report.metrics.trends.filter((trend) => trend.growing);
  return section(
    'context',
    'Context',
    null,
    h('h3', null, 'Processes'),
    processes.element,
    growing.length > 0
      ? h('p', { class: 'note' }, 'Growing steadily: ', growing.map((trend, index) => [index > 0 ? ', ' : '', h('b', null, `${trend.key} ${trend.column}`)]), '.')
      : null,
    (report.metrics.summary ?? []).length > 0
      ? h('details', { id: 'readings' }, h('summary', null, 'All readings in numbers', h('span', { class: 'badge' }, (report.metrics.summary ?? []).length)), readings.element)
      : null,
    page.context.map((text) =>
      h(
        'details',
        null,
        h('summary', null, h('code', null, text.member)),
        h('pre', null, text.text),
        text.cut ? h('p', { class: 'note' }, `${count(text.cut)} bytes more are in the recording.`) : null,
      ),
    ),
  );
}

/** What was masked, by kind and place, and what was not gone over; nothing where there is nothing to say. */
export function privacy(page: Whole): HTMLElement[] {
  const left = page.report.not_searched ?? [];
  const recorded = isRecorded(page) ? page.report : null;
  if (!recorded && left.length === 0) return [];
  const rows = recorded?.redactions ?? [];
  const masked = rows.reduce((sum, row) => sum + row.count, 0);
  const redactions = table(
    [
      { title: 'Member of the recording', cell: (row) => h('code', null, row.member), sort: (row) => row.member, class: 'text' },
      { title: 'Rule', cell: (row) => h('code', null, row.rule), sort: (row) => row.rule },
      { title: 'Values masked', numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
    ],
    rows,
    { first: 20 },
  );
  const personal = (recorded?.recording.command ?? []).includes('--anonymize') ? ' Personal data was masked, too.' : '';
  const said = masked > 0 ? `${counted(masked, 'value was', 'values were')} masked before anything was written; values are never in the recording.` : 'Nothing was found that had to be masked.';
  return [
    section(
      'privacy',
      'Privacy',
      recorded ? said + personal : null,
      masked > 0 ? redactions.element : null,
      left.length > 0 ? h('h3', null, 'Not gone over for secrets, or only in part') : null,
      left.length > 0 ? h('ul', null, left.map((one) => h('li', null, h('b', null, one.what), `: ${one.why.replace(/`/g, '')}`))) : null,
    ),
  ];
}
