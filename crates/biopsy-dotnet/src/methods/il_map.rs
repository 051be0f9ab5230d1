//! Which intermediate-language offset each native offset of a compiled body came from.

/// Offsets that are no place in the IL (`ICorDebugInfo::MappingTypes` in the runtime's `cordebuginfo.h`): prologue, epilogue,
/// and code without a source.
const SPECIAL: u32 = 0xffff_fffd;

/// Pairs sorted by native offset.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct IlMap {
    pairs: Box<[(u32, u32)]>,
}

impl IlMap {
    /// From pairs of native offset and IL offset, in any order.
    #[must_use]
    pub fn new(mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        Self { pairs: pairs.into() }
    }

    /// The IL offset that code at this native offset belongs to: of the nearest entry before it that is a place in the IL. In
    /// the prologue: the first place of the method.
    #[must_use]
    pub fn il_offset(&self, native: u32) -> Option<u32> {
        let after = self.pairs.partition_point(|&(at, _)| at <= native);
        let is_place = |&&(_, il): &&(u32, u32)| il < SPECIAL;
        let (before, behind) = self.pairs.split_at(after);
        let found = before.iter().rev().find(is_place).or_else(|| behind.iter().find(is_place));
        found.map(|&(_, il)| il)
    }

    /// How many pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether nothing was told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_place_before_counts_and_prologues_have_the_first() {
        let map = IlMap::new(vec![
            (0x20, 7),
            (0, 0xffff_fffe),
            (0x10, 0),
            (0x30, 0xffff_ffff),
            (0x40, u32::MAX - 2),
        ]);
        assert_eq!(map.il_offset(0x25), Some(7));
        assert_eq!(map.il_offset(0x1f), Some(0));
        assert_eq!(map.il_offset(0x35), Some(7), "code without a source belongs to what was before");
        assert_eq!(map.il_offset(0x45), Some(7), "so does the epilogue");
        assert_eq!(map.il_offset(3), Some(0), "the prologue has the first line");
        assert_eq!(IlMap::default().il_offset(0), None);
        assert_eq!(map.len(), 5);
    }
}
