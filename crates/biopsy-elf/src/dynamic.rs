//! The dynamic section: where what the dynamic linker needs is.

use object::elf::{DT_NULL, Dyn64, DynamicTag};

use crate::LE;
use crate::source::rows;

/// The dynamic section of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dynamic(Vec<(DynamicTag, u64)>);

impl Dynamic {
    /// Most bytes of a dynamic section that are worth reading: 4,096 entries; real files have about 30.
    pub const MOST: u64 = 64 << 10;

    /// Its entries up to the one that ends it, or to the end of the bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let entries = rows::<Dyn64<_>>(bytes).iter().map(|entry| (entry.d_tag.get(LE), entry.d_val.get(LE)));
        Self(entries.take_while(|(tag, _)| *tag != DT_NULL).collect())
    }

    /// The first value with this tag. Addresses are stated ones in a file; in memory glibc has made them actual ones
    /// ([`crate::MappedElf::stated`]).
    #[must_use]
    pub fn value(&self, tag: DynamicTag) -> Option<u64> {
        self.0.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value)
    }
}
