// The flame graph: a tree of calls, drawn from the root down. Width is time; a click zooms, typing searches.

import type { Page, Tree } from './data';
import { choice, color, h, onTheme, onWidth, section } from './dom';
import { count, seconds, share } from './format';
import { KINDS } from './functions';
import { flash, type Places } from './links';

const ROW = 19;

export function flame(page: Page, places: Places): HTMLElement {
  const { flames, functions } = page;
  const has = { cpu: flames.some((view) => view.cpu.totals.length > 0), waiting: flames.some((view) => view.waiting.totals.length > 0) };
  if (!has.cpu && !has.waiting) return section('flame', 'Flame graph', 'No stacks were recorded.');
  let waiting = !has.cpu;
  let view = 0;
  let graph = new Graph({ functions: [], depths: [], totals: [], pruned: 0 });
  /** Node that fills the width. */
  let top = 0;
  /** Node with the focus of pointer or keyboard; -1: none. */
  let at = -1;
  let pattern = '';
  let exact: string | null = null;
  let boxes: { node: number; x: number; y: number; width: number }[] = [];
  let colors: Record<string, string> = {};

  const canvas = h('canvas', {
    tabindex: 0,
    role: 'img',
    'aria-label': 'Flame graph. Arrow keys walk the calls, Enter zooms in, Escape zooms out.',
  });
  const status = h('div', { class: 'status', 'aria-live': 'polite' });
  const matches = h('span', { class: 'matches' });
  const search = h('input', { type: 'search', placeholder: 'search functions', 'aria-label': 'Search the flame graph', input: () => find(search.value, null) });
  const out = h('button', { type: 'button', class: 'small', click: () => zoom(0) }, 'zoom out');
  const select = h(
    'select',
    { 'aria-label': 'Threads', change: () => load(waiting, Number(select.value)) },
    flames.map((candidate, index) => h('option', { value: index }, candidate.label)),
  );
  const switcher = choice('Time', [['cpu', 'On CPU'], ['waiting', 'Waiting']], waiting ? 'waiting' : 'cpu', (value) => load(value === 'waiting', view));
  const tip = h('div', { class: 'tip', hidden: true });
  const note = h('p', { class: 'note' });
  const scroll = h('div', { class: 'flame' }, canvas);

  const name = (node: number): string => {
    const index = graph.functions[node];
    return index === -1 ? flames[view].label : index === -2 ? 'calls too small to draw' : (functions.rows[index]?.[0] ?? '?');
  };
  const kind = (node: number): string => {
    const index = graph.functions[node];
    return index < 0 ? 'heading' : KINDS[functions.rows[index]?.[2] ?? 3];
  };
  const found = (node: number): boolean => {
    if (graph.functions[node] < 0) return false;
    if (exact !== null) return name(node) === exact;
    return pattern !== '' && name(node).toLowerCase().includes(pattern);
  };

  function load(waits: boolean, index: number): void {
    waiting = waits;
    view = index;
    select.value = String(index);
    const tree = waits ? flames[index].waiting : flames[index].cpu;
    graph = new Graph(tree);
    top = 0;
    at = -1;
    find(search.value, exact);
    note.textContent =
      tree.totals.length === 0
        ? `No ${waits ? 'waiting' : 'CPU'} stacks were recorded for ${flames[index].label}.`
        : [
            `${seconds(tree.totals[0] / 1e6)} ${waits ? 'of waiting, by off-CPU samples and recorded waits' : 'of CPU time, by samples'}.`,
            tree.pruned > 0 ? `${count(tree.pruned)} calls too small to see are drawn as one.` : '',
          ].join(' ');
  }

  function find(text: string, name: string | null): void {
    pattern = text.trim().toLowerCase();
    exact = name !== null && text === name ? name : null;
    const share_ = pattern === '' ? 0 : graph.share(found);
    matches.textContent = pattern === '' || graph.count === 0 ? '' : `${share(share_)} of the time`;
    draw();
  }

  function zoom(node: number): void {
    top = node;
    draw();
  }

  function draw(): void {
    const ratio = Math.min(devicePixelRatio || 1, 3);
    const width = scroll.clientWidth;
    const height = Math.max(graph.deepest(top) + 1, 1) * ROW + 1;
    if (width === 0) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext('2d');
    if (!pen) return;
    pen.scale(ratio, ratio);
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    boxes = [];
    const scale = width / Math.max(graph.totals[top] ?? 1, 1e-9);
    const chain = graph.above(top);
    chain.forEach((node, depth) => box(pen, node, 0, depth, width, true));
    graph.walk(top, (node, start) => {
      const x = start * scale;
      const wide = graph.totals[node] * scale;
      if (wide < 0.4) return false;
      box(pen, node, x, graph.depths[node], wide, false);
      return true;
    });
    out.hidden = top === 0;
  }

  function box(pen: CanvasRenderingContext2D, node: number, x: number, depth: number, width: number, above: boolean): void {
    const y = depth * ROW;
    const hit = found(node);
    const dim = (pattern !== '' && !hit) || above;
    pen.globalAlpha = dim ? 0.38 : 1;
    pen.fillStyle = hit ? colors.match : tint(colors[kind(node)], name(node));
    pen.fillRect(x, y, Math.max(width - (width > 3 ? 0.8 : 0), 0.4), ROW - 1);
    pen.globalAlpha = 1;
    if (node === at) {
      pen.strokeStyle = colors.text;
      pen.lineWidth = 1.5;
      pen.strokeRect(x + 0.75, y + 0.75, Math.max(width - 2.3, 1), ROW - 2.5);
    }
    if (width > 26) {
      pen.fillStyle = hit ? colors.onmatch : dim ? colors.text : colors.onflame;
      pen.fillText(fit(pen, name(node), width - 9), x + 4, y + ROW / 2);
    }
    boxes.push({ node, x, y, width });
  }

  function focus(node: number): void {
    if (node === at) return;
    at = node;
    draw();
    status.replaceChildren(...(node < 0 ? [] : details(node)));
  }

  function details(node: number): HTMLElement[] {
    const total = graph.totals[node];
    const own = graph.own(node);
    const index = graph.functions[node];
    const module = index >= 0 ? functions.modules[functions.rows[index][1]] : '';
    const place = index >= 0 ? new Map(functions.places).get(index) : undefined;
    const whole = Math.max(graph.totals[0], 1e-9);
    return [
      h('b', null, name(node)),
      h('span', null, `${share(total / whole)} · ${seconds(total / 1e6)}${own > 0 ? ` · itself ${share(own / whole)}` : ''}`),
      h('small', null, [index >= 0 ? kind(node) : '', module, place].filter(Boolean).join(' · ')),
    ];
  }

  const under = (event: MouseEvent): number => {
    const edge = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
    return boxes.find((candidate) => x >= candidate.x && x < candidate.x + candidate.width && y >= candidate.y && y < candidate.y + ROW)?.node ?? -1;
  };
  canvas.addEventListener('pointermove', (event) => {
    const node = under(event);
    focus(node);
    tip.hidden = node < 0 || event.pointerType === 'touch';
    if (node < 0) return;
    tip.replaceChildren(...details(node));
    const room = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(Math.min(event.clientX + 14, room - Math.min(tip.offsetWidth, room) - 8), 8)}px`;
    tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18}px`;
  });
  canvas.addEventListener('pointerleave', () => {
    tip.hidden = true;
    focus(-1);
  });
  canvas.addEventListener('click', (event) => {
    const node = under(event);
    if (node >= 0) zoom(node);
    tip.hidden = true;
  });
  canvas.addEventListener('keydown', (event) => {
    const here = at < 0 ? top : at;
    const step: Record<string, () => void> = {
      ArrowDown: () => focus(graph.children(here)[0] ?? here),
      ArrowUp: () => focus(Math.max(graph.parents[here], 0)),
      ArrowRight: () => focus(graph.sibling(here, 1)),
      ArrowLeft: () => focus(graph.sibling(here, -1)),
      Enter: () => zoom(here),
      Escape: () => zoom(0),
    };
    if (!step[event.key]) return;
    step[event.key]();
    event.preventDefault();
  });
  onWidth(scroll, draw);
  const theme = () => {
    for (const key of ['match', 'text']) colors[key] = color(key);
    for (const key of KINDS) colors[key] = color(`flame-${key}`);
    colors.onflame = color('on-flame');
    colors.onmatch = color('on-match');
    draw();
  };
  onTheme(theme);

  const key = (kind: string, text: string) => h('li', null, h('i', { class: `key fk-${kind}` }), text);
  const element = section(
    'flame',
    'Flame graph',
    'Each box is a function, below its caller; its width is its time. Click to zoom in, Escape zooms out.',
    h('div', { class: 'tools' }, switcher.element, flames.length > 1 ? select : null, search, matches, out, h('ul', { class: 'keys' }, key('native', 'native'), key('kernel', 'kernel'), key('jit', 'JIT, managed'), key('unknown', 'no mapping'))),
    scroll,
    status,
    note,
    tip,
  );
  places.showFunction = (_index, wanted, waits) => {
    search.value = wanted;
    exact = wanted;
    switcher.set(waits ? 'waiting' : 'cpu');
    load(waits, 0);
    find(wanted, wanted);
    flash(element, 'start');
  };
  load(waiting, 0);
  theme();
  return element;
}

