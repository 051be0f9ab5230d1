//! What a recorder of samples needs of an interpreter: where a thread's frames are found in one look, and whose they are.
//!
//! Frames lie where the interpreter writes them over as soon as a function returns, so that they are read at the moment of the
//! sample: where, says [`FrameWalk`]. Code objects hold still: names and lines are read afterwards.

use biopsy_image::Image;
use biopsy_model::Tid;
use rustc_hash::FxHashSet;

use super::code::Codes;
use super::frames::OWNED_BY_C;
use super::layout::{FramePlace, FrameShape, Layout, same};
use super::objects::Objects;
use super::reading::Reading;
use super::{layout, threads, version};
use crate::{Limits, Memory, Module, StrandFrame};

/// Bytes of memory that are kept while one thing is read.
const CACHED: usize = 256 << 10;
/// Where a thread's own memory keeps the state of its Python: so far around the thread pointer it is looked for. Below are
/// variables of the libraries that were there at the start, above the values of keys (`struct pthread` of glibc).
const AROUND: (u64, u64) = (8192, 0x310 + 32 * 16);
/// Where the C library's thread has its number (glibc, musl).
const NUMBERS: [u64; 2] = [0x2d0, 0x30];
/// Threads that are asked where it is.
const ASKED: usize = 8;

/// Where frames are, for whoever reads them at the moment of a sample. Offsets in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameWalk {
    /// From the thread pointer to the pointer to the state of the thread's Python.
    pub thread: i64,
    /// In that state, the pointer to the innermost frame, or to what has it.
    pub first: u64,
    /// In what has it.
    pub first_inner: Option<u64>,
    /// In a frame: the frame of the caller, the code object, the instruction, and 8 bytes that say what frame it is.
    pub previous: u64,
    /// As above.
    pub code: u64,
    /// As above.
    pub instruction: u64,
    /// As above.
    pub marks: u64,
    /// Bytes of a frame that have all of them.
    pub bytes: u64,
}

/// A frame as it was found at that moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawFrame {
    /// Its address.
    pub at: u64,
    /// Code object.
    pub code: u64,
    /// Instruction, in the units of the version.
    pub instruction: u64,
    /// The bytes that say what frame it is.
    pub marks: u64,
}

/// The frames of a thread, innermost first.
#[derive(Clone, Debug, Default)]
pub struct RawStack {
    /// What has the pointer to the innermost frame; 0 where the thread itself has it.
    pub holder: u64,
    /// Frames.
    pub frames: Vec<RawFrame>,
    /// There are more.
    pub cut: bool,
}

/// A call of a function of Python: its code object, and the offset of the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    /// Code object.
    pub code: u64,
    /// Bytes from its first instruction on.
    pub offset: i64,
}

/// Calls that one call of the interpreter's own function runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// An address in that function's frame on the stack, where the version has one.
    pub anchor: Option<u64>,
    /// Innermost first.
    pub calls: Vec<Call>,
}

/// An interpreter of a live process.
#[derive(Clone, Debug)]
pub struct SampledPython {
    /// `3.11.7`.
    pub version: String,
    /// Where frames are at the moment of a sample; `None` where threads keep the state of their Python in a place that is not known.
    pub walk: Option<FrameWalk>,
    /// Where the module begins that has the interpreter.
    pub module: u64,
    /// The function that runs code, from its first to behind its last byte.
    pub evaluates: std::ops::Range<u64>,
    layout: Layout,
    interpreter: u64,
}

/// What a look at a process found.
#[derive(Debug)]
pub enum FoundPython {
    /// No interpreter.
    None,
    /// One whose data is not there yet: it is starting.
    Starting,
    /// One that is not read, and why.
    NotRead(String),
    /// One that is read.
    Read(Box<SampledPython>),
}

