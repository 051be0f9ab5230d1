//! What all detectors look at: the analysis, the recording, and a few numbers worked out once.

use super::evidence::at;
use super::finding::{Evidence, Reference, Value};
use super::made_by::name_with_maker;
use crate::analysis::Analysis;
use crate::metrics::series::{self, Series};
use crate::sockets::{Sides, sides};
use crate::trace::facts::Facts;
use crate::trace::flame::{FlameKind, FlameTree};
use crate::trace::frames::{Role, role_of};
use crate::trace::function::{FunctionHandle, FunctionKind, FunctionRow};
use crate::trace::threads::ThreadRow;
use crate::trace::wait_sites::WaitSite;
use crate::trace::waits::WaitReason;
use crate::whose::Whose;
use crate::words::{percent, shorten};
use biopsy_model::capture::Capture;
use biopsy_model::order::Order as _;
use biopsy_model::process::RuntimeKind;
use biopsy_model::timeline::{SamplingEvent, TimelineEvent, TraceMethod};
use biopsy_model::{Nanos, Pid, Tid};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The recording as detectors see it.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) capture: &'a Capture,
    pub(crate) analysis: &'a Analysis,
    pub(crate) facts: &'a Facts,
    /// Length of the window in seconds, more than zero.
    pub(crate) seconds: f64,
    /// CPUs of the machine, at least 1.
    pub(crate) cpus: f64,
    /// How many CPUs the machine has was recorded.
    pub(crate) knows_cpus: bool,
    /// Threads were told apart: other tools' profiles are of all together.
    pub(crate) tells_threads: bool,
    /// Name of the target for sentences.
    pub(crate) name: String,
    /// Mean number of CPUs the recorded processes used; `None`: neither trace nor metrics tell.
    pub(crate) cores: Option<f64>,
    /// CPU time the samples stand for, in seconds.
    pub(crate) sampled: f64,
    /// On which side of their connections the processes are, of which that was recorded.
    pub(crate) sides: BTreeMap<Pid, Sides>,
}