/** A tree of calls with what drawing it needs. */
class Graph {
  readonly functions: number[];
  readonly depths: number[];
  readonly totals: number[];
  readonly parents: number[];
  /** The node after a node's last descendant. */
  private readonly ends: number[];

  constructor(tree: Tree) {
    this.functions = tree.functions;
    this.depths = tree.depths;
    this.totals = tree.totals;
    this.parents = [];
    this.ends = new Array<number>(this.count).fill(this.count);
    const open: number[] = [];
    for (let node = 0; node < this.count; node += 1) {
      while (open.length > 0 && this.depths[open[open.length - 1]] >= this.depths[node]) this.ends[open.pop() as number] = node;
      this.parents.push(open[open.length - 1] ?? -1);
      open.push(node);
    }
  }

  get count(): number {
    return this.functions.length;
  }

  children(node: number): number[] {
    const children = [];
    for (let child = node + 1; child < this.ends[node]; child = this.ends[child]) children.push(child);
    return children;
  }

  own(node: number): number {
    return Math.max(this.children(node).reduce((rest, child) => rest - this.totals[child], this.totals[node]), 0);
  }

  sibling(node: number, by: number): number {
    const parent = this.parents[node];
    if (parent < 0) return node;
    const all = this.children(parent);
    return all[all.indexOf(node) + by] ?? node;
  }