/// Looks for the interpreter of a process that runs.
#[must_use]
pub fn find(image: &dyn Image, limits: &Limits) -> FoundPython {
    let memory = Memory::new(image, None, CACHED);
    for module in Module::all(image) {
        let Some(found) = version::find(&memory, &module) else { continue };
        let known = layout::KNOWN;
        let Some(layout) = found.minor.and_then(Layout::of).filter(|_| !found.free_threaded) else {
            let which = if found.text.is_empty() { "not known" } else { &found.text };
            let why = if found.free_threaded { " without the interpreter's lock" } else { "" };
            return FoundPython::NotRead(format!(
                "frames are read of Python 3.{} to 3.{}; the version of this one is {which}{why}",
                known.start(),
                known.end(),
            ));
        };
        let objects = Objects::new(&memory, layout, limits);
        let reading = Reading { objects, codes: Codes::default(), limits };
        let Some((_, interpreter)) = threads::first_interpreter(&reading, found.runtime) else {
            return FoundPython::Starting;
        };
        let states = states(&reading.objects, interpreter, limits.strands);
        let walk = thread_place(&memory, &states).and_then(|thread| layout.walk(thread));
        let evaluates = version::function(&memory, &module, b"_PyEval_EvalFrameDefault").unwrap_or(0..0);
        let (version, module) = (found.text, module.module.start);
        let found = SampledPython { version, walk, module, evaluates, layout, interpreter };
        return FoundPython::Read(Box::new(found));
    }
    FoundPython::None
}

/// A thread's state: its address, `pthread_t`, and the system's number in the process's own namespace where it is noted.
struct State {
    at: u64,
    id: u64,
    native: Option<u32>,
}

fn states(objects: &Objects<'_, '_>, interpreter: u64, most: usize) -> Vec<State> {
    let mut states: Vec<State> = Vec::new();
    let mut seen = FxHashSet::default();
    let mut next = objects.pointer(interpreter, objects.layout.interpreter_threads);
    while let Some(at) = next.filter(|_| states.len() < most) {
        // The list has an end: one that comes back to a thread was changed while it was read.
        if objects.word(at, same::THREAD_INTERPRETER) != Some(interpreter) || !seen.insert(at) {
            break;
        }
        let id = objects.word(at, objects.layout.thread_id).unwrap_or(0);
        let native = objects.layout.thread_native.and_then(|native| objects.word(at, native));
        states.push(State { at, id, native: native.and_then(|native| u32::try_from(native).ok()) });
        next = objects.pointer(at, same::THREAD_NEXT);
    }
    states
}

/// Where threads keep their state, from the thread pointer on: the place that holds for all threads that are asked. The highest
/// such place is the value of a key, which later versions keep beside a variable.
fn thread_place(memory: &Memory<'_>, states: &[State]) -> Option<i64> {
    let (below, above) = AROUND;
    let mut places: Option<Vec<i64>> = None;
    for state in states.iter().filter(|state| state.id != 0).take(ASKED) {
        let holds = |place: &i64| memory.u64(state.id.wrapping_add_signed(*place)) == Some(state.at);
        let found: Vec<i64> = match places {
            Some(places) => places.into_iter().filter(holds).collect(),
            None => {
                let (below, above) = (i64::try_from(below).ok()?, i64::try_from(above).ok()?);
                (-below..above).step_by(8).filter(holds).collect()
            }
        };
        places = Some(found);
    }
    places?.into_iter().max()
}

impl Layout {
    fn walk(&self, thread: i64) -> Option<FrameWalk> {
        let (first, first_inner) = match self.thread_frame {
            FramePlace::Thread(first) => (first, None),
            FramePlace::OnStack(first, inner) => (first, Some(inner)),
        };
        let (instruction, marks) = match self.shape {
            FrameShape::Object { last, .. } => (last, last),
            FrameShape::Structure { instruction, top, .. } => (instruction, top),
        };
        let bytes = [self.frame_previous, self.frame_code, instruction, marks].into_iter().max()? + 8;
        Some(FrameWalk {
            thread,
            first,
            first_inner,
            previous: self.frame_previous,
            code: self.frame_code,
            instruction,
            marks,
            bytes,
        })
    }
}

