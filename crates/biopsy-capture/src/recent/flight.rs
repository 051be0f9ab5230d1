//! What is recorded all the time: few samples, long waits, metrics, what is rare of what runtimes say; in memory.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use biopsy_model::MonoNanos;
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::timeline::TimelineEvent;
use biopsy_record::dotnet::{DotNetRecorder, RecentTraces};
use biopsy_record::masking::Masking;
use biopsy_record::metrics::{self, RecentRows};
use biopsy_record::trace::{self, Destination, Settler, TraceError, TraceHandle, TraceOptions};
use biopsy_recording::timeline::{Ring, RingLimits};

use crate::tree::Tree;

use super::answer::Recent;

/// Samples per second and CPU: no divisor of what programs do by the clock.
const FREQUENCY: u32 = 49;
/// Waits at least this long are written one by one.
const WAIT_THRESHOLD: Duration = Duration::from_millis(10);
/// How often waiting threads are sampled.
const WAIT_PERIOD: Duration = Duration::from_millis(200);

/// A recorder of the last minutes that runs.
pub(super) struct Flight {
    tree: Tree,
    options: TraceOptions,
    masking: Masking,
    memory: Memory,
    trace: Option<TraceHandle>,
    metrics: Option<metrics::Handle>,
    dotnet: Option<DotNetRecorder>,
}

/// What it has recorded, for whoever asks.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    ring: Arc<Mutex<Ring>>,
    rows: RecentRows,
    runtimes: RecentTraces,
    /// Of the trace that runs.
    settler: Arc<Mutex<Option<Settler>>>,
}

impl Flight {
    /// Begins to record these processes.
    pub(super) fn begin(
        tree: Tree,
        children: bool,
        length: Duration,
        masking: Masking,
    ) -> Result<Self, TraceError> {
        let age_nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let limits = RingLimits { age_nanos, ..RingLimits::default() };
        let ring = Arc::new(Mutex::new(Ring::new(limits)?));
        let runtimes = RecentTraces::new(age_nanos);
        let memory = Memory { ring, rows: RecentRows::default(), runtimes, settler: Arc::default() };
        let options = TraceOptions {
            pids: tree(),
            follow_children: children,
            frequency_hz: Some(FREQUENCY),
            wait_threshold: WAIT_THRESHOLD,
            wait_period: Some(WAIT_PERIOD),
            wakeups: false,
            allocations: Vec::new(),
            counted: None,
            method: None,
            max_bytes: u64::MAX,
        };
        let trace = start(&options, &memory, &masking)?;
        let config = metrics::Config::new(Arc::clone(&tree));
        let sink = memory.rows.sink(masking.clone(), age_nanos);
        let metrics = metrics::Recorder::start(config, Box::new(sink))?;
        let runtimes = memory.runtimes.clone();
        let dotnet = DotNetRecorder::stand_by(Arc::clone(&tree), runtimes, masking.clone())?;
        let (trace, metrics, dotnet) = (Some(trace), Some(metrics), Some(dotnet));
        Ok(Self { tree, options, masking, memory, trace, metrics, dotnet })
    }

    pub(super) fn memory(&self) -> Memory {
        self.memory.clone()
    }

    /// Whether nothing is left to record.
    pub(super) fn is_over(&self) -> bool {
        self.trace.as_ref().is_none_or(TraceHandle::is_done)
    }

    /// Begins anew where the program has shown so many stacks that those who count them would grow without end. `others`: somebody
    /// else listens to runtimes. Two sessions that have a source in common and are killed at the same instant can leave it on.
    pub(super) fn look_after(&mut self, others: bool) -> Result<(), TraceError> {
        if others {
            drop(self.dotnet.take());
        } else if self.dotnet.is_none() {
            let (tree, runtimes) = (Arc::clone(&self.tree), self.memory.runtimes.clone());
            self.dotnet = Some(DotNetRecorder::stand_by(tree, runtimes, self.masking.clone())?);
        }
        if !self.memory.ring().is_full() {
            return Ok(());
        }
        let from = self.memory.now();
        if let Some(trace) = self.trace.take() {
            let _summary = trace.stop();
        }
        self.memory.ring().begin_anew()?;
        self.options.pids = (self.tree)();
        self.trace = Some(start(&self.options, &self.memory, &self.masking)?);
        let to = self.memory.now();
        let gap = Loss { kind: LossKind::Samples, from, to, count: 0, pid: None, tid: None };
        self.memory.ring().push(&TimelineEvent::Loss(gap))?;
        // What the one before held would be there twice.
        biopsy_sys::limits::return_free_memory();
        Ok(())
    }

    /// Ends it. What was recorded stays in memory. Returns why it ended before that.
    pub(super) fn end(&mut self) -> Option<String> {
        drop(self.metrics.take());
        drop(self.dotnet.take());
        self.trace.take().and_then(|trace| trace.stop().cut_short)
    }
}

fn start(options: &TraceOptions, memory: &Memory, masking: &Masking) -> Result<TraceHandle, TraceError> {
    let trace = trace::start(options, Destination::Ring(Arc::clone(&memory.ring)), Some(masking.clone()))?;
    *memory.settler.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace.settler());
    Ok(trace)
}

impl Memory {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> MonoNanos {
        MonoNanos(biopsy_sys::clock::monotonic_nanos())
    }

    /// Waits until the recorder has written what it knows by now.
    pub(super) fn settle(&self) {
        let settler = self.settler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(settler) = settler {
            settler.settle();
        }
    }

    /// What happened behind `from` and not behind `until`. The recorder waits only while it is listed what that is.
    pub(super) fn take(&self, from: MonoNanos, until: MonoNanos) -> io::Result<Recent> {
        let (recent, begins) = {
            let mut ring = self.ring();
            (ring.recent(from)?, ring.begins())
        };
        let begins = begins.unwrap_or(until).max(from).min(until);
        Ok(Recent {
            begins,
            until,
            frequency_hz: FREQUENCY,
            wait_threshold: WAIT_THRESHOLD,
            timeline: recent.write(from, until)?,
            tables: self.rows.tables(from, until),
            runtimes: self.runtimes.take(begins, until),
            unheard: self.runtimes.unheard(),
        })
    }
}
