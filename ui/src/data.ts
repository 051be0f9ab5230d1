// The data inside the page: mirrors crates/biopsy-report/src/html/{page,recorded}.rs and the types of its schema.
// Fields that are not known are absent.

import type { Dump } from './dump-data';
import type { Footprint, Growth, Heap } from './heap-data';

export interface Tree {
  functions: number[];
  depths: number[];
  totals: number[];
  pruned: number;
}

export interface Flame {
  tid: number | null;
  label: string;
  cpu: Tree;
  waiting: Tree;
}

export interface Line {
  label: string;
  grid: number;
  values: (number | null)[];
  role: string;
  source: [string, string[], string];
}

export interface Chart {
  id: string;
  title: string;
  unit: string;
  about: string;
  stacked: boolean;
  ceiling: number | null;
  lines: Line[];
  merged: number;
}

export interface Row {
  tid: number;
  pid: number;
  name: string;
  group: number;
  times: [number, number, number, number];
  switches: [number, number, number];
  top: number | null;
  top_share: number;
  born: number | null;
  exit: number | null;
  strip: string;
}

export type Reference =
  | { kind: 'function'; name: string; module: string; waiting: boolean; index?: number }
  | { kind: 'thread'; tid: number }
  | { kind: 'group'; index: number }
  | { kind: 'metric'; table: string; column: string; key: string }
  | { kind: 'time'; from: number; to: number }
  | { kind: 'log'; source: string; log: number; line: number }
  | { kind: 'runtime'; runtime: number; table: string; row?: number };

export interface Finding {
  id: string;
  /** What it was found in; absent: what was recorded over time. */
  of?: { kind: 'dump'; index: number } | { kind: 'all' };
  severity: 'info' | 'notice' | 'warning' | 'critical';
  impact: number;
  title: string;
  explanation: string;
  evidence: { text: string; reference?: Reference; value?: Record<string, number> }[];
  next_steps: string[];
}

export interface Group {
  name: string;
  pid: number;
  threads: number;
  running_ns: number;
  ready_ns?: number;
  waiting_ns?: number;
  sampled_ns: number;
  voluntary: number;
  involuntary: number;
  wakeups: number;
  top_function?: string;
}

export interface Loss {
  kind: string;
  count?: number;
  from?: number;
  to?: number;
  tid?: number;
  covered_ns?: number;
  share?: number;
}

export interface Request {
  method: string;
  route: string;
  count: number;
  unanswered: number;
  failed: number;
  total_ns: number;
  mean_ns: number;
  p50_ns: number;
  p95_ns: number;
  p99_ns: number;
  longest_ns: number;
  children_mean: number;
  children_most: number;
}

export interface Runtime {
  pid: number;
  label: string;
  entry?: string;
  source: string;
  events_total: number;
  providers?: { provider: string; count: number; events: [string, number][] }[];
  collections: {
    total: number;
    kept: number;
    paused_ns: number;
    pause_share: number;
    longest_ns: number;
    induced: number;
    pinned?: number;
    heap_first_bytes?: number;
    heap_last_bytes?: number;
    generations?: { generation: number; background: boolean; count: number; paused_ns: number; longest_ns: number }[];
    reasons?: [string, number][];
    longest?: {
      at: number;
      generation: number;
      background: boolean;
      reason: string;
      pause_ns: number;
      heap_bytes?: number;
      promoted_bytes?: number;
    }[];
  };
  exceptions_total: number;
  exceptions?: {
    type: string;
    message?: string;
    function?: string;
    via?: string;
    count: number;
    first: number;
    last: number;
    stack?: string[];
  }[];
  contentions_total: number;
  contention?: {
    function?: string;
    count: number;
    total_ns: number;
    longest_ns: number;
    threads: number;
    locks: number;
    owner?: number;
    stack?: string[];
  }[];
  thread_pool: { reasons?: [string, number][]; starved: number; blocked: number; threads?: [number, number, number, number] };
  requests?: Request[];
  slowest?: { at: number; duration_ns?: number; method: string; path: string; status?: number; children: number }[];
  outgoing?: Request[];
  commands?: {
    text: string;
    source: string;
    count: number;
    failed: number;
    total_ns: number;
    mean_ns: number;
    longest_ns: number;
    most_in_one_request: number;
  }[];
  messages_total: number;
  messages?: { category: string; level: string; count: number }[];
  message_lines?: { at: number; level: string; category: string; text: string; exception?: string }[];
  allocated_bytes: number;
  allocations?: {
    type: string;
    function?: string;
    via?: string;
    bytes: number;
    large_bytes: number;
    samples: number;
    stack?: string[];
  }[];
  compiled?: { methods: number; time_ns: number; bytes: number };
  counters?: {
    name: string;
    column: string;
    unit: string;
    first: number;
    last: number;
    min: number;
    max: number;
    mean: number;
  }[];
  coincidences?: { what: string; requests: number; hit: number; share: number; usual: number }[];
  sampled?: { what: string; share: number; why: string }[];
  lost: number;
}

/** What is there whatever the evidence is. */
export interface Side {
  file: string;
  name: string;
  start?: string;
  seconds: number;
  cores: number;
  samples: number;
  requests?: number;
}

export interface Difference {
  kind: string;
  name: string;
  module?: string;
  reason?: string;
  before: number;
  after: number;
  change?: number;
  noise: number;
  became?: 'slower' | 'faster';
}

export interface Call {
  parent: number;
  name: string;
  module?: string;
  before: number;
  after: number;
}