/// Waiting of one thread at one kind of place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadWait {
    pub(crate) tid: Tid,
    /// Share of the window, 0 to 1.
    pub(crate) share: f64,
    pub(crate) count: u64,
    /// Where and for what it waited longest.
    pub(crate) function: Option<FunctionHandle>,
    pub(crate) reason: WaitReason,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(capture: &'a Capture, analysis: &'a Analysis, facts: &'a Facts) -> Scene<'a> {
        let seconds = analysis.completeness.seconds.max(1e-6);
        let running: f64 = analysis.threads.rows.iter().map(|row| row.running.as_secs_f64()).sum();
        let mut scene = Scene {
            capture,
            analysis,
            facts,
            seconds,
            cpus: f64::from(capture.header.host.cpus.max(1)),
            knows_cpus: capture.header.host.cpus > 0,
            tells_threads: analysis.threads.rows.iter().any(|row| row.tid != Tid(0)),
            name: if capture.header.target_name.is_empty() {
                "the process".to_owned()
            } else if capture.header.target.is_none() {
                capture.header.target_name.clone()
            } else {
                format!("`{}`", capture.header.target_name)
            },
            cores: None,
            sampled: analysis.completeness.sampled.as_secs_f64(),
            sides: sides(capture),
        };
        // What other tools looked at by the clock alone says nothing of CPU time.
        let by_clock = |timeline: &biopsy_model::timeline::Timeline| {
            let settings = &timeline.settings;
            settings.method == TraceMethod::Imported
                && settings.sampling_event == SamplingEvent::Unknown
                && !settings.has_states
        };
        let tells = capture.timeline.as_ref().is_some_and(|timeline| !by_clock(timeline));
        scene.cores = if tells { Some(running / seconds) } else { scene.metric_cores() };
        scene
    }

    fn metric_cores(&self) -> Option<f64> {
        let user = series::all(self.capture, "processes", "cpu.user");
        let system = series::all(self.capture, "processes", "cpu.system");
        let sum = user.iter().chain(&system).map(Series::mean).sum();
        (!user.is_empty()).then_some(sum)
    }

    /// A column of a table that has no keys.
    pub(crate) fn system(&self, column: &str) -> Option<Series> {
        series::one(self.capture, "system", column, "")
    }

    /// All keys of a column.
    pub(crate) fn series(&self, table: &str, column: &str) -> Vec<Series> {
        series::all(self.capture, table, column)
    }

    /// Mean number of CPUs that the whole machine used; `None`: no metrics.
    pub(crate) fn machine_cores(&self) -> Option<f64> {
        self.system("cpu.busy").map(|busy| busy.mean() * self.cpus)
    }

    pub(crate) fn row(&self, function: FunctionHandle) -> Option<&'a FunctionRow> {
        self.analysis.function(function)
    }

    /// A function's name for a sentence, in backticks.
    pub(crate) fn function_name(&self, function: Option<FunctionHandle>) -> Option<String> {
        let row = self.row(function?)?;
        Some(format!("`{}`", shorten(&row.name)))
    }

    pub(crate) fn thread(&self, tid: Tid) -> Option<&'a ThreadRow> {
        self.analysis.threads.rows.iter().find(|row| row.tid == tid)
    }

    /// Connections of a thread's process; `None`: not recorded.
    pub(crate) fn sides_of(&self, tid: Tid) -> Option<&Sides> {
        self.sides.get(&self.thread(tid)?.pid)
    }

    /// How much the CPU is what it lives on: the share of the time that one thread runs, or that all CPUs are used.
    pub(crate) fn busy(&self) -> f64 {
        let one =
            self.analysis.threads.rows.first().map_or(0.0, |row| row.running.as_secs_f64() / self.seconds);
        one.max(self.cores.unwrap_or(0.0) / self.cpus).min(1.0)
    }

    /// What runs the process that the key of a metric begins with (`4711 name`).
    pub(crate) fn runtime_of_key(&self, key: &str) -> RuntimeKind {
        let pid = key.split(' ').next().and_then(|pid| pid.parse().ok()).map(Pid);
        pid.map_or(RuntimeKind::Unknown, |pid| self.runtime_of(pid))
    }

    /// What runs a process; `Unknown` where it was not recorded.
    pub(crate) fn runtime_of(&self, pid: Pid) -> RuntimeKind {
        let info = self.capture.processes.iter().find(|info| info.key.pid == pid);
        info.map_or(RuntimeKind::Unknown, |info| info.runtime.kind)
    }

    /// Whether a process, or the program in it, began during the recording.
    pub(crate) fn has_start_of(&self, pid: Pid) -> bool {
        self.capture.timeline.as_ref().is_some_and(|timeline| {
            let executed =
                |event: &TimelineEvent| matches!(event, TimelineEvent::Exec { pid: of, .. } if *of == pid);
            timeline.threads.iter().any(|life| life.info.tid.0 == pid.0 && life.born)
                || timeline.process_events.iter().any(executed)
        })
    }

    /// The target's pid, for commands to try next; `PID` where it is not known.
    pub(crate) fn pid(&self) -> String {
        self.capture.header.target.as_ref().map_or_else(|| "PID".to_owned(), |key| key.pid.to_string())
    }

    /// `thread 4711 ("worker-3")`.
    pub(crate) fn thread_name(&self, tid: Tid) -> String {
        match self.thread(tid) {
            Some(row) => format!("thread {tid} (`{}`)", row.name),
            None => format!("thread {tid}"),
        }
    }

    /// Time of a sum as share of the window, that is: the mean number of threads.
    pub(crate) fn mean_threads(&self, time: Nanos) -> f64 {
        time.as_secs_f64() / self.seconds
    }

    /// Waiting by thread for reasons that `holds`, the longest first; the function is where it waited longest.
    pub(crate) fn thread_waits(&self, holds: impl Fn(WaitReason) -> bool) -> Vec<ThreadWait> {
        let mut sums: FxHashMap<Tid, (f64, u64, f64, Option<WaitSite>)> = FxHashMap::default();
        let mut entries: Vec<_> =
            self.facts.waits.by_thread.iter().filter(|((_, place), _)| holds(place.reason)).collect();
        entries.order_by_key(|((tid, place), _)| (*tid, place.function, place.reason));
        for ((tid, place), sum) in entries {
            let time = sum.time.as_secs_f64();
            let entry = sums.entry(*tid).or_default();
            entry.0 += time;
            entry.1 += sum.count;
            if time > entry.2 {
                entry.2 = time;
                entry.3 = Some(*place);
            }
        }
        // Several samples of one wait may be written down as several; recorded waits are counted one by one.
        let mut recorded: FxHashMap<Tid, (f64, u64)> = FxHashMap::default();
        for ((tid, _), sum) in self.facts.waits.recorded.iter().filter(|((_, place), _)| holds(place.reason))
        {
            let entry = recorded.entry(*tid).or_default();
            entry.0 += sum.time.as_secs_f64();
            entry.1 += sum.count;
        }
        let mut waited: FxHashMap<Tid, f64> = FxHashMap::default();
        for ((tid, _), sum) in &self.facts.waits.by_thread {
            *waited.entry(*tid).or_default() += sum.time.as_secs_f64();
        }
        for (tid, sum) in &mut sums {
            if let Some(&(_, count)) = recorded.get(tid).filter(|(time, _)| *time >= sum.0 / 2.0) {
                sum.1 = count;
            } else if let Some(row) = self.thread(*tid).filter(|row| row.voluntary > 0) {
                // Shorter than what is recorded: the scheduler counted them, as far as they are all of this kind.
                let nearly_all = sum.0 >= waited.get(tid).copied().unwrap_or_default() * 0.8;
                sum.1 = if nearly_all { row.voluntary } else { sum.1.min(row.voluntary) };
            }
        }
        let mut waits: Vec<ThreadWait> = sums
            .into_iter()
            .map(|(tid, (time, count, _, place))| ThreadWait {
                tid,
                share: (time / self.seconds).min(1.0),
                count,
                function: place.and_then(|place| place.function),
                reason: place.map_or(WaitReason::Unknown, |place| place.reason),
            })
            .collect();
        waits.order_by(|a, b| b.share.total_cmp(&a.share).then(a.tid.cmp(&b.tid)));
        waits
    }

    /// The function of the program in which, with what it calls of libraries, interpreters and the kernel, most time of `tree` goes, and
    /// its share of it.
    pub(crate) fn program_of(&self, tree: &FlameTree) -> Option<(FunctionHandle, f64)> {
        let sums = self.program_sums(tree, |_| true);
        let (function, time) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
        let all = tree.total().as_secs_f64();
        (all > 0.0).then_some((function, time / all))
    }

    /// The same of what runs outside of the kernel: who allocates does not sleep, send or receive.
    pub(crate) fn program_outside_of_kernel(&self, tree: &FlameTree) -> Option<(FunctionHandle, f64)> {
        self.programs_outside_of_kernel(tree).into_iter().next()
    }

    /// All of them, the largest first.
    pub(crate) fn programs_outside_of_kernel(&self, tree: &FlameTree) -> Vec<(FunctionHandle, f64)> {
        let is_kernel = |function: &FunctionHandle| {
            self.row(*function).is_some_and(|row| row.kind == FunctionKind::Kernel)
        };
        let sums = self.program_sums(tree, |kind| match kind {
            FlameKind::Function(function) => !is_kernel(function),
            FlameKind::Root | FlameKind::Pruned => false,
        });
        let all = tree.total().as_secs_f64();
        let mut shares: Vec<_> =
            sums.into_iter().filter(|_| all > 0.0).map(|(function, time)| (function, time / all)).collect();
        shares.order_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        shares
    }

    /// Share of `tree` that is in functions of the program and what they call.
    pub(crate) fn program_share(&self, tree: &FlameTree) -> f64 {
        self.program_sums(tree, |_| true).values().sum::<f64>()
            / tree.total().as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Time by the nearest function of the program.
    fn program_sums(
        &self,
        tree: &FlameTree,
        counts: impl Fn(&FlameKind) -> bool,
    ) -> FxHashMap<FunctionHandle, f64> {
        let mut nearest: Vec<Option<FunctionHandle>> = vec![None; tree.nodes.len()];
        let mut sums: FxHashMap<FunctionHandle, f64> = FxHashMap::default();
        // Parents stand in front of their children.
        for (at, node) in tree.nodes.iter().enumerate() {
            let mut name = nearest.get(at).copied().flatten();
            if let FlameKind::Function(function) = node.kind
                && self.row(function).is_some_and(|row| is_worth_naming(row) && row.whose == Whose::Program)
            {
                name = Some(function);
            }
            for &child in &node.children {
                if let Some(slot) = nearest.get_mut(child as usize) {
                    *slot = name;
                }
            }
            if let Some(name) = name.filter(|_| counts(&node.kind)) {
                *sums.entry(name).or_default() += node.own.as_secs_f64();
            }
        }
        sums
    }

    /// [`caller_in`] this recording.
    pub(crate) fn caller_of(
        &self,
        tree: &FlameTree,
        is_one: impl Fn(FunctionHandle, &FunctionRow) -> bool,
    ) -> Option<(FunctionHandle, f64)> {
        caller_in(self.analysis, tree, is_one, |_| false)
    }

    /// The same, but for what is below functions that are `left_out`.
    pub(crate) fn caller_outside_of(
        &self,
        tree: &FlameTree,
        is_one: impl Fn(FunctionHandle, &FunctionRow) -> bool,
        left_out: impl Fn(&FunctionRow) -> bool,
    ) -> Option<(FunctionHandle, f64)> {
        caller_in(self.analysis, tree, is_one, left_out)
    }
}

