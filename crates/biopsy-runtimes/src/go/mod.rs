//! Goroutines of Go 1.19 to 1.26, of stripped programs too: nothing is needed but what the runtime needs itself.
//!
//! ```text
//! version ─► layout ─► module_data ─► functions (names, lines, sizes of frames)
//!                          ├─► variables ─► heap
//!                          └─► variables ─► goroutine::find_all, reasons
//!                                              └─► goroutine ─► stack ─► waits ─► holders, helpers (forward)
//! ```

mod forward;
mod functions;
mod goroutine;
pub(crate) mod heap;
mod helpers;
mod holders;
mod layout;
mod module_data;
mod panics;
mod reasons;
mod stack;
#[cfg(test)]
mod tests;
mod threads;
mod version;
mod waits;

use std::ops::Range;

use biopsy_model::footprint::RuntimeHeap;
use functions::Functions;
use goroutine::{Goroutine, Place, Status};
pub(crate) use layout::Layout;
use reasons::Reasons;
use rustc_hash::FxHashSet;
use threads::Threads;

use crate::{Limits, Memory, Module, RuntimeKind, RuntimeStrands, Strand, StrandId, StrandKind, StrandState};

/// Owner of the note that the linker puts into every program.
const NOTE_OWNER: &[u8] = b"Go";

/// The Go runtime in this module with its goroutines; `None` when there is none.
#[must_use]
pub fn read(memory: &Memory<'_>, module: &Module<'_>, limits: &Limits) -> Option<RuntimeStrands> {
    let has_note = module.has_note(memory, NOTE_OWNER);
    // A linker of C may have dropped the note of the program itself.
    let is_program = memory.image().process().executable.as_deref() == Some(&*module.module.path);
    if !has_note && !is_program {
        return None;
    }
    let mut found = RuntimeStrands::new(RuntimeKind::Go, &module.module.path, module.module.start);
    let Some(version) = version::find(memory, module, limits) else {
        found.warn(
            "the program's data is not in the image, or it is older than Go 1.18: goroutines are not read",
        );
        return has_note.then_some(found);
    };
    found.version = Some(version.text);
    let Some(layout) = Layout::of(version.minor) else {
        let known = layout::KNOWN;
        found.warn(format!(
            "goroutines are read of Go 1.{} to 1.{}; this program is of Go 1.{}",
            known.start(),
            known.end(),
            version.minor
        ));
        return Some(found);
    };
    if let Err(missing) = read_goroutines(memory, module, &layout, limits, &mut found) {
        found.warn(missing);
    }
    Some(found)
}

/// What the memory of the Go runtime in this module is for; `None` when there is none.
#[must_use]
pub fn read_heap(memory: &Memory<'_>, module: &Module<'_>, limits: &Limits) -> Option<RuntimeHeap> {
    let is_program = memory.image().process().executable.as_deref() == Some(&*module.module.path);
    if !module.has_note(memory, NOTE_OWNER) && !is_program {
        return None;
    }
    let version = version::find(memory, module, limits)?;
    let found =
        Layout::of(version.minor).ok_or_else(|| "its version is not known".to_owned()).and_then(|layout| {
            let data = module_data::find(memory, module, &layout, limits)
                .ok_or("the runtime's table of functions is not in the image")?;
            heap::read(memory, version.minor, &data.variables, limits)
        });
    let mut heap = found.unwrap_or_else(|why| RuntimeHeap {
        warnings: vec![format!("Go heap of Go {}: not read, because {why}", version.text)],
        ..RuntimeHeap::default()
    });
    heap.memory.name = format!("Go {}", version.text);
    Some(heap)
}

struct Reader<'m, 'i> {
    memory: &'m Memory<'i>,
    layout: Layout,
    functions: Functions<'m, 'i>,
    reasons: Reasons,
    threads: Threads,
    types: Range<u64>,
    limits: &'m Limits,
}

fn read_goroutines(
    memory: &Memory<'_>,
    module: &Module<'_>,
    layout: &Layout,
    limits: &Limits,
    found: &mut RuntimeStrands,
) -> Result<(), &'static str> {
    let data = module_data::find(memory, module, layout, limits)
        .ok_or("the runtime's table of functions is not in the image; give the program's own file")?;
    let (variables, types) = (data.variables.clone(), data.types.clone());
    let functions = Functions::read(memory, layout, data, limits)
        .ok_or("the runtime's table of functions cannot be read")?;
    let (list, length) = goroutine::find_all(memory, layout, &variables, limits.searched_bytes)
        .ok_or("the runtime's list of goroutines was not found")?;
    let reasons = Reasons::find(memory, &variables, limits.searched_bytes);
    if reasons.is_empty() {
        found.warn("the runtime's texts for what goroutines wait for were not found");
    }
    let threads = Threads::of(memory);
    let reader = Reader { memory, layout: *layout, functions, reasons, threads, types, limits };
    reader.all(list, length, found)
}

