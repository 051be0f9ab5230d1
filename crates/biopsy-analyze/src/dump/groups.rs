//! Threads with equal stacks.

use biopsy_model::order::Order as _;
use std::cmp::Reverse;

use biopsy_model::Tid;
use biopsy_model::stack::StackEnd;
use biopsy_stacks::image::{ImageStacks, Place, ThreadStack};
use rustc_hash::FxHashMap;

use super::crash::Crash;
use super::frame_rows::{self, FrameRow};
use super::places::{self, StackPlace};
use super::state::ThreadState;
use super::threads::DumpThread;
use super::waits::WaitGraph;

/// Rows of one group at most; what is between the innermost and outermost is counted.
const ROWS: usize = 400;
/// Longest pattern of recursion that is recognised among the rows it repeats, in frames.
const PATTERN: usize = 6;

/// Threads with equal stacks, by function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StackGroup {
    /// Indices into [`DumpAnalysis::threads`](super::DumpAnalysis::threads).
    pub members: Vec<usize>,
    /// Innermost first; recursion is one row with a count.
    pub frames: Vec<FrameRow>,
    /// Frames before recursion was put together.
    pub depth: usize,
    /// How far the stack got.
    pub end: StackEnd,
    /// It was cut because of a limit.
    pub cut: bool,
    /// The thread of the crash is in it.
    pub crashed: bool,
    /// A thread of a circle of waits is in it.
    pub in_cycle: bool,
    /// Threads of it that execute code of their own.
    pub running: usize,
    /// What they do, in words, when all do the same; the most frequent otherwise.
    pub doing: String,
}

impl StackGroup {
    /// The innermost frame of the program itself; of a library where there is none of the program.
    #[must_use]
    pub fn own_frame(&self) -> Option<&FrameRow> {
        self.frames.get(places::row(&self.frames)?)
    }

    /// Where the program itself stands.
    #[must_use]
    pub fn place(&self) -> Option<StackPlace> {
        places::of(&self.frames, None)
    }
}

pub(super) fn groups(
    stacks: &ImageStacks,
    threads: &[DumpThread],
    crash: Option<&Crash>,
    waits: &WaitGraph,
) -> Vec<StackGroup> {
    let by_tid: FxHashMap<Tid, &ThreadStack> =
        stacks.threads.iter().map(|stack| (stack.tid, stack)).collect();
    let identities = identities(stacks);
    let stuck = waits.stuck();
    let mut known: FxHashMap<(Vec<u32>, StackEnd), usize> = FxHashMap::default();
    let mut groups: Vec<StackGroup> = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        let stack = by_tid.get(&thread.tid).copied();
        let frames = stack.map(|stack| stack.frames.as_slice()).unwrap_or_default();
        let key: Vec<u32> = frames
            .iter()
            .map(|frame| identities.get(frame.place.0 as usize).copied().unwrap_or(u32::MAX))
            .collect();
        let end = stack.map_or(StackEnd::Skipped, |stack| stack.end);
        let group = *known.entry((key, end)).or_insert_with(|| {
            let (frames, depth) = stack.map(|stack| rows(stacks, stack)).unwrap_or_default();
            groups.push(StackGroup {
                members: Vec::new(),
                frames,
                depth,
                end,
                cut: stack.is_some_and(|stack| stack.cut),
                crashed: false,
                in_cycle: false,
                running: 0,
                doing: String::new(),
            });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(group) else { continue };
        group.members.push(index);
        group.crashed |= crash.is_some_and(|crash| crash.thread == thread.tid);
        group.in_cycle |= stuck.contains(&thread.tid);
        group.running += usize::from(thread.state == ThreadState::Running);
    }
    for group in &mut groups {
        group.doing = match crash.filter(|_| group.crashed) {
            Some(crash) => format!("died of {}", crash.signal_name),
            None => doing(group, threads),
        };
    }
    groups.order_by_key(|group| {
        (
            !group.crashed,
            !group.in_cycle,
            group.running == 0,
            Reverse(group.members.len()),
            group.members.first().copied(),
        )
    });
    groups
}

/// One number a function: threads in different lines of it stand in the same stack. Without a name, the function that
/// unwind information knows; without that, the address.
fn identities(stacks: &ImageStacks) -> Vec<u32> {
    let mut known: FxHashMap<(Option<usize>, u8, u64, String), u32> = FxHashMap::default();
    let number = |place: &Place| {
        let name: Vec<&str> = place.functions.iter().map(|function| function.name.as_str()).collect();
        if let Some(compiled) = &place.compiled {
            // A method is compiled more than once, into any memory.
            let next = known.len() as u32;
            let key = (None, 3, 0, format!("{}\n{}", compiled.module, name.join("\n")));
            return *known.entry(key).or_insert(next);
        }
        let key = match (place.functions.is_empty(), place.function_start) {
            (_, Some(start)) => (place.module, 0, start, name.join("\n")),
            (false, None) => (place.module, 1, 0, name.join("\n")),
            (true, None) => (place.module, 2, place.offset, String::new()),
        };
        let next = known.len() as u32;
        *known.entry(key).or_insert(next)
    };
    stacks.places.iter().map(number).collect()
}

fn doing(group: &StackGroup, threads: &[DumpThread]) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut locks = group.members.iter().filter_map(|index| threads.get(*index)?.lock.as_ref());
    let first = locks.next().map(|lock| (lock.lock, lock.owner));
    let one_lock = locks.all(|lock| Some((lock.lock, lock.owner)) == first);
    for thread in group.members.iter().take(1000).filter_map(|index| threads.get(*index)) {
        // Threads of a group may wait for different locks; what they have in common is the kind.
        let words = match &thread.lock {
            Some(lock) if !one_lock => format!("waits for {}", lock.kind.words()),
            _ => thread.words(),
        };
        match counts.iter().position(|(known, _)| *known == words) {
            Some(at) => counts[at].1 += 1,
            None if counts.len() < 16 => counts.push((words, 1)),
            None => {}
        }
    }
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let same = counts.len() == 1;
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map_or(String::new(), |(words, count)| match same {
        true => words,
        false => format!("{words} ({count} of {all}; the others differ)"),
    })
}

