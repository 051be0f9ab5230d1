//! Threads of Python (`PyThreadState`), and on which thread of the system each is.

use biopsy_image::{GeneralRegisters, OwnNumbers};
use biopsy_model::Tid;
use rustc_hash::{FxHashMap, FxHashSet};

use super::attributes;
use super::frames::{self, PythonFrame};
use super::layout::same;
use super::reading::Reading;

/// Interpreters of one process.
const INTERPRETERS: usize = 64;
/// The first function of a thread.
const BOTTOM: [&str; 1] = ["_bootstrap"];

/// A thread.
#[derive(Debug)]
pub(super) struct PythonThread {
    /// Address of its state, by which the interpreter knows it.
    pub(super) at: u64,
    /// `pthread_t`.
    pub(super) id: u64,
    pub(super) tid: Option<Tid>,
    pub(super) registers: Option<GeneralRegisters>,
    pub(super) frames: Vec<PythonFrame>,
    pub(super) cut: bool,
    pub(super) name: Option<String>,
}

/// Threads of the system by what Python knows of them.
#[derive(Debug)]
pub(super) struct SystemThreads {
    numbers: OwnNumbers,
    registers: FxHashMap<Tid, GeneralRegisters>,
    by_control_block: FxHashMap<u64, Tid>,
}

impl SystemThreads {
    pub(super) fn of(image: &dyn biopsy_image::Image) -> Self {
        let registers: FxHashMap<Tid, GeneralRegisters> =
            image.threads().iter().filter_map(|thread| Some((thread.tid, thread.registers?))).collect();
        let by_control_block = registers.iter().map(|(tid, registers)| (registers.fs_base, *tid)).collect();
        Self { numbers: OwnNumbers::of(image), registers, by_control_block }
    }
}

/// Where the interpreters begin: the first whose threads point back to it. It is looked for around where it should be, because patch
/// versions have moved it.
pub(super) fn first_interpreter(reading: &Reading<'_, '_, '_>, runtime: u64) -> Option<(u64, u64)> {
    let usual = reading.objects.layout.runtime_interpreters;
    let is_interpreter = |offset: u64| {
        let interpreter = reading.objects.pointer(runtime, offset)?;
        let thread = reading.objects.pointer(interpreter, reading.objects.layout.interpreter_threads)?;
        let back = reading.objects.word(thread, same::THREAD_INTERPRETER)?;
        (back == interpreter).then_some((offset, interpreter))
    };
    is_interpreter(usual).or_else(|| (0..2048).step_by(8).find_map(is_interpreter))
}

/// All interpreters from the first on.
pub(super) fn interpreters(reading: &Reading<'_, '_, '_>, first: u64) -> Vec<u64> {
    let mut all = vec![first];
    while let Some(next) = all
        .last()
        .and_then(|last| reading.objects.pointer(*last, reading.objects.layout.interpreter_next))
        .filter(|next| all.len() < INTERPRETERS && !all.contains(next))
    {
        all.push(next);
    }
    all
}

/// Threads of an interpreter, and whether the list was not whole.
pub(super) fn read(
    reading: &Reading<'_, '_, '_>,
    system: &SystemThreads,
    interpreter: u64,
    frames_left: &mut usize,
    most: usize,
) -> (Vec<PythonThread>, bool) {
    let objects = &reading.objects;
    let mut threads = Vec::new();
    let mut seen: FxHashSet<u64> = FxHashSet::default();
    let mut next = objects.pointer(interpreter, objects.layout.interpreter_threads);
    while let Some(at) = next {
        if threads.len() >= most || !seen.insert(at) {
            return (threads, true);
        }
        if objects.word(at, same::THREAD_INTERPRETER) != Some(interpreter) {
            return (threads, true);
        }
        let id = objects.word(at, objects.layout.thread_id).unwrap_or(0);
        let native = objects.layout.thread_native.and_then(|native| objects.word(at, native));
        let own = native.and_then(|native| u32::try_from(native).ok());
        let tid = system.by_control_block.get(&id).copied();
        let tid = tid.or_else(|| own.and_then(|own| system.numbers.thread(own)));
        let most_frames = reading.limits.frames_per_strand.min(*frames_left);
        let (frames, cut) = frames::of_thread(objects, &reading.codes, at, most_frames);
        *frames_left = frames_left.saturating_sub(frames.len());
        let name = frames.last().and_then(|frame| name(reading, frame));
        let registers = tid.and_then(|tid| system.registers.get(&tid).copied());
        threads.push(PythonThread { at, id, tid, registers, frames, cut, name });
        next = objects.pointer(at, same::THREAD_NEXT);
    }
    (threads, false)
}

/// The name of a thread of `threading`: its first frame is a method of the `Thread`, whose first text is the name.
fn name(reading: &Reading<'_, '_, '_>, bottom: &PythonFrame) -> Option<String> {
    let objects = &reading.objects;
    if !bottom.is_of_threading(&BOTTOM) {
        return None;
    }
    let thread = *bottom.variables(objects).first()?;
    attributes::of(objects, thread)
        .into_iter()
        .find(|value| objects.is(*value, "str"))
        .and_then(|value| objects.text(value))
}
