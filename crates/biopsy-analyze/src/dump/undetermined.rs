//! What could not be determined, and why.

use biopsy_image::Image;
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::StackEnd;
use biopsy_stacks::image::{ImageStacks, LocalFile, Names};
use biopsy_stacks::unwind::FoundBy;

use super::analysis::DumpAnalysis;
use super::crash::AddressKind;
use super::facts::DumpFacts;
use super::locks::LockKind;
use super::state::ThreadState;
use super::strands::{RuntimeKind, StrandRuntime};
use crate::words::threads;

pub(super) fn list(
    image: &dyn Image,
    stacks: &ImageStacks,
    facts: &DumpFacts<'_>,
    analysis: &DumpAnalysis,
) -> Vec<String> {
    let mut list = Vec::new();
    list.extend(facts.warnings.iter().cloned());
    registers(image, &mut list);
    ends(stacks, &mut list);
    modules(stacks, &mut list);
    strands(stacks, analysis, &mut list);
    managed(stacks, analysis, &mut list);
    locks(analysis, &mut list);
    if let Some(crash) = &analysis.crash {
        if crash.address.is_none() && matches!(crash.signal, 7 | 11) {
            list.push(
                "the address of the fault: the dump does not have it, and the instruction could not be read"
                    .to_owned(),
            );
        }
        if crash.address_kind == Some(AddressKind::Accessible) {
            list.push("why the access failed: the mapping allows it, as far as the dump tells".to_owned());
        }
        if crash.message_withheld {
            list.push(
                "the message of the abort: it is there, and is not shown because nothing redacts it"
                    .to_owned(),
            );
        }
    }
    if analysis.threads.iter().all(|thread| !thread.named) && !analysis.threads.is_empty() {
        list.push("names of threads: cores of the kernel and of gdb do not have them".to_owned());
    }
    list.extend(stacks.problems.iter().take(20).cloned());
    list
}

fn registers(image: &dyn Image, list: &mut Vec<String>) {
    let without = image.threads().iter().filter(|thread| thread.registers.is_none()).count();
    if without > 0 {
        list.push(format!("stacks of {}: the dump has no registers of them", threads(without)));
    }
    if image.threads().is_empty() {
        list.push("threads: the dump has none".to_owned());
    }
}

fn ends(stacks: &ImageStacks, list: &mut Vec<String>) {
    let count = |wanted: &dyn Fn(StackEnd, bool) -> bool| {
        stacks.threads.iter().filter(|stack| !stack.frames.is_empty() && wanted(stack.end, stack.cut)).count()
    };
    let cut = count(&|_, cut| cut);
    if cut > 0 {
        list.push(format!("the outer frames of {}: their stacks are deeper than the limit", threads(cut)));
    }
    let missing = count(&|end, cut| end == StackEnd::Truncated && !cut);
    if missing > 0 {
        list.push(format!(
            "the outer frames of {}: the dump does not have that part of their stacks",
            threads(missing)
        ));
    }
    let lost = count(&|end, _| matches!(end, StackEnd::NoUnwindInfo));
    if lost > 0 {
        list.push(format!(
            "the outer frames of {}: there is code without unwind information, and frame pointers lead nowhere",
            threads(lost)
        ));
    }
    let pointers = stacks
        .threads
        .iter()
        .filter(|stack| stack.frames.iter().any(|frame| frame.found == FoundBy::FramePointer))
        .count();
    if pointers > 0 {
        list.push(format!(
            "whether all frames of {} are right: some were found by frame pointers, for want of unwind information",
            threads(pointers)
        ));
    }
}

