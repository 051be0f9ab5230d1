//! Blocks that other threads gave back and that no thread has taken yet: in lists of their pages and, where a page was full, of its heap.

use std::collections::BTreeSet;

use biopsy_image::{Image, MemoryExt};

use super::page::decoded;
use super::segments::Segments;
use crate::regions::{GivenBack, followed};
use crate::window::Window;

/// Reads those of all pages and of all heaps.
pub(super) fn given_back(image: &dyn Image, segments: &Segments) -> GivenBack {
    let mut given_back = GivenBack::default();
    let mut window = Window::new(image);
    let mut heaps = BTreeSet::new();
    // No block is given back twice, so that there are no more of them than blocks in use.
    let mut used: u64 = 0;
    for page in &segments.pages {
        used = used.saturating_add(page.region.used);
        if page.heap != 0 {
            heaps.insert(page.heap);
        }
        if page.others == 0 {
            continue;
        }
        let mut list = Vec::new();
        let follow = |block: u64| {
            page.region.number(block)?;
            list.push((block, page.region));
            window.word(block).map(|link| page.next(link))
        };
        let whole = followed(page.others, page.region.used, follow);
        given_back.take(whole, &list);
    }
    let build = &segments.build;
    for heap in heaps {
        let field = |at: u64| heap.checked_add(at).and_then(|at| image.read_u64(at).ok());
        let Some(first) = field(build.delayed) else {
            given_back.astray += 1;
            continue;
        };
        let key = |number: u64| field(build.delayed_keys + number * 8);
        let keys = build.page.keys.and_then(|_| Some([key(0)?, key(1)?]));
        let mut list = Vec::new();
        let follow = |block: u64| {
            list.push((block, segments.holding(block)?.region));
            window.word(block).map(|link| decoded(keys, heap, link))
        };
        let whole = followed(first, used, follow);
        given_back.take(whole, &list);
    }
    given_back
}
