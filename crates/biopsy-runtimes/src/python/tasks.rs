//! Tasks of asyncio: found among all objects that the collector knows; a task that another one awaits has no other list that is the
//! same in all versions.
//!
//! Of a `_asyncio.Task` the order of fields is used, which is the same from 3.8 to 3.13: what it awaits, its coroutine, its name.

use rustc_hash::FxHashSet;

use super::frames::{self, PythonFrame};
use super::layout::{Lists, same};
use super::reading::Reading;
use super::task_locks;
use crate::{
    Confidence, Holder, Owner, Strand, StrandFrame, StrandId, StrandKind, StrandState, StrandWait, WaitKind,
};
use biopsy_model::Avma;

/// Words of a task among which its coroutine is.
const FIELDS: std::ops::Range<u64> = 3..30;
const GENERATIONS: u64 = 3;
const TASK: &str = "_asyncio.Task";

/// All tasks that are not done, and whether there may be more.
pub(super) fn find(
    reading: &Reading<'_, '_, '_>,
    runtime: u64,
    interpreter: u64,
    frames_left: &mut usize,
    most: usize,
) -> (Vec<Strand>, bool) {
    let mut tasks: Vec<(Strand, Vec<PythonFrame>)> = Vec::new();
    let mut cut = false;
    let objects = &reading.objects;
    let lists = match objects.layout.lists {
        Lists::InRuntime(offset) => runtime.saturating_add(offset),
        Lists::InInterpreter(offset) => interpreter.saturating_add(offset),
    };
    let lists = moved(reading, lists);
    let mut left = reading.limits.objects;
    let mut seen = FxHashSet::default();
    for generation in 0..GENERATIONS {
        let head = lists.saturating_add(generation * same::GENERATION);
        let mut next = objects.memory.pointer(head);
        while let Some(link) = next.map(|next| next & !3).filter(|link| *link != head && *link != 0) {
            if left == 0 || tasks.len() >= most {
                cut = true;
                break;
            }
            left -= 1;
            let object = link.saturating_add(same::GC_HEAD);
            if objects.is(object, TASK) {
                // A circle that does not go through the list's head is none of the collector's.
                if !seen.insert(object) {
                    cut = true;
                    break;
                }
                let task = task(reading, object, *frames_left);
                *frames_left -= task.as_ref().map_or(0, |(_, frames)| frames.len()).min(*frames_left);
                tasks.extend(task);
            }
            next = objects.memory.pointer(link);
        }
    }
    task_locks::name(objects, &mut tasks);
    (tasks.into_iter().map(|(strand, _)| strand).collect(), cut)
}

/// Where the lists begin: later releases of 3.13 align them to four bytes only (`_PyObject_MIN_ALIGNMENT`), right behind the number
/// before them. A list is known by its first member, or by itself where it is empty: that refers back to its head.
fn moved(reading: &Reading<'_, '_, '_>, lists: u64) -> u64 {
    let memory = reading.objects.memory;
    let is_head = |head: u64| {
        let first = memory.pointer(head).map(|first| first & !3);
        let back = first.and_then(|first| memory.pointer(first.checked_add(8)?));
        back.is_some_and(|back| back & !3 == head)
    };
    let all =
        |start: u64| (0..GENERATIONS).all(|number| is_head(start.saturating_add(number * same::GENERATION)));
    [lists, lists.saturating_sub(4)].into_iter().find(|start| all(*start)).unwrap_or(lists)
}

fn task(reading: &Reading<'_, '_, '_>, at: u64, most: usize) -> Option<(Strand, Vec<PythonFrame>)> {
    let objects = &reading.objects;
    let field = |index: u64| objects.pointer(at, index * 8);
    let place =
        FIELDS.clone().find(|index| field(*index).is_some_and(|field| objects.is(field, "coroutine")))?;
    let walked = frames::of_coroutine(objects, &reading.codes, field(place)?, most);
    let mut strand = Strand::new(StrandId(at), StrandKind::Task);
    strand.name = field(place + 1).and_then(|name| match &*objects.type_name(name) {
        "str" => objects.text(name),
        // From 3.12 on a number, until somebody asks for the name.
        "int" => small_number(reading, name).map(|number| format!("Task-{number}")),
        _ => None,
    });
    strand.frames = walked.iter().map(PythonFrame::strand_frame).collect::<Vec<StrandFrame>>();
    match field(place - 1) {
        None => strand.state = StrandState::Runnable,
        Some(future) => {
            strand.state = StrandState::Waiting;
            let mut wait = StrandWait::of(WaitKind::Future, "await");
            wait.address = Some(Avma(future));
            let kind = objects.type_name(future);
            wait.object = (!kind.is_empty()).then(|| kind.to_string());
            if &*kind == TASK {
                wait.owners.push(Owner {
                    holder: Holder::Strand(StrandId(future)),
                    confidence: Confidence::Certain,
                    frame: None,
                    proof: "the task says which other task it awaits".to_owned(),
                });
            }
            strand.wait = Some(wait);
        }
    }
    Some((strand, walked))
}

/// An `int` of one digit: of 3.12 and 3.13.
fn small_number(reading: &Reading<'_, '_, '_>, at: u64) -> Option<u32> {
    // Sign, one bit for the immortal, and the number of digits in the word before.
    (reading.objects.word(at, 16)? >> 3 == 1)
        .then(|| reading.objects.memory.u32(at.checked_add(24)?))
        .flatten()
}