  /** The callers of a node, root first. */
  above(node: number): number[] {
    const chain = [];
    for (let parent = this.parents[node] ?? -1; parent >= 0; parent = this.parents[parent]) chain.unshift(parent);
    return chain;
  }

  deepest(top: number): number {
    let deepest = this.depths[top] ?? 0;
    for (let node = top; node < (this.ends[top] ?? 0); node += 1) deepest = Math.max(deepest, this.depths[node]);
    return deepest;
  }

  /** Visits `top` and what is below it with its start on the time scale; false: not what is below. */
  walk(top: number, visit: (node: number, start: number) => boolean): void {
    if (top >= this.count) return;
    const starts: number[] = [0];
    const base = this.depths[top];
    for (let node = top; node < this.ends[top]; ) {
      const level = this.depths[node] - base;
      const start = starts[level];
      starts[level + 1] = start;
      starts[level] = start + this.totals[node];
      node = visit(node, start) ? node + 1 : this.ends[node];
    }
  }

  /** Share of the time below nodes that match; nested matches count once. */
  share(matches: (node: number) => boolean): number {
    let sum = 0;
    for (let node = 0; node < this.count; ) {
      if (matches(node)) {
        sum += this.totals[node];
        node = this.ends[node];
      } else node += 1;
    }
    return sum / Math.max(this.totals[0] ?? 0, 1e-9);
  }
}

/** The colour of a kind, a little lighter or darker by name, so that neighbours can be told apart. */
function tint(base: string, name: string): string {
  let hash = 0;
  for (let index = 0; index < name.length; index += 1) hash = (hash * 31 + name.charCodeAt(index)) | 0;
  const [hue, saturation, lightness] = base.split(' ').map(parseFloat);
  const shift = ((hash >>> 0) % 100) / 100 - 0.5;
  return `hsl(${hue + shift * 16} ${saturation}% ${lightness + shift * 10}%)`;
}

function fit(pen: CanvasRenderingContext2D, text: string, width: number): string {
  if (text.length * 14 < width || pen.measureText(text).width <= width) return text;
  let low = 0;
  let high = Math.min(text.length, Math.ceil(width / 3));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${text.slice(0, low)}…` : '';
}