/// The caller that a person would name: the nearest function above `functions` in `tree` that is not plumbing
/// and not kernel, by time. Returns it with its share of the time of `functions`. What is below functions that are `left_out` does not count.
fn caller_in(
    analysis: &Analysis,
    tree: &FlameTree,
    is_one: impl Fn(FunctionHandle, &FunctionRow) -> bool,
    left_out: impl Fn(&FunctionRow) -> bool,
) -> Option<(FunctionHandle, f64)> {
    let mut parents = vec![0u32; tree.nodes.len()];
    for (at, node) in tree.nodes.iter().enumerate() {
        for &child in &node.children {
            if let Some(parent) = parents.get_mut(child as usize) {
                *parent = crate::trace::frames::as_u32(at);
            }
        }
    }
    // Per node: the nearest ancestor worth naming, and whether one of `functions` is above already.
    let mut nearest: Vec<(Option<FunctionHandle>, bool)> = vec![(None, false); tree.nodes.len()];
    let mut sums: FxHashMap<FunctionHandle, f64> = FxHashMap::default();
    let mut all = 0.0;
    for (at, node) in tree.nodes.iter().enumerate() {
        let FlameKind::Function(function) = node.kind else { continue };
        let parent = parents.get(at).copied().unwrap_or(0);
        let (mut name, mut inside) = nearest.get(parent as usize).copied().unwrap_or_default();
        let Some(row) = analysis.function(function) else { continue };
        inside |= left_out(row);
        if !inside && is_one(function, row) {
            inside = true;
            let time = node.total.as_secs_f64();
            all += time;
            if let Some(name) = name {
                *sums.entry(name).or_default() += time;
            }
        }
        // A closure without a name is told by the function of the program that it is in, or called by, where there is one.
        let is_named = |function| {
            analysis.function(function).is_some_and(|row| row.whose == Whose::Program && !is_anonymous(row))
        };
        if is_worth_naming(row) && !(is_anonymous(row) && name.is_some_and(is_named)) {
            name = Some(function);
        }
        if let Some(slot) = nearest.get_mut(at) {
            *slot = (name, inside);
        }
    }
    let (function, time) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (all > 0.0).then_some((function, time / all))
}

