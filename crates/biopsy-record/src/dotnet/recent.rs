//! The last minutes of what .NET runtimes say, in memory.
//!
//! What is gathered of a process is cut every ten seconds into a trace of its own, and the oldest go. To ask for minutes is to put
//! those together that lie in them; the cut that has just begun is made at once then.
//!
//! A piece is kept as it would be written into a recording, compressed: as it is gathered, each reading of a counter is five texts and lists
//! of their own, and ten minutes of a server at work took more than everything else that is kept of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use biopsy_dotnet::events::{Limits, join};
use biopsy_model::runtime_trace::{RuntimeTrace, Sampled, SampledKind};
use biopsy_model::{MonoNanos, Pid};
use biopsy_recording::{runtime_from_json, runtime_to_json};

/// Length of a piece, and how much longer it may become while a collection is under way.
const PIECE: Duration = Duration::from_secs(10);
const LATE: Duration = Duration::from_secs(5);
/// How long whoever asks waits for the pieces of now.
const CUT_WITHIN: Duration = Duration::from_millis(500);
/// Processes of which pieces are kept. A tree that starts thousands must not fill memory with what each of them said.
const MOST_PIECES: usize = 2_000;
/// Most that is said of what was not heard.
const MOST_UNHEARD: usize = 50;

/// Of one piece: sixty of them are ten minutes.
pub(crate) const LIMITS: Limits = Limits {
    items: 200,
    groups: 200,
    open: 10_000,
    stacks: 100,
    frames: 64,
    text: 1_024,
    readings: 2_000,
    remembered: 1_000,
};

/// Pieces of all processes, for whoever asks. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RecentTraces {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    cut: Condvar,
}

#[derive(Debug, Default)]
struct State {
    age_nanos: u64,
    pieces: VecDeque<Piece>,
    /// Processes that are listened to, and where the piece of each that grows now begins.
    growing: BTreeMap<Pid, MonoNanos>,
    /// All that began before this is to be cut.
    wanted: MonoNanos,
    /// What could not be heard, and why.
    unheard: BTreeSet<String>,
}

#[derive(Debug)]
struct Piece {
    from: MonoNanos,
    to: MonoNanos,
    trace: Packed,
}

/// A trace, as JSON in zstd.
#[derive(Debug)]
struct Packed {
    bytes: Box<[u8]>,
    unpacked: usize,
}

impl Packed {
    /// Nearly as small as at higher levels, in a millisecond.
    const LEVEL: i32 = 1;

    fn of(trace: RuntimeTrace) -> std::io::Result<Self> {
        let json = runtime_to_json(trace)?;
        let bytes = zstd::bulk::compress(&json, Self::LEVEL)?.into_boxed_slice();
        Ok(Self { bytes, unpacked: json.len() })
    }

    fn open(&self) -> std::io::Result<RuntimeTrace> {
        Ok(runtime_from_json(&zstd::bulk::decompress(&self.bytes, self.unpacked)?)?)
    }
}

impl State {
    fn note(&mut self, unheard: &str) {
        if self.unheard.len() < MOST_UNHEARD {
            self.unheard.insert(unheard.replace('\n', " "));
        }
    }
}

impl RecentTraces {
    /// Keeps what is not older than this.
    #[must_use]
    pub fn new(age_nanos: u64) -> Self {
        let state = State { age_nanos, ..State::default() };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), cut: Condvar::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process is listened to from now on.
    pub(crate) fn begin(&self, pid: Pid, now: MonoNanos) {
        self.state().growing.insert(pid, now);
    }

    /// Whether the piece of a process is to be cut now. `is_between`: no collection is under way.
    pub(crate) fn is_due(&self, pid: Pid, now: MonoNanos, is_between: bool) -> bool {
        let state = self.state();
        let Some(&from) = state.growing.get(&pid) else { return false };
        let long = PIECE + if is_between { Duration::ZERO } else { LATE };
        from < state.wanted || u128::from(now.since(from).0) >= long.as_nanos()
    }

    /// Takes the piece of a process up to now, and begins the next one.
    pub(crate) fn cut(&self, pid: Pid, now: MonoNanos, trace: RuntimeTrace) {
        let packed = Packed::of(trace);
        let mut state = self.state();
        if let Some(from) = state.growing.insert(pid, now) {
            match packed {
                Ok(trace) => state.pieces.push_back(Piece { from, to: now, trace }),
                Err(error) => state.note(&format!("ten seconds of what {pid} said are not kept: {error}")),
            }
        }
        let oldest = now.0.saturating_sub(state.age_nanos);
        while state.pieces.len() > MOST_PIECES
            || state.pieces.front().is_some_and(|piece| piece.to.0 < oldest)
        {
            let gone = state.pieces.pop_front();
            if gone.is_some_and(|piece| piece.to.0 >= oldest) {
                state.note("so many .NET processes spoke that the oldest of what they said is not kept");
            }
        }
        drop(state);
        self.shared.cut.notify_all();
    }

    /// Something cannot be heard.
    pub(crate) fn note(&self, unheard: &str) {
        self.state().note(unheard);
    }

    /// What could not be heard since the beginning, in a line each.
    #[must_use]
    pub fn unheard(&self) -> Vec<String> {
        self.state().unheard.iter().cloned().collect()
    }

    /// A process has ended, or is not listened to any more.
    pub(crate) fn end(&self, pid: Pid) {
        self.state().growing.remove(&pid);
        self.shared.cut.notify_all();
    }