fn rows(stacks: &ImageStacks, stack: &ThreadStack) -> (Vec<FrameRow>, usize) {
    (cut(fold_recursion(frame_rows::rows(stacks, &stack.frames))), stack.frames.len())
}

/// `a b a b a b c` becomes `a b (3 times) c`.
fn fold_recursion(rows: Vec<FrameRow>) -> Vec<FrameRow> {
    let at = |row: &FrameRow| row.start.unwrap_or(row.offset);
    let same = |a: &FrameRow, b: &FrameRow| {
        a.function == b.function && a.module == b.module && (a.function.is_some() || at(a) == at(b))
    };
    let mut folded = Vec::new();
    let mut at = 0;
    while at < rows.len() {
        let repeated = (1..=PATTERN).find_map(|length| {
            let pattern = rows.get(at..at + length)?;
            let more = rows[at..].chunks_exact(length);
            let times = more.take_while(|chunk| chunk.iter().zip(pattern).all(|(a, b)| same(a, b))).count();
            (times >= 3).then_some((length, times))
        });
        let (length, times) = repeated.unwrap_or((1, 1));
        for (position, row) in rows[at..at + length].iter().enumerate() {
            let repeats = if position == 0 { (times as u32, length as u32) } else { (1, 1) };
            folded.push(FrameRow { repeats, ..row.clone() });
        }
        at += length * times;
    }
    folded
}

/// The innermost and the outermost rows.
fn cut(mut rows: Vec<FrameRow>) -> Vec<FrameRow> {
    if rows.len() <= ROWS {
        return rows;
    }
    let tail = rows.split_off(rows.len() - ROWS / 4);
    let skipped = rows.len() - ROWS / 4 * 3;
    rows.truncate(ROWS / 4 * 3);
    rows.extend(
        tail.into_iter()
            .enumerate()
            .map(|(index, row)| FrameRow { skipped: if index == 0 { skipped as u32 } else { 0 }, ..row }),
    );
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::{Avma, Svma};
    use biopsy_stacks::unwind::FoundBy;

    fn row(name: &str) -> FrameRow {
        FrameRow {
            function: Some(name.to_owned()),
            inlined: false,
            managed: false,
            whose: crate::whose::Whose::Program,
            module: "m".to_owned(),
            offset: Svma(0),
            start: None,
            address: Avma(0),
            source: None,
            found: FoundBy::UnwindInfo,
            repeats: (1, 1),
            skipped: 0,
        }
    }

    fn folded(names: &str) -> String {
        let rows = fold_recursion(names.split(' ').map(row).collect());
        let words = rows.iter().map(|row| match row.repeats {
            (1, _) => row.label(),
            (times, length) => format!("{}x{times}/{length}", row.label()),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn recursion_is_one_row_with_a_count() {
        assert_eq!(folded("leaf f f f f main"), "leaf fx4/1 main");
        assert_eq!(folded("a b a b a b main"), "ax3/2 b main");
        assert_eq!(folded("f f main"), "f f main", "twice is no recursion to speak of");
        assert_eq!(folded("a"), "a");
    }

    #[test]
    fn a_long_stack_keeps_both_ends() {
        let rows: Vec<FrameRow> = (0..1000).map(|index| row(&format!("f{index}"))).collect();
        let cut = cut(rows);
        assert_eq!(cut.len(), ROWS);
        assert_eq!(cut.first().map(FrameRow::label).as_deref(), Some("f0"));
        assert_eq!(cut.last().map(FrameRow::label).as_deref(), Some("f999"));
        assert_eq!(cut.iter().map(|row| row.skipped).sum::<u32>(), 600);
    }
}
