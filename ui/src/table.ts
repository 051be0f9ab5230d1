// Tables that sort by a click on a heading and show their first rows.

import { h, type Child } from './dom';

export interface Column<T> {
  title: string;
  /** What it means, as a tool tip. */
  about?: string;
  /** Right-aligned. */
  numeric?: boolean;
  class?: string;
  cell: (row: T) => Child;
  /** What it sorts by; absent: it does not. Numbers largest first, text from A. */
  sort?: (row: T) => number | string;
}

export interface TableView<T> {
  element: HTMLElement;
  /** Shows other rows, or the same again. */
  update: (rows: T[]) => void;
  /** Shows all rows, and returns the element of one. */
  reveal: (row: T) => HTMLElement | null;
}

export function table<T>(
  columns: Column<T>[],
  rows: T[],
  options: { first?: number; sorted?: number; class?: string; empty?: string; attributes?: (row: T) => Record<string, string> } = {},
): TableView<T> {
  const first = options.first ?? 25;
  let shown = first;
  let sorted = options.sorted ?? -1;
  let turned = false;
  let current = rows;
  let elements = new Map<T, HTMLElement>();
  const body = h('tbody', null);
  const more = h('button', {
    type: 'button',
    class: 'more',
    click: () => {
      shown = shown < current.length ? Math.min(current.length, shown + 200) : first;
      draw();
    },
  });
  const heads = columns.map((column, index) =>
    h(
      'th',
      { class: [column.numeric ? 'numeric' : '', column.class ?? ''].join(' ').trim() || null, title: column.about ?? null, scope: 'col' },
      column.sort
        ? h(
            'button',
            {
              type: 'button',
              click: () => {
                turned = sorted === index ? !turned : false;
                sorted = index;
                draw();
              },
            },
            column.title,
          )
        : column.title,
    ),
  );

  function draw(): void {
    const by = columns[sorted]?.sort;
    const ordered = by
      ? [...current].sort((a, b) => {
          const [x, y] = [by(a), by(b)];
          const order = typeof x === 'number' && typeof y === 'number' ? y - x : String(x).localeCompare(String(y), 'en', { numeric: true });
          return turned ? -order : order;
        })
      : current;
    heads.forEach((head, index) => {
      const numbers = current.length > 0 && typeof by?.(current[0]) === 'number';
      if (index === sorted) head.setAttribute('aria-sort', turned === numbers ? 'ascending' : 'descending');
      else head.removeAttribute('aria-sort');
    });
    elements = new Map();
    body.replaceChildren(
      ...ordered.slice(0, shown).map((row) => {
        const element = h(
          'tr',
          options.attributes?.(row) ?? null,
          columns.map((column) =>
            h('td', { class: [column.numeric ? 'numeric' : '', column.class ?? ''].join(' ').trim() || null }, column.cell(row)),
          ),
        );
        elements.set(row, element);
        return element;
      }),
    );
    if (current.length === 0) body.append(h('tr', null, h('td', { colspan: columns.length, class: 'empty' }, options.empty ?? 'nothing')));
    more.hidden = current.length <= first;
    more.textContent = shown < current.length ? `show ${Math.min(200, current.length - shown)} more of ${current.length}` : 'show fewer';
  }
  draw();
  return {
    element: h('div', { class: `table ${options.class ?? ''}`.trim() }, h('table', null, h('thead', null, h('tr', null, heads)), body), more),
    update(next) {
      current = next;
      shown = first;
      draw();
    },
    reveal(row) {
      if (!elements.has(row)) {
        shown = current.length;
        draw();
      }
      return elements.get(row) ?? null;
    },
  };
}

/** A bar of parts, each a share of the whole width. */
export function bar(parts: [share: number, kind: string, title: string][]): HTMLElement {
  return h(
    'div',
    { class: 'bar', role: 'img', 'aria-label': parts.map((part) => part[2]).join(', '), title: parts.map((part) => part[2]).join('\n') },
    parts.map(([share, kind]) => {
      const element = h('i', { class: `f-${kind}` });
      element.style.width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
      return element;
    }),
  );
}
