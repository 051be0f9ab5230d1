//! Bounded lists: of many things the ones worth looking at.

use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::Kept;

/// The `limit` items of greatest weight, and how many there were.
#[derive(Debug)]
pub(super) struct Heaviest<T> {
    items: Vec<(u64, T)>,
    limit: usize,
    total: u64,
    /// What an item must weigh to be looked at.
    floor: u64,
}

impl<T> Heaviest<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { items: Vec::new(), limit: limit.max(1), total: 0, floor: 0 }
    }

    /// Counts one; makes it only where it is heavy enough to be kept.
    pub(super) fn offer(&mut self, weight: u64, make: impl FnOnce() -> T) {
        self.total += 1;
        if weight < self.floor {
            return;
        }
        self.items.push((weight, make()));
        // Sorting once in a while is cheaper than a heap at each step.
        if self.items.len() >= self.limit * 2 {
            self.cut();
            self.floor = self.items.iter().map(|(weight, _)| *weight).min().unwrap_or(0);
        }
    }

    /// Counts one that is not worth keeping.
    pub(super) fn count_only(&mut self) {
        self.total += 1;
    }

    fn cut(&mut self) {
        self.items.order_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        self.items.truncate(self.limit);
    }

    /// The list, in the order of `time`.
    pub(super) fn finish<K: Ord>(mut self, time: impl Fn(&T) -> K) -> Kept<T> {
        self.cut();
        let mut items: Vec<T> = self.items.into_iter().map(|(_, item)| item).collect();
        items.order_by_key(|item| time(item));
        Kept { items, total: self.total }
    }
}

/// The first `limit` items, and how many there were.
#[derive(Debug)]
pub(super) struct First<T> {
    pub(super) kept: Kept<T>,
    limit: usize,
}

impl<T> First<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { kept: Kept::default(), limit }
    }

    pub(super) fn has_room(&self) -> bool {
        self.kept.items.len() < self.limit
    }

    pub(super) fn push(&mut self, item: T) {
        self.kept.total += 1;
        if self.has_room() {
            self.kept.items.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Heaviest;

    #[test]
    fn the_heaviest_are_kept_and_all_are_counted() {
        let mut heaviest = Heaviest::new(3);
        for weight in (0..100_u64).map(|index| index * 37 % 101) {
            heaviest.offer(weight, || weight);
        }
        let kept = heaviest.finish(|weight| *weight);
        assert_eq!(kept.total, 100);
        let mut all: Vec<u64> = (0..100_u64).map(|index| index * 37 % 101).collect();
        all.sort_unstable();
        assert_eq!(kept.items, all[97..]);
    }
}
