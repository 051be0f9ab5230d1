//! Memory of an image for many small reads: a page is read once.

use std::cell::RefCell;

use biopsy_image::{Image, MemoryExt};
use rustc_hash::FxHashMap;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages that are kept, 8 MiB; then all of them go.
const KEPT: usize = 2048;

/// Pages of an image that does not change. A page is no more than what is asked for takes: an image of a living process has the page in
/// memory, or gets it, whichever bytes of it are read.
pub(super) struct Pages<'a> {
    image: &'a dyn Image,
    /// By where they begin; as many bytes of each as there are from its beginning on.
    kept: RefCell<FxHashMap<u64, Vec<u8>>>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(image: &'a dyn Image) -> Self {
        Self { image, kept: RefCell::default() }
    }

    /// Up to eight bytes at `address`, as a number.
    pub(super) fn number(&self, address: u64, bytes: usize) -> Option<u64> {
        let mut buffer = [0; 8];
        let wanted = buffer.get_mut(..bytes)?;
        if !self.read_in_page(address, wanted) {
            self.image.read_exact(address, wanted).ok()?;
        }
        Some(u64::from_le_bytes(buffer))
    }

    /// `false`: not all of it is in one page, or the beginning of the page is not there.
    fn read_in_page(&self, address: u64, wanted: &mut [u8]) -> bool {
        let (page, at) = (address & !(PAGE - 1), (address & (PAGE - 1)) as usize);
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= KEPT && !kept.contains_key(&page) {
            kept.clear();
        }
        let bytes = kept
            .entry(page)
            .or_insert_with(|| self.image.read_up_to(page, PAGE as usize).unwrap_or_default());
        let there = bytes.get(at..).and_then(|rest| rest.get(..wanted.len()));
        there.map(|there| wanted.copy_from_slice(there)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use biopsy_image::testing::CoreBuilder;
    use biopsy_image::{Limits, Opened, open_bytes};

    use super::*;

    /// Two pages of which the second ends early, then one whose beginning is missing.
    fn image() -> Opened {
        let bytes: Vec<u8> = (0..0x1800_u32).map(|at| (at % 251) as u8).collect();
        let core = CoreBuilder::new().process(10, "patient", "patient");
        let core = core.memory(0x10_0000, 6, bytes.clone()).memory(0x10_2800, 6, bytes[..0x800].to_vec());
        open_bytes("core", core.build(), &Limits::default()).expect("it is a core")
    }

    #[test]
    fn each_number_is_what_the_image_has_there() {
        let opened = image();
        let pages = Pages::new(&*opened.image);
        for address in (0x0f_fff0..0x10_3010).chain([0, u64::MAX - 3, u64::MAX]) {
            for bytes in [1, 2, 4, 8] {
                let mut wanted = [0; 8];
                let there = opened.image.read_exact(address, &mut wanted[..bytes]).is_ok();
                let wanted = there.then(|| u64::from_le_bytes(wanted));
                assert_eq!(pages.number(address, bytes), wanted, "{bytes} bytes at {address:#x}");
            }
        }
        assert_eq!(pages.number(0x10_0000, 9), None, "no number has more than eight");
    }

    #[test]
    fn no_more_pages_are_kept_than_there_is_room_for() {
        let opened = image();
        let pages = Pages::new(&*opened.image);
        for page in 0..3 * KEPT as u64 {
            pages.number(page * PAGE, 8);
            assert!(pages.kept.borrow().len() <= KEPT);
        }
    }
}
