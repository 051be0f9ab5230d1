//! Threads: how long each was running, ready and waiting, and what it did over time.

use crate::keyed::Keyed;
use crate::limits::{STRIP_BUCKETS, STRIP_THREADS};
use crate::trace::calls::{CallTree, NodeIndex};
use crate::trace::frames::FrameTable;
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::trace::group_names::{GroupName, pattern};
use crate::trace::times::add;
use crate::trace::window::Buckets;
use biopsy_model::order::Order as _;
use biopsy_model::timeline::Timeline;
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The threads of a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadTable {
    /// One row a thread (an id that was reused is one row), most CPU time first.
    pub rows: Vec<ThreadRow>,
    /// Threads grouped by process and name pattern (`worker-1`, `worker-2` → `worker-*`), most CPU time first.
    pub groups: Vec<ThreadGroup>,
    /// Running, ready and waiting come from the scheduler (exact). Otherwise running comes from samples, and ready
    /// and waiting are not known (zero).
    pub exact: bool,
    /// Length of one bucket of the activity strips; zero: no strips.
    pub bucket: Nanos,
    /// How many threads were alive at the start and end of the window, and the most at one time.
    pub count_at_start: usize,
    /// At the end.
    pub count_at_end: usize,
    /// The most at one time.
    pub count_peak: usize,
    /// Threads that were created during the recording.
    pub born: usize,
    /// Threads that ended during the recording.
    pub exited: usize,
}

/// One thread.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadRow {
    /// Who.
    pub tid: Tid,
    /// Of which process; `Pid(0)`: not known.
    pub pid: Pid,
    /// Last name; `thread TID` where it was never reported.
    pub name: String,
    /// Index into [`ThreadTable::groups`].
    pub group: usize,
    /// Start of the thread or of its recording.
    pub start: MonoNanos,
    /// It began during the recording.
    pub born: bool,
    /// The thread that created it.
    pub by: Option<Tid>,
    /// Its end, if it ended during the recording.
    pub exit: Option<MonoNanos>,
    /// Time on a CPU.
    pub running: Nanos,
    /// Time ready without a CPU.
    pub ready: Nanos,
    /// Time waiting.
    pub waiting: Nanos,
    /// CPU time by samples: count x period.
    pub sampled: Nanos,
    /// CPU samples.
    pub samples: u64,
    /// Times it was switched out because it waited.
    pub voluntary: u64,
    /// Times it was switched out while it could have gone on.
    pub involuntary: u64,
    /// Times it was woken.
    pub wakeups: u64,
    /// The function with the most CPU time of its own in this thread.
    pub top_function: Option<FunctionHandle>,
    /// Share of `sampled` in `top_function`, 0 to 1.
    pub top_share: f64,
    /// Activity over the window; empty: this thread has no strip (too many threads).
    pub strip: Vec<StripBucket>,
}

/// Shares of one bucket of time, 0 to 1. What is missing to 1 is not known, or the thread was not there.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StripBucket {
    /// On a CPU.
    pub running: f32,
    /// Ready without a CPU.
    pub ready: f32,
    /// Waiting.
    pub waiting: f32,
}

/// Threads with the same name pattern in the same process.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadGroup {
    /// Name pattern.
    pub name: String,
    /// Process.
    pub pid: Pid,
    /// How many threads.
    pub threads: usize,
    /// Time on a CPU.
    pub running: Nanos,
    /// Time ready without a CPU.
    pub ready: Nanos,
    /// Time waiting.
    pub waiting: Nanos,
    /// CPU time by samples.
    pub sampled: Nanos,
    /// Switches because of waits.
    pub voluntary: u64,
    /// Switches while it could have gone on.
    pub involuntary: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// The function with the most CPU time of its own in this group.
    pub top_function: Option<FunctionHandle>,
}

