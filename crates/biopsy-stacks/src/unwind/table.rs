//! The DWARF call frame information of one file, and how to find the row for an address in it.

use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, FrameDescriptionEntry, LittleEndian,
    UnwindContext, UnwindSection,
};

use super::rule::{Rule, Slice};

pub(crate) type Context = UnwindContext<usize>;

/// No function needs a megabyte of unwind instructions; executing one would take a noticeable time.
const ENTRY_BYTES: usize = 1 << 20;

/// Unwind information of one file.
#[derive(Debug, Default)]
pub(crate) struct UnwindTable {
    kind: Kind,
    section: Vec<u8>,
    index: Index,
    bases: BaseAddresses,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Kind {
    #[default]
    None,
    EhFrame,
    DebugFrame,
}

/// Sorted by address: which entry covers it.
#[derive(Debug, Default)]
enum Index {
    #[default]
    None,
    /// `.eh_frame_hdr`, as it stands in the file.
    File(Vec<u8>),
    /// (first address where it counts, offset of the entry), made by reading every entry once.
    Built(Vec<(u64, u32)>),
}

impl UnwindTable {
    /// From the bytes of a section. `header`: `.eh_frame_hdr`; where there is none, or it is of no use, an index is built.
    pub(crate) fn new(kind: Kind, section: Vec<u8>, header: Option<Vec<u8>>, bases: BaseAddresses) -> Self {
        let mut table = Self { kind, section, index: Index::None, bases };
        let usable = header.filter(|header| {
            let parsed = EhFrameHdr::new(header, LittleEndian).parse(&table.bases, 8);
            // A search multiplies the number of entries that the header claims, whatever it is.
            let fits = |claimed: Option<usize>| claimed.is_some_and(|claimed| claimed <= header.len());
            parsed.is_ok_and(|parsed| {
                parsed.table().is_some_and(|rows| fits(rows.iter(&table.bases).size_hint().1))
            })
        });
        table.index = match usable {
            Some(header) => Index::File(header),
            None if kind == Kind::EhFrame => Index::Built(entries(&table.eh_frame(), &table.bases)),
            None => Index::Built(entries(&table.debug_frame(), &table.bases)),
        };
        table
    }

    /// It has no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.kind == Kind::None || self.section.is_empty()
    }

    fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.section, LittleEndian);
        section.set_address_size(8);
        section
    }

    fn debug_frame(&self) -> DebugFrame<Slice<'_>> {
        let mut section = DebugFrame::new(&self.section, LittleEndian);
        section.set_address_size(8);
        section
    }

    /// The rule for code at `svma`; `Rule::Nothing` when no entry covers it.
    pub(crate) fn rule(&self, context: &mut Context, svma: u64) -> Rule {
        match self.kind {
            Kind::None => Rule::Nothing,
            Kind::EhFrame => self.rule_in(&self.eh_frame(), context, svma),
            Kind::DebugFrame => self.rule_in(&self.debug_frame(), context, svma),
        }
    }

    fn rule_in<'a, S: UnwindSection<Slice<'a>>>(&self, section: &S, context: &mut Context, svma: u64) -> Rule
    where
        S::Offset: gimli::UnwindOffset<usize>,
    {
        let Some(entry) = self.entry(section, svma) else { return Rule::Nothing };
        match entry.unwind_info_for_address(section, &self.bases, context, svma) {
            Ok(row) => Rule::from_row(row, &entry),
            Err(_) => Rule::Nothing,
        }
    }

    /// First address of the function around `svma`, whether it has a name or not.
    pub(crate) fn function_start(&self, svma: u64) -> Option<u64> {
        let entry = match self.kind {
            Kind::None => None,
            Kind::EhFrame => self.entry(&self.eh_frame(), svma),
            Kind::DebugFrame => self.entry(&self.debug_frame(), svma),
        };
        entry.map(|entry| entry.initial_address())
    }

    /// The function around `svma`, as far as its unwind information covers it.
    pub(crate) fn function(&self, svma: u64) -> Option<FunctionRange> {
        match self.kind {
            Kind::None => None,
            Kind::EhFrame => self.entry(&self.eh_frame(), svma).map(|entry| range(&entry)),
            Kind::DebugFrame => self.entry(&self.debug_frame(), svma).map(|entry| range(&entry)),
        }
    }

    /// The code at `svma` is what a signal handler returns to.
    pub(crate) fn is_signal_trampoline(&self, svma: u64) -> bool {
        self.kind == Kind::EhFrame
            && self.entry(&self.eh_frame(), svma).is_some_and(|entry| entry.is_signal_trampoline())
    }

    /// Calls `evaluate` with the row for `svma`, for what does not fit a `Rule`.
    pub(crate) fn with_row<T>(
        &self,
        context: &mut Context,
        svma: u64,
        evaluate: impl RowEvaluator<T>,
    ) -> Option<T> {
        match self.kind {
            Kind::None => None,
            Kind::EhFrame => self.with_row_in(&self.eh_frame(), context, svma, evaluate),
            Kind::DebugFrame => self.with_row_in(&self.debug_frame(), context, svma, evaluate),
        }
    }

    fn with_row_in<'a, S: UnwindSection<Slice<'a>>, T>(
        &self,
        section: &S,
        context: &mut Context,
        svma: u64,
        evaluate: impl RowEvaluator<T>,
    ) -> Option<T> {
        let entry = self.entry(section, svma)?;
        let row = entry.unwind_info_for_address(section, &self.bases, context, svma).ok()?;
        evaluate.evaluate(section, row, &entry)
    }

    fn entry<'a, S: UnwindSection<Slice<'a>>>(
        &self,
        section: &S,
        svma: u64,
    ) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        let offset = match &self.index {
            Index::None => return None,
            Index::File(header) => {
                let header = EhFrameHdr::new(header, LittleEndian).parse(&self.bases, 8).ok()?;
                let table = header.table()?;
                let entry = table.lookup(svma, &self.bases).ok()?.direct().ok()?;
                usize::try_from(entry.checked_sub(self.bases.eh_frame.section?)?).ok()?
            }
            Index::Built(entries) => {
                let after = entries.partition_point(|(start, _)| *start <= svma);
                entries.get(after.checked_sub(1)?)?.1 as usize
            }
        };
        let entry = section.fde_from_offset(&self.bases, S::Offset::from(offset), S::cie_from_offset).ok()?;
        (entry.contains(svma) && entry.entry_len() <= ENTRY_BYTES && entry.cie().entry_len() <= ENTRY_BYTES)
            .then_some(entry)
    }
}

