//! What is said of strands fits together, whatever a dump says: pointers of made images lead to other things of the same image.

use biopsy_runtimes::fuzz::{MadeImage, fits_together, go_image, java_image, node_image, python_image, read};
use proptest::prelude::*;

fn image(which: usize) -> MadeImage {
    match which {
        0 => go_image(19),
        1 => go_image(26),
        2 => python_image(8),
        3 => python_image(11),
        4 => python_image(13),
        5 => java_image(4).0,
        _ => node_image(4).0,
    }
}

#[test]
fn of_images_as_they_are() {
    for which in 0..7 {
        for runtime in read(&image(which)) {
            fits_together(&runtime);
            assert!(!runtime.strands.is_empty(), "{which}");
        }
    }
}

/// Each pointer to nowhere, and to itself: a list that ends, and one that is a circle.
#[test]
fn of_images_with_one_pointer_changed() {
    for which in 0..7 {
        for pointer in image(which).pointers() {
            for to in [0, 8, pointer, pointer - 8] {
                let mut image = image(which);
                image.word(pointer, to);
                read(&image).iter().for_each(fits_together);
            }
        }
    }
}

/// Numbers of things, and how many there are.
#[test]
fn of_images_with_one_small_number_changed() {
    for which in 0..7 {
        for number in image(which).words_that(|word| (1..64).contains(&word)) {
            for to in [0, 1, 2, 3, 7, 11, 12, 255, u64::MAX] {
                let mut image = image(which);
                image.word(number, to);
                read(&image).iter().for_each(fits_together);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn of_images_whose_pointers_lead_elsewhere(
        which in 0..7_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3_u8), 1..6),
    ) {
        let mut image = image(which);
        let pointers = image.pointers();
        let words: Vec<u64> = pointers.iter().map(|at| image.word_at(*at)).collect();
        for (from, to, how) in changes {
            let to = to.index(pointers.len());
            let word = match how {
                0 => words[to],
                1 => pointers[to],
                _ => words[to].wrapping_add(8),
            };
            image.word(pointers[from.index(pointers.len())], word);
        }
        read(&image).iter().for_each(fits_together);
    }
}
