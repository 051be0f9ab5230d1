//! Whose a word in the memory of a thread is: a variable of which function, or one of the thread.

use std::ops::Range;
use std::sync::Arc;

use biopsy_image::{Image, mapping};
use biopsy_model::Tid;
use biopsy_stacks::image::{ImageStacks, ModuleVariables, Options, ThreadStack, walk};
use biopsy_stacks::symbols::{self, FileSources};
use rustc_hash::FxHashMap;

/// Bytes below a stack pointer that a function may use (System V ABI, 3.2.2).
pub(crate) const RED_ZONE: u64 = 128;
/// Threads and frames that are walked.
const THREADS: usize = 2_000;
const FRAMES: usize = 256;
/// Bytes behind a thread's own pointer with what the C library knows of it (`struct pthread`), and before it of libraries.
const BEHIND: u64 = 4 << 10;
const OF_LIBRARIES: u64 = 8 << 10;
/// Folders of libraries that the program did not bring.
const SYSTEM: [&str; 4] = ["/lib/", "/usr/lib/", "/lib64/", "/usr/lib64/"];

/// Libraries that are linked into programs.
const LIBRARIES: [&str; 7] = ["std::", "<std::", "core::", "<core::", "alloc::", "<alloc::", "__"];

/// Whose a word is.
pub(crate) enum ThreadMemory<'s> {
    /// A variable of a thread; of libraries without a name.
    Static(Option<String>, u32),
    /// On a stack, of this function of the program where one is known.
    Stack(Option<&'s str>, u32),
    Neither,
}

/// The stack of one thread.
struct Stack {
    thread: u32,
    pointer: u64,
    /// Where the outermost function that is known begins: below it all is of functions.
    outermost: u64,
    end: u64,
    /// Where the part of each function of the program begins, the innermost first: up to the next one of the program.
    functions: Vec<(u64, Arc<str>)>,
    registers: Vec<u64>,
}

/// All of them.
pub(crate) struct Stacks<'m> {
    program: Option<&'m ModuleVariables>,
    /// Each thread's own pointer, by address.
    pointers: Vec<(u64, u32)>,
    stacks: Vec<Stack>,
}

impl<'m> Stacks<'m> {
    pub(crate) fn of(
        image: &dyn Image,
        modules: &'m [ModuleVariables],
        sources: &FileSources,
        is_interpreted: bool,
    ) -> Self {
        let from = Options::of(sources);
        let options = Options {
            threads: if is_interpreted { 0 } else { THREADS },
            frames_per_thread: FRAMES,
            symbols: symbols::Options { inlines: false, lines: false, ..from.symbols },
            ..from
        };
        let walked = walk(image, &options);
        let by_thread: FxHashMap<Tid, &ThreadStack> =
            walked.threads.iter().map(|stack| (stack.tid, stack)).collect();
        let mut stacks = Vec::new();
        let mut pointers = Vec::new();
        for thread in image.threads() {
            let Some(registers) = &thread.registers else { continue };
            let stack = by_thread.get(&thread.tid).copied();
            pointers.push((registers.fs_base, thread.tid.0));
            let Some(mapping) = mapping::find(image.mappings(), registers.rsp) else { continue };
            let words = registers.to_words();
            stacks.push(Stack {
                thread: thread.tid.0,
                pointer: registers.rsp,
                outermost: stack.and_then(|stack| stack.frames.last()).map_or(0, |frame| frame.sp.0),
                end: mapping.end,
                functions: stack.map(|stack| functions(&walked, stack)).unwrap_or_default(),
                // All but the instruction, flags and segments.
                registers: words.get(..15).unwrap_or_default().to_vec(),
            });
        }
        stacks.sort_by_key(|stack| stack.pointer);
        pointers.sort_unstable();
        Self { program: modules.iter().find(|one| one.is_program), pointers, stacks }
    }

    /// The lowest stack pointer in a range.
    pub(crate) fn lowest_in(&self, range: &Range<u64>) -> Option<u64> {
        let first = self.stacks.partition_point(|stack| stack.pointer < range.start);
        self.stacks.get(first).map(|stack| stack.pointer).filter(|pointer| range.contains(pointer))
    }

