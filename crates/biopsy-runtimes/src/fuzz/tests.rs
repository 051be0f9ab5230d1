//! The made-up processes are read as what they are, and as little as they say when they lie.

use super::{fuzz_java, fuzz_node, hotspot, v8};
use crate::{Holder, Limits, RuntimeKind, RuntimeStrands, Strand, StrandState, WaitKind, read_strands};

fn java(process: &super::Synthetic, limits: &Limits) -> RuntimeStrands {
    read_strands(process, None, limits).pop().expect("a virtual machine")
}

fn only(runtime: &RuntimeStrands) -> &Strand {
    let [strand] = runtime.strands.as_slice() else { panic!("one strand: {runtime:#?}") };
    strand
}

#[test]
fn a_made_up_virtual_machine_is_read() {
    let runtime = java(&hotspot::process(3), &Limits::default());
    assert_eq!((runtime.kind, runtime.version.as_deref()), (RuntimeKind::Java, Some("17.0.99+1")));
    assert_eq!(runtime.warnings, [] as [&str; 0]);
    let strand = only(&runtime);
    let frames: Vec<_> =
        strand.frames.iter().map(|frame| (&*frame.function, frame.file.as_deref())).collect();
    assert_eq!(frames, [("Main.work", Some("Main.java")); 3]);
    // It waits for what it has itself.
    let wait = strand.wait.as_ref().expect("it waits");
    assert_eq!((wait.kind, wait.object.as_deref()), (WaitKind::Monitor, Some("Main")));
    assert_eq!(wait.owners.iter().map(|owner| owner.holder).collect::<Vec<_>>(), [Holder::Strand(strand.id)]);
}

#[test]
fn a_made_up_node_is_read() {
    let runtime = java(&v8::process(3), &Limits::default());
    assert_eq!((runtime.kind, runtime.version.as_deref()), (RuntimeKind::Node, Some("22 (V8 12.4.254.21)")));
    let strand = only(&runtime);
    assert_eq!(strand.state, StrandState::Native);
    let frames: Vec<_> =
        strand.frames.iter().map(|frame| (&*frame.function, frame.file.as_deref(), frame.line)).collect();
    assert_eq!(frames, [("work", Some("/srv/main.js"), Some(2)); 3]);
}

#[test]
fn a_chain_of_a_million_frames_is_cut() {
    for process in [hotspot::process(1_000_000), v8::process(1_000_000)] {
        let limits = Limits::default();
        let runtime = java(&process, &limits);
        let strand = only(&runtime);
        assert_eq!((strand.frames.len(), strand.cut), (limits.frames_per_strand, true));
    }
}

#[test]
fn a_frame_that_is_its_own_caller_ends_the_walk() {
    let mut process = hotspot::process(9);
    let fp = super::synthetic::STACK + 3 * hotspot::FRAME;
    // Its caller's frame and stack pointers are those of the frame below.
    process.put(fp, fp - hotspot::FRAME);
    process.put(fp - 8, fp - hotspot::FRAME + 16);
    let runtime = java(&process, &Limits::default());
    assert_eq!((only(&runtime).frames.len(), only(&runtime).cut), (3, true));

    let mut process = v8::process(9);
    let fp = super::synthetic::STACK + 4 * v8::FRAME;
    process.put(fp, fp - v8::FRAME);
    let runtime = java(&process, &Limits::default());
    assert_eq!((only(&runtime).frames.len(), only(&runtime).cut), (3, true));
}

#[test]
fn a_thread_that_is_listed_for_ever_is_one_thread() {
    let (mut process, places) = hotspot::build(3);
    process.put(places.thread_count, u64::from(u32::MAX));
    let runtime = java(&process, &Limits::small());
    // What follows in memory is no thread: none of the process is on its stack. The same one is not listed twice.
    assert_eq!(only(&runtime).frames.len(), 3);
    assert!(
        runtime.warnings.iter().any(|warning| warning.contains("of 4294967295 threads")),
        "{:?}",
        runtime.warnings
    );
}

#[test]
fn tables_of_garbage_are_said_to_be_missing_what_is_needed() {
    let (mut process, places) = hotspot::build(3);
    // The name of the first field's type is text without an end: all that is there, and no name.
    for row in 0..200 {
        process.put(places.tables + row * 40, super::synthetic::STACK);
    }
    let runtime = java(&process, &Limits::default());
    assert!(runtime.strands.is_empty());
    assert_eq!(runtime.warnings.len(), 1, "{:?}", runtime.warnings);

    // A class whose name is a gigabyte has none, and so have its methods.
    let (mut process, places) = hotspot::build(3);
    process.put(places.class_name, 0xffff);
    assert_eq!(only(&java(&process, &Limits::default())).frames.len(), 0);
}

#[test]
fn whatever_is_damaged_is_read_within_the_limits() {
    // Numbers that are the same in each run (xorshift64).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..24).flat_map(|_| next().to_le_bytes()).collect();
        let some = bytes.get(..6 * (1 + next() as usize % 30)).unwrap_or_default();
        fuzz_java(some);
        fuzz_node(some);
    }
    assert!(hotspot::process(1).data_bytes() < 1 << 16, "each word can be damaged");
}