/// A closure of JavaScript that was given no name.
fn is_anonymous(row: &FunctionRow) -> bool {
    row.name == "(anonymous)"
}

/// A function of the program itself or of a library of its own.
pub(crate) fn is_worth_naming(row: &FunctionRow) -> bool {
    row.named && matches!(row.kind, FunctionKind::Native | FunctionKind::Jit) && role_of(row) == Role::Plain
}

/// New memory costs a page fault at its first touch: CPU samples in the kernel's fault handler show where.
/// With a name where most is below one function.
pub(crate) fn touched_by(analysis: &Analysis) -> Option<(Evidence, Option<String>)> {
    let is_fault = |name: &str| {
        ["exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "handle_mm_fault", "do_page_fault"]
            .contains(&name)
    };
    let is_in_kernel = |_, row: &FunctionRow| row.kind == FunctionKind::Kernel && is_fault(&row.name);
    let (function, share) = caller_in(analysis, &analysis.flames.all.cpu, is_in_kernel, |_| false)?;
    let name = name_with_maker(analysis, &analysis.flames.all.cpu, function)?;
    let text = format!("{} of the CPU time in page faults is below {name}", percent(share));
    let evidence = at(Reference::Function(function), text, Some(Value::Share(share)));
    Some((evidence, Some(name).filter(|_| share >= 0.4)))
}