    /// Whose the word at an address is.
    pub(crate) fn whose(&self, at: u64) -> ThreadMemory<'_> {
        let stack = self.stack(at);
        if let Some(stack) = stack.filter(|stack| at < stack.outermost) {
            return of_stack(stack, at);
        }
        let own = self.program.map_or(0, |program| program.thread_bytes);
        if let Some((pointer, thread)) = self.first_pointer(|pointer| pointer > at)
            && let Some(offset) = at.checked_sub(pointer.saturating_sub(own))
        {
            let name = self.program.and_then(|program| program.of_thread(offset));
            return ThreadMemory::Static(name, thread);
        }
        // Those of libraries lie around them, as far as is known; memory of several threads may lie side by side.
        if let Some((pointer, thread)) = self.first_pointer(|pointer| pointer.saturating_add(BEHIND) > at)
            && pointer.saturating_sub(own.max(OF_LIBRARIES)) <= at
        {
            return ThreadMemory::Static(None, thread);
        }
        stack.map_or(ThreadMemory::Neither, |stack| of_stack(stack, at))
    }

    /// The lowest of the threads' pointers from where on this holds.
    fn first_pointer(&self, is_behind: impl Fn(u64) -> bool) -> Option<(u64, u32)> {
        self.pointers.get(self.pointers.partition_point(|(pointer, _)| !is_behind(*pointer))).copied()
    }

    /// The stack that an address is on, in the part that is in use.
    fn stack(&self, at: u64) -> Option<&Stack> {
        let after = self.stacks.partition_point(|stack| stack.pointer <= at.saturating_add(RED_ZONE));
        self.stacks.get(after.checked_sub(1)?).filter(|stack| at < stack.end)
    }

    /// Values of all registers, with the innermost function of the program.
    pub(crate) fn registers(&self) -> impl Iterator<Item = (u64, Option<&str>, u32)> {
        self.stacks.iter().flat_map(|stack| {
            let function = stack.functions.first().map(|(_, name)| &**name);
            stack.registers.iter().map(move |value| (*value, function, stack.thread))
        })
    }
}

/// What libraries were called with belongs to who called them.
fn of_stack(stack: &Stack, at: u64) -> ThreadMemory<'_> {
    let after = stack.functions.partition_point(|(start, _)| *start <= at);
    let function = stack.functions.get(after.saturating_sub(1)).map(|(_, name)| &**name);
    ThreadMemory::Stack(function, stack.thread)
}

/// Functions of the program, each from where the part of those begins that it called and that are of libraries.
fn functions(walked: &ImageStacks, stack: &ThreadStack) -> Vec<(u64, Arc<str>)> {
    let mut found = Vec::new();
    let mut from = None;
    for frame in &stack.frames {
        let begins = *from.get_or_insert(frame.sp.0);
        let Some(place) = walked.place(frame.place) else { continue };
        let is_own = walked.module_of(place).is_some_and(|module| {
            !SYSTEM.iter().any(|folder| module.path.starts_with(folder)) && module.path.starts_with('/')
        });
        let function = place.functions.last().filter(|function| is_own && !is_library(&function.name));
        let Some(function) = function else { continue };
        found.push((begins, Arc::from(function.name.as_str())));
        from = None;
    }
    found
}

/// Whether a function is of a library that is linked into the program, by its name.
fn is_library(name: &str) -> bool {
    LIBRARIES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::is_library;

    #[test]
    fn functions_of_linked_libraries_are_not_the_programs() {
        for (name, expected) in [
            ("std::thread::local::LocalKey::with", true),
            ("<std::sys::thread::unix::Thread>::new::thread_start", true),
            ("<core::iter::Map<I, F> as Iterator>::next", true),
            ("__libc_start_main", true),
            ("<parcels::Office as std::ops::Drop>::drop", false),
            ("standard::open", false),
            ("main", false),
        ] {
            assert_eq!(is_library(name), expected, "{name}");
        }
    }
}
