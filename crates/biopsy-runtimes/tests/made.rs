//! Small images that are made by hand: read as they are, and with what a hostile core would have in them.

use biopsy_model::Avma;
use biopsy_runtimes::fuzz::{MadeImage, fuzz_strands, go_image, python_image, read};
use biopsy_runtimes::{Confidence, Holder, RuntimeStrands, Strand, StrandId, StrandState, WaitKind};

fn only(image: &MadeImage) -> RuntimeStrands {
    let mut found = read(image);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

fn functions(strand: &Strand) -> Vec<String> {
    strand
        .frames
        .iter()
        .map(|frame| format!("{}:{}", frame.function, frame.line.unwrap_or_default()))
        .collect()
}

#[test]
fn goroutines_of_each_version_are_read() {
    for minor in 19..=26 {
        let runtime = only(&go_image(minor));
        assert_eq!(runtime.label(), format!("Go 1.{minor}.3"));
        assert_eq!(runtime.warnings, Vec::<String>::new());
        assert_eq!(runtime.strands.len(), 4, "{runtime:#?}");
        let relay = runtime.strand(StrandId(4)).expect("it is there");
        assert_eq!(
            functions(relay),
            ["runtime.gopark:11", "runtime.chanrecv:14", "main.(*relay[...]).run:15", "runtime.goexit:10"]
        );
        let wait = relay.wait.as_ref().expect("it waits");
        assert_eq!((wait.kind, wait.address), (WaitKind::ChannelReceive, Some(Avma(0xc0_0000_7200))));
        for (waiter, holder) in [(2, 3), (3, 2)] {
            let wait =
                runtime.strand(StrandId(waiter)).and_then(|strand| strand.wait.as_ref()).expect("it waits");
            let [owner] = wait.owners.as_slice() else { panic!("1.{minor}: {wait:#?}") };
            assert_eq!(owner.holder, Holder::Strand(StrandId(holder)));
            assert_eq!((owner.confidence, owner.frame), (Confidence::VeryLikely, Some(2)));
        }
    }
}

#[test]
fn threads_of_each_version_are_read() {
    for minor in 8..=13 {
        let runtime = only(&python_image(minor));
        let [holds, wants] = runtime.strands.as_slice() else { panic!("{runtime:#?}") };
        assert_eq!(functions(holds), ["hold:10", "main:3"], "3.{minor}");
        assert_eq!(functions(wants), ["want:20", "main:3"]);
        assert_eq!(holds.wait.as_ref().map(|wait| wait.kind), Some(WaitKind::Timer));
        let wait = wants.wait.as_ref().expect("it waits");
        let [owner] = wait.owners.as_slice() else { panic!("3.{minor}: {wait:#?}") };
        assert_eq!((owner.holder, owner.frame), (Holder::Strand(holds.id), Some(0)));
        assert_eq!((wants.state, owner.confidence), (StrandState::Waiting, Confidence::AlmostCertain));
    }
}

#[test]
fn a_version_that_is_not_known_is_said() {
    let mut image = go_image(22);
    image.put(0x40_4125, b"9");
    // `go1.92.3`
    let runtime = only(&image);
    assert!(runtime.strands.is_empty());
    assert!(
        runtime.warnings.iter().any(|warning| warning.contains("this program is of Go 1.92")),
        "{runtime:?}"
    );
}

/// Where things are in the made images.
const GOROUTINES: u64 = 0xc0_0000_6000;
const ALL: u64 = 0x40_5000;
const THREADS: u64 = 0x7f00_0000_3000;

#[test]
fn a_list_that_says_it_is_longer_than_memory_is_not_followed() {
    let mut image = go_image(24);
    image.word(ALL + 8, 1 << 27);
    image.word(ALL + 16, 1 << 27);
    let runtime = only(&image);
    assert_eq!(runtime.strands.len(), 4);
    assert!(runtime.warnings.iter().any(|warning| warning.contains("could not be read")), "{runtime:?}");
}

/// `allgptr` has the same address, and anything may follow it.
#[test]
fn a_pointer_to_the_list_with_another_length_behind_it_is_not_the_list() {
    let mut image = go_image(24);
    for (offset, word) in [(0x40, GOROUTINES), (0x48, 33_751_040), (0x50, 40_000_000)] {
        image.word(ALL + offset, word);
    }
    let runtime = only(&image);
    assert_eq!(runtime.warnings, Vec::<String>::new());
    assert_eq!(runtime.strands.len(), only(&go_image(24)).strands.len());
}

#[test]
fn a_goroutine_that_is_listed_twice_is_one() {
    let mut image = go_image(24);
    image.word(GOROUTINES + 8, 0xc0_0000_0000);
    image.word(0xc0_0000_0000 + 320, 0xc0_0000_0000);
    let runtime = only(&image);
    assert_eq!(runtime.strands.len(), 3);
    assert_eq!(runtime.warnings, ["1 of 4 goroutines could not be read"]);
}

#[test]
fn a_stack_that_returns_into_itself_ends() {
    let mut image = go_image(26);
    // Everything above the first frame returns to `runtime.gopark`.
    let stack = 0xc0_0000_2800;
    for slot in (0x400..0x800).step_by(8) {
        image.word(stack + slot, 0x40_0105);
    }
    let runtime = only(&image);
    let strand = runtime.strand(StrandId(2)).expect("it is there");
    assert!(strand.cut && strand.frames.len() <= 64, "{}", strand.frames.len());
}

#[test]
fn threads_and_frames_in_circles_end() {
    for minor in 8..=13 {
        let mut image = python_image(minor);
        // The second thread's next is the first.
        image.word(THREADS + 0x200 + 8, THREADS);
        let runtime = only(&image);
        assert_eq!(runtime.strands.len(), 2);
        assert!(runtime.warnings.iter().any(|warning| warning.contains("not whole")), "{runtime:?}");
    }
}

/// What fuzzing does, a little of it: each word changed in each way.
#[test]
fn any_word_may_be_anything() {
    for which in [0u8, 1] {
        for minor in [0u8, 3, 5, 7] {
            for number in (0..4_096u16).step_by(7) {
                let [low, high] = number.to_le_bytes();
                let how = (number % 6) as u8;
                fuzz_strands(&[
                    which,
                    minor,
                    low,
                    high,
                    how,
                    (number / 3) as u8,
                    high,
                    low,
                    how.wrapping_add(1),
                    9,
                ]);
            }
        }
    }
}
