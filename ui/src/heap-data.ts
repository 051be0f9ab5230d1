// What the page has of memory: heaps, how they grow, and where the memory of a process went.

export interface HeapType {
  name: string;
  module?: string;
  objects: number;
  bytes: number;
  live_objects?: number;
  live_bytes?: number;
  retained_bytes?: number;
}

export interface Held {
  bytes: number;
  suspects: { way: string; holders: number; retained: number; share: number; held?: { type: string; objects: number; retained: number } }[];
  holders: { depth: number; via?: string; type: string; objects: number; bytes: number; retained: number }[];
  inspections?: { id: string; title: string; objects: number; bytes: number; measure: string; rows: InspectionRow[] }[];
}

export interface InspectionRow {
  what: string;
  objects: number;
  bytes: number;
}

export interface Growth {
  is_one_process: boolean;
  moments: { taken_at?: string; objects: number; bytes: number }[];
  holders: { way: string; type: string; keeps?: string; objects: number[]; retained: number[]; always: boolean }[];
  types: { name: string; module?: string; objects: number[]; bytes: number[]; always: boolean }[];
}

export interface Heap {
  name: string;
  pid: number;
  runtime?: string;
  source: string;
  collector?: string;
  taken_at?: string;
  taken_at_unix_seconds?: number;
  pause_ms: number;
  attempts: number;
  objects: number;
  bytes: number;
  live_objects?: number;
  live_bytes?: number;
  free_bytes: number;
  references: number;
  type_count: number;
  generations?: { name: string; objects: number; bytes: number }[];
  roots?: [string, number][];
  whole: boolean;
  problems: number;
  skipped_bytes: number;
  dangling: number;
  warnings?: string[];
  types: HeapType[];
  held?: Held;
}

interface Blocks {
  count: number;
  bytes: number;
}

/** What an allocator of native code holds. */
export interface Allocator {
  name: string;
  whole: boolean;
  arenas: { system: number; resident: number; used: Blocks; free: Blocks; top: number; unknown?: number }[];
  mapped: Blocks;
  cached: Blocks;
  classes: Class[];
}

/** Blocks or objects of similar size. */
export interface Class {
  up_to: number;
  used: Blocks;
  free: Blocks;
}

/** What a managed runtime has. */
export interface Runtime {
  name: string;
  whole: boolean;
  pools: { name: string; kind: string; reserved: number; committed: number; resident: number; used: Blocks }[];
  classes?: Class[];
}

/** Where the memory of a process went. */
export interface Footprint {
  name: string;
  pid: number;
  taken_at?: string;
  pause_ms: number;
  resident: number;
  parts: { kind: string; text: string; resident: number; reserved: number }[];
  kernel?: { resident: number; anonymous: number; files: number; shared: number; swapped: number; page_tables: number };
  allocators?: Allocator[];
  runtimes?: Runtime[];
  warnings?: string[];
}