/** Two recordings held against each other: a page of its own. */
export interface Comparison {
  before: Side;
  after: Side;
  unit: string;
  differences: Difference[];
  unchanged: Difference[];
  compared: number;
  calls: Call[];
  remarks: string[];
  refused?: string;
}

/** What was not gone over for secrets, or only in part. */
export interface NotSearched {
  what: string;
  why: string;
}

export interface Whole {
  report: { findings: Finding[]; dumps?: Dump[]; heaps?: Heap[]; footprints?: Footprint[]; growth?: Growth; undetermined?: string[]; not_searched?: NotSearched[] };
  name: string;
  notes: string[];
}

export interface Report {
  dumps?: Dump[];
  heaps?: Heap[];
  footprints?: Footprint[];
  growth?: Growth;
  undetermined?: string[];
  not_searched?: NotSearched[];
  recording: {
    tool: string;
    command: string[];
    target_name: string;
    target_pid?: number;
    seconds: number;
    ended_by?: string;
    start?: { wall?: string; zone?: string };
    host: {
      hostname: string;
      kernel: string;
      os: string;
      architecture: string;
      cpus: number;
      memory_bytes: number;
      cpu_model: string;
    };
  };
  completeness: {
    partial: boolean;
    has_trace: boolean;
    has_metrics: boolean;
    has_logs: boolean;
    method?: string;
    frequency_hz?: number;
    samples: number;
    sampled_ns: number;
    waits: number;
    off_cpu_samples: number;
    threads: number;
    reaching_root?: number;
    unnamed_frames?: number;
    named_managed?: number;
    named_native?: number;
    named_kernel?: number;
    unnamed_modules?: [string, number][];
    clock_step_ms?: number;
    losses: Loss[];
    undetermined: string[];
  };
  findings: Finding[];
  functions_seen: number;
  threads: {
    exact: boolean;
    at_start: number;
    at_end: number;
    peak: number;
    born: number;
    exited: number;
    groups: Group[];
    seen: number;
  };
  waits: {
    total_ns: number;
    recorded_ns: number;
    count: number;
    sampled_ns: number;
    reasons: {
      reason: string;
      time_ns: number;
      count: number;
      longest_ns: number;
      threads: number;
      syscalls?: [string, number][];
    }[];
    functions: {
      function?: string;
      module?: string;
      reason: string;
      time_ns: number;
      count: number;
      longest_ns: number;
      threads: number;
      groups: string[];
    }[];
    activations: {
      waker: string;
      waker_group?: number;
      woken: string;
      woken_group: number;
      count: number;
      time_ns: number;
      ready_ns: number;
      reason: string;
    }[];
    convoys: {
      function?: string;
      reason?: string;
      threads: number;
      time_ns: number;
      share: number;
      mean_queue: number;
      handed_on?: number;
    }[];
    behind?: {
      function?: string;
      reason: string;
      cause_function?: string;
      cause: string;
      count: number;
      share: number;
      time_ns: number;
      threads: number;
    }[];
    longest: { tid: number; from: number; time_ns: number; reason: string; function?: string; waker?: number }[];
  };
  metrics: {
    notables: {
      kind: string;
      from: number;
      to: number;
      table: string;
      column: string;
      key?: string;
      worst: number;
      text: string;
    }[];
    trends: {
      table: string;
      column: string;
      key: string;
      first: number;
      last: number;
      per_minute: number;
      fit: number;
      growing: boolean;
    }[];
    summary?: {
      table: string;
      column: string;
      key?: string;
      unit: string;
      readings: number;
      missing: number;
      mean: number;
      min: number;
      max: number;
      last: number;
    }[];
  };
  logs: {
    sources: string[];
    lines: number;
    errors: number;
    warnings: number;
    without_time: number;
    topics: {
      level: string;
      example: string;
      source: string;
      log: number;
      line: number;
      count: number;
      first?: number;
      last?: number;
    }[];
    bursts?: [number, number, number][];
  };
  runtimes?: Runtime[];
  processes: {
    pid: number;
    parent: number;
    name: string;
    exe?: string;
    exe_deleted?: boolean;
    command_line: string[];
    uid: number;
    runtime: string;
    runtime_version?: string;
    entry?: string;
    ns_pid?: number;
    cgroup?: string;
    container_id?: string;
    unit?: string;
  }[];
  marks: { at: number; label: string }[];
  losses: Loss[];
  warnings: { code: string; message: string; hint?: string; at?: number }[];
  redactions: { member: string; rule: string; count: number }[];
}

/** With what was recorded over time. */
export interface Page extends Whole {
  report: Report;
  started: string | null;
  ended_by: string | null;
  wall_ms: number | null;
  utc_offset: number;
  window_ms: number;
  functions: {
    modules: string[];
    rows: [string, number, number][];
    times: [number, number, number, number][];
    places: [number, string][];
  };
  flames: Flame[];
  threads: Row[];
  bucket_ms: number;
  charts: { grids: number[][]; charts: Chart[]; quiet: string[] };
  lanes: { title: string; total: number; events: { from: number; to: number; label: string; kind: string }[] }[];
  lines: { at: number; level: string; log: number; line: number; text: string }[];
  context: { member: string; text: string; cut?: number }[];
  reasons: [string, string][];
  lost: [string, string][];
}

export function read(): Whole {
  return JSON.parse(document.getElementById('data')?.textContent ?? '{}') as Whole;
}

/** Two recordings held against each other, where the page is about that. */
export function compared(): Comparison | null {
  const data = JSON.parse(document.getElementById('data')?.textContent ?? '{}') as { comparison?: Comparison };
  return data.comparison ?? null;
}

export function isRecorded(page: Whole): page is Page {
  return 'recording' in page.report;
}