impl Reader<'_, '_> {
    fn all(&self, list: u64, length: u64, found: &mut RuntimeStrands) -> Result<(), &'static str> {
        let (mut unread, mut unfit, mut fit) = (0u64, 0u64, 0u64);
        let mut frames = self.limits.frames;
        let mut goroutines = Vec::new();
        let (mut seen, mut ids): (FxHashSet<u64>, FxHashSet<u64>) = Default::default();
        for index in 0..length {
            let at = list.checked_add(index * 8).and_then(|at| self.memory.u64(at));
            let fresh = at.filter(|at| seen.insert(*at));
            let Some(goroutine) = fresh.and_then(|at| Goroutine::read(self.memory, &self.layout, at)) else {
                unread += 1;
                // A list that is not there is not walked to its end.
                if unread > 1_000 && unread > index / 2 {
                    break;
                }
                continue;
            };
            if matches!(goroutine.status, Status::Dead | Status::Idle) {
                continue;
            }
            // What is said of one must not be taken for another.
            if !ids.insert(goroutine.id) {
                unread += 1;
                continue;
            }
            // Goroutines that C called into have no start.
            match self.functions.find(goroutine.start_pc) {
                Some(function) if function.entry == goroutine.start_pc => fit += 1,
                _ => unfit += u64::from(goroutine.start_pc != 0),
            }
            found.total += 1;
            if goroutines.len() < self.limits.strands {
                goroutines.push(goroutine);
            }
        }
        if unfit > fit || fit == 0 {
            found.total = 0;
            return Err(
                "what the runtime's data should be is not what is there: it was changed, or built otherwise",
            );
        }
        for goroutine in &goroutines {
            let strand = self.strand(goroutine, frames.min(self.limits.frames_per_strand));
            frames = frames.saturating_sub(strand.frames.len());
            found.strands.push(strand);
        }
        let walker = forward::Walker::new(self.memory, &self.functions, self.limits.instructions);
        // With some of them missing nobody is the last one.
        let are_all = unread == 0 && found.total == found.strands.len() as u64;
        let (memory, layout) = (self.memory, &self.layout);
        let named = holders::find(memory, layout, &walker, &goroutines, &mut found.strands, are_all);
        if let Err(warning) = named {
            found.warn(warning);
        }
        if are_all {
            helpers::find(memory, layout, &self.functions, &walker, &goroutines, &mut found.strands);
        }
        if unread > 0 {
            found.warn(format!("{unread} of {length} goroutines could not be read"));
        }
        if found.total > found.strands.len() as u64 {
            found.warn(format!("the first {} of {} goroutines only", found.strands.len(), found.total));
        }
        Ok(())
    }

    fn strand(&self, goroutine: &Goroutine, most: usize) -> Strand {
        let mut strand = Strand::new(StrandId(goroutine.id), StrandKind::Goroutine);
        strand.tid =
            (goroutine.m != 0).then(|| self.threads.of_m(self.memory, &self.layout, goroutine.m)).flatten();
        strand.state = match goroutine.status {
            Status::Runnable | Status::Preempted => StrandState::Runnable,
            Status::Running | Status::CopyStack => StrandState::Running,
            Status::Syscall => StrandState::Native,
            Status::Waiting | Status::Leaked => StrandState::Waiting,
            Status::Dead | Status::Idle => StrandState::Ended,
            Status::Other => StrandState::NotKnown,
        };
        let walk =
            |place, exact| stack::walk(self.memory, &self.functions, place, exact, &goroutine.stack, most);
        let walked = match goroutine.status {
            // It is being moved: what is in the goroutine is not of one moment.
            Status::CopyStack => stack::Walked { cut: true, ..stack::Walked::default() },
            Status::Syscall => walk(goroutine.syscall, false),
            Status::Running => match self.running_place(goroutine, strand.tid) {
                Some((place, exact)) => walk(place, exact),
                None => stack::Walked { cut: true, ..stack::Walked::default() },
            },
            _ => walk(goroutine.saved, false),
        };
        (strand.frames, strand.cut) = (walked.frames, walked.cut);
        strand.panics_with = panics::text(self.memory, goroutine.at, &self.types, self.limits.text);
        if strand.state == StrandState::Waiting {
            strand.wait =
                Some(waits::wait(self.memory, &self.layout, &self.reasons, goroutine, &strand.frames));
        }
        // The first goroutine is started by the runtime, before there is a program.
        let starter =
            self.functions.find(goroutine.go_pc).filter(|function| &*function.name != "runtime.newproc");
        strand.started_at = starter.and_then(|function| {
            let inside = goroutine.go_pc.saturating_sub(1).max(function.entry);
            self.functions.frames(&function, inside).first().cloned()
        });
        let start = self.functions.find(goroutine.start_pc);
        strand.of_runtime =
            start.is_some_and(|start| start.name.starts_with("runtime.") && &*start.name != "runtime.main");
        strand
    }

    /// Where a goroutine is that is on a thread, and whether that instruction is next. While the thread is on the stack that the
    /// scheduler uses, or in the kernel's clock, it is where it left its own stack.
    fn running_place(&self, goroutine: &Goroutine, tid: Option<biopsy_model::Tid>) -> Option<(Place, bool)> {
        let is_own =
            |place: &Place| goroutine.stack.contains(&place.sp) && self.functions.find(place.pc).is_some();
        let now = self.threads.place(tid?)?;
        if is_own(&now) {
            return Some((now, true));
        }
        let m = |offset| self.memory.u64(goroutine.m.checked_add(offset)?);
        let clock = Place { pc: m(self.layout.m_vdso_pc)?, sp: m(self.layout.m_vdso_sp)? };
        let left = [clock, goroutine.saved].into_iter().find(is_own)?;
        (m(self.layout.m_current)? == goroutine.at).then_some((left, false))
    }
}
