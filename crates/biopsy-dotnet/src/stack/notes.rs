//! Explicit frames of all threads, for the walk of stacks and for people.

use biopsy_model::order::Order as _;
use std::collections::hash_map::Entry;

use biopsy_model::stack::StackEnd;
use biopsy_model::symbol::Function;
use biopsy_model::{Avma, Tid};
use biopsy_stacks::image::{Compiled, Frame, ImageStacks, Place, PlaceHandle, ResumePoints, ThreadStack};
use biopsy_stacks::unwind::{FoundBy, UserRegisters};
use rustc_hash::FxHashMap;

use super::{FrameKinds, explicit_frames};
use crate::runtime::Runtime;

/// Places at most: a handle has 32 bits.
const PLACES: usize = u32::MAX as usize;

#[derive(Clone, Debug)]
struct Note {
    address: Avma,
    label: String,
    /// Name and module of the native method that is called.
    method: Option<(String, String)>,
    resumes: Option<UserRegisters>,
}

/// The explicit frames of all threads of an image, by kernel id.
#[derive(Clone, Default, Debug)]
pub struct ExplicitFrames {
    threads: FxHashMap<u32, Vec<Note>>,
}

impl ExplicitFrames {
    /// Reads those of all runtimes; what cannot be read is left out.
    pub fn read<'r, 'i: 'r>(runtimes: impl IntoIterator<Item = &'r Runtime<'i>>) -> Self {
        let mut all = Self::default();
        for runtime in runtimes {
            let threads = runtime.threads().unwrap_or_default();
            let kinds = FrameKinds::of(runtime, &threads);
            for thread in threads.iter().filter(|thread| thread.os_id != 0 && !thread.dead) {
                let frames = explicit_frames(runtime, &kinds, thread).into_iter();
                // One that is on the stack all the time, and no call is under way.
                let active =
                    frames.filter(|frame| frame.kind != Some("InlinedCallFrame") || frame.resumes.is_some());
                let notes = active.map(|frame| Note {
                    address: frame.address,
                    label: frame.label(),
                    method: frame.method(runtime),
                    resumes: frame.resumes,
                });
                let own = all.threads.entry(thread.os_id).or_default();
                own.extend(notes);
                own.order_by_key(|note| note.address);
            }
        }
        all
    }

    /// Adds them to stacks as frames of their own, where they lie. The native method that was called is a frame with its name,
    /// unless the frame that calls it has that name already.
    pub fn add_to(&self, stacks: &mut ImageStacks) {
        let ImageStacks { threads, places, .. } = stacks;
        let mut known: FxHashMap<(String, String), PlaceHandle> = FxHashMap::default();
        for stack in threads {
            for note in self.threads.get(&stack.tid.0).into_iter().flatten().rev() {
                let Some(at) = position(stack, note.address) else { continue };
                let caller = stack.frames.get(at).and_then(|frame| places.get(frame.place.0 as usize));
                let named = |name: &str| {
                    caller.is_some_and(|place| place.functions.iter().any(|function| function.name == name))
                };
                let method = note.method.as_ref().filter(|(name, _)| !named(name));
                let (name, module) = method.cloned().unwrap_or_else(|| (note.label.clone(), String::new()));
                if places.len() >= PLACES {
                    return;
                }
                let place = match known.entry((name, module)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(fresh) => {
                        let (name, module) = fresh.key().clone();
                        places.push(Place {
                            address: note.address,
                            module: None,
                            offset: note.address.0,
                            functions: vec![Function { name, file: None, line: None }],
                            function_start: None,
                            compiled: Some(Compiled { module, is_method: method.is_some() }),
                        });
                        *fresh.insert(PlaceHandle(places.len() as u32 - 1))
                    }
                };
                let (ip, sp) = (note.address, note.address);
                stack.frames.insert(at, Frame { place, ip, sp, found: FoundBy::ExplicitFrame });
            }
        }
    }
}

/// Before the frame whose part of the stack the address is in: the nearest below it. Handlers of signals have stacks of their own,
/// so that stack pointers need not grow from frame to frame. `None`: in a part that was not walked.
fn position(stack: &ThreadStack, address: Avma) -> Option<usize> {
    let below = stack.frames.iter().enumerate().filter(|(_, frame)| frame.sp <= address);
    let (at, _) = below.max_by_key(|(_, frame)| frame.sp)?;
    let is_last = at + 1 == stack.frames.len();
    (!is_last || stack.end == StackEnd::Root).then_some(at)
}