    /// What was said between two moments, by process. Waits for what is being gathered, but not long.
    #[must_use]
    pub fn take(&self, from: MonoNanos, until: MonoNanos) -> Vec<RuntimeTrace> {
        let mut state = self.state();
        state.wanted = state.wanted.max(until);
        let deadline = Instant::now() + CUT_WITHIN;
        while state.growing.values().any(|&begin| begin < until) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.cut.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        // Each with where its last piece ends.
        let mut traces: BTreeMap<Pid, (MonoNanos, RuntimeTrace)> = BTreeMap::new();
        let mut unopened = None;
        for piece in &state.pieces {
            if piece.from < from || piece.from >= until {
                continue;
            }
            let trace = match piece.trace.open() {
                Ok(trace) => trace,
                Err(error) => {
                    unopened = Some(format!("ten seconds of what was said cannot be read: {error}"));
                    continue;
                }
            };
            let (end, joined) = match traces.remove(&trace.pid) {
                None => {
                    let why = "events are kept in pieces of ten seconds";
                    (piece.from, missing(trace, from, piece.from, why))
                }
                Some((end, earlier)) => (end, join(earlier, trace)),
            };
            let joined = missing(joined, end, piece.from, "another recording took them meanwhile");
            traces.insert(joined.pid, (piece.to, joined));
        }
        unopened.into_iter().for_each(|why| state.note(&why));
        drop(state);
        traces.into_values().map(|(_, trace)| trace).collect()
    }
}

/// Says that nothing was taken in this time, if that is any.
fn missing(mut trace: RuntimeTrace, from: MonoNanos, to: MonoNanos, why: &str) -> RuntimeTrace {
    if to > from {
        let what = SampledKind::Runtime;
        trace.sampled.push(Sampled { what, from, to, share: 0.0, why: why.to_owned() });
    }
    trace
}

#[cfg(test)]
mod tests {
    use biopsy_model::process::{Runtime, RuntimeKind};
    use biopsy_model::runtime_trace::ProviderCount;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn trace(pid: u32, count: u64) -> RuntimeTrace {
        let runtime = Runtime { kind: RuntimeKind::DotNet, version: None, entry: None };
        let mut trace = RuntimeTrace::new(Pid(pid), runtime, String::new());
        trace.providers = vec![ProviderCount { provider: "P".to_owned(), event: "E (1)".to_owned(), count }];
        trace
    }

    fn counts(traces: &[RuntimeTrace]) -> Vec<(u32, u64)> {
        traces.iter().map(|trace| (trace.pid.0, trace.providers[0].count)).collect()
    }

    fn at(seconds: u64) -> MonoNanos {
        MonoNanos(seconds * SECOND)
    }

    #[test]
    fn pieces_in_the_time_asked_for_are_put_together_by_process() {
        let recent = RecentTraces::new(60 * SECOND);
        recent.begin(Pid(1), at(100));
        recent.begin(Pid(2), at(100));
        for second in [110, 120, 130] {
            assert!(recent.is_due(Pid(1), at(second), true));
            recent.cut(Pid(1), at(second), trace(1, second));
        }
        recent.cut(Pid(2), at(130), trace(2, 7));
        assert_eq!(counts(&recent.take(at(100), at(130))), [(1, 360), (2, 7)]);
        let late = recent.take(at(105), at(130));
        assert_eq!(counts(&late), [(1, 250)]);
        // What is missing before the first piece is said.
        assert_eq!((late[0].sampled[0].from, late[0].sampled[0].to), (at(105), at(110)));
        assert!(recent.take(at(100), at(130))[0].sampled.is_empty());
    }

    #[test]
    fn what_had_to_go_for_want_of_room_is_said() {
        let recent = RecentTraces::new(600 * SECOND);
        for pid in 1..=2_001 {
            assert!(recent.unheard().is_empty());
            recent.begin(Pid(pid), at(1));
            recent.cut(Pid(pid), at(2), trace(pid, 1));
            recent.end(Pid(pid));
        }
        assert_eq!(recent.unheard().len(), 1);
        (0..100).for_each(|number| recent.note(&format!("a {number}\nb")));
        assert_eq!(recent.unheard().len(), 50);
        assert!(recent.unheard().iter().all(|line| !line.contains('\n')));
    }

    #[test]
    fn a_gap_between_pieces_is_said() {
        let recent = RecentTraces::new(600 * SECOND);
        recent.begin(Pid(1), at(0));
        recent.cut(Pid(1), at(10), trace(1, 1));
        recent.end(Pid(1));
        recent.begin(Pid(1), at(50));
        recent.cut(Pid(1), at(60), trace(1, 2));
        let all = recent.take(at(0), at(60));
        assert_eq!(counts(&all), [(1, 3)]);
        let gaps: Vec<_> = all[0].sampled.iter().map(|gap| (gap.from, gap.to, gap.share)).collect();
        assert_eq!(gaps, [(at(10), at(50), 0.0)]);
    }

    #[test]
    fn what_is_too_old_goes() {
        let recent = RecentTraces::new(60 * SECOND);
        recent.begin(Pid(1), at(0));
        for piece in 1..=1_000 {
            recent.cut(Pid(1), at(piece * 10), trace(1, 1));
        }
        assert_eq!(recent.state().pieces.len(), 7);
        recent.end(Pid(1));
        assert_eq!(counts(&recent.take(at(0), at(10_000))), [(1, 7)]);
    }

    #[test]
    fn a_collection_is_not_cut_in_the_middle_unless_somebody_waits() {
        let recent = RecentTraces::new(60 * SECOND);
        recent.begin(Pid(1), at(0));
        assert!(!recent.is_due(Pid(1), at(9), true));
        assert!(!recent.is_due(Pid(1), at(14), false));
        assert!(recent.is_due(Pid(1), at(15), false));
        // Nobody cuts: it is not waited for ever.
        assert!(recent.take(at(0), at(5)).is_empty());
        assert!(recent.is_due(Pid(1), at(6), false));
        assert!(!recent.is_due(Pid(2), at(100), true));
    }
}
