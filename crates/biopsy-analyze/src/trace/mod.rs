//! What a trace says: functions, call trees, threads, waits.
//!
//! Layers, each using those before it: `function`, `waits`, `window`, `roles`, `group_names`, `cost_names`, `times`, `off_cpu` (words and types); `frames`; `calls`;
//! `allocations`, `costs`, `flame`, `threads`, `wait_sites`, `managed_waits`; `held`; `recorded_waits`; `wait_sums`; `facts`; and `read`, which puts them in order.

pub mod allocations;
pub(crate) mod calls;
pub(crate) mod cost_names;
pub(crate) mod costs;
pub(crate) mod facts;
pub mod flame;
pub(crate) mod frames;
pub mod function;
mod group_names;
pub(crate) mod held;
#[cfg(test)]
pub(crate) mod made;
pub(crate) mod managed_waits;
mod off_cpu;
mod recorded_waits;
mod roles;
pub mod threads;
mod times;
pub(crate) mod wait_sites;
pub(crate) mod wait_sums;
pub mod waits;
pub(crate) mod window;

use crate::limits::{FLAME_NODES, FLAME_THREADS, THREAD_FLAME_NODES};
use biopsy_model::capture::Capture;
use biopsy_model::order::Order as _;
use biopsy_model::timeline::{SamplingEvent, Timeline};
use biopsy_model::{MonoNanos, Nanos, Tid};
use calls::{CallTree, NodeIndex, Purpose};
use facts::Facts;
use flame::{FlameKind, FlamePair, Flames, ThreadFlames, prune};
use frames::{FrameTable, as_u32};
use function::{FunctionHandle, FunctionKind};
use off_cpu::off_cpu;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use threads::ThreadTable;
use wait_sites::WaitSites;
use waits::Waits;

/// What a trace gives.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    pub(crate) frames: FrameTable,
    pub(crate) threads: ThreadTable,
    pub(crate) flames: Flames,
    pub(crate) waits: Waits,
    pub(crate) facts: Facts,
}

/// Reads a trace, in order: functions, call trees, threads, waits.
pub(crate) fn read(capture: &Capture, timeline: &Timeline, window: Option<(MonoNanos, MonoNanos)>) -> Traced {
    let mut frames = FrameTable::new(timeline);
    let by_timer = timeline.settings.sampling_event == SamplingEvent::CpuClock;
    let cpu_tree = CallTree::new(timeline, &mut frames, Purpose::Cpu { by_timer });
    let wait_tree = CallTree::new(timeline, &mut frames, Purpose::Waiting);

    let mut cpu = cpu_tree.zeros();
    for sample in &timeline.samples {
        add(&mut cpu, cpu_tree.node_of(sample.stack), sample.weight);
    }
    let mut wait = wait_tree.zeros();
    for (_, stack, time) in off_cpu(timeline) {
        add(&mut wait, wait_tree.node_of(stack), time);
    }
    let count = frames.functions.len();
    let cpu_sums = cpu_tree.by_function(&cpu, count);
    let wait_sums = wait_tree.by_function(&wait, count);
    let mut facts = Facts::default();
    for (row, (cpu, wait)) in frames.functions.iter_mut().zip(cpu_sums.iter().zip(&wait_sums)) {
        (row.cpu_self, row.cpu_total) = *cpu;
        (row.wait_self, row.wait_total) = *wait;
        let scheduling = row.kind == FunctionKind::Heading && row.name == "kernel: scheduling";
        if scheduling {
            facts.scheduling = row.cpu_total;
        }
        if scheduling || row.kind == FunctionKind::Kernel {
            facts.kernel = facts.kernel + row.cpu_self;
        }
    }

    facts.costs = costs::sum(&cpu_tree, &cpu, &frames);
    frames.mark_tiers(timeline);
    let mut threads = ThreadTable::new(timeline, window);
    threads.add_top_functions(timeline, &cpu_tree, &frames);
    let flames = Flames {
        all: FlamePair {
            cpu: prune(&cpu_tree, &cpu, FLAME_NODES),
            waiting: prune(&wait_tree, &wait, FLAME_NODES),
        },
        threads: thread_flames(timeline, &threads, &cpu_tree, &wait_tree),
    };
    let mut sites = WaitSites::new(timeline, &frames, &capture.header.host.architecture);
    let waits;
    (waits, facts.waits) = wait_sums::sum(timeline, &mut sites, &threads, window::length(window));
    facts.managed = managed_waits::sum(timeline, &frames);
    let mut traced = Traced { frames, threads, flames, waits, facts };
    traced.sort_functions();
    traced
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
    for (tid, stack, time) in off_cpu(timeline) {
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

impl Traced {
    /// Puts functions in order of CPU total, then waiting total, and changes every handle accordingly.
    fn sort_functions(&mut self) {
        let functions = &self.frames.functions;
        let mut order: Vec<usize> = (0..functions.len()).collect();
        order.order_by_key(|&at| {
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
        let pairs = std::iter::once(&mut self.flames.all)
            .chain(self.flames.threads.iter_mut().map(|t| &mut t.flames));
        for node in pairs.flat_map(|pair| pair.cpu.nodes.iter_mut().chain(&mut pair.waiting.nodes)) {
            if let FlameKind::Function(function) = &mut node.kind {
                *function = moved(*function);
            }
        }
        self.threads.rows.iter_mut().for_each(|row| move_option(&mut row.top_function));
        self.threads.groups.iter_mut().for_each(|group| move_option(&mut group.top_function));
        self.waits.functions.iter_mut().for_each(|row| move_option(&mut row.function));
        self.waits.convoys.iter_mut().for_each(|convoy| move_option(&mut convoy.function));
        for row in &mut self.waits.behind {
            move_option(&mut row.function);
            move_option(&mut row.cause_function);
        }
        self.waits.longest.iter_mut().for_each(|long| move_option(&mut long.function));
        for row in &mut self.facts.costs {
            row.callers
                .iter_mut()
                .chain(&mut row.entries)
                .for_each(|(function, _)| *function = moved(*function));
        }
        self.facts.managed.iter_mut().for_each(|row| move_option(&mut row.function));
        self.facts.waits.move_functions(&moved);
        self.frames.move_functions(&order, &moved);
    }
}
