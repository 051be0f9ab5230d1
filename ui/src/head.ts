// What was recorded, how whole it is, and the findings.

import { isRecorded, type Page, type Whole } from './data';
import { facts as dumpFacts, tiles as dumpTiles } from './dumps';
import { footprintFacts } from './footprints';
import { heapFacts } from './heaps';
import { h, marked, section, type Child } from './dom';
import { bytes, count, counted, ns, number, reading, seconds, share } from './format';
import { link, linkInDump, type Places } from './links';
import type { Axis } from './time';

/** The top of a page on moments alone: of its first dump, its first heap, or its memory. */
export function momentHeader(page: Whole): HTMLElement[] {
  const { dumps = [], heaps = [], footprints = [], undetermined = [] } = page.report;
  const [dump] = dumps;
  const several = dumps.length > 1;
  const moment = heaps.length > 0 ? heapFacts(heaps[0]) : footprints.length > 0 ? footprintFacts(footprints[0]) : [];
  const rows = moment.filter(([, value]) => value);
  const pid = several ? undefined : (dump?.identity.pid ?? heaps[0]?.pid ?? footprints[0]?.pid);
  const open = [...undetermined, ...page.notes];
  return [
    h(
      'header',
      { class: 'top' },
      h('div', { class: 'brand' }, dump ? (several ? 'biopsy · dumps' : 'biopsy · dump') : heaps.length > 0 ? 'biopsy · heap' : 'biopsy · memory'),
      h('h1', null, page.name || 'Report', pid ? h('span', { class: 'pid' }, `pid ${pid}`) : null),
      dump && !several ? dumpFacts(dump) : h('dl', { class: 'facts' }, rows.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value)))),
    ),
    h(
      'div',
      { class: 'completeness' },
      dump && !several ? dumpTiles(dump) : null,
      open.length > 0 ? h('details', null, h('summary', null, 'What could not be determined', h('span', { class: 'badge' }, open.length)), h('ul', { class: 'undetermined' }, open.map((text) => h('li', null, marked(text))))) : null,
    ),
  ];
}

export function header(page: Page): HTMLElement {
  const { recording, processes } = page.report;
  const { host } = recording;
  const target = processes.find((process) => process.pid === recording.target_pid) ?? processes[0];
  const facts: [string, Child][] = [];
  const fact = (name: string, value: Child) => {
    if (value) facts.push([name, value]);
  };
  fact('Recorded', [page.started ?? 'at a time that is not known', recording.seconds > 0 ? ` · ${seconds(recording.seconds)}` : null]);
  if (target) {
    const runtime = [target.runtime === 'dotnet' ? '.NET' : target.runtime, target.runtime_version].filter(Boolean).join(' ');
    const others = processes.length - 1;
    fact('Target', [
      `${target.name} (pid ${target.pid})`,
      ` · ${runtime}`,
      target.unit ? ` · ${target.unit}` : null,
      target.container_id ? ` · container ${target.container_id.slice(0, 12)}` : null,
      others > 0 ? ` · and ${counted(others, 'other process', 'other processes')}` : null,
    ]);
  }
  fact(
    'Machine',
    [
      host.hostname,
      host.cpus > 0 ? `${host.cpus} × ${host.cpu_model || 'CPU'}` : null,
      host.memory_bytes > 0 ? bytes(host.memory_bytes) : null,
      host.os,
      host.kernel ? `Linux ${host.kernel} ${host.architecture}` : null,
    ]
      .filter(Boolean)
      .join(' · '),
  );
  fact('Ended', page.ended_by);
  fact('Command', recording.command.length > 0 ? h('code', null, recording.command.join(' ')) : null);
  return h(
    'header',
    { class: 'top' },
    h('div', { class: 'brand' }, recording.tool || 'biopsy'),
    h('h1', null, recording.target_name || 'Recording'),
    h('dl', { class: 'facts' }, facts.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value)))),
  );
}

