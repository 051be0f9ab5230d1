//! Small images of Java and Node.js that are made by hand: read as they are, and with what a hostile core would have in them.

use biopsy_runtimes::fuzz::{MadeImage, fuzz_strands, java_image, node_image, read};
use biopsy_runtimes::{
    Holder, Limits, RuntimeKind, RuntimeStrands, Strand, StrandState, WaitKind, read_strands,
};

fn runtime(image: &MadeImage) -> RuntimeStrands {
    let mut found = read(image);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

fn only(runtime: &RuntimeStrands) -> &Strand {
    let [strand] = runtime.strands.as_slice() else { panic!("one strand: {runtime:#?}") };
    strand
}

#[test]
fn a_thread_of_java_is_read() {
    let runtime = runtime(&java_image(3).0);
    assert_eq!((runtime.kind, runtime.version.as_deref()), (RuntimeKind::Java, Some("17.0.99+1")));
    assert_eq!(runtime.warnings, Vec::<String>::new());
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
fn a_signal_that_interrupted_java_leads_to_its_frames() {
    let (mut image, places) = java_image(5);
    (0..3).for_each(|word| image.word(places.anchor + 8 * word, 0));
    assert_eq!(only(&runtime(&image)).frames.len(), 0, "it runs, and is not in code of Java");
    // What the kernel put onto the stack: r8 to rcx, then stack pointer, instruction, flags, selectors.
    let context = places.third_frame - 3 * 96 + 8;
    let interpreter = 0x5000_0008;
    for (at, value) in
        [(10, places.third_frame), (15, places.third_frame - 80), (16, interpreter), (17, 0x246)]
    {
        image.word(context + 8 * at, value);
    }
    assert_eq!(only(&runtime(&image)).frames.len(), 0, "not of code of a user");
    image.word(context + 8 * 18, 0x002b_0000_0000_0033);
    let found = runtime(&image);
    assert_eq!(only(&found).frames.len(), 3, "the third and those above");
    // A stack pointer below the context is not that of who was interrupted.
    image.word(context + 8 * 15, context - 8);
    assert_eq!(only(&runtime(&image)).frames.len(), 0);
}

#[test]
fn a_thread_of_node_is_read() {
    let runtime = runtime(&node_image(3).0);
    assert_eq!((runtime.kind, runtime.version.as_deref()), (RuntimeKind::Node, Some("22 (V8 12.4.254.21)")));
    assert_eq!(runtime.warnings, Vec::<String>::new());
    let strand = only(&runtime);
    assert_eq!(strand.state, StrandState::Native);
    let frames: Vec<_> =
        strand.frames.iter().map(|frame| (&*frame.function, frame.file.as_deref(), frame.line)).collect();
    assert_eq!(frames, [("work", Some("/srv/main.js"), Some(2)); 3]);
}

#[test]
fn a_chain_of_a_million_frames_is_cut() {
    let limits = Limits::default();
    for image in [java_image(1_000_000).0, node_image(1_000_000).0] {
        let found = read_strands(&image, None, &limits);
        let strand = only(&found[0]);
        assert_eq!((strand.frames.len(), strand.cut), (limits.frames_per_strand, true));
    }
}

#[test]
fn a_frame_that_is_called_from_below_ends_the_walk() {
    let (mut image, places) = java_image(9);
    let fp = places.third_frame;
    // Its caller's frame and stack pointers are those of the frame below.
    image.word(fp, fp - 96);
    image.word(fp - 8, fp - 96 + 16);
    let java = runtime(&image);
    assert_eq!((only(&java).frames.len(), only(&java).cut), (3, true));

    let (mut image, fp) = node_image(9);
    image.word(fp, fp - 64);
    let node = runtime(&image);
    assert_eq!((only(&node).frames.len(), only(&node).cut), (3, true));
}

#[test]
fn a_list_of_threads_without_end_has_those_that_are_threads() {
    let (mut image, places) = java_image(3);
    image.word(places.thread_count, u64::from(u32::MAX));
    let runtime = runtime(&image);
    // What follows in memory is no thread: none of the process is on its stack. The same one is not listed twice.
    assert_eq!(only(&runtime).frames.len(), 3);
    assert!(runtime.warnings.iter().any(|warning| warning.contains("of 4294967295 threads")), "{runtime:?}");
}

#[test]
fn tables_of_garbage_are_said_to_lack_what_is_needed() {
    let (mut image, places) = java_image(3);
    for row in 0..60 {
        // Text without an end is nobody's name.
        image.word(places.fields + row * 40, places.fields);
    }
    let garbage = runtime(&image);
    assert!(garbage.strands.is_empty());
    assert_eq!(garbage.warnings.len(), 1, "{:?}", garbage.warnings);

    // A class whose name is longer than any has none, and neither have its methods.
    let (mut image, places) = java_image(3);
    image.word(places.class_name, 0xffff);
    assert_eq!(only(&runtime(&image)).frames.len(), 0);
}

/// What fuzzing does, a little of it: each word changed in each way.
#[test]
fn any_word_may_be_anything() {
    for which in [2u8, 3] {
        for number in (0..4_096u16).step_by(61) {
            let [low, high] = number.to_le_bytes();
            for how in 0..6u8 {
                let by = (number / 3) as u8 ^ how.wrapping_mul(37);
                fuzz_strands(&[which, 3, low, high, how, by, high, low, how.wrapping_add(1), 9]);
            }
        }
    }
}
