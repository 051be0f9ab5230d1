//! What is true of every image, checked after fuzzing and in property tests.

use crate::{Image, PAGE_SIZE, ReadError};

/// Mappings and modules that are looked at closely.
const LOOKED_AT: usize = 64;

/// Reads around in an image and checks what [`Image`] promises.
///
/// # Panics
/// When a promise is broken.
pub fn check_image(image: &dyn Image) {
    let mappings = image.mappings();
    for two in mappings.windows(2) {
        assert!(two[0].end <= two[1].start, "mappings overlap or are not by address: {two:?}");
    }
    assert!(mappings.iter().all(|one| one.start < one.end), "a mapping is empty");
    for module in image.modules() {
        assert!(module.start <= module.end, "a module ends before it starts");
    }
    std::hint::black_box((image.threads().len(), image.process(), image.crash()));
    let mut addresses = vec![0, 1, u64::MAX, u64::MAX - 4096];
    for mapping in mappings.iter().take(LOOKED_AT) {
        addresses.extend([mapping.start, mapping.start.wrapping_sub(1), mapping.end - 1, mapping.end]);
        let mut runs = Vec::new();
        if image.written(mapping.range(), &mut runs).is_ok() {
            for run in &runs {
                assert!(
                    run.start < run.end && mapping.start <= run.start && run.end <= mapping.end,
                    "{run:x?}"
                );
            }
            for two in runs.windows(2) {
                assert!(two[0].end <= two[1].start, "runs overlap or are not by address: {runs:x?}");
                // Only what is missing is a run beside another one.
                let is_there = |run: &std::ops::Range<u64>| image.read(run.start, &mut [0]).is_ok();
                let touch = two[0].end == two[1].start;
                assert!(!touch || !is_there(&two[0]) || !is_there(&two[1]), "runs touch: {runs:x?}");
            }
        }
    }
    let mut large = vec![0u8; 3 * PAGE_SIZE as usize];
    for address in addresses {
        let mut small = [0u8; 7];
        let one = read(image, address, &mut small[..1]);
        let seven = read(image, address, &mut small);
        let more = read(image, address, &mut large);
        // What can be read does not depend on how much is asked for.
        assert_eq!(one.is_some(), seven.is_some(), "at {address:#x}");
        if let (Some(seven), Some(more)) = (seven, more) {
            assert!(seven <= more, "at {address:#x}");
            assert_eq!(small[..seven], large[..seven], "at {address:#x}");
        }
    }
    assert!(image.read(0x1000, &mut []).is_ok_and(|read| read == 0), "an empty buffer is always filled");
}

fn read(image: &dyn Image, address: u64, buffer: &mut [u8]) -> Option<usize> {
    match image.read(address, buffer) {
        Ok(read) => {
            assert!((1..=buffer.len()).contains(&read), "{read} bytes read at {address:#x}");
            Some(read)
        }
        Err(ReadError::Missing { address: at, .. }) => {
            assert_eq!(at, address, "the error is about the first byte");
            None
        }
        Err(_) => None,
    }
}
