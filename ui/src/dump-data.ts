// What the page has of a dump: the threads of a process at one moment, what they wait for, and its memory.

export interface Lock {
  address: string;
  kind: string;
  wants: string;
  object?: string;
  owner?: number;
  owner_is_gone?: boolean;
  proof?: string;
}

export interface Thread {
  tid: number;
  name?: string;
  doing: string;
  movement?: string;
  lock?: Lock;
  group: number;
}

export interface Frame {
  function?: string;
  module?: string;
  address: string;
  file?: string;
  line?: number;
  label: string;
  inlined?: boolean;
  found_by: string;
  repeated?: number;
  repeated_rows?: number;
  skipped?: number;
}

export interface StackGroup {
  names: string;
  threads: number[];
  running?: number;
  own_function?: string;
  doing: string;
  crashed?: boolean;
  deadlocked?: boolean;
  frames: Frame[];
  ends_early?: string;
}

export interface Queue {
  lock: Lock;
  waiters: number[];
}

export interface MemoryRow {
  kind: string;
  name?: string;
  mappings: number;
  mapped_bytes: number;
  in_dump_bytes: number;
}

export interface Managed {
  runtimes: { name: string; problem?: string }[];
  thread_pool?: { workers: number; idle: number; blocked: number[]; waiting_for_tasks: number[]; places: { function: string; threads: number }[]; queued?: number };
  operations?: { pending: number; groups: { count: number; methods: string[]; awaits: string; object?: string; object_type?: string }[] };
  heap?: { objects: number; bytes: number; free_bytes: number; type_count: number; server: boolean; types: { name: string; module: string; objects: number; bytes: number }[] };
}

export interface StrandFrame {
  function: string;
  file?: string;
  line?: number;
  inlined?: boolean;
}

/** Goroutines, threads and tasks of a language runtime other than .NET. */
export interface LanguageRuntime {
  name: string;
  path: string;
  strands: number;
  problems?: string[];
  interpreter_lock?: string;
  cycles?: string[][];
  groups: {
    count: number;
    kind: string;
    ids: string[];
    names?: string[];
    threads?: number[];
    state: string;
    wait?: {
      kind: string;
      address?: string;
      reason: string;
      descriptor?: number;
      never_ends?: boolean;
      owners?: { strand?: string; thread?: number; confidence: string; proof: string }[];
    };
    frames: StrandFrame[];
    cut?: boolean;
    started_by?: StrandFrame;
    of_runtime?: boolean;
  }[];
}

export interface Dump {
  identity: {
    name: string;
    pid: number;
    parent?: number;
    executable?: string;
    command_line?: string;
    kernel?: string;
    taken_at?: string;
    writer?: string;
    format: string;
    kind?: string;
    scrubbed?: boolean;
    file_bytes?: number;
    pause_ns?: number;
    reason?: string;
    partial?: boolean;
    whole_stacks?: number;
    named_frames?: number;
  };
  /** What crashes with the same cause have in common. */
  signature?: { text: string; version: number; made_from: string; how: string; socorro?: string; frames?: { name: string; role: string }[] };
  looks?: { count: number; span_ns?: number; pauses_ns?: number[]; lasting_cycles?: number[]; summary: string };
  threads: Thread[];
  groups: StackGroup[];
  waits: { edges: [number, number][]; cycles: number[][]; queues: Queue[] };
  managed?: Managed;
  runtimes?: LanguageRuntime[];
  memory: { mapped_bytes: number; in_dump_bytes: number; mappings: number; classes: MemoryRow[]; names: MemoryRow[]; missing: { reason: string; bytes: number }[]; not_frozen_bytes?: number };
  modules: { path: string; start: string; end: string; build_id?: string; status: string; frames: number; deleted?: boolean }[];
  undetermined: string[];
}
