//! Pointers that lead to where addresses end, with memory there: sums of addresses that go round are no addresses, and no panics.

use biopsy_runtimes::fuzz::{MadeImage, go_image, java_image, node_image, python_image, read};

/// What stands at the end of all addresses.
const FILLED: [fn(u64) -> u64; 5] = [|_| 0, |_| 1, |_| u64::MAX, |at| at, |_| u64::MAX - 0xff];

fn each_pointer_leads_there(image: impl Fn() -> MadeImage) {
    for fill in FILLED {
        for pointer in image().pointers() {
            for before in [0x0f, 0x7f, 0x3ff] {
                let mut image = image();
                image.map_the_end(fill);
                image.word(pointer, u64::MAX - before);
                let strands: usize = read(&image).iter().map(|runtime| runtime.strands.len()).sum();
                assert!(strands <= 256, "{strands}");
            }
        }
    }
}

#[test]
fn of_go() {
    each_pointer_leads_there(|| go_image(24));
}

#[test]
fn of_python_with_frames_that_are_objects() {
    each_pointer_leads_there(|| python_image(10));
}

#[test]
fn of_python_with_frames_that_are_structures() {
    each_pointer_leads_there(|| python_image(12));
}

#[test]
fn of_java() {
    each_pointer_leads_there(|| java_image(3).0);
}

#[test]
fn of_node() {
    each_pointer_leads_there(|| node_image(3).0);
}
