// Who waits for whom, as pictures: circles of waits on the right, those who wait behind them to the left.

import type { Dump } from './dump-data';
import { h, svg } from './dom';
import { count } from './format';

/** Boxes of one picture: more would not be read. */
const BOXES = 60;
const WIDTH = 200;
const HEIGHT = 42;
/** Room between layers, where the arrows and their words are. */
const GAP = 130;
const ROW = 60;
const MARGIN = 16;

type Point = [x: number, y: number];

/** Waiters of one owner that nobody waits for are one box. */
interface Box {
  threads: number[];
  owner: number;
  /** Waits between it and the roots. */
  layer: number;
}

/** Threads that are connected by waits. */
export interface Picture {
  /** Members of the circle, in order; or the one thread that everybody waits for. */
  roots: number[];
  circle: boolean;
  boxes: Box[];
}

export type Follow = (tid: number) => void;

export function pictures(dump: Dump): Picture[] {
  const waiters = new Map<number, number[]>();
  for (const [waiter, owner] of dump.waits.edges) waiters.set(owner, [...(waiters.get(owner) ?? []), waiter]);
  const waiting = new Set(dump.waits.edges.map(([waiter]) => waiter));
  const locks = new Map(dump.threads.map((thread) => [thread.tid, thread.lock]));
  const circles = dump.waits.cycles.map((roots) => ({ roots, circle: true, boxes: behind(roots, waiters) }));
  const others = [...waiters.keys()]
    .filter((owner) => !waiting.has(owner))
    .map((owner) => ({ roots: [owner], circle: false, boxes: behind([owner], waiters) }))
    // A join of one thread needs no picture.
    .filter((picture) => picture.boxes.some((box) => box.threads.some((tid) => locks.get(tid)?.wants !== 'waits for its end')));
  const size = (picture: Picture) => picture.boxes.reduce((sum, box) => sum + box.threads.length, 0);
  return [...circles, ...others].sort((a, b) => Number(b.circle) - Number(a.circle) || size(b) - size(a));
}

/** Layer by layer, away from the roots. */
function behind(roots: number[], waiters: Map<number, number[]>): Box[] {
  const seen = new Set(roots);
  const boxes: Box[] = [];
  let layer = roots;
  for (let depth = 1; layer.length > 0 && boxes.length < BOXES; depth += 1) {
    const next: number[] = [];
    for (const owner of layer) {
      const fresh = (waiters.get(owner) ?? []).filter((tid) => !seen.has(tid) && seen.add(tid));
      const inner = fresh.filter((tid) => waiters.has(tid));
      const leaves = fresh.filter((tid) => !waiters.has(tid));
      for (const tid of inner) boxes.push({ threads: [tid], owner, layer: depth });
      if (leaves.length > 0) boxes.push({ threads: leaves, owner, layer: depth });
      next.push(...inner);
    }
    layer = next;
  }
  return boxes.slice(0, BOXES);
}

export function draw(dump: Dump, picture: Picture, number: number, follow: Follow): HTMLElement {
  const { roots, boxes, circle } = picture;
  const head = `head-${number}`;
  const layers = Math.max(0, ...boxes.map((box) => box.layer));
  const inLayer = (layer: number) => boxes.filter((box) => box.layer === layer).length;
  const tallest = Math.max(0, ...boxes.map((box) => inLayer(box.layer)));
  const [rootWidth, rootHeight] = rootSize(picture);
  const height = Math.max(rootHeight, tallest * ROW) + 2 * MARGIN;
  const left = layers * (WIDTH + GAP);
  const width = left + rootWidth + 2 * MARGIN;
  const centers = new Map<number, Point>();
  roots.forEach((tid, index) => {
    const [x, y] = rootCenter(picture, index);
    centers.set(tid, [MARGIN + left + x, y + (height - rootHeight) / 2]);
  });
  const used = new Map<number, number>();
  for (const box of boxes) {
    const row = used.get(box.layer) ?? 0;
    used.set(box.layer, row + 1);
    centers.set(box.threads[0], [MARGIN + left - box.layer * (WIDTH + GAP) + WIDTH / 2, (height - inLayer(box.layer) * ROW) / 2 + (row + 0.5) * ROW]);
  }
  const edge = (d: string) => svg('path', { class: 'edge', 'marker-end': `url(#${head})`, d });
  const edges: SVGElement[] = circle ? circleEdges(dump, roots, centers, edge) : [];
  for (const box of boxes) {
    const [from, to] = [centers.get(box.threads[0]), centers.get(box.owner)];
    if (!from || !to) continue;
    const [start, end] = [from[0] + WIDTH / 2, to[0] - WIDTH / 2];
    const bend = (end - start) / 2;
    edges.push(edge(`M${start} ${from[1]} C${start + bend} ${from[1]} ${end - bend} ${to[1]} ${end} ${to[1]}`));
  }
  const at = (tid: number): Point => centers.get(tid) ?? [0, 0];
  return h(
    'figure',
    { class: circle ? 'graph circle' : 'graph' },
    svg(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, width: Math.min(width, 1220), role: 'img', 'aria-label': circle ? 'Threads that wait for each other' : 'Threads that wait for one' },
      svg('defs', null, svg('marker', { id: head, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: 'auto' }, svg('path', { d: 'M0 0.5 L7.5 4 L0 7.5 z' }))),
      edges,
      roots.map((tid) => drawBox(dump, [tid], at(tid), circle ? 'member' : 'holder', follow)),
      boxes.map((box) => drawBox(dump, box.threads, at(box.threads[0]), 'waiter', follow)),
    ),
  );
}

