// Draws the page from the data inside it.

import { read } from './data';
import { h, section } from './dom';
import { context, logs } from './details';
import { flame } from './flame';
import { functions } from './functions';
import { completeness, findings, header } from './head';
import type { Places } from './links';
import { runtimes } from './runtimes';
import { threads } from './threads';
import { Axis } from './time';
import { timeline } from './timeline';
import { waits } from './waits';

const SECTIONS: [string, string][] = [
  ['findings', 'Findings'],
  ['timeline', 'Timeline'],
  ['runtimes', 'Runtime'],
  ['functions', 'Functions'],
  ['flame', 'Flame graph'],
  ['threads', 'Threads'],
  ['waits', 'Waiting'],
  ['logs', 'Logs'],
  ['context', 'Context'],
];

function start(): void {
  const page = read();
  const axis = new Axis(page);
  const places: Places = {};
  const root = document.getElementById('page');
  if (!root) return;
  const heard = (page.report.runtimes ?? []).length > 0;
  const nav = h('nav', { 'aria-label': 'Sections' }, SECTIONS.filter(([id]) => id !== 'runtimes' || heard).map(([id, title]) => h('a', { href: `#${id}` }, title)));
  // The flame graph first: the table of functions links into it.
  const graph = safely('flame', () => flame(page, places));
  const main = h(
    'main',
    null,
    safely('findings', () => findings(page, axis, places)),
    safely('timeline', () => timeline(page, axis)),
    heard ? safely('runtimes', () => runtimes(page, axis, places)) : null,
    safely('functions', () => functions(page, places)),
    graph,
    safely('threads', () => threads(page, axis, places)),
    safely('waits', () => waits(page, axis, places)),
    safely('logs', () => logs(page, axis, places)),
    safely('context', () => context(page)),
  );
  root.append(header(page), completeness(page), nav, main, h('footer', null, `${page.report.recording.tool || 'biopsy'} · this page needs no network and sends nothing`));
  follow(nav);
}

/** A section that cannot be drawn shall not take the others with it. */
function safely(id: string, draw: () => HTMLElement): HTMLElement {
  try {
    return draw();
  } catch (error) {
    console.error(id, error);
    const title = SECTIONS.find(([section]) => section === id)?.[1] ?? id;
    return section(id, title, `This section could not be drawn (${String(error)}). The data are in report.json.`);
  }
}

/** Marks the section that is being read. */
function follow(nav: HTMLElement): void {
  const links = new Map([...nav.querySelectorAll('a')].map((link) => [link.hash.slice(1), link]));
  const seen = new Set<string>();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) seen.add(entry.target.id);
        else seen.delete(entry.target.id);
      }
      const first = SECTIONS.find(([id]) => seen.has(id))?.[0];
      links.forEach((link, id) => link.classList.toggle('here', id === first));
    },
    { rootMargin: '-64px 0px -55% 0px' },
  );
  document.querySelectorAll('main > section').forEach((element) => observer.observe(element));
}

start();
