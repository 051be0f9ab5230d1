//! Blocks counted by their size.

use std::collections::BTreeMap;

use biopsy_model::footprint::{Blocks, SizeClass};

/// Up to here each size is a class of its own: allocators give out multiples of 16.
const EXACT: u64 = 1024;

/// What they are multiples of.
const STEP: u64 = 16;

/// So many blocks of one size.
pub(crate) fn blocks(count: u64, bytes: u64) -> Blocks {
    Blocks { count, bytes: count.saturating_mul(bytes) }
}

/// More of them.
pub(crate) fn add(sum: &mut Blocks, more: Blocks) {
    sum.count = sum.count.saturating_add(more.count);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}

/// Blocks by class.
#[derive(Default)]
pub(crate) struct Classes {
    /// Those of exact sizes, by their multiple of [`STEP`]: most blocks are among them.
    small: Vec<SizeClass>,
    /// Others by the largest size of the class.
    classes: BTreeMap<u64, SizeClass>,
}

impl Classes {
    /// The class of blocks of this size: sizes to 1,024, then four to each power of two.
    #[inline]
    fn of(&mut self, bytes: u64) -> &mut SizeClass {
        if bytes <= EXACT && bytes.is_multiple_of(STEP) {
            let number = (bytes / STEP) as usize;
            if self.small.len() <= number {
                self.small.resize_with(number + 1, SizeClass::default);
            }
            let class = &mut self.small[number];
            class.up_to = bytes;
            return class;
        }
        let up_to = up_to(bytes);
        self.classes.entry(up_to).or_insert_with(|| SizeClass { up_to, ..SizeClass::default() })
    }

    pub(crate) fn used(&mut self, bytes: u64) {
        self.of(bytes).used.add(bytes);
    }

    pub(crate) fn free(&mut self, bytes: u64) {
        self.of(bytes).free.add(bytes);
    }

    /// Many blocks of one size.
    pub(crate) fn add(&mut self, bytes: u64, used: Blocks, free: Blocks) {
        let class = self.of(bytes);
        for (sum, more) in [(&mut class.used, used), (&mut class.free, free)] {
            self::add(sum, more);
        }
    }

    /// A block that was counted as used is kept free by a cache.
    pub(crate) fn is_cached(&mut self, bytes: u64) {
        let class = self.of(bytes);
        class.used.count = class.used.count.saturating_sub(1);
        class.used.bytes = class.used.bytes.saturating_sub(bytes);
        class.free.add(bytes);
    }

    pub(crate) fn into_list(self) -> Vec<SizeClass> {
        let mut list: Vec<SizeClass> =
            self.small.into_iter().filter(is_met).chain(self.classes.into_values()).collect();
        list.sort_by_key(|class| class.up_to);
        list
    }
}

/// There were such blocks.
fn is_met(class: &SizeClass) -> bool {
    class.used.count > 0 || class.free.count > 0
}

fn up_to(bytes: u64) -> u64 {
    if bytes <= EXACT {
        return bytes;
    }
    let quarter = (bytes - 1).checked_ilog2().map_or(1, |power| 1_u64 << power.saturating_sub(2));
    bytes.checked_next_multiple_of(quarter).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_meet_in_classes() {
        for (bytes, class) in [(32, 32), (1024, 1024), (1025, 1280), (1280, 1280), (1296, 1536), (4096, 4096)]
        {
            assert_eq!(up_to(bytes), class, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn a_class_holds_its_sizes_and_is_at_most_a_quarter_wider(bytes in 16..u64::MAX >> 1) {
            let class = up_to(bytes);
            prop_assert!(class >= bytes);
            prop_assert!(class - bytes <= bytes / 4);
            prop_assert_eq!(up_to(class), class);
        }
    }

    #[test]
    fn what_a_cache_keeps_is_free() {
        let mut classes = Classes::default();
        for bytes in [64, 64, 4000] {
            classes.used(bytes);
        }
        classes.is_cached(64);
        classes.free(32);
        let list: Vec<_> =
            classes.into_list().iter().map(|one| (one.up_to, one.used.count, one.free.bytes)).collect();
        assert_eq!(list, [(32, 0, 32), (64, 1, 64), (4096, 1, 0)]);
    }

    /// What can be done to classes: a block in use, a free one, many of one size, and one in use that a cache keeps.
    fn any_steps() -> impl Strategy<Value = Vec<(u8, u64)>> {
        let size = prop_oneof![(0..80_u64).prop_map(|units| units * 16), 0..5000_u64, any::<u64>()];
        prop::collection::vec((0..4_u8, size), 0..60)
    }

    proptest! {
        /// Held against a list of blocks that are put into their classes one by one.
        #[test]
        fn each_block_is_in_the_one_class_of_its_size(steps in any_steps()) {
            let mut classes = Classes::default();
            let (mut used, mut free): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
            for (what, bytes) in steps {
                match what {
                    0 => {
                        classes.used(bytes);
                        used.push(bytes);
                    }
                    1 => {
                        classes.free(bytes);
                        free.push(bytes);
                    }
                    2 => {
                        let many = |count: u64| Blocks { count, bytes: count.saturating_mul(bytes) };
                        classes.add(bytes, many(2), many(1));
                        used.extend([bytes; 2]);
                        free.push(bytes);
                    }
                    // Only what is in use can be kept.
                    _ => if let Some(bytes) = used.pop() {
                        classes.is_cached(bytes);
                        free.push(bytes);
                    }
                }
            }
            let list = classes.into_list();
            prop_assert!(list.windows(2).all(|pair| pair[0].up_to < pair[1].up_to), "{:?}", list);
            let count = |blocks: &[u64], class| blocks.iter().filter(|bytes| up_to(**bytes) == class).count() as u64;
            for class in &list {
                prop_assert_eq!(class.used.count, count(&used, class.up_to), "{:?}", class);
                prop_assert_eq!(class.free.count, count(&free, class.up_to), "{:?}", class);
            }
            let counted: u64 = list.iter().map(|class| class.used.count + class.free.count).sum();
            prop_assert_eq!(counted, (used.len() + free.len()) as u64);
        }
    }
}
