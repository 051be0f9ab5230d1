//! Attaching: from the best method down to what an unprivileged user may do. Never a signal, never a stop.

use biopsy_model::order::Order as _;
use std::collections::BTreeMap;
use std::{fmt, io};

use biopsy_model::Tid;
use biopsy_model::timeline::TraceMethod;
use biopsy_sys::perf::{Event, EventConfig, Ring, Scope, Source};

use super::events;
use super::kernel::KernelSession;
use super::pace::Pace;
use super::perf_records::{PerfParser, PerfRecord};
use super::processes::task_ids;

/// How the trace is taken, best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Programs in the kernel: per CPU, filtered and summed there.
    Bpf,
    /// Per-CPU events, filtered here.
    PerCpu,
    /// Events of each thread, with kernel frames. Costs a server that switches often up to 40 %.
    PerTask,
    /// The same without the kernel: what `kernel.perf_event_paranoid` 2 leaves to a process's owner.
    UserOnly,
}

impl Method {
    const ALL: [Method; 4] = [Method::Bpf, Method::PerCpu, Method::PerTask, Method::UserOnly];

    /// As a recording calls it.
    #[must_use]
    pub fn recorded(self) -> TraceMethod {
        match self {
            Self::Bpf => TraceMethod::Bpf,
            Self::PerCpu => TraceMethod::PerfPerCpu,
            Self::PerTask => TraceMethod::PerfPerTask,
            Self::UserOnly => TraceMethod::PerfUserOnly,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.recorded().as_str())
    }
}

/// What to attach to.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) pids: Vec<u32>,
    pub(crate) follow_children: bool,
    pub(crate) frequency_hz: u32,
    pub(crate) wait_threshold: u64,
    /// Who woke whom.
    pub(crate) wakeups: bool,
    pub(crate) pace: Pace,
    /// Only this method, for tests and comparisons.
    pub(crate) only: Option<Method>,
}

/// A method that was refused.
#[derive(Debug)]
pub struct Attempt {
    /// Which.
    pub method: Method,
    /// What the kernel said, with the call that said it.
    pub error: String,
}

/// Something that the kernel did not do for us.
#[derive(Debug)]
struct Refusal {
    /// The call, and what the kernel said.
    text: String,
    /// The thread is not there any more, which is no reason against the method.
    thread_gone: bool,
    /// It may not be traced by us, with this method.
    not_permitted: bool,
}

impl Refusal {
    fn of_open(config: &EventConfig, scope: Scope, error: &io::Error) -> Self {
        Self {
            text: format!("perf_event_open({scope:?}, {:?}): {error}", config.source),
            thread_gone: error.raw_os_error() == Some(libc::ESRCH),
            not_permitted: error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self { text, thread_gone: false, not_permitted: false }
    }
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        refusal.text
    }
}

/// A thread with the process that it belongs to.
#[derive(Clone, Copy, Debug)]
struct Task {
    pid: u32,
    tid: u32,
}

/// Open events and programs. Everything ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) method: Method,
    pub(crate) source: Source,
    pub(crate) kernel: Option<KernelSession>,
    pub(crate) attempts: Vec<Attempt>,
    /// Processes below the target that we may not trace, as a setuid program that it started, with what the kernel said.
    pub(crate) left_out: BTreeMap<u32, String>,
    rings: Vec<Ring>,
    events: Vec<Event>,
    parser: PerfParser,
}

/// Attaches with the best method that works.
pub(crate) fn attach(plan: &Plan) -> Result<Attached, Vec<Attempt>> {
    // Events of many threads on many CPUs need many descriptors; a refusal shows up as EMFILE below.
    let _ = biopsy_sys::limits::raise_open_files();
    let mut attempts = Vec::new();
    for method in Method::ALL {
        if plan.only.is_some_and(|only| only != method) {
            continue;
        }
        match try_method(method, plan) {
            Ok(mut attached) => {
                attached.attempts = attempts;
                return Ok(attached);
            }
            Err(error) => attempts.push(Attempt { method, error }),
        }
    }
    Err(attempts)
}

fn try_method(method: Method, plan: &Plan) -> Result<Attached, String> {
    let cpus = biopsy_sys::limits::online_cpus().map_err(|error| format!("list of CPUs: {error}"))?;
    match method {
        Method::Bpf => with_programs(plan, &cpus),
        Method::PerCpu => per_cpu(plan, &cpus),
        Method::PerTask => per_task(plan, &threads(plan)?, &cpus, false),
        Method::UserOnly => per_task(plan, &threads(plan)?, &cpus, true),
    }
}

