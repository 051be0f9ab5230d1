//! Where chunks could be told apart.

use std::collections::BTreeMap;

/// Ends by starts. What lies elsewhere was not counted as used.
#[derive(Default)]
pub(super) struct Spans(BTreeMap<u64, u64>);

impl Spans {
    pub(super) fn add(&mut self, from: u64, to: u64) {
        self.0.insert(from, to);
    }

    pub(super) fn holds(&self, chunk: u64) -> bool {
        self.0.range(..=chunk).next_back().is_some_and(|(_, &to)| chunk < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_holds_its_start_and_not_its_end() {
        let mut spans = Spans::default();
        assert!(!spans.holds(0));
        spans.add(0x1000, 0x2000);
        spans.add(0x3000, 0x3000);
        spans.add(0x2800, 0x2900);
        for (chunk, held) in [
            (0xfff, false),
            (0x1000, true),
            (0x1fff, true),
            (0x2000, false),
            (0x28ff, true),
            (0x3000, false),
            (u64::MAX, false),
        ] {
            assert_eq!(spans.holds(chunk), held, "{chunk:#x}");
        }
    }
}
