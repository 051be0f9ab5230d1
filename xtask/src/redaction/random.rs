//! Numbers that look random and are the same in each run: one sequence per name.

/// A sequence (SplitMix64) that follows from the words it was made of.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence of a seed and names.
    pub(super) fn named(seed: u64, names: &[&str]) -> Self {
        Self(names.iter().fold(hash(&seed.to_string()), |sum, name| sum.rotate_left(5) ^ hash(name)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap_or(0)
    }

    /// One of several; there is at least one.
    pub(super) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// As many as wanted, each once, in another order.
    pub(super) fn some<T>(&mut self, mut from: Vec<T>, count: usize) -> Vec<T> {
        for index in 0..from.len().min(count) {
            let other = index + self.below(from.len() - index);
            from.swap(index, other);
        }
        from.truncate(count);
        from
    }
}

/// FNV-1a, with the bits mixed: the last one alone decides halves.
pub(super) fn hash(text: &str) -> u64 {
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (sum ^ (sum >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