impl ThreadTable {
    /// The table without top functions; [`ThreadTable::add_top_functions`] adds them.
    pub(crate) fn new(timeline: &Timeline, window: Option<(MonoNanos, MonoNanos)>) -> ThreadTable {
        let mut rows: Keyed<Tid, ThreadRow> = Keyed::default();
        let new = |tid| move || ThreadRow { tid, ..ThreadRow::default() };
        for life in &timeline.threads {
            let row = rows.of(life.info.tid, new(life.info.tid));
            // A reused id is one row: the later life gives name and end, the first one the start.
            if row.pid == Pid(0) {
                row.start = life.start;
                row.born = life.born;
                row.by = life.by;
            }
            row.pid = life.info.pid;
            row.exit = life.exit;
            if !life.info.name.is_empty() {
                row.name.clone_from(&life.info.name);
            }
        }
        for sample in &timeline.samples {
            let row = rows.of(sample.tid, new(sample.tid));
            row.sampled = row.sampled + sample.weight;
            row.samples += 1;
        }
        for slice in &timeline.states {
            let row = rows.of(slice.tid, new(slice.tid));
            row.running = row.running + slice.running;
            row.ready = row.ready + slice.ready;
            row.waiting = row.waiting + slice.waiting;
            row.voluntary += u64::from(slice.voluntary);
            row.involuntary += u64::from(slice.involuntary);
            row.wakeups += u64::from(slice.wakeups);
        }
        let exact = timeline.settings.has_states && !timeline.states.is_empty();
        let mut rows = rows.into_rows();
        let length = window.map(|(from, to)| to.since(from)).filter(|length| length.0 > 0);
        for row in &mut rows {
            if !exact {
                row.running = row.sampled;
            } else if let Some(length) = length {
                // No thread does anything for longer than was recorded; what a damaged file says of it is no time.
                for time in [&mut row.running, &mut row.ready, &mut row.waiting] {
                    *time = (*time).min(length);
                }
            }
            if row.name.is_empty() {
                row.name = format!("thread {}", row.tid);
            }
        }
        rows.order_by_key(|row| (Reverse(row.running), Reverse(row.sampled), row.tid));
        let mut table = ThreadTable { rows, exact, ..ThreadTable::default() };
        table.make_groups();
        table.make_strips(timeline, window);
        table.count(window);
        table
    }

