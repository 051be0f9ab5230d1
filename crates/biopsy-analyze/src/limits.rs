//! How much of a recording an analysis keeps: every list that could grow with hostile or huge input is cut here,
//! and what was cut stays in the sums.

/// Nodes of the flame graphs over all threads. A browser draws this many rectangles without a pause.
pub const FLAME_NODES: usize = 6_000;
/// Nodes of the flame graphs of one thread.
pub const THREAD_FLAME_NODES: usize = 1_200;
/// Threads that get flame graphs of their own.
pub const FLAME_THREADS: usize = 12;
/// Frames of one stack that are looked at; the kernel gives at most 127 of its own and the recorder 512 in all.
pub const STACK_DEPTH: usize = 1_024;
/// Activity strips: buckets over the window. Wider than that a report's column has no pixels for.
pub const STRIP_BUCKETS: usize = 160;
/// Threads that get an activity strip, the busiest first.
pub const STRIP_THREADS: usize = 1_000;
/// Rows of `activated by`.
pub const ACTIVATIONS: usize = 100;
/// Rows of waits by function.
pub const WAIT_FUNCTIONS: usize = 200;
/// Distinct shapes of log lines that are told; what comes after is in the sums.
pub const LOG_TOPICS: usize = 200;
/// Bytes of a log line that are looked at.
pub const LOG_TEXT: usize = 2_000;
/// Notable intervals kept.
pub const NOTABLES: usize = 100;
/// Processes whose runtimes are looked at.
pub const RUNTIMES: usize = 32;
/// Rows of each table about a runtime; what is left out stays in the sums.
pub const RUNTIME_ROWS: usize = 200;
/// Characters of a name, route, command or message in a table about a runtime.
pub const RUNTIME_NAME: usize = 400;
/// Frames of a managed stack that are looked at.
pub const RUNTIME_FRAMES: usize = 512;