/// Cycles where the machine counts them, otherwise the timer.
fn sampling_source(scope: Scope, exclude_kernel: bool) -> Source {
    let config = EventConfig { exclude_kernel, ..events::sampling(Source::Cycles, 99) };
    if Event::open(&config, scope).is_ok() { Source::Cycles } else { Source::CpuClock }
}

fn with_programs(plan: &Plan, cpus: &[u32]) -> Result<Attached, String> {
    let threads = threads(plan)?.len();
    let highest = cpus.iter().max().copied().unwrap_or(0) + 1;
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    let kernel = KernelSession::start(highest, threads, plan.pace.ring_bytes(highest), plan.wakeups)
        .map_err(|error| with_causes(&error))?;
    kernel.set_wait_threshold(plan.wait_threshold);
    for &pid in &plan.pids {
        kernel.add_target(pid, plan.follow_children).map_err(|error| format!("bpf map: {error}"))?;
    }
    let source = sampling_source(Scope::Cpu(cpus[0]), false);
    let samples = events::sampling(source, plan.frequency_hz);
    let side_band = events::side_band(false, false, false);
    let mut open = Opened::default();
    for &cpu in cpus {
        let scope = Scope::Cpu(cpu);
        open.pair(&side_band, &samples, scope, &[64, 16, 8])?;
        let sampling = open.events.last().ok_or("no event")?;
        sampling
            .set_bpf(kernel.sampling_program())
            .map_err(|error| format!("PERF_EVENT_IOC_SET_BPF: {error}"))?;
    }
    open.attached(Method::Bpf, source, Some(kernel), &samples, &side_band)
}

fn per_cpu(plan: &Plan, cpus: &[u32]) -> Result<Attached, String> {
    let source = sampling_source(Scope::Cpu(cpus[0]), false);
    let samples = events::sampling_to_ring(source, plan.frequency_hz, false, false);
    let side_band = events::side_band(true, false, false);
    let mut open = Opened::default();
    for &cpu in cpus {
        open.pair(&side_band, &samples, Scope::Cpu(cpu), &[2048, 1024, 512, 128])?;
    }
    open.attached(Method::PerCpu, source, None, &samples, &side_band)
}

fn threads(plan: &Plan) -> Result<Vec<Task>, String> {
    let mut all = Vec::new();
    for &pid in &plan.pids {
        let tids = task_ids(pid).map_err(|error| format!("list of the threads of process {pid}: {error}"))?;
        all.extend(tids.into_iter().map(|tid| Task { pid, tid }));
    }
    Ok(all)
}

