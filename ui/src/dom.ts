// Elements from plain data. Text is always text: nothing here, or anywhere in this folder, takes markup.

export type Child = Node | string | number | null | undefined | false | Child[];

type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

const SVG = 'http://www.w3.org/2000/svg';

function fill(element: Element, attributes: Attributes | null, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value as EventListener);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
}

export function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(typeof child === 'number' ? String(child) : child);
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function svg(tag: string, attributes: Attributes | null, ...children: Child[]): SVGElement {
  const element = document.createElementNS(SVG, tag) as SVGElement;
  fill(element, attributes, children);
  return element;
}

/** Text with `code` in it. */
export function marked(text: string): Child[] {
  return text.split(/(`[^`]+`)/).map((part) => (part.length > 2 && part.startsWith('`') && part.endsWith('`') ? h('code', null, part.slice(1, -1)) : part));
}

/** A section of the page with its heading. */
export function section(id: string, title: string, lead: Child, ...children: Child[]): HTMLElement {
  return h(
    'section',
    { id, 'aria-labelledby': `${id}-title` },
    h('h2', { id: `${id}-title` }, title),
    lead ? h('p', { class: 'lead' }, lead) : null,
    ...children,
  );
}

/** Buttons of which one is on. */
export function choice<T extends string>(
  label: string,
  options: [T, string][],
  chosen: T,
  change: (value: T) => void,
): { element: HTMLElement; set: (value: T) => void } {
  const buttons = options.map(([value, text]) =>
    h('button', { type: 'button', 'aria-pressed': value === chosen ? 'true' : 'false', click: () => set(value) }, text),
  );
  function set(value: T): void {
    options.forEach(([option], index) => buttons[index].setAttribute('aria-pressed', option === value ? 'true' : 'false'));
    change(value);
  }
  return { element: h('div', { class: 'choice', role: 'group', 'aria-label': label }, buttons), set };
}

/** A colour of the style sheet, as it is now (light or dark). */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Calls `draw` now and whenever the page turns from light to dark or back. */
export function onTheme(draw: () => void): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
}

/** Calls `draw` whenever the width of `element` changes, and once it is known. */
export function onWidth(element: HTMLElement, draw: () => void): void {
  // What is drawn changes the height: only an element without height can be observed without a loop.
  const ruler = h('div', { class: 'ruler' });
  element.append(ruler);
  new ResizeObserver(draw).observe(ruler);
}
