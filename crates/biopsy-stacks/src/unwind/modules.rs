//! What executable code lies where in one process.

use std::ops::Range;
use std::sync::Arc;

use biopsy_model::{Avma, FileOffset, Svma};

use crate::elf::ElfFile;

/// An executable mapping, as `/proc/PID/maps` or an mmap record gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutableMapping {
    /// First address.
    pub start: Avma,
    /// First address after it.
    pub end: Avma,
    /// Offset in the file of the byte at `start`.
    pub file_offset: FileOffset,
    /// The caller's number for it, given back by [`super::ProcessUnwinder::find`].
    pub tag: u32,
}

/// One mapping with its file.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) range: Range<u64>,
    /// Actual minus stated address; zero for memory without a file.
    pub(crate) bias: u64,
    pub(crate) file: Option<Arc<ElfFile>>,
    tag: u32,
}

impl Module {
    fn new(mapping: &ExecutableMapping, file: Option<Arc<ElfFile>>) -> Self {
        // A file whose segments do not hold the mapped offset cannot be the one that is mapped.
        let placed = file.and_then(|file| {
            let svma = file.svma_of_offset(mapping.file_offset)?;
            Some((mapping.start.0.wrapping_sub(svma.0), file))
        });
        let (bias, file) = placed.map_or((0, None), |(bias, file)| (bias, Some(file)));
        Self { range: mapping.start.0..mapping.end.0, bias, file, tag: mapping.tag }
    }

    /// The caller's number.
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// The stated address in the file; `None` for memory without an ELF file (JIT code).
    pub fn svma(&self, avma: Avma) -> Option<Svma> {
        self.file.as_ref().map(|_| Svma(avma.0.wrapping_sub(self.bias)))
    }

    /// The file, where there is one.
    pub fn file(&self) -> Option<&Arc<ElfFile>> {
        self.file.as_ref()
    }
}

/// All of a process, sorted, without overlaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modules {
    sorted: Vec<Module>,
}

impl Modules {
    /// Puts a mapping over whatever was there before. Says whether anything was there.
    pub(crate) fn add(&mut self, mapping: &ExecutableMapping, file: Option<Arc<ElfFile>>) -> bool {
        if mapping.start >= mapping.end {
            return false;
        }
        let replaced = self.remove(mapping.start.0..mapping.end.0);
        let at = self.sorted.partition_point(|module| module.range.start < mapping.start.0);
        self.sorted.insert(at, Module::new(mapping, file));
        replaced
    }

    /// Cuts a range out. Mappings that reach over it keep what lies outside. Says whether anything was there.
    pub(crate) fn remove(&mut self, gone: Range<u64>) -> bool {
        if gone.is_empty() {
            return false;
        }
        let first = self.sorted.partition_point(|module| module.range.end <= gone.start);
        let after = self.sorted.partition_point(|module| module.range.start < gone.end);
        if first >= after {
            return false;
        }
        let touched: Vec<Module> = self.sorted.splice(first..after, std::iter::empty()).collect();
        let left = touched.first().filter(|module| module.range.start < gone.start).cloned();
        let right = touched.last().filter(|module| module.range.end > gone.end).cloned();
        // The bias is per file, not per start, so the pieces stay right.
        let left = left.map(|module| Module { range: module.range.start..gone.start, ..module });
        let right = right.map(|module| Module { range: gone.end..module.range.end, ..module });
        self.sorted.splice(first..first, left.into_iter().chain(right));
        true
    }

    pub(crate) fn find(&self, address: u64) -> Option<&Module> {
        self.find_below(address).filter(|module| address < module.range.end)
    }

    /// The same, or the nearest one below: that of the code which uses the data there.
    pub(crate) fn find_below(&self, address: u64) -> Option<&Module> {
        let after = self.sorted.partition_point(|module| module.range.start <= address);
        self.sorted.get(after.checked_sub(1)?)
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mapping(start: u64, end: u64, tag: u32) -> ExecutableMapping {
        ExecutableMapping { start: Avma(start), end: Avma(end), file_offset: FileOffset(0), tag }
    }

    fn layout(modules: &Modules) -> Vec<(u64, u64, u32)> {
        modules.sorted.iter().map(|module| (module.range.start, module.range.end, module.tag)).collect()
    }

    #[test]
    fn a_mapping_over_the_middle_leaves_both_ends() {
        let mut modules = Modules::default();
        assert!(!modules.add(&mapping(0x1000, 0x9000, 1), None));
        assert!(modules.add(&mapping(0x3000, 0x5000, 2), None));
        assert_eq!(layout(&modules), [(0x1000, 0x3000, 1), (0x3000, 0x5000, 2), (0x5000, 0x9000, 1)]);
        assert!(modules.remove(0x2000..0x8000));
        assert_eq!(layout(&modules), [(0x1000, 0x2000, 1), (0x8000, 0x9000, 1)]);
        assert!(!modules.remove(0x2000..0x8000));
        assert!(modules.find(0x1fff).is_some());
        assert!(modules.find(0x2000).is_none());
        assert!(modules.find(0).is_none());
    }

    #[test]
    fn neighbours_stay_and_an_empty_mapping_is_ignored() {
        let mut modules = Modules::default();
        modules.add(&mapping(0x2000, 0x3000, 2), None);
        modules.add(&mapping(0x1000, 0x2000, 1), None);
        modules.add(&mapping(0x5000, 0x5000, 3), None);
        modules.add(&mapping(0x6000, 0x5000, 4), None);
        assert_eq!(layout(&modules), [(0x1000, 0x2000, 1), (0x2000, 0x3000, 2)]);
    }

    const SLOTS: usize = 40;

    proptest! {
        /// Against a list of which mapping each address belongs to.
        #[test]
        fn any_order_of_mapping_and_unmapping_gives_what_each_address_says(
            steps in prop::collection::vec((any::<bool>(), 0..32_usize, 0..9_usize), 1..40),
        ) {
            let mut modules = Modules::default();
            let mut slots: [Option<u32>; SLOTS] = [None; SLOTS];
            for (tag, (is_mapped, start, length)) in (0..).zip(steps) {
                let (first, last) = (start as u64, (start + length) as u64);
                let touched = slots[start..start + length].iter().any(Option::is_some);
                let was_there = match is_mapped {
                    true => modules.add(&mapping(first, last, tag), None),
                    false => modules.remove(first..last),
                };
                prop_assert_eq!(was_there && length > 0, touched);
                slots[start..start + length].fill(is_mapped.then_some(tag));
                for (address, expected) in (0..).zip(slots) {
                    prop_assert_eq!(modules.find(address).map(Module::tag), expected, "address {}", address);
                }
                let pieces = layout(&modules);
                prop_assert!(pieces.windows(2).all(|two| two[0].1 <= two[1].0), "{:?}", pieces);
                prop_assert!(pieces.iter().all(|(start, end, _)| start < end), "{:?}", pieces);
            }
        }
    }
}