export function completeness(page: Page): HTMLElement {
  const { report } = page;
  const whole = report.completeness;
  const lost = new Map(page.lost);
  const tiles: { value: string; label: string; state: '' | 'good' | 'bad' }[] = [];
  const tile = (value: string, label: string, state: '' | 'good' | 'bad' = '') => tiles.push({ value, label, state });
  if (whole.partial) tile('partial', 'the recording was cut short', 'bad');
  if (whole.has_trace) {
    tile(count(whole.samples), `CPU samples${whole.frequency_hz ? `, ${whole.frequency_hz} a second` : ''}`);
    if (whole.waits > 0) tile(count(whole.waits), 'waits recorded one by one');
    if (whole.off_cpu_samples > 0) tile(count(whole.off_cpu_samples), 'off-CPU samples');
    if (whole.reaching_root !== undefined)
      tile(share(whole.reaching_root), 'of the stacks are whole', whole.reaching_root >= 0.95 ? 'good' : 'bad');
    const { named_managed: managed, named_native: native, named_kernel: kernel } = whole;
    const judged = (named: number): 'good' | 'bad' => (named >= 0.9 ? 'good' : 'bad');
    if (managed !== undefined) tile(share(managed), 'of the managed frames have names', judged(managed));
    // Libraries of a managed runtime come without symbols: nothing that a reader of its server could mend.
    if (native !== undefined) {
      const plain = managed !== undefined && native < 0.9;
      tile(share(native), plain ? 'of the native frames have names, the rest count by function' : 'of the native frames have names', plain ? '' : judged(native));
    }
    if (kernel !== undefined && kernel < 0.9) tile(share(kernel), 'of the kernel frames have names', 'bad');
  } else tile('no trace', 'neither stacks nor waits', 'bad');
  if (!whole.has_metrics) tile('no metrics', 'no charts of CPU, memory and disks');
  if (!whole.has_logs) tile('no logs', 'none were asked for or found');
  for (const loss of whole.losses) {
    const amount = loss.share !== undefined ? share(loss.share) : loss.count ? count(loss.count) : 'some';
    tile(amount, `${lost.get(loss.kind) ?? loss.kind} lost${loss.covered_ns ? `, over ${ns(loss.covered_ns)}` : ''}`, 'bad');
  }
  if (whole.losses.length === 0 && (whole.has_trace || whole.has_metrics)) tile('none', 'lost', 'good');
  return h(
    'div',
    { class: 'completeness' },
    h('ul', { class: 'tiles' }, tiles.map((item) => h('li', { class: item.state || null }, h('b', null, item.value), h('span', null, item.label)))),
    h(
      'details',
      { open: whole.partial || !whole.has_trace },
      h('summary', null, 'What could not be determined', h('span', { class: 'badge' }, whole.undetermined.length + report.warnings.length + page.notes.length)),
      whole.undetermined.length + report.warnings.length + page.notes.length === 0
        ? h('p', { class: 'note' }, 'Nothing is known to be missing.')
        : null,
      h(
        'ul',
        { class: 'undetermined' },
        whole.undetermined.map((text) => h('li', null, text)),
        report.warnings.map((warning) =>
          h('li', null, warning.message, warning.hint ? h('span', { class: 'hint' }, ` ${warning.hint}`) : null, ' ', h('code', { class: 'code' }, warning.code)),
        ),
        page.notes.map((text) => h('li', null, text)),
      ),
    ),
  );
}

export function findings(page: Whole, axis: Axis | null, places: Places): HTMLElement {
  const list = page.report.findings;
  const dumps = page.report.dumps ?? [];
  return section(
    'findings',
    'Findings',
    null,
    list.length === 0 ? h('p', { class: 'note' }, 'Nothing stands out.') : null,
    list.map((finding, index) => {
      const open = index < 4 || finding.severity === 'critical' || finding.severity === 'warning';
      return h(
        'details',
        { class: `finding ${finding.severity}`, open },
        h(
          'summary',
          null,
          h('span', { class: 'severity' }, finding.severity),
          h('span', { class: 'title' }, marked(finding.title)),
          finding.of?.kind === 'dump' && dumps.length > 1 ? h('small', null, `${dumps[finding.of.index]?.identity.name ?? 'a dump'} (${dumps[finding.of.index]?.identity.pid ?? '?'})`) : null,
        ),
        h('p', null, marked(finding.explanation)),
        finding.evidence.length > 0
          ? h(
              'ul',
              { class: 'evidence' },
              finding.evidence.map((evidence) => {
                const { reference } = evidence;
                const target = !reference ? null : finding.of ? linkInDump(places, finding.of, reference) : isRecorded(page) && axis ? link(page, axis, places, reference) : null;
                return h(
                  'li',
                  null,
                  h('span', null, marked(evidence.text), value(evidence.text, evidence.value)),
                  target ? h('button', { type: 'button', class: 'go', click: target.go }, target.text) : null,
                );
              }),
            )
          : null,
        finding.next_steps.length > 0
          ? h('div', { class: 'next' }, h('b', null, 'Next'), h('ul', null, finding.next_steps.map((step) => h('li', null, marked(step)))))
          : null,
      );
    }),
  );
}

/** The number of a piece of evidence, where its text does not say any. */
function value(text: string, evidence: Record<string, number> | undefined): string | null {
  const [kind, amount] = Object.entries(evidence ?? {})[0] ?? [];
  if (kind === undefined || amount === undefined || /\d/.test(text)) return null;
  const units: Record<string, string> = { share: 'ratio', bytes: 'bytes', per_second: 'per-second', cores: 'cores' };
  return `: ${kind === 'ns' ? ns(amount) : kind === 'count' ? number(amount) : reading(units[kind] ?? 'count', amount)}`;
}
