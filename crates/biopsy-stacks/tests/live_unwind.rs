//! Unwinds the blocked threads of a real process to their roots.

#![cfg(target_arch = "x86_64")]

mod live;

use biopsy_model::stack::StackEnd;
use biopsy_stacks::elf::ElfCache;
use biopsy_stacks::unwind::StackMemory;

#[test]
fn every_thread_is_unwound_to_its_root() {
    let folder = tempfile::tempdir().unwrap();
    let program = live::compile(
        folder.path(),
        "stacks.c",
        "stacks",
        &["-O2", "-g", "-fomit-frame-pointer", "-pthread"],
    );
    let target = live::Target::start(&program, 7);
    let cache = ElfCache::default();
    let mut unwinder = target.unwinder(&cache);
    for (name, tid) in &target.threads {
        let (registers, stack) = target.state(*tid);
        let mut frames = Vec::new();
        let unwound =
            unwinder.unwind(&registers, StackMemory { base: registers.sp, bytes: &stack }, &mut frames);
        match name.as_str() {
            // The handler's stack was copied; the interrupted one is another, which no copy from `sp` upwards has.
            "altstack" => {
                assert_eq!((unwound.end, unwound.needed_beyond), (StackEnd::Truncated, false));
                assert_eq!(frames.len(), 5, "as far as the interrupted function");
            }
            _ => assert_eq!(unwound.end, StackEnd::Root, "{name}: {unwound:?} {frames:x?}"),
        }
        assert_eq!(unwound.by_frame_pointer, u32::from(name == "bare"), "{name}");
    }
}
