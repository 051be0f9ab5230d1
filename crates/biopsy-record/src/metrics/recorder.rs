//! The thread that takes readings, on a schedule that does not drift.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use biopsy_model::loss::{Loss, LossKind, Warning};
use biopsy_model::{MonoNanos, Nanos};
use biopsy_sys::clock::{monotonic_nanos, realtime_nanos, thread_cpu_nanos};
use crossbeam_channel::{RecvTimeoutError, Sender};

use super::sampler::{Config, Latest, Sampler};
use super::sink::TableSink;
use crate::favour::Turn;

/// The wall clock is said to have stepped when it moved against the monotonic clock by more than this
/// between two readings: slewing (at most 500 ppm) stays below, also over a minute.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// Losses are kept one by one up to here; what comes later extends the last one.
const MOST_LOSSES: usize = 1_000;

/// Records metrics on a thread of its own.
#[derive(Clone, Copy, Debug)]
pub struct Recorder;

/// A running recorder. Dropping it ends the recording as [`Handle::stop`] does.
#[derive(Debug)]
pub struct Handle {
    stop: Option<Sender<()>>,
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<Summary>>,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Option<Latest>,
    failed: bool,
}

/// What a finished recording of metrics was.
#[derive(Debug, Default)]
pub struct Summary {
    /// Readings taken.
    pub readings: u64,
    /// Rows written.
    pub rows: u64,
    /// Readings that were missed, or taken more than half an interval late.
    pub losses: Vec<Loss>,
    /// What a reader of the recording should know.
    pub warnings: Vec<Warning>,
    /// CPU time that the readings took.
    pub cpu: Nanos,
    /// Why it ended before it was stopped: the sink refused a row (disk full). What was written is whole.
    pub error: Option<io::Error>,
}

impl Recorder {
    /// Starts the thread; its first reading follows at once.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(config: Config, sink: Box<dyn TableSink + Send>) -> io::Result<Handle> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (stop, stopped) = crossbeam_channel::bounded(1);
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("biopsy-metrics".to_owned()).spawn(move || {
            let wait = |until: Instant| match stopped.recv_deadline(until) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => false,
                Err(RecvTimeoutError::Timeout) => true,
            };
            run(&config, sink, &for_thread, wait)
        })?;
        Ok(Handle { stop: Some(stop), shared, thread: Some(thread) })
    }
}

impl Handle {
    /// The newest reading, if there is one.
    #[must_use]
    pub fn latest(&self) -> Option<Latest> {
        lock(&self.shared).latest
    }

