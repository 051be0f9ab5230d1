// Draws the page from the data inside it.

import { comparison, comparisonHeader } from './comparison';
import { compared, isRecorded, read, type Page, type Whole } from './data';
import { h, section } from './dom';
import { context, logs, privacy } from './details';
import { flame } from './flame';
import { functions } from './functions';
import { dumps } from './dumps';
import { footprints } from './footprints';
import { completeness, findings, header, momentHeader } from './head';
import { heaps } from './heaps';
import type { Places } from './links';
import { runtimes } from './runtimes';
import { threads } from './threads';
import { Axis } from './time';
import { timeline } from './timeline';
import { waits } from './waits';

/** Names of the sections in the navigation, where their headings are too long for it. */
const SHORT: Record<string, string> = { runtimes: 'Runtime', functions: 'Functions', unknown: 'Not determined', flame: 'Flame graph' };

function start(): void {
  const root = document.getElementById('page');
  if (!root) return;
  const two = compared();
  if (two) {
    const all = comparison(two);
    root.append(...comparisonHeader(two), navigation(all), h('main', null, all), h('footer', null, 'biopsy · this page needs no network and sends nothing.'));
    return;
  }
  const page = read();
  const places: Places = {};
  const axis = isRecorded(page) ? new Axis(page) : null;
  const sections = [...(isRecorded(page) && axis ? recorded(page, axis, places) : []), ...moments(page, axis, places)];
  const found = safely('findings', () => findings(page, axis, places));
  const all = page.report.findings.length > 0 || axis ? [found, ...sections] : sections;
  const nav = navigation(all);
  const main = h('main', null, all);
  const tool = isRecorded(page) ? page.report.recording.tool : '';
  root.append(...(isRecorded(page) ? [header(page), completeness(page)] : momentHeader(page)), nav, main, h('footer', null, `${tool || 'biopsy'} · this page needs no network and sends nothing; of memory it has derived data only`));
  follow(nav, all.map((element) => element.id));
}

function navigation(all: HTMLElement[]): HTMLElement {
  return h('nav', { 'aria-label': 'Sections' }, all.map((element) => h('a', { href: `#${element.id}` }, SHORT[element.id] ?? element.querySelector('h2')?.textContent ?? element.id)));
}

/** What was recorded over time. */
function recorded(page: Page, axis: Axis, places: Places): HTMLElement[] {
  // The flame graph first: the table of functions links into it.
  const graph = safely('flame', () => flame(page, places));
  return [
    safely('timeline', () => timeline(page, axis)),
    ...((page.report.runtimes ?? []).length > 0 ? [safely('runtimes', () => runtimes(page, axis, places))] : []),
    safely('functions', () => functions(page, places)),
    graph,
    safely('threads', () => threads(page, axis, places)),
    safely('waits', () => waits(page, axis, places)),
    safely('logs', () => logs(page, axis, places)),
    safely('context', () => context(page)),
  ];
}

/** Memory at single moments. */
function moments(page: Whole, axis: Axis | null, places: Places): HTMLElement[] {
  const all = page.report.dumps ?? [];
  const alone = all.length === 1 && !isRecorded(page);
  const drawn: HTMLElement[] = [];
  if (all.length > 0) {
    try {
      drawn.push(...dumps(page, alone, places));
    } catch (error) {
      drawn.push(broken('dumps', error));
    }
  }
  for (const [id, draw] of [['heap', heaps], ['memory', footprints], ['privacy', privacy]] as const) {
    try {
      drawn.push(...draw(page, axis));
    } catch (error) {
      drawn.push(broken(id, error));
    }
  }
  return drawn;
}

/** A section that cannot be drawn shall not take the others with it. */
function safely(id: string, draw: () => HTMLElement): HTMLElement {
  try {
    return draw();
  } catch (error) {
    return broken(id, error);
  }
}

function broken(id: string, error: unknown): HTMLElement {
  console.error(id, error);
  return section(id, SHORT[id] ?? id, `This section could not be drawn (${String(error)}). The data are in report.json.`);
}

/** Marks the section that is being read. */
function follow(nav: HTMLElement, order: string[]): void {
  const links = new Map([...nav.querySelectorAll('a')].map((link) => [link.hash.slice(1), link]));
  const seen = new Set<string>();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) seen.add(entry.target.id);
        else seen.delete(entry.target.id);
      }
      const first = order.find((id) => seen.has(id));
      links.forEach((link, id) => link.classList.toggle('here', id === first));
    },
    { rootMargin: '-64px 0px -55% 0px' },
  );
  document.querySelectorAll('main > section').forEach((element) => observer.observe(element));
}

start();