impl SampledPython {
    /// The calls of a thread, and which call of the interpreter's own function runs them, innermost first. `word` reads the
    /// thread's stack.
    #[must_use]
    pub fn runs(&self, stack: &RawStack, word: &dyn Fn(u64) -> Option<u64>) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut run = Run::default();
        // 3.11: structures on the stack, each with the innermost frame of its call.
        let holds_frames = match (self.layout.thread_frame, self.layout.shape) {
            (FramePlace::OnStack(_, inner), FrameShape::Structure { .. }) if self.layout.frame_code != 0 => {
                Some(inner)
            }
            _ => None,
        };
        let mut holder = holds_frames.map(|_| stack.holder).filter(|at| *at != 0);
        run.anchor = holder;
        for frame in &stack.frames {
            let offset = match self.layout.shape {
                FrameShape::Object { last_unit, .. } => {
                    // One call of the function for each frame.
                    let last = frame.instruction.to_le_bytes();
                    i64::from(i32::from_le_bytes([last[0], last[1], last[2], last[3]])) * last_unit
                }
                FrameShape::Structure { owner, top, .. } => {
                    let shift = 8 * owner.saturating_sub(top);
                    let owner = frame.marks.checked_shr(u32::try_from(shift).unwrap_or(64)).unwrap_or(0);
                    if owner & 0xff == u64::from(OWNED_BY_C) {
                        // It lies in the frame of the call that ran what is further in (3.12 on).
                        run.anchor = Some(frame.at);
                        runs.push(std::mem::take(&mut run));
                        continue;
                    }
                    frame
                        .instruction
                        .wrapping_sub(frame.code.wrapping_add(self.layout.code_start))
                        .cast_signed()
                }
            };
            if let (Some(inner), Some(at)) = (holds_frames, holder) {
                let before = inner.checked_add(8).and_then(|behind| word(at.checked_add(behind)?));
                let first = |at: u64| word(at.checked_add(inner)?);
                if let Some(before) = before.filter(|before| *before > at && first(*before) == Some(frame.at))
                {
                    runs.push(std::mem::take(&mut run));
                    holder = Some(before);
                    run.anchor = holder;
                }
            }
            run.calls.push(Call { code: frame.code, offset });
            if matches!(self.layout.shape, FrameShape::Object { .. }) {
                runs.push(std::mem::take(&mut run));
            }
        }
        runs.push(run);
        runs.retain(|run| !run.calls.is_empty());
        runs
    }

    /// The function of a call; `None`: what is there is no code object.
    #[must_use]
    pub fn function(&self, image: &dyn Image, limits: &Limits, call: Call) -> Option<StrandFrame> {
        let memory = Memory::new(image, None, CACHED);
        let objects = Objects::new(&memory, self.layout, limits);
        let code = Codes::default().read(&objects, call.code)?;
        Some(StrandFrame {
            function: code.name.clone(),
            file: Some(code.file.clone()),
            line: code.line(call.offset),
            ..StrandFrame::default()
        })
    }

    /// Words by which it is seen that a code object is still the same one.
    #[must_use]
    pub fn mark_of(&self, image: &dyn Image, code: u64) -> Option<[u64; 3]> {
        let memory = Memory::new(image, None, CACHED);
        let word = |offset: u64| memory.u64(code.checked_add(offset)?);
        Some([word(self.layout.code_name)?, word(self.layout.code_file)?, word(self.layout.code_lines)?])
    }

    /// Threads with the states of their Python. `tid`: the thread that has this number for itself.
    #[must_use]
    pub fn threads(
        &self,
        image: &dyn Image,
        limits: &Limits,
        tid: &dyn Fn(u32) -> Option<Tid>,
    ) -> Vec<(Tid, u64)> {
        let memory = Memory::new(image, None, CACHED);
        let objects = Objects::new(&memory, self.layout, limits);
        let of = |state: State| {
            let by_library = || {
                let read = |at: &u64| memory.u32(state.id.checked_add(*at)?).filter(|number| *number != 0);
                NUMBERS.iter().filter_map(read).find_map(tid)
            };
            Some((state.native.and_then(tid).or_else(by_library)?, state.at))
        };
        states(&objects, self.interpreter, limits.strands).into_iter().filter_map(of).collect()
    }

    /// The frames of a thread that does not run, at most `most`.
    #[must_use]
    pub fn stack_of(&self, image: &dyn Image, state: u64, most: usize) -> RawStack {
        let memory = Memory::new(image, None, CACHED);
        let mut stack = RawStack::default();
        let Some(walk) = self.layout.walk(0) else { return stack };
        let pointer = |at: u64, offset: u64| memory.pointer(at.checked_add(offset)?);
        let mut next = pointer(state, walk.first);
        if let (Some(holder), Some(inner)) = (next, walk.first_inner) {
            stack.holder = holder;
            next = pointer(holder, inner);
        }
        while let Some(at) = next {
            if stack.frames.len() >= most {
                stack.cut = true;
                break;
            }
            let word = |offset: u64| memory.u64(at.checked_add(offset)?);
            let (Some(code), Some(instruction), Some(marks)) =
                (word(walk.code), word(walk.instruction), word(walk.marks))
            else {
                stack.cut = true;
                break;
            };
            stack.frames.push(RawFrame { at, code, instruction, marks });
            next = pointer(at, walk.previous);
        }
        stack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interpreter of this version whose data is nowhere.
    fn python(minor: u32) -> SampledPython {
        let layout = Layout::of(minor).unwrap();
        let version = format!("3.{minor}");
        SampledPython { version, walk: None, module: 0, evaluates: 0..0, layout, interpreter: 0 }
    }

    /// Code objects by the frames' addresses; of version 3.12 on, 3 is the owner of a frame that lies on the stack.
    fn frame(python: &SampledPython, at: u64, code: u64, owner: u8) -> RawFrame {
        let (instruction, marks) = match python.layout.shape {
            FrameShape::Object { .. } => (6, 6),
            FrameShape::Structure { owner: place, top, .. } => {
                (code + python.layout.code_start + 12, u64::from(owner) << (8 * (place - top)))
            }
        };
        RawFrame { at, code, instruction, marks }
    }

    /// Code object and offset of each call.
    type Calls = Vec<(u64, i64)>;

    fn shown(runs: &[Run]) -> Vec<(Option<u64>, Calls)> {
        let calls = |run: &Run| run.calls.iter().map(|call| (call.code, call.offset)).collect();
        runs.iter().map(|run| (run.anchor, calls(run))).collect()
    }

    #[test]
    fn to_3_10_each_frame_is_a_run_of_its_own() {
        for (minor, offset) in [(8, 6), (10, 12)] {
            let python = python(minor);
            let frames = vec![frame(&python, 0x10, 0xa000, 0), frame(&python, 0x20, 0xb000, 0)];
            let runs = python.runs(&RawStack { holder: 0, frames, cut: false }, &|_| None);
            assert_eq!(shown(&runs), [(None, vec![(0xa000, offset)]), (None, vec![(0xb000, offset)])]);
        }
    }

    #[test]
    fn in_3_11_structures_on_the_stack_say_where_runs_begin() {
        let python = python(11);
        let frames: Vec<RawFrame> = (1..=3).map(|at| frame(&python, at, at * 0x1000, 0)).collect();
        let stack = RawStack { holder: 0x7000, frames, cut: false };
        // { unused, innermost frame, the one before }
        let words = [(0x7008, 1), (0x7010, 0x7100), (0x7108, 3), (0x7110, 0x7200)];
        let word = |at: u64| words.iter().find(|(place, _)| *place == at).map(|(_, word)| *word);
        let expected = [(Some(0x7000), vec![(0x1000, 12), (0x2000, 12)]), (Some(0x7100), vec![(0x3000, 12)])];
        assert_eq!(shown(&python.runs(&stack, &word)), expected);
        // A stack that is not there, and one whose structures lead to each other.
        assert_eq!(python.runs(&stack, &|_| None).len(), 1);
        assert_eq!(python.runs(&stack, &|at| Some(at ^ 0x100)).len(), 1);
    }

    #[test]
    fn from_3_12_on_frames_of_the_interpreter_end_runs() {
        for minor in [12, 13] {
            let python = python(minor);
            let owners =
                [(1, 0), (0x7100, OWNED_BY_C), (2, 0), (3, 1), (0x7200, OWNED_BY_C), (0x7300, OWNED_BY_C)];
            let frames = owners.iter().map(|(at, owner)| frame(&python, *at, at * 0x1000, *owner)).collect();
            let runs = python.runs(&RawStack { holder: 0, frames, cut: true }, &|_| None);
            let expected =
                [(Some(0x7100), vec![(0x1000, 12)]), (Some(0x7200), vec![(0x2000, 12), (0x3000, 12)])];
            assert_eq!(shown(&runs), expected);
        }
    }

    #[test]
    fn any_frames_have_an_answer() {
        for minor in layout::KNOWN {
            let python = python(minor);
            for word in [0, 1, u64::MAX, 0x8000_0000_0000_0000] {
                let frames = vec![RawFrame { at: word, code: word, instruction: !word, marks: word }; 300];
                let runs = python.runs(&RawStack { holder: word, frames, cut: true }, &|at| Some(at | word));
                assert!(runs.iter().map(|run| run.calls.len()).sum::<usize>() <= 300);
            }
        }
    }
}
