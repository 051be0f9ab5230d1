//! The part of an analysis that comes from the trace, in order: functions, call trees, threads, waits.

use crate::Analysis;
use crate::calls::{CallTree, NodeIndex, Purpose};
use crate::flame::{FlameKind, FlamePair, Flames, ThreadFlames, prune};
use crate::frames::{FrameTable, as_u32};
use crate::function::FunctionHandle;
use crate::limits::{FLAME_NODES, FLAME_THREADS, THREAD_FLAME_NODES};
use crate::managed_waits::{self, ManagedWaitSum};
use crate::places::Places;
use crate::threads::ThreadTable;
use crate::wait_sums::{self, WaitFacts};
use crate::window;
use biopsy_model::capture::Capture;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{SamplingEvent, Timeline, WaitState};
use biopsy_model::{Nanos, Tid};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// What findings need beyond the public tables.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) waits: WaitFacts,
    /// CPU time below the heading `kernel: scheduling`.
    pub(crate) scheduling: Nanos,
    /// CPU time with a kernel function innermost, scheduling included.
    pub(crate) kernel: Nanos,
    /// How threads of a managed runtime wait.
    pub(crate) managed: Vec<ManagedWaitSum>,
}

/// Fills in what the trace tells.
pub(crate) fn analyze(
    capture: &Capture,
    timeline: &Timeline,
    analysis: &mut Analysis,
) -> (FrameTable, Facts) {
    let mut frames = FrameTable::new(timeline);
    let by_timer = timeline.settings.sampling_event == SamplingEvent::CpuClock;
    let cpu_tree = CallTree::new(timeline, &mut frames, Purpose::Cpu { by_timer });
    let wait_tree = CallTree::new(timeline, &mut frames, Purpose::Waiting);

    let mut cpu = cpu_tree.zeros();
    for sample in &timeline.samples {
        add(&mut cpu, cpu_tree.node_of(sample.stack), sample.weight);
    }
    let mut wait = wait_tree.zeros();
    for (_, stack, time) in looks(timeline) {
        add(&mut wait, wait_tree.node_of(stack), time);
    }
    let count = frames.functions.len();
    let cpu_sums = cpu_tree.by_function(&cpu, count);
    let wait_sums = wait_tree.by_function(&wait, count);
    let mut facts = Facts::default();
    for (row, (cpu, wait)) in frames.functions.iter_mut().zip(cpu_sums.iter().zip(&wait_sums)) {
        (row.cpu_self, row.cpu_total) = *cpu;
        (row.wait_self, row.wait_total) = *wait;
        let scheduling = row.kind == crate::FunctionKind::Heading && row.name == "kernel: scheduling";
        if scheduling {
            facts.scheduling = row.cpu_total;
        }
        if scheduling || row.kind == crate::FunctionKind::Kernel {
            facts.kernel = facts.kernel + row.cpu_self;
        }
    }

    frames.mark_tiers(timeline);
    analysis.threads = ThreadTable::new(timeline, analysis.window);
    analysis.threads.add_top_functions(timeline, &cpu_tree, &frames);
    analysis.flames = Flames {
        all: FlamePair {
            cpu: prune(&cpu_tree, &cpu, FLAME_NODES),
            waiting: prune(&wait_tree, &wait, FLAME_NODES),
        },
        threads: thread_flames(timeline, &analysis.threads, &cpu_tree, &wait_tree),
    };
    let mut places = Places::new(timeline, &frames, &capture.header.host.architecture);
    let window = window::length(analysis.window);
    (analysis.waits, facts.waits) = wait_sums::sum(timeline, &mut places, &analysis.threads, window);
    facts.managed = managed_waits::sum(timeline, &frames);
    sort_functions(&mut frames, analysis, &mut facts);
    (frames, facts)
}

/// Waiting time with stacks: looks at waiting threads, or else recorded waits.
fn looks(timeline: &Timeline) -> impl Iterator<Item = (Tid, Option<StackHandle>, Nanos)> + '_ {
    let from_waits = timeline.wait_samples.is_empty();
    let waits = timeline
        .waits
        .iter()
        .filter(move |wait| from_waits && wait.stack.is_some() && wait.state != WaitState::Preempted)
        .map(|wait| (wait.tid, wait.stack, wait.end.since(wait.start)));
    let looks = timeline.wait_samples.iter().filter(|look| look.state != WaitState::Preempted);
    looks.map(|look| (look.tid, look.stack, look.weight)).chain(waits)
}