fn per_task(plan: &Plan, tasks: &[Task], cpus: &[u32], exclude_kernel: bool) -> Result<Attached, String> {
    // The scope is only looked at for what the machine can count: of threads, this one is surely there.
    let own = Scope::ThreadOnCpu { tid: Tid(0), cpu: cpus[0] };
    let source = sampling_source(own, exclude_kernel);
    let samples = events::sampling_to_ring(source, plan.frequency_hz, exclude_kernel, true);
    let side_band = events::side_band(true, exclude_kernel, true);
    let mut open = Opened::default();
    for &cpu in cpus {
        let mut ring_event = None;
        for &Task { pid, tid } in tasks {
            let scope = Scope::ThreadOnCpu { tid: Tid(tid), cpu };
            let at = open.events.len();
            let opened = match ring_event {
                None => open.pair(&side_band, &samples, scope, &[1024, 512, 128, 64, 32]),
                Some(index) => open.redirected(&[&side_band, &samples], scope, index),
            };
            match opened {
                Ok(()) => ring_event = ring_event.or(Some(at)),
                // It ended while we were attaching: events that were opened for it before stay, and say nothing.
                Err(refusal) if refusal.thread_gone => {}
                // A setuid program that the target has started is no reason to trace nothing.
                Err(refusal) if refusal.not_permitted && plan.pids.first() != Some(&pid) => {
                    open.left_out.entry(pid).or_insert(refusal.text);
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }
    if open.rings.is_empty() {
        return Err("the process has no threads".to_owned());
    }
    let method = if exclude_kernel { Method::UserOnly } else { Method::PerTask };
    open.attached(method, source, None, &samples, &side_band)
}

#[derive(Default)]
struct Opened {
    events: Vec<Event>,
    rings: Vec<Ring>,
    left_out: BTreeMap<u32, String>,
}

impl Opened {
    /// Opens a side band with a ring, and a sampling event that writes to the same ring.
    fn pair(
        &mut self,
        side_band: &EventConfig,
        samples: &EventConfig,
        scope: Scope,
        ring_pages: &[usize],
    ) -> Result<(), Refusal> {
        let carrier = open(side_band, scope)?;
        let ring = map_ring(&carrier, ring_pages)?;
        let sampling = open(samples, scope)?;
        sampling.set_output(&carrier).map_err(|error| format!("PERF_EVENT_IOC_SET_OUTPUT: {error}"))?;
        self.rings.push(ring);
        self.events.push(carrier);
        self.events.push(sampling);
        Ok(())
    }

    fn redirected(&mut self, configs: &[&EventConfig], scope: Scope, to: usize) -> Result<(), Refusal> {
        for config in configs {
            let event = open(config, scope)?;
            let carrier = self.events.get(to).ok_or("no event")?;
            event.set_output(carrier).map_err(|error| format!("PERF_EVENT_IOC_SET_OUTPUT: {error}"))?;
            self.events.push(event);
        }
        Ok(())
    }

    fn attached(
        self,
        method: Method,
        source: Source,
        kernel: Option<KernelSession>,
        samples: &EventConfig,
        side_band: &EventConfig,
    ) -> Result<Attached, String> {
        let parser =
            PerfParser::new(samples, side_band).ok_or("attributes of the events cannot be parsed")?;
        let attached = Attached {
            method,
            source,
            kernel,
            attempts: Vec::new(),
            left_out: self.left_out,
            rings: self.rings,
            events: self.events,
            parser,
        };
        for event in &attached.events {
            event.enable().map_err(|error| format!("PERF_EVENT_IOC_ENABLE: {error}"))?;
        }
        Ok(attached)
    }
}

fn open(config: &EventConfig, scope: Scope) -> Result<Event, Refusal> {
    Event::open(config, scope).map_err(|error| Refusal::of_open(config, scope, &error))
}

fn map_ring(event: &Event, pages: &[usize]) -> Result<Ring, String> {
    let mut last = io::Error::from(io::ErrorKind::InvalidInput);
    for &pages in pages {
        match Ring::map(event, pages) {
            Ok(ring) => return Ok(ring),
            Err(error) => last = error,
        }
    }
    Err(format!("mmap of the perf ring: {last}; `kernel.perf_event_mlock_kb` limits it without CAP_IPC_LOCK"))
}

/// An error with its chain of causes.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

impl Attached {
    /// All records of the perf rings, in the order in which they happened.
    pub(crate) fn read_rings(&mut self, records: &mut Vec<PerfRecord>) {
        let Self { rings, parser, .. } = self;
        for ring in rings {
            ring.read(|record| records.extend(parser.parse(&record)));
        }
        records.order_by_key(PerfRecord::time);
    }

    /// No more samples; what is in the buffers can still be read.
    pub(crate) fn stop(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.stop();
        }
        for event in &self.events {
            // An event of a thread that has ended cannot be disabled, and need not be.
            let _ = event.disable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_testkit::{Privilege, require_all};

    #[test]
    fn threads_that_end_while_we_attach_are_left_out_wherever_they_stand() {
        if !require_all(&[Privilege::Perf]) {
            return;
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (gone, own) = (child.id(), std::process::id());
        child.wait().unwrap();
        let plan = Plan {
            pids: vec![own],
            follow_children: false,
            frequency_hz: 99,
            wait_threshold: 1_000_000,
            wakeups: true,
            pace: Pace::USUAL,
            only: None,
        };
        let cpus = biopsy_sys::limits::online_cpus().unwrap();
        let [gone, own] = [gone, own].map(|pid| Task { pid, tid: pid });
        for tasks in [[gone, own], [own, gone]] {
            let attached = per_task(&plan, &tasks, &cpus, true).unwrap();
            assert_eq!(attached.rings.len(), cpus.len(), "one for each CPU");
        }
        assert_eq!(per_task(&plan, &[gone], &cpus, true).unwrap_err(), "the process has no threads");
    }
}