impl ResumePoints for ExplicitFrames {
    fn above(&self, thread: Tid, sp: u64) -> Option<UserRegisters> {
        self.threads.get(&thread.0)?.iter().filter_map(|note| note.resumes).find(|next| next.sp > sp)
    }

    fn at(&self, thread: Tid, ip: u64) -> Option<UserRegisters> {
        // Where a fault interrupted code: all registers were kept.
        let noted = self.threads.get(&thread.0)?.iter().filter_map(|note| note.resumes);
        noted.filter(|next| next.saved.is_some()).find(|next| next.ip == ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks() -> ImageStacks {
        let mut stacks = ImageStacks::default();
        let mut frames = Vec::new();
        let functions = [("pause", 100), ("stub", 160), ("App.Wait", 200), ("App.Main", 300)];
        for (index, (name, sp)) in functions.into_iter().enumerate() {
            stacks.places.push(Place {
                address: Avma(sp),
                module: None,
                offset: sp,
                functions: vec![Function { name: name.to_owned(), file: None, line: None }],
                function_start: None,
                compiled: None,
            });
            let place = PlaceHandle(index as u32);
            frames.push(Frame { place, ip: Avma(1), sp: Avma(sp), found: FoundBy::UnwindInfo });
        }
        stacks.threads.push(ThreadStack {
            tid: Tid(7),
            frames,
            end: StackEnd::Root,
            cut: false,
            code: Vec::new(),
            code_before: None,
        });
        stacks
    }

    fn names(notes: Vec<Note>) -> Vec<String> {
        let mut stacks = stacks();
        ExplicitFrames { threads: [(7, notes)].into_iter().collect() }.add_to(&mut stacks);
        let frames = &stacks.threads[0].frames;
        frames.iter().map(|frame| stacks.place(frame.place).unwrap().functions[0].name.clone()).collect()
    }

    fn note(address: u64, method: Option<&str>) -> Note {
        Note {
            address: Avma(address),
            label: "[InlinedCallFrame]".to_owned(),
            method: method.map(|name| (name.to_owned(), "app.dll".to_owned())),
            resumes: Some(UserRegisters::new(1, address + 10, 0)),
        }
    }

    #[test]
    fn notes_stand_before_the_frame_that_they_lie_in() {
        assert_eq!(
            names(vec![note(250, Some("App.Pause"))]),
            ["pause", "stub", "App.Pause", "App.Wait", "App.Main"]
        );
        assert_eq!(
            names(vec![note(250, Some("App.Wait")), note(320, None)]),
            ["pause", "stub", "[InlinedCallFrame]", "App.Wait", "[InlinedCallFrame]", "App.Main"],
            "who is named already is not named twice"
        );
    }

    #[test]
    fn notes_of_two_stacks_of_one_thread_stand_where_they_lie() {
        let mut stacks = stacks();
        // The two innermost frames are a handler's, on a stack above the other.
        for (frame, sp) in stacks.threads[0].frames.iter_mut().zip([1000, 1100]) {
            frame.sp = Avma(sp);
        }
        let notes = vec![note(250, Some("App.Pause")), note(1050, None)];
        ExplicitFrames { threads: [(7, notes)].into_iter().collect() }.add_to(&mut stacks);
        let sps: Vec<u64> = stacks.threads[0].frames.iter().map(|frame| frame.sp.0).collect();
        assert_eq!(sps, [1050, 1000, 1100, 250, 200, 300]);
    }

    #[test]
    fn a_walk_goes_on_at_the_nearest_place_further_out() {
        let notes = vec![note(150, None), note(250, None)];
        let frames = ExplicitFrames { threads: [(7, notes)].into_iter().collect() };
        assert_eq!(frames.above(Tid(7), 100).map(|next| next.sp), Some(160));
        assert_eq!(frames.above(Tid(7), 160).map(|next| next.sp), Some(260));
        assert_eq!(frames.above(Tid(7), 260), None);
        assert_eq!(frames.above(Tid(8), 0), None);
    }
}
