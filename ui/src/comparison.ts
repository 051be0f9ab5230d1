// Two recordings held against each other: what differs, and a flame graph of both with the difference as its colour.

import type { Call, Comparison, Difference, Side } from './data';
import { h, marked, onWidth, section, svg, type Child } from './dom';
import { count, number, seconds, share } from './format';
import { table } from './table';

const ROW = 19;
/** Boxes narrower than this, in pixels, are not drawn. */
const NARROW = 1.5;

export function comparison(page: Comparison): HTMLElement[] {
  const sections = [differences(page)];
  if (page.calls.length > 1) sections.push(flame(page));
  if (page.unchanged.length > 0) sections.push(section('same', 'Not different', 'The largest of what was compared and is not claimed to differ. A difference would have to exceed the noise.', rows(page, page.unchanged)));
  return sections;
}

export function comparisonHeader(page: Comparison): HTMLElement[] {
  const side = (name: string, of: Side): Child =>
    h(
      'div',
      null,
      h('dt', null, name),
      h('dd', null, h('b', null, of.name), ` · ${of.file}`, h('br', null), [of.start, seconds(of.seconds), `${number(of.cores)} cores`, `${count(of.samples)} samples`, of.requests === undefined ? null : `${count(of.requests)} requests`].filter(Boolean).join(' · ')),
    );
  return [
    h(
      'header',
      null,
      h('h1', null, `${page.after.name} compared`),
      h('dl', { class: 'facts' }, side('Before', page.before), side('After', page.after)),
      page.remarks.map((text) => h('p', { class: 'note remark' }, marked(text))),
    ),
  ];
}

function differences(page: Comparison): HTMLElement {
  const lead = `Rates are per ${page.unit}, so the length of a recording does not matter. The noise was estimated inside of each recording; of ${count(page.compared)} quantities, differences below it are not claimed.`;
  const none = page.refused ? `Nothing is claimed: ${page.refused}.` : `No difference above the noise, of ${count(page.compared)} quantities compared.`;
  return section('differences', 'Differences', lead, page.differences.length === 0 ? h('p', { class: 'healthy' }, none) : rows(page, page.differences));
}

function what(one: Difference): Child {
  const name = one.name || 'a place that is not known';
  const kinds: Record<string, string> = { function: 'CPU in', wait: `waiting for ${one.reason} in`, lock: `waiting for ${one.reason} in`, request: 'answering' };
  return [h('small', null, `${kinds[one.kind] ?? one.kind} `), h('span', { class: 'function' }, name), one.module ? h('small', null, ` ${one.module}`) : null];
}

function change(one: Difference): string {
  if (one.change === undefined) return 'new';
  if (one.after === 0) return 'gone';
  return `${one.change > 0 ? '+' : '−'}${share(Math.abs(one.change))}`;
}

/** A bar for each side, on one scale, with the noise as a whisker. */
function bars(one: Difference, largest: number): SVGElement {
  const width = (value: number) => (value / largest) * 150;
  return svg(
    'svg',
    { class: 'pair', viewBox: '0 0 156 18', width: 156, height: 18, role: 'img', 'aria-label': `${seconds(one.before)} before, ${seconds(one.after)} after` },
    svg('rect', { class: 'before', x: 0, y: 1, width: Math.max(width(one.before), 1), height: 7 }),
    svg('rect', { class: one.became ?? 'same', x: 0, y: 10, width: Math.max(width(one.after), 1), height: 7 }),
    svg('line', { class: 'noise', x1: Math.max(width(one.before - one.noise), 0), x2: width(one.before + one.noise), y1: 4.5, y2: 4.5 }),
  );
}