fn add(own: &mut [Nanos], node: NodeIndex, time: Nanos) {
    if let Some(own) = own.get_mut(node as usize) {
        *own = *own + time;
    }
}

fn thread_flames(
    timeline: &Timeline,
    threads: &ThreadTable,
    cpu_tree: &CallTree,
    wait_tree: &CallTree,
) -> Vec<ThreadFlames> {
    let chosen: FxHashMap<Tid, usize> =
        threads.rows.iter().take(FLAME_THREADS).enumerate().map(|(at, row)| (row.tid, at)).collect();
    let mut cpu = vec![cpu_tree.zeros(); chosen.len()];
    let mut wait = vec![wait_tree.zeros(); chosen.len()];
    for sample in &timeline.samples {
        if let Some(own) = chosen.get(&sample.tid).and_then(|&at| cpu.get_mut(at)) {
            add(own, cpu_tree.node_of(sample.stack), sample.weight);
        }
    }
    for (tid, stack, time) in looks(timeline) {
        if let Some(own) = chosen.get(&tid).and_then(|&at| wait.get_mut(at)) {
            add(own, wait_tree.node_of(stack), time);
        }
    }
    let rows = threads.rows.iter().zip(cpu.iter().zip(&wait));
    rows.map(|(row, (cpu, wait))| ThreadFlames {
        tid: row.tid,
        pid: row.pid,
        name: row.name.clone(),
        flames: FlamePair {
            cpu: prune(cpu_tree, cpu, THREAD_FLAME_NODES),
            waiting: prune(wait_tree, wait, THREAD_FLAME_NODES),
        },
    })
    .collect()
}

/// Puts functions in order of CPU total, then waiting total, and changes every handle accordingly.
fn sort_functions(frames: &mut FrameTable, analysis: &mut Analysis, facts: &mut Facts) {
    let functions = &frames.functions;
    let mut order: Vec<usize> = (0..functions.len()).collect();
    order.sort_by_key(|&at| {
        functions.get(at).map(|row| (Reverse(row.cpu_total), Reverse(row.wait_total), at))
    });
    let mut place = vec![FunctionHandle(0); order.len()];
    for (new, &old) in order.iter().enumerate() {
        if let Some(slot) = place.get_mut(old) {
            *slot = FunctionHandle(as_u32(new));
        }
    }
    let moved = |function: FunctionHandle| place.get(function.0 as usize).copied().unwrap_or(function);
    let move_option = |function: &mut Option<FunctionHandle>| *function = function.map(moved);
    let pairs = std::iter::once(&mut analysis.flames.all)
        .chain(analysis.flames.threads.iter_mut().map(|t| &mut t.flames));
    for node in pairs.flat_map(|pair| pair.cpu.nodes.iter_mut().chain(&mut pair.waiting.nodes)) {
        if let FlameKind::Function(function) = &mut node.kind {
            *function = moved(*function);
        }
    }
    analysis.threads.rows.iter_mut().for_each(|row| move_option(&mut row.top_function));
    analysis.threads.groups.iter_mut().for_each(|group| move_option(&mut group.top_function));
    analysis.waits.functions.iter_mut().for_each(|row| move_option(&mut row.function));
    analysis.waits.convoys.iter_mut().for_each(|convoy| move_option(&mut convoy.function));
    for row in &mut analysis.waits.behind {
        move_option(&mut row.function);
        move_option(&mut row.cause_function);
    }
    analysis.waits.longest.iter_mut().for_each(|long| move_option(&mut long.function));
    facts.managed.iter_mut().for_each(|row| move_option(&mut row.function));
    facts.waits.by_thread = std::mem::take(&mut facts.waits.by_thread)
        .into_iter()
        .map(|((tid, mut place), sum)| {
            place.function = place.function.map(moved);
            ((tid, place), sum)
        })
        .collect();
    frames.move_functions(&order, &moved);
}