    fn make_groups(&mut self) {
        let mut index: FxHashMap<(Pid, String), usize> = FxHashMap::default();
        let mut names: Vec<GroupName> = Vec::new();
        for row in &mut self.rows {
            let next = self.groups.len();
            row.group = *index.entry((row.pid, pattern(&row.name))).or_insert(next);
            if row.group == next {
                self.groups.push(ThreadGroup { pid: row.pid, ..ThreadGroup::default() });
                names.push(GroupName::default());
            }
            let (Some(group), Some(name)) = (self.groups.get_mut(row.group), names.get_mut(row.group)) else {
                continue;
            };
            name.add(&row.name);
            group.threads += 1;
            group.running = group.running + row.running;
            group.ready = group.ready + row.ready;
            group.waiting = group.waiting + row.waiting;
            group.sampled = group.sampled + row.sampled;
            group.voluntary += row.voluntary;
            group.involuntary += row.involuntary;
            group.wakeups += row.wakeups;
        }
        for (group, name) in self.groups.iter_mut().zip(&names) {
            group.name = name.text();
        }
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.order_by_key(|&at| {
            self.groups.get(at).map(|group| (Reverse(group.running), Reverse(group.waiting)))
        });
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            if let Some(slot) = place.get_mut(old) {
                *slot = new;
            }
        }
        self.groups = order.iter().filter_map(|&at| self.groups.get(at).cloned()).collect();
        for row in &mut self.rows {
            row.group = place.get(row.group).copied().unwrap_or(0);
        }
    }

    fn make_strips(&mut self, timeline: &Timeline, window: Option<(MonoNanos, MonoNanos)>) {
        let Some(buckets) = Buckets::new(window, STRIP_BUCKETS) else { return };
        self.bucket = buckets.length;
        let index = self.index();
        for row in self.rows.iter_mut().take(STRIP_THREADS) {
            row.strip = vec![StripBucket::default(); STRIP_BUCKETS];
        }
        let length = buckets.length.as_secs_f64();
        let mut strip_of = |tid: Tid, bucket: usize, give: &dyn Fn(&mut StripBucket)| {
            let row = index.get(&tid).and_then(|&at| self.rows.get_mut(at));
            if let Some(bucket) = row.and_then(|row| row.strip.get_mut(bucket)) {
                give(bucket);
            }
        };
        if self.exact {
            for slice in &timeline.states {
                buckets.spread(slice.from, slice.to, |bucket, part| {
                    let share = |time: Nanos| share_of(time.as_secs_f64() * part, length);
                    let (running, ready, waiting) =
                        (share(slice.running), share(slice.ready), share(slice.waiting));
                    strip_of(slice.tid, bucket, &|strip| {
                        strip.running = (strip.running + running).min(1.0);
                        strip.ready = (strip.ready + ready).min(1.0);
                        strip.waiting = (strip.waiting + waiting).min(1.0);
                    });
                });
            }
        } else {
            for sample in &timeline.samples {
                let Some(bucket) = buckets.of(sample.time) else { continue };
                let running = share_of(sample.weight.as_secs_f64(), length);
                strip_of(sample.tid, bucket, &|strip| strip.running = (strip.running + running).min(1.0));
            }
        }
    }

    fn count(&mut self, window: Option<(MonoNanos, MonoNanos)>) {
        let end = window.map_or(MonoNanos(u64::MAX), |(_, to)| to);
        self.born = self.rows.iter().filter(|row| row.born).count();
        self.exited = self.rows.iter().filter(|row| row.exit.is_some()).count();
        self.count_at_start = self.rows.iter().filter(|row| !row.born).count();
        let mut changes: Vec<(MonoNanos, bool)> = Vec::new();
        for row in &self.rows {
            changes.extend(row.born.then_some((row.start, true)));
            changes.extend(row.exit.filter(|&exit| exit < end).map(|exit| (exit, false)));
        }
        changes.sort_unstable();
        let mut now = self.count_at_start;
        self.count_peak = now;
        for (_, came) in changes {
            now = if came { now + 1 } else { now.saturating_sub(1) };
            self.count_peak = self.count_peak.max(now);
        }
        self.count_at_end = now;
    }

    /// Row of each thread.
    pub(crate) fn index(&self) -> FxHashMap<Tid, usize> {
        self.rows.iter().enumerate().map(|(at, row)| (row.tid, at)).collect()
    }

    /// Finds the function with the most CPU time of its own, for each thread and each group.
    pub(crate) fn add_top_functions(&mut self, timeline: &Timeline, tree: &CallTree, frames: &FrameTable) {
        let index = self.index();
        let mut by_thread: FxHashMap<(usize, NodeIndex), Nanos> = FxHashMap::default();
        for sample in &timeline.samples {
            let Some(&row) = index.get(&sample.tid) else { continue };
            add(&mut by_thread, (row, tree.node_of(sample.stack)), sample.weight);
        }
        let mut thread_functions: FxHashMap<(usize, FunctionHandle), Nanos> = FxHashMap::default();
        let mut group_functions: FxHashMap<(usize, FunctionHandle), Nanos> = FxHashMap::default();
        for ((row, node), time) in by_thread {
            let Some(function) = tree.nodes.get(node as usize).map(|node| node.function) else { continue };
            if frames.row(function).is_none_or(|row| row.kind == FunctionKind::Heading) {
                continue;
            }
            let group = self.rows.get(row).map_or(0, |row| row.group);
            add(&mut thread_functions, (row, function), time);
            add(&mut group_functions, (group, function), time);
        }
        for (row, (function, time)) in largest(thread_functions) {
            if let Some(row) = self.rows.get_mut(row) {
                row.top_function = Some(function);
                row.top_share = time.as_secs_f64() / row.sampled.as_secs_f64().max(1e-9);
            }
        }
        for (group, (function, _)) in largest(group_functions) {
            if let Some(group) = self.groups.get_mut(group) {
                group.top_function = Some(function);
            }
        }
    }
}

fn largest(sums: FxHashMap<(usize, FunctionHandle), Nanos>) -> FxHashMap<usize, (FunctionHandle, Nanos)> {
    let mut best: FxHashMap<usize, (FunctionHandle, Nanos)> = FxHashMap::default();
    for ((key, function), time) in sums {
        let entry = best.entry(key).or_insert((function, time));
        // Ties go to the lower handle, so that the same recording always gives the same report.
        if (time, Reverse(function)) > (entry.1, Reverse(entry.0)) {
            *entry = (function, time);
        }
    }
    best
}

#[expect(clippy::cast_possible_truncation, reason = "a share of a drawn strip needs no more than f32")]
fn share_of(time: f64, length: f64) -> f32 {
    if length > 0.0 { (time / length).clamp(0.0, 1.0) as f32 } else { 0.0 }
}

#[cfg(test)]
mod tests;