/** Boxes of a circle must not touch: as much of its edge as they are wide. */
const radius = (picture: Picture) => Math.max(picture.roots.length * 46, 110);

function rootSize(picture: Picture): Point {
  const { roots, circle } = picture;
  if (roots.length <= 1) return [WIDTH + (circle ? 70 : 0), HEIGHT + (circle ? 50 : 0)];
  if (roots.length === 2) return [2 * WIDTH + GAP * 1.6, HEIGHT + 90];
  return [3 * radius(picture) + WIDTH, 2 * radius(picture) + HEIGHT + 10];
}

function rootCenter(picture: Picture, index: number): Point {
  const [width, height] = rootSize(picture);
  const members = picture.roots.length;
  if (members <= 1) return [WIDTH / 2, height / 2];
  if (members === 2) return [WIDTH / 2 + index * (width - WIDTH), height / 2];
  const angle = (2 * Math.PI * index) / members + Math.PI;
  return [width / 2 + radius(picture) * 1.5 * Math.cos(angle), height / 2 + radius(picture) * Math.sin(angle)];
}

function circleEdges(dump: Dump, roots: number[], centers: Map<number, Point>, edge: (d: string) => SVGElement): SVGElement[] {
  const locks = new Map(dump.threads.map((thread) => [thread.tid, thread.lock]));
  return roots.flatMap((tid, index) => {
    const from = centers.get(tid);
    const to = centers.get(roots[(index + 1) % roots.length]);
    if (!from || !to) return [];
    const [path, label] = circleEdge(roots.length, index, from, to);
    const words = roots.length <= 6 ? svg('text', { class: 'why', 'text-anchor': 'middle', x: label[0], y: label[1] }, locks.get(tid)?.wants) : null;
    return words ? [edge(path), words] : [edge(path)];
  });
}

/** The path of an arrow, and where its words are. */
function circleEdge(members: number, index: number, from: Point, to: Point): [string, Point] {
  if (members === 1) {
    const right = from[0] + WIDTH / 2;
    return [`M${right} ${from[1] + 10} C${right + 60} ${from[1] + 40} ${right + 60} ${from[1] - 40} ${right} ${from[1] - 10}`, [from[0], from[1] + HEIGHT / 2 + 18]];
  }
  if (members === 2) {
    const up = index === 0 ? -1 : 1;
    const start = from[0] - up * (WIDTH / 2);
    const end = to[0] + up * (WIDTH / 2);
    const middle = (start + end) / 2;
    return [`M${start} ${from[1] + up * 8} Q${middle} ${from[1] + up * 52} ${end} ${to[1] + up * 8}`, [middle, from[1] + up * 40 + (index === 0 ? -3 : 11)]];
  }
  const [start, end] = [edgeOf(from, to), edgeOf(to, from)];
  return [`M${start[0]} ${start[1]} L${end[0]} ${end[1]}`, [(start[0] + end[0]) / 2, (start[1] + end[1]) / 2 - 5]];
}

/** Where a line from the middle of a box towards `to` leaves it. */
function edgeOf(from: Point, to: Point): Point {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const reach = (distance: number, half: number) => (Math.abs(distance) < 1e-6 ? Infinity : half / Math.abs(distance));
  const part = Math.min(reach(dx, WIDTH / 2 + 2), reach(dy, HEIGHT / 2 + 2), 1);
  return [from[0] + dx * part, from[1] + dy * part];
}

function drawBox(dump: Dump, tids: number[], [x, y]: Point, kind: string, follow: Follow): SVGElement {
  const threads = tids.map((tid) => dump.threads.find((thread) => thread.tid === tid) ?? { tid, doing: '', group: -1, name: undefined });
  const [first] = threads;
  const own = dump.groups[first.group]?.own_function ?? '';
  const alone = threads.length === 1;
  const title = alone ? (first.name ?? `thread ${first.tid}`) : `${count(threads.length)} threads`;
  const below = alone ? [first.name ? first.tid : null, own].filter(Boolean).join(' · ') : threads.slice(0, 8).map((thread) => thread.name ?? thread.tid).join(', ');
  const text = (style: string, dy: number, content: string) => svg('text', { class: style, x: x - WIDTH / 2 + 10, y: y + dy }, content);
  return svg(
    'g',
    { class: `box ${kind}`, role: 'button', tabindex: 0, click: () => follow(first.tid), keydown: (event: KeyboardEvent) => event.key === 'Enter' && follow(first.tid) },
    svg('title', null, threads.slice(0, 20).map((thread) => `${thread.name ?? 'thread'} ${thread.tid}`).join(', ')),
    svg('rect', { x: x - WIDTH / 2, y: y - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: 8 }),
    text('name', -3, short(title, 24)),
    text('below', 13, short(below, 32)),
  );
}

function short(name: string, most: number): string {
  const chars = [...name];
  return chars.length <= most ? name : `${chars.slice(0, most - 1).join('')}…`;
}
