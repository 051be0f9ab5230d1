// Where the memory of a process went: by kind, then what its allocators hold.

import type { Whole } from './data';
import type { Allocator, Class, Footprint, Runtime } from './heap-data';
import { h, section, type Child } from './dom';
import { bytes, count, counted, seconds } from './format';
import { table } from './table';

export function footprints(page: Whole): HTMLElement[] {
  const all = page.report.footprints ?? [];
  return all.map((footprint, index) => {
    const id = index === 0 ? 'memory' : `memory-${index}`;
    const title = all.length === 1 ? 'Memory' : `Memory ${index + 1}${footprint.taken_at ? `, ${footprint.taken_at}` : ''}`;
    return section(id, title, lead(footprint), notes(footprint), parts(footprint), (footprint.allocators ?? []).map(allocator), (footprint.runtimes ?? []).map(runtime));
  });
}

/** Of which process, and when. */
export function footprintFacts(footprint: Footprint): [string, Child][] {
  return [
    ['Taken', footprint.taken_at],
    ['Resident', footprint.kernel ? bytes(footprint.kernel.resident) : null],
    ['Paused', footprint.pause_ms > 0 ? seconds(footprint.pause_ms / 1e3) : null],
  ];
}

function lead(footprint: Footprint): string {
  const kernel = footprint.kernel;
  if (!kernel) return `${bytes(footprint.resident)} in memory.`;
  const more = [
    kernel.files > 0 ? `${bytes(kernel.files)} of files, which the kernel can drop` : '',
    kernel.shared > 0 ? `${bytes(kernel.shared)} shared` : '',
    kernel.swapped > 0 ? `${bytes(kernel.swapped)} swapped out` : '',
    `page tables of ${bytes(kernel.page_tables)}`,
  ].filter((text) => text);
  return `The kernel counts ${bytes(kernel.resident)} resident: ${bytes(kernel.anonymous)} of its own; ${more.join(', ')}.`;
}

function notes(footprint: Footprint): Child {
  return (footprint.warnings ?? []).map((text) => h('p', { class: 'note' }, text));
}

/** A cell with a bar behind its number. */
function amount(of: number, whole: number): HTMLElement {
  const cell = h('div', { class: 'amount cpu' }, h('i', null), h('span', null, bytes(of)));
  (cell.firstChild as HTMLElement).style.width = `${Math.min(of / Math.max(whole, 1), 1) * 100}%`;
  return cell;
}

function parts(footprint: Footprint): HTMLElement {
  return table(
    [
      { title: 'In memory', class: 'amounts', cell: (row) => amount(row.resident, footprint.resident), sort: (row) => row.resident },
      { title: 'Share', numeric: true, cell: (row) => `${((row.resident / Math.max(footprint.resident, 1)) * 100).toFixed(1)} %`, sort: (row) => row.resident },
      { title: 'Addresses', numeric: true, cell: (row) => bytes(row.reserved), sort: (row) => row.reserved, class: 'optional' },
      { title: 'What for', class: 'text', cell: (row) => row.text, sort: (row) => row.text },
    ],
    footprint.parts,
    { sorted: 0, class: 'types' },
  ).element;
}

function allocator(of: Allocator): Child {
  const system = Math.max(...of.arenas.map((arena) => arena.system), 1);
  const extra = [
    of.cached.count > 0 ? `threads keep ${bytes(of.cached.bytes)} in ${counted(of.cached.count, 'free block', 'free blocks')}` : '',
    of.mapped.count > 0 ? `${counted(of.mapped.count, 'block has a mapping', 'blocks have mappings')} of their own, ${bytes(of.mapped.bytes)}` : '',
    of.whole ? '' : 'not whole',
  ].filter((text) => text);
  return [
    h('h3', null, `Arenas of ${of.name}`),
    extra.length > 0 ? h('p', null, `${extra.join('; ')}.`) : null,
    table(
      [
        { title: 'From the system', class: 'amounts', cell: (row) => amount(row.arena.system, system), sort: (row) => row.arena.system },
        { title: 'In use', numeric: true, cell: (row) => bytes(row.arena.used.bytes), sort: (row) => row.arena.used.bytes },
        { title: 'Free', numeric: true, cell: (row) => bytes(row.arena.free.bytes), sort: (row) => row.arena.free.bytes },
        { title: 'At the end', numeric: true, cell: (row) => bytes(row.arena.top), sort: (row) => row.arena.top, class: 'optional' },
        { title: 'Arena', class: 'text', cell: (row) => (row.number === 0 ? 'main' : String(row.number)), sort: (row) => row.number },
      ],
      of.arenas.map((arena, number) => ({ arena, number })),
      { first: 10, sorted: 0, class: 'types' },
    ).element,
    sizes('Blocks by size', of.classes),
  ];
}

function sizes(title: string, classes: Class[]): Child {
  const largest = Math.max(...classes.map((row) => row.used.bytes + row.free.bytes), 1);
  return [
    h('h3', null, title),
    table(
      [
        { title: 'Bytes', class: 'amounts', cell: (row) => amount(row.used.bytes + row.free.bytes, largest), sort: (row) => row.used.bytes + row.free.bytes },
        { title: 'In use', numeric: true, cell: (row) => `${count(row.used.count)}, ${bytes(row.used.bytes)}`, sort: (row) => row.used.bytes },
        { title: 'Free', numeric: true, cell: (row) => `${count(row.free.count)}, ${bytes(row.free.bytes)}`, sort: (row) => row.free.bytes },
        { title: 'Up to', numeric: true, cell: (row) => `${count(row.up_to)} B`, sort: (row) => row.up_to },
      ],
      classes,
      { first: 15, sorted: 0, class: 'types' },
    ).element,
  ];
}

function runtime(of: Runtime): Child {
  const largest = Math.max(...of.pools.map((pool) => pool.resident), 1);
  return [
    h('h3', null, `Memory of ${of.name}`),
    of.whole ? null : h('p', null, 'Not whole.'),
    table(
      [
        { title: 'In memory', class: 'amounts', cell: (row) => amount(row.resident, largest), sort: (row) => row.resident },
        { title: 'In use', numeric: true, cell: (row) => (row.used.bytes > 0 ? bytes(row.used.bytes) : ''), sort: (row) => row.used.bytes },
        { title: 'Objects', numeric: true, cell: (row) => (row.used.count > 0 ? count(row.used.count) : ''), sort: (row) => row.used.count },
        { title: 'Committed', numeric: true, cell: (row) => bytes(row.committed), sort: (row) => row.committed },
        { title: 'Addresses', numeric: true, cell: (row) => bytes(row.reserved), sort: (row) => row.reserved, class: 'optional' },
        { title: 'Pool', class: 'text', cell: (row) => row.name, sort: (row) => row.name },
      ],
      of.pools,
      { sorted: 0, class: 'types' },
    ).element,
    (of.classes ?? []).length > 0 ? sizes('Objects by size', of.classes ?? []) : null,
  ];
}
