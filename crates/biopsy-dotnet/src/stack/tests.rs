//! Explicit frames on the stacks of a runtime made by hand.

use biopsy_model::{Avma, Tid};
use biopsy_stacks::image::ResumePoints as _;
use biopsy_stacks::unwind::UserRegisters;

use super::*;
use crate::runtime::tests::made::{Made, NO_FRAME};

/// Room for so many frames, each linked to the next; the first words are these.
fn frames(made: &mut Made, kinds: &[u64]) -> Vec<u64> {
    let at: Vec<u64> = kinds.iter().map(|_| made.alloc(0x200)).collect();
    for (number, kind) in kinds.iter().enumerate() {
        made.put(at[number], *kind);
        made.put(at[number] + 8, at.get(number + 1).copied().unwrap_or(NO_FRAME));
    }
    at
}

/// A thread with this innermost frame.
fn thread(made: &mut Made, id: u32, frame: u64) -> u64 {
    let at = made.thread(id, 4700 + id);
    made.put(at + 24, frame);
    at
}

/// The explicit frames of the thread with this id.
fn read(made: &mut Made, id: u32) -> Vec<ExplicitFrame> {
    let runtime = made.open_unchecked();
    let threads = runtime.threads().expect("a list");
    let kinds = FrameKinds::of(&runtime, &threads);
    let thread = threads.iter().find(|thread| thread.id == id).expect("it is in the list");
    explicit_frames(&runtime, &kinds, thread)
}

/// Numbers of kinds as descriptors since 10 tell them.
fn numbered() -> Made {
    let mut made = Made::new();
    for (kind, number) in
        [("InlinedCallFrame", 7), ("FaultingExceptionFrame", 8), ("SoftwareExceptionFrame", 9)]
    {
        made.global(&format!("{kind}Identifier"), number);
    }
    for (field, offset) in [("ReturnAddress", 24), ("TargetContext", 32)] {
        made.offset("FaultingExceptionFrame", field, offset);
        made.offset("SoftwareExceptionFrame", field, offset);
    }
    for (field, offset) in
        [("Datum", 16), ("CallSiteSP", 24), ("CallerReturnAddress", 32), ("CalleeSavedFP", 40)]
    {
        made.offset("InlinedCallFrame", field, offset);
    }
    made
}

/// Writes registers as `CONTEXT` has them: `rbx`, `rsp`, `rbp`, `r12` to `r15`, `rip`.
fn context(made: &mut Made, frame: u64, registers: [u64; 8]) {
    for (offset, value) in [0x90, 0x98, 0xa0, 0xd8, 0xe0, 0xe8, 0xf0, 0xf8].into_iter().zip(registers) {
        made.put(frame + 32 + offset, value);
    }
}

#[test]
fn frames_say_what_they_are_and_where_managed_code_goes_on() {
    let mut made = numbered();
    let at = frames(&mut made, &[7, 8, 9, 77, 7]);
    for (offset, value) in [(16, 0x2_0000), (24, 0x111), (32, 0x222), (40, 0x333)] {
        made.put(at[0] + offset, value);
    }
    context(&mut made, at[1], [1, 0x555, 0x666, 2, 3, 4, 5, 0x444]);
    made.put(at[1] + 24, 0x444);
    // The address of the instruction is there a second time, and another one: the registers are not where they are looked for.
    context(&mut made, at[2], [1, 0x555, 0x666, 2, 3, 4, 5, 0x777]);
    made.put(at[2] + 24, 0x778);
    // Between two calls: no address to return to, and a number in the place of the method.
    made.put(at[4] + 16, 5);
    thread(&mut made, 1, at[0]);
    let found = read(&mut made, 1);
    assert!(found.iter().map(|frame| frame.address.0).eq(at.iter().copied()));
    let labels: Vec<String> = found.iter().map(ExplicitFrame::label).collect();
    assert_eq!(
        labels,
        [
            "[InlinedCallFrame]",
            "[FaultingExceptionFrame]",
            "[SoftwareExceptionFrame]",
            "[explicit frame of the runtime]",
            "[InlinedCallFrame]",
        ]
    );
    let methods: Vec<_> = found.iter().map(|frame| frame.method_desc).collect();
    assert_eq!(methods, [Some(0x2_0000_u64.into()), None, None, None, None]);
    let mut faulted = UserRegisters::new(0x444, 0x555, 0x666);
    faulted.saved = Some([1, 2, 3, 4, 5]);
    let resumes: Vec<_> = found.iter().map(|frame| frame.resumes).collect();
    assert_eq!(resumes, [Some(UserRegisters::new(0x222, 0x111, 0x333)), Some(faulted), None, None, None]);
    // For the walk of stacks: at the instruction that faulted with all registers, and at the nearest place further out.
    let runtime = made.open_unchecked();
    let all = ExplicitFrames::read([&runtime]);
    assert_eq!(all.at(Tid(4701), 0x444), Some(faulted));
    assert_eq!((all.at(Tid(4701), 0x222), all.at(Tid(4702), 0x444)), (None, None));
    assert_eq!(all.above(Tid(4701), 0x110).map(|next| next.sp), Some(0x111));
    assert_eq!(all.above(Tid(4701), 0x111).map(|next| next.sp), Some(0x555));
    assert_eq!(all.above(Tid(4701), 0x555), None);
}