fn modules(stacks: &ImageStacks, list: &mut Vec<String>) {
    let mut used = vec![false; stacks.modules.len()];
    for frame in stacks.threads.iter().flat_map(|stack| &stack.frames) {
        if let Some(slot) = stacks.place(frame.place).and_then(|place| used.get_mut(place.module?)) {
            *slot = true;
        }
    }
    let names = |wanted: &dyn Fn(&biopsy_stacks::image::CodeModule) -> bool| -> Vec<String> {
        let modules = stacks.modules.iter().zip(&used).filter(|(module, used)| **used && wanted(module));
        let mut names: Vec<String> = modules.map(|(module, _)| format!("`{}`", module.name())).collect();
        names.dedup();
        names
    };
    // Of a file that nobody opened it is not known what it lacks.
    let lacks = |module: &biopsy_stacks::image::CodeModule, names: Names| {
        module.kind == ModuleKind::Elf && module.names == names && module.file != LocalFile::NotLooked
    };
    let nameless = names(&|module| lacks(module, Names::None));
    if !nameless.is_empty() {
        list.push(format!(
            "names of functions in {}: no symbols were found; `biopsy analyze FILE --symbols FOLDER` reads them from files of the same build",
            some(&nameless)
        ));
    }
    let exported = names(&|module| lacks(module, Names::Exported));
    if !exported.is_empty() {
        list.push(format!("names of functions that are not exported in {}: stripped", some(&exported)));
    }
    let unopened = names(&|module| module.file == LocalFile::NotLooked && module.names < Names::Symbols);
    if !unopened.is_empty() {
        let (files, they) = match unopened.len() {
            1 => ("the file of 1 module".to_owned(), "it was"),
            count => (format!("the files of {count} modules"), "they were"),
        };
        list.push(format!(
            "what {files} would tell of names and stacks: {they} not opened, because a dump can name \
             any file; `--symbols /` looks for them on this machine, `--symbols FOLDER` below a folder, and `--debuginfod` asks a server"
        ));
    }
    let unverified = names(&|module| module.file == LocalFile::Unverified);
    if !unverified.is_empty() {
        list.push(format!(
            "what the files of {} on this machine would tell: the dump has no build ids to know them by",
            some(&unverified)
        ));
    }
    let nameless = |place: &biopsy_stacks::image::Place| {
        let module = stacks.module_of(place).map(|module| module.kind);
        place.functions.is_empty() && matches!(module, Some(ModuleKind::Jit | ModuleKind::OtherFile))
    };
    if stacks.places.iter().any(nameless) {
        list.push(
            "names of functions that a runtime compiled while it ran: frames of managed code are addresses"
                .to_owned(),
        );
    }
}

/// The locks of .NET are not those of the C library.
fn managed(stacks: &ImageStacks, analysis: &DumpAnalysis, list: &mut Vec<String>) {
    if let Some(managed) = &analysis.managed {
        for runtime in &managed.runtimes {
            if let Some(problem) = &runtime.problem {
                list.push(format!("what `{}` ({}) does: {problem}", runtime.path, runtime.name));
            }
            for check in &runtime.failed_checks {
                list.push(format!("whether all of {} is read right: {check}", runtime.name));
            }
        }
        list.extend(managed.problems.iter().cloned());
        return;
    }
    if stacks.modules.iter().any(|module| module.name() == "libcoreclr.so") {
        list.push(
            "whether managed code holds locks (monitors) or is in a deadlock: the .NET runtime was not looked at; `biopsy stacks PID` does, \
             while it runs"
                .to_owned(),
        );
    }
}

/// What the readers of language runtimes did not understand. Go runs its goroutines on few threads: without its reader only those
/// have stacks.
fn strands(stacks: &ImageStacks, analysis: &DumpAnalysis, list: &mut Vec<String>) {
    for runtime in &analysis.strands {
        let label = runtime.runtime.label();
        list.extend(runtime.runtime.warnings.iter().map(|warning| format!("{label}: {warning}")));
    }
    let read = |runtime: &StrandRuntime| runtime.runtime.kind == RuntimeKind::Go && runtime.runtime.total > 0;
    if analysis.strands.iter().any(read) {
        return;
    }
    let names =
        stacks.places.iter().flat_map(|place| &place.functions).map(|function| function.name.as_str());
    if names.into_iter().any(|name| name.starts_with("runtime.mcall") || name.starts_with("runtime.goexit")) {
        list.push("goroutines that were not running: only those on a thread have a stack here".to_owned());
    }
}

fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

fn locks(analysis: &DumpAnalysis, list: &mut Vec<String>) {
    let unknown = analysis.threads.iter().filter(|thread| {
        let futex = matches!(&thread.state, ThreadState::InSystemCall { name, .. } if name == "futex");
        let told =
            thread.lock.as_ref().is_some_and(|lock| lock.kind != LockKind::Futex || lock.thread().is_some());
        futex && !told
    });
    let unknown = unknown.count();
    if unknown > 0 {
        list.push(format!(
            "what {} wait for at a futex: no lock of a C library, and no name says it (locks of Go, .NET and others keep no owner \
             that could be read here); whether they move at all, `biopsy stacks {} --looks 3 --every 2s` determines",
            threads(unknown),
            analysis.identity.pid
        ));
    }
}
