//! What recurses in a stack that overflowed.

use crate::dump::{DumpAnalysis, FrameRow};
use crate::findings::dump::at;
use crate::findings::evidence::fact;
use crate::findings::finding::{Evidence, Reference};
use crate::whose::Whose;
use crate::words::{number, shorten};
use biopsy_model::Tid;

/// Rounds from which on a stack is deep because of them.
const ROUNDS: u32 = 20;
/// Functions of one round that are named.
const NAMED: usize = 4;
/// Characters of a name that is said in full.
const LONGEST: usize = 160;

/// The functions that call each other again and again on the thread's stack, and how often.
pub(super) fn recursion(analysis: &DumpAnalysis, tid: Tid) -> Option<Evidence> {
    let thread = analysis.thread(tid)?;
    let group = analysis.groups.get(thread.group)?;
    let rounds = |row: &FrameRow| row.repeats.0.saturating_mul(row.repeats.1);
    let deepest = group.frames.iter().enumerate().max_by_key(|(_, row)| rounds(row));
    if let Some((from, row)) = deepest.filter(|(_, row)| row.repeats.0 >= ROUNDS) {
        let (times, length) = (row.repeats.0, row.repeats.1 as usize);
        let names = group.frames.iter().skip(from).take(length).map(name);
        return Some(at(Reference::Thread(tid), words(names.collect(), f64::from(times))));
    }
    of_strand(analysis, tid)
}

/// The same where the functions are those of an interpreted language, or of Go.
fn of_strand(analysis: &DumpAnalysis, tid: Tid) -> Option<Evidence> {
    let on_thread = analysis.strands.iter().find_map(|runtime| {
        let strand = runtime
            .runtime
            .strands
            .iter()
            .find(|strand| strand.tid == Some(tid) && !strand.frames.is_empty())?;
        Some((runtime, strand))
    });
    let (_, strand) = on_thread?;
    let mut counts: rustc_hash::FxHashMap<&str, u32> = rustc_hash::FxHashMap::default();
    for frame in &strand.frames {
        *counts.entry(&*frame.function).or_default() += 1;
    }
    let most = counts.values().copied().max().filter(|most| *most >= ROUNDS)?;
    // Whoever calls each other comes equally often, but for the ends.
    let mut names: Vec<String> = Vec::new();
    for frame in &strand.frames {
        let name = format!("`{}`", shorten(&frame.function));
        let often = counts.get(&*frame.function).is_some_and(|count| count.saturating_add(2) >= most);
        if often && !names.contains(&name) {
            names.push(name);
        }
    }
    Some(fact(words(names, f64::from(most)), None))
}

/// What a library makes for a type of the program says by the type whose it is: `core::ptr::drop_in_place<shop::Order>`.
fn name(row: &FrameRow) -> String {
    let label = row.label();
    let short = shorten(&label);
    if row.whose != Whose::Program && label.contains('<') && label.chars().count() <= LONGEST {
        return format!("`{}`", label.replace('`', "'"));
    }
    format!("`{short}`")
}

fn words(mut names: Vec<String>, times: f64) -> String {
    names.dedup();
    let times = number(times);
    match names.as_slice() {
        [one] => format!("recursion: {one} calls itself, {times} times on this stack"),
        _ => {
            let more = if names.len() > NAMED { " → …" } else { "" };
            names.truncate(NAMED);
            format!(
                "recursion: {}{more} call each other in a circle, {times} times on this stack",
                names.join(" → ")
            )
        }
    }
}