/// A function, or a part of one that was split; stated addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FunctionRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Its table of call sites (LSDA): what is to be done where a call throws.
    pub(crate) sites: Option<u64>,
}

fn range(entry: &FrameDescriptionEntry<Slice<'_>>) -> FunctionRange {
    let start = entry.initial_address();
    let sites = entry.lsda().and_then(|pointer| match pointer {
        gimli::Pointer::Direct(svma) => Some(svma),
        gimli::Pointer::Indirect(_) => None,
    });
    FunctionRange { start, end: start.saturating_add(entry.len()), sites }
}

/// A closure over all section types: rows carry expressions that lie in their section.
pub(crate) trait RowEvaluator<T> {
    fn evaluate<'a, S: UnwindSection<Slice<'a>>>(
        self,
        section: &S,
        row: &gimli::UnwindTableRow<usize>,
        entry: &FrameDescriptionEntry<Slice<'a>>,
    ) -> Option<T>;
}

/// Reads all entries in order: from which address on which one counts. Stops at the first damaged one and keeps those before it.
fn entries<'a, S: UnwindSection<Slice<'a>>>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(entry) = partial.parse(S::cie_from_offset) else { continue };
        let Ok(offset) = u32::try_from(entry.offset()) else { break };
        // Of a function that the linker dropped, nothing is left.
        if entry.len() > 0 {
            let start = entry.initial_address();
            found.push((start, start.saturating_add(entry.len()), offset));
        }
    }
    innermost(found)
}

/// Where ranges (start, end, whose) overlap, the one that begins last counts, and the one around it again behind it. What is in none
/// follows some range all the same.
fn innermost(mut ranges: Vec<(u64, u64, u32)>) -> Vec<(u64, u32)> {
    ranges.sort_unstable_by_key(|&(start, end, offset)| (start, std::cmp::Reverse(end), offset));
    let mut counts: Vec<(u64, u32)> = Vec::with_capacity(ranges.len());
    let mut open: Vec<(u64, u32)> = Vec::new();
    let behind_all = (u64::MAX, u64::MAX, 0);
    for (start, end, offset) in ranges.into_iter().chain([behind_all]) {
        while let Some(&(over, _)) = open.last().filter(|(over, _)| *over <= start) {
            open.truncate(open.iter().rposition(|(end, _)| *end > over).map_or(0, |last| last + 1));
            if let Some(&(_, around)) = open.last().filter(|_| over < start) {
                counts.push((over, around));
            }
        }
        if start < end {
            open.push((end, offset));
            counts.push((start, offset));
        }
    }
    counts
}

#[cfg(test)]
mod overlap_tests;
#[cfg(test)]
mod tests;
