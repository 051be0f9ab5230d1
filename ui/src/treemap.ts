// The tree of holders as areas: each as large as what lives because of it, those that it holds inside of it. One click shows one alone.

import type { Held } from './heap-data';
import { h, onWidth, svg } from './dom';
import { bytes, count, share } from './format';

interface Node {
  via: string;
  type: string;
  objects: number;
  retained: number;
  above: Node | null;
  below: Node[];
}

interface Area {
  x: number;
  y: number;
  width: number;
  height: number;
}

const HEIGHT = 340;
/** Room for the name above what is inside. */
const TITLE = 15;
/** Areas that are smaller than this on one side are not drawn, and those in which no name has room have none. */
const LEAST = 3;
const NAMED = { width: 44, height: 13 };
/** Width of a letter, about. */
const LETTER = 6.1;
const DEEPEST = 12;
const COLORS = 8;

export function treemap(of: Held): HTMLElement | null {
  const top = tree(of);
  if (top.below.length === 0) return null;
  const plot = h('div', { class: 'treemap' });
  const where = h('p', { class: 'crumbs' });
  let shown = top;
  const draw = () => {
    const width = plot.getBoundingClientRect().width;
    where.replaceChildren(...crumbs(shown, show));
    if (width > 0) plot.replaceChildren(picture(shown, top, width, show));
  };
  const show = (node: Node) => {
    shown = node;
    draw();
  };
  const element = h('div', { class: 'plate holders' }, where, plot);
  onWidth(element, draw);
  return element;
}

/** From rows with depths: each is below the last one before it that is less deep. */
function tree(of: Held): Node {
  const top: Node = { via: '', type: 'all that is alive', objects: 0, retained: of.bytes, above: null, below: [] };
  const open = [top];
  for (const row of of.holders) {
    open.length = Math.min(open.length, row.depth + 1);
    const above = open[open.length - 1];
    const node: Node = { via: row.via ?? '', type: row.type, objects: row.objects, retained: row.retained, above, below: [] };
    above.below.push(node);
    open.push(node);
  }
  return top;
}

function crumbs(shown: Node, show: (node: Node) => void): HTMLElement[] {
  const steps: HTMLElement[] = [];
  for (let node: Node | null = shown; node; node = node.above) {
    const one = node;
    const text = name(one);
    steps.unshift(one === shown ? h('b', null, text) : h('button', { type: 'button', class: 'small', click: () => show(one) }, text));
  }
  steps.push(h('span', { class: 'value' }, `${bytes(shown.retained)}${shown.objects > 0 ? `, ${count(shown.objects)} objects` : ''}`));
  return steps;
}

function name(node: Node): string {
  const root = node.above !== null && node.above.above === null;
  return root && node.via ? `${node.via} → ${node.type}` : node.type;
}

function picture(shown: Node, top: Node, width: number, show: (node: Node) => void): SVGElement {
  const root = svg('svg', { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: 'group', 'aria-label': 'What lives because of each holder, as areas; the table below has the same' });
  const whole = Math.max(top.retained, 1);
  const inside = (node: Node, area: Area, depth: number, color: number) => {
    const sum = node.below.reduce((all, one) => all + one.retained, 0);
    // What it holds by itself, and what is too small to be listed, stays empty.
    const areas = squarified(node.below.map((one) => one.retained), area, Math.max(node.retained, sum));
    node.below.forEach((one, index) => {
      const place = areas[index];
      if (!place || place.width < LEAST || place.height < LEAST) return;
      const own = depth === 0 ? index % COLORS : color;
      root.append(box(one, place, depth, own, whole, show));
      const room = { x: place.x + 2, y: place.y + TITLE, width: place.width - 4, height: place.height - TITLE - 2 };
      if (depth + 1 < DEEPEST && room.width > LEAST && room.height > LEAST) inside(one, room, depth + 1, own);
    });
  };
  inside(shown, { x: 0, y: 0, width, height: HEIGHT }, 0, 0);
  return root;
}

function box(node: Node, at: Area, depth: number, color: number, whole: number, show: (node: Node) => void): SVGElement {
  const text = name(node);
  const letters = Math.floor((at.width - 6) / LETTER);
  const label = at.width >= NAMED.width && at.height >= NAMED.height ? (text.length > letters ? `${text.slice(0, Math.max(letters - 1, 1))}…` : text) : '';
  const go = () => show(node);
  const group = svg(
    'g',
    {
      class: `holder-area f-c${color + 1}`,
      tabindex: node.below.length > 0 ? 0 : null,
      role: node.below.length > 0 ? 'button' : null,
      'aria-label': `${text}, ${bytes(node.retained)}`,
      click: node.below.length > 0 ? go : null,
      keydown: node.below.length > 0 ? (event: KeyboardEvent) => (event.key === 'Enter' || event.key === ' ') && (event.preventDefault(), go()) : null,
    },
    svg('title', null, `${text}\n${bytes(node.retained)}, ${share(node.retained / whole)} of what is alive; ${count(node.objects)} objects`),
    svg('rect', { x: at.x + 0.5, y: at.y + 0.5, width: Math.max(at.width - 1, 1), height: Math.max(at.height - 1, 1), 'fill-opacity': Math.min(0.16 + depth * 0.09, 0.7) }),
    label ? svg('text', { x: at.x + 4, y: at.y + 11.5 }, label) : null,
  );
  return group;
}

/** Areas in proportion to values, which come largest first, as near to squares as rows of them can be (Bruls, Huizing and van Wijk). */
function squarified(values: number[], within: Area, whole: number): Area[] {
  const { width, height } = within;
  if (!(whole > 0) || width <= 0 || height <= 0) return [];
  const scale = (width * height) / whole;
  const sizes = values.map((value) => Math.max(value, 0) * scale);
  const areas: Area[] = [];
  let left: Area = { ...within };
  let from = 0;
  while (from < sizes.length && sizes[from] > 0) {
    const side = Math.min(left.width, left.height);
    if (side <= 0) break;
    let to = from + 1;
    let sum = sizes[from];
    const worst = (all: number, first: number, last: number) => Math.max((side * side * first) / (all * all), (all * all) / (side * side * Math.max(last, 1e-9)));
    while (to < sizes.length && sizes[to] > 0 && worst(sum + sizes[to], sizes[from], sizes[to]) <= worst(sum, sizes[from], sizes[to - 1])) {
      sum += sizes[to];
      to += 1;
    }
    const thick = sum / side;
    let along = 0;
    for (let at = from; at < to; at += 1) {
      const long = sizes[at] / thick;
      areas[at] = left.width >= left.height ? { x: left.x, y: left.y + along, width: thick, height: long } : { x: left.x + along, y: left.y, width: long, height: thick };
      along += long;
    }
    left = left.width >= left.height ? { x: left.x + thick, y: left.y, width: left.width - thick, height: left.height } : { x: left.x, y: left.y + thick, width: left.width, height: left.height - thick };
    from = to;
  }
  return areas;
}