    /// Whether the recording has ended by itself, because the sink refused a row.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        lock(&self.shared).failed
    }

    /// Takes a last reading (unless there was one just now), ends the recording and says what it was.
    #[must_use]
    pub fn stop(mut self) -> Summary {
        self.end()
    }

    fn end(&mut self) -> Summary {
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(summary)) => summary,
            Some(Err(_)) => Summary {
                error: Some(io::Error::other("the thread that records metrics panicked")),
                ..Summary::default()
            },
            None => Summary::default(),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.thread.is_some() {
            drop(self.end());
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    // What is inside is replaced whole, so that a panic elsewhere leaves it valid.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes readings until `wait` says no more.
fn run(
    config: &Config,
    mut sink: Box<dyn TableSink + Send>,
    shared: &Mutex<Shared>,
    wait: impl Fn(Instant) -> bool,
) -> Summary {
    let interval = config.bounded_interval();
    let nanos = Nanos(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
    let mut schedule = Schedule { start: Instant::now(), interval, due: 0 };
    let mut clock = WallClock::default();
    let mut summary = Summary::default();
    let mut sampler = Sampler::new(config.clone());
    let mut last = MonoNanos(monotonic_nanos());
    let mut turn = Turn::of_clock();
    loop {
        let go_on = wait(schedule.due_at());
        turn.renew();
        let cpu_before = thread_cpu_nanos();
        let time = MonoNanos(monotonic_nanos());
        // A last reading right after another one would have rates over a moment: noise, drawn as a spike.
        if !go_on && summary.readings > 1 && time.since(last).0 < nanos.0 / 2 {
            break;
        }
        if let Some(missed) = schedule.arrive(Instant::now()).filter(|_| go_on) {
            add_loss(&mut summary.losses, last, time, missed);
        }
        if let Some(stepped) = clock.look(time) {
            sampler.warnings.add(time, stepped);
        }
        match sampler.read(time, sink.as_mut()) {
            Ok(latest) => lock(shared).latest = Some(latest),
            Err(error) => {
                summary.error = Some(error);
                lock(shared).failed = true;
            }
        }
        summary.readings += 1;
        last = time;
        let cpu = Nanos(thread_cpu_nanos().saturating_sub(cpu_before));
        summary.cpu = summary.cpu + cpu;
        sampler.learn(time, cpu, nanos);
        if !go_on || summary.error.is_some() {
            break;
        }
    }
    if summary.error.is_none() {
        summary.error = sampler.finish(last, sink.as_mut()).err();
    }
    summary.rows = sampler.rows();
    if !summary.losses.is_empty() {
        let missed: u64 = summary.losses.iter().map(|loss| loss.count).sum();
        let message =
            format!("{missed} readings of metrics came late or not at all: the machine was too busy");
        sampler.warnings.add_once(last, Warning::new("metrics.late", message));
    }
    summary.warnings = sampler.warnings.list;
    summary
}

fn add_loss(losses: &mut Vec<Loss>, from: MonoNanos, to: MonoNanos, count: u64) {
    if losses.len() >= MOST_LOSSES
        && let Some(last) = losses.last_mut()
    {
        last.to = to;
        last.count = last.count.saturating_add(count);
        return;
    }
    losses.push(Loss { kind: LossKind::Metrics, from, to, count, pid: None, tid: None });
}

/// Readings are due at `start + n * interval`, whatever the ones before took.
struct Schedule {
    start: Instant,
    interval: Duration,
    due: u32,
}

impl Schedule {
    fn due_at(&self) -> Instant {
        self.start + self.interval.saturating_mul(self.due)
    }

    /// A reading is taken now. Says how many were missed, or 1 for one that is more than half an interval
    /// late, and sets the next one into the future.
    fn arrive(&mut self, now: Instant) -> Option<u64> {
        let late = now.saturating_duration_since(self.due_at());
        // One that would follow within a quarter of the interval is left out: its rates would be mostly noise.
        let missed = (late + self.interval / 4).as_nanos() / self.interval.as_nanos().max(1);
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        self.due = self.due.saturating_add(missed).saturating_add(1);
        match missed {
            0 => (late > self.interval / 2).then_some(1),
            _ => Some(missed.into()),
        }
    }
}

/// Watches the wall clock against the monotonic one.
#[derive(Default)]
struct WallClock {
    offset: Option<i128>,
}

impl WallClock {
    fn look(&mut self, time: MonoNanos) -> Option<Warning> {
        self.compare(i128::from(realtime_nanos()) - i128::from(monotonic_nanos()), time)
    }

    fn compare(&mut self, offset: i128, time: MonoNanos) -> Option<Warning> {
        let before = self.offset.replace(offset)?;
        let moved = offset - before;
        if moved.unsigned_abs() <= CLOCK_STEP.as_nanos() {
            return None;
        }
        // Whole milliseconds: exact enough, and i64 holds any of them.
        let millis = i64::try_from(moved / 1_000_000).unwrap_or(i64::MAX);
        let message = format!("the wall clock was set during the recording: it moved by {millis} ms");
        Some(Warning { time: Some(time), ..Warning::new("metrics.clock-step", message) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_does_not_drift() {
        let start = Instant::now();
        let mut schedule = Schedule { start, interval: Duration::from_secs(1), due: 0 };
        let at = |millis: u64| start + Duration::from_millis(millis);
        assert_eq!(schedule.arrive(at(0)), None);
        assert_eq!(schedule.arrive(at(1_200)), None, "a bit late is no loss");
        assert_eq!(schedule.due_at(), at(2_000), "and does not move the next one");
        assert_eq!(schedule.arrive(at(2_700)), Some(1), "more than half an interval late");
        assert_eq!(schedule.due_at(), at(3_000));
        assert_eq!(schedule.arrive(at(6_500)), Some(3), "3, 4 and 5 seconds were missed");
        assert_eq!(schedule.due_at(), at(7_000));
        assert_eq!(schedule.arrive(at(7_950)), Some(1));
        assert_eq!(schedule.due_at(), at(9_000), "8 seconds would follow too soon");
        assert_eq!(schedule.arrive(at(8_800)), None, "stopped before the next one was due");
    }

    #[test]
    fn steps_of_the_wall_clock_are_seen() {
        let mut clock = WallClock::default();
        assert_eq!(clock.compare(5_000_000_000, MonoNanos(1)), None);
        assert_eq!(clock.compare(5_000_400_000, MonoNanos(2)), None, "slewed");
        let warning = clock.compare(4_000_400_000, MonoNanos(3)).expect("stepped");
        assert_eq!(warning.message, "the wall clock was set during the recording: it moved by -1000 ms");
        assert_eq!(clock.compare(4_000_400_000, MonoNanos(4)), None);
    }

    #[test]
    fn losses_do_not_grow_without_end() {
        let mut losses = Vec::new();
        for second in 0..2_000 {
            add_loss(&mut losses, MonoNanos(second), MonoNanos(second + 1), 1);
        }
        assert_eq!(losses.len(), MOST_LOSSES);
        assert_eq!(losses.iter().map(|loss| loss.count).sum::<u64>(), 2_000);
        assert_eq!(losses.last().map(|loss| loss.to), Some(MonoNanos(2_000)));
    }
}