function rows(page: Comparison, all: Difference[]): HTMLElement {
  const largest = Math.max(...all.map((one) => Math.max(one.before, one.after)), 1e-12);
  return table(
    [
      { title: '', cell: (one) => (one.became ? h('b', { class: one.became }, one.became) : h('span', { class: 'muted' }, 'same')) },
      { title: 'What', class: 'text', cell: what, sort: (one) => one.name },
      { title: `Before, per ${page.unit}`, numeric: true, cell: (one) => seconds(one.before), sort: (one) => one.before },
      { title: 'After', numeric: true, cell: (one) => seconds(one.after), sort: (one) => one.after },
      { title: 'Change', numeric: true, cell: (one) => h('span', { class: one.became ?? null }, change(one)), sort: (one) => one.after - one.before },
      { title: 'Noise', about: 'the smallest difference that would be claimed', numeric: true, cell: (one) => `±${share(one.noise / Math.max(one.before, one.after, 1e-12))}`, class: 'optional' },
      { title: '', class: 'optional', cell: (one) => bars(one, largest) },
    ],
    all,
    { first: 25 },
  ).element;
}

/** Width is the time after (of what is gone, before); red became more, blue less. */
function flame(page: Comparison): HTMLElement {
  const calls = page.calls;
  const weight = (call: Call) => Math.max(call.before, call.after);
  const children: number[][] = calls.map(() => []);
  calls.forEach((call, index) => index > 0 && children[call.parent]?.push(index));
  // What is below a call may be wider than itself where one side lost what the other one got: it is made to fit.
  let top = 0;
  const box = h('div', { class: 'flame differences' });
  const note = h('p', { class: 'status', 'aria-live': 'polite' }, 'Point at a call to read it; click to make it the whole width.');
  const out = h('button', { type: 'button', class: 'small', click: () => zoom(0) }, 'zoom out');
  function zoom(node: number): void {
    top = node;
    draw();
  }
  function draw(): void {
    const width = box.clientWidth - 18;
    if (width <= 0) return;
    const drawn: SVGElement[] = [];
    let deepest = 0;
    const open: [node: number, x: number, w: number, depth: number][] = [[top, 0, width, 0]];
    while (open.length > 0) {
      const [node, x, w, depth] = open.pop() as [number, number, number, number];
      deepest = Math.max(deepest, depth);
      drawn.push(frame(node, x, w, depth));
      const below = [...children[node]].sort((a, b) => weight(calls[b]) - weight(calls[a]));
      const sum = Math.max(below.reduce((all, one) => all + weight(calls[one]), 0), weight(calls[node]), 1e-15);
      let at = x;
      for (const one of below) {
        const wide = (weight(calls[one]) / sum) * w;
        if (wide >= NARROW) open.push([one, at, wide, depth + 1]);
        at += wide;
      }
    }
    const height = (deepest + 1) * ROW;
    box.replaceChildren(svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'CPU time by call, coloured by how it changed' }, drawn));
  }
  function frame(node: number, x: number, w: number, depth: number): SVGElement {
    const call = calls[node];
    const name = call.name || `all: ${page.after.name}`;
    const ratio = (call.after - call.before) / Math.max(call.before, call.after, 1e-15);
    const strength = Math.min(Math.abs(ratio) / 0.3, 1);
    const words = `${name}: ${seconds(call.before)} → ${seconds(call.after)} per ${page.unit}${call.before > 0 ? ` (${ratio > 0 ? '+' : '−'}${share(Math.abs(call.after / call.before - 1))})` : ' (new)'}`;
    const shown = Math.floor((w - 6) / 6.6);
    const element = svg(
      'g',
      { class: ratio > 0 ? 'more' : 'less', style: `--strength: ${(strength * 85).toFixed(0)}%` },
      svg('title', null, words),
      svg('rect', { x: x + 0.5, y: depth * ROW + 0.5, width: Math.max(w - 1, 0.5), height: ROW - 1, rx: 2 }),
      shown > 2 ? svg('text', { x: x + 4, y: depth * ROW + 13 }, name.length > shown ? `${name.slice(0, shown - 1)}…` : name) : null,
    );
    element.addEventListener('mouseenter', () => (note.textContent = words));
    element.addEventListener('click', () => zoom(node));
    return element;
  }
  onWidth(box, draw);
  return section('flame', 'Where the CPU time went', 'Callers above, what they called below. The width is the larger of both times; red calls take more than before, blue ones less, the stronger the colour the more. Colours are not claims: small calls differ by chance.', h('div', { class: 'tools' }, out), note, box);
}