#[test]
fn a_method_is_told_by_an_address_and_by_nothing_else() {
    for (datum, method) in
        [(0x1_0000, true), (0xffff, false), (0x1_0004, false), (0, false), (u64::MAX - 7, true)]
    {
        let mut made = numbered();
        let at = frames(&mut made, &[7]);
        made.put(at[0] + 16, datum);
        thread(&mut made, 1, at[0]);
        let found = read(&mut made, 1);
        assert_eq!(found[0].method_desc.is_some(), method, "{datum:#x}");
        assert_eq!(found[0].method(&made.open_unchecked()), None, "and it has no name here");
    }
}

#[test]
fn a_chain_ends_at_its_end_where_it_cannot_be_read_and_where_it_turns_back_too_often() {
    let mut made = numbered();
    let at = frames(&mut made, &[77; 12]);
    thread(&mut made, 1, at[0]);
    let count = |made: &mut Made| read(made, 1).len();
    assert_eq!(count(&mut made), 12);
    // Nothing behind the sixth; nowhere; a circle of one, and of three: a few times round, and no more.
    for (next, frames) in [(NO_FRAME, 6), (0, 6), (0x7777_0000, 6), (at[5], 10), (at[3], 6 + 4 * 3)] {
        made.put(at[5] + 8, next);
        assert_eq!(count(&mut made), frames, "{next:#x}");
    }
    // A handler of signals has a stack of its own: outer frames may lie below.
    made.put(at[5] + 8, at[6]);
    made.put(at[8] + 8, at[1]);
    assert!(count(&mut made) > 9);
    for (first, frames) in [(0, 0), (NO_FRAME, 0), (0x7777_0000, 0)] {
        let mut made = numbered();
        thread(&mut made, 1, first);
        assert_eq!(count(&mut made), frames, "{first:#x}");
    }
}

/// A runtime of which nothing tells the kinds of frames: `g_dacTable` has addresses of their tables from some place on.
fn with_tables(tables: &[u64], outermost: u64) -> Made {
    let mut made = Made::new();
    let words: Vec<u64> = [0x1111, 0x2222].into_iter().chain(tables.iter().copied()).collect();
    let table = made.words(&words);
    made.table = Some((Avma(table), words.len() as u64 * 8));
    let at = frames(&mut made, &[tables[12], outermost]);
    thread(&mut made, 1, at[0]);
    let at = frames(&mut made, &[tables[16], outermost]);
    let finalizer = thread(&mut made, 2, at[0]);
    made.variable("FinalizerThread", finalizer);
    made
}

#[test]
fn tables_of_virtual_functions_are_told_by_the_frame_that_every_thread_begins_with() {
    use crate::runtime::tests::made::BASE;
    let tables: Vec<u64> = (0..25).map(|number| BASE + 0x8_0000 + number * 0x40).collect();
    let kinds = |made: &mut Made| read(made, 1).iter().map(|frame| frame.kind).collect::<Vec<_>>();
    let known = [Some("InlinedCallFrame"), Some("DebuggerU2MCatchHandlerFrame")];
    assert_eq!(kinds(&mut with_tables(&tables, tables[3])), known);
    assert_eq!(read(&mut with_tables(&tables, tables[3]), 2)[0].kind, Some("ProtectByRefsFrame"));
    let unknown = [None, None];
    // Another frame is the outermost one; two tables alike; one outside of the runtime; too few.
    assert_eq!(kinds(&mut with_tables(&tables, tables[2])), unknown);
    assert_eq!(kinds(&mut with_tables(&tables, 0x9999)), unknown);
    let mut alike = tables.clone();
    alike[20] = alike[7];
    assert_eq!(kinds(&mut with_tables(&alike, tables[3])), unknown);
    let mut outside = tables.clone();
    outside[24] = BASE - 8;
    assert_eq!(kinds(&mut with_tables(&outside, tables[3])), unknown);
    assert_eq!(kinds(&mut with_tables(&tables[..24], tables[3])), unknown);
    // Nobody is known to be the finalizer.
    let mut made = with_tables(&tables, tables[3]);
    made.variable("FinalizerThread", 0);
    assert_eq!(kinds(&mut made), unknown);
}
