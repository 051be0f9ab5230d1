//! From an address to the code it is in: ranges, then code maps (compiled at run time) or tables of functions (compiled ahead).
//!
//! Algorithms: `docs/design/datacontracts/ExecutionManager.md` of dotnet/runtime. 8 and 9 have what that document calls
//! version 1 of the map of code (nibbles only), 10 has version 2 (with pointers).

mod funclets;
mod nibbles;
mod ready;

use std::sync::Arc;

use biopsy_model::Avma;

pub(super) use ready::ReadyCode;

use super::{CodeKind, Memory, Method, MethodDesc, RuntimeError, UnwindInfo};
use crate::layout::{Layout, LayoutError};

/// Range sections of one part of the map.
const FRAGMENTS: usize = 4096;
/// Pieces of unwind information of one method: its body and funclets.
const UNWIND_INFOS: u32 = 100_000;

/// Offsets of what code is found by.
#[derive(Clone, Debug)]
pub(super) struct CodePlaces {
    root: u64,
    fragment_next: u64,
    fragment_begin: u64,
    fragment_end: u64,
    fragment_section: u64,
    begin: u64,
    end: u64,
    module: u64,
    heap: u64,
    heap_start: u64,
    heap_end: u64,
    map_base: u64,
    map: u64,
    header_method: u64,
    header_unwind_count: u64,
    header_unwind: u64,
    function_bytes: u64,
    function_begin: u64,
    function_unwind: u64,
    function_end: Option<u64>,
    stub_last: u64,
    pointers: bool,
    pub(super) ready: ready::ReadyPlaces,
}

impl CodePlaces {
    pub(super) fn of(layout: &Layout) -> Result<Self, LayoutError> {
        let must = |of: &str, field: &str| layout.field(of, field).map(u64::from);
        let may = |of: &str, field: &str| layout.find_field(of, field).map(u64::from);
        let fragment = |field| must("RangeSectionFragment", field);
        let section = |field| must("RangeSection", field);
        let heap = |field| must("CodeHeapListNode", field);
        Ok(Self {
            root: layout.global("ExecutionManagerCodeRangeMapAddress")?,
            fragment_next: fragment("Next")?,
            fragment_begin: fragment("RangeBegin")?,
            fragment_end: fragment("RangeEndOpen")?,
            fragment_section: fragment("RangeSection")?,
            begin: section("RangeBegin")?,
            end: section("RangeEndOpen")?,
            module: section("R2RModule")?,
            heap: section("HeapList")?,
            heap_start: heap("StartAddress")?,
            heap_end: heap("EndAddress")?,
            map_base: heap("MapBase")?,
            map: heap("HeaderMap")?,
            header_method: must("RealCodeHeader", "MethodDesc")?,
            header_unwind_count: must("RealCodeHeader", "NumUnwindInfos")?,
            header_unwind: must("RealCodeHeader", "UnwindInfos")?,
            function_bytes: layout.size("RuntimeFunction")?.into(),
            function_begin: must("RuntimeFunction", "BeginAddress")?,
            function_unwind: must("RuntimeFunction", "UnwindData")?,
            function_end: may("RuntimeFunction", "EndAddress"),
            stub_last: layout.find_global("StubCodeBlockLast").unwrap_or(0xf),
            pointers: layout.contract("ExecutionManager").unwrap_or(1) >= 2,
            ready: ready::ReadyPlaces::of(layout)?,
        })
    }
}

/// A range of addresses with code of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Module of code that was compiled ahead.
    pub(super) module: u64,
    /// Head of the list of code heaps; 0 for ranges of stubs.
    heap: u64,
}

/// The section that an address is in.
pub(super) fn section(
    memory: &Memory<'_>,
    places: &CodePlaces,
    ip: u64,
) -> Result<Option<Section>, RuntimeError> {
    // Five levels of 256 entries over bits 17 to 56; the root lies at the address itself. Bit 0 marks collectible parts.
    let mut table = places.root;
    for level in (0..5).rev() {
        let index = (ip >> 17 >> (8 * level)) & 0xff;
        table = memory.u64(table.wrapping_add(index * 8))? & !1;
        if table == 0 {
            return Ok(None);
        }
    }
    let mut fragment = table;
    for _ in 0..FRAGMENTS {
        let at = |offset: u64| memory.u64(fragment.wrapping_add(offset));
        if (at(places.fragment_begin)?..at(places.fragment_end)?).contains(&ip) {
            let section = at(places.fragment_section)?;
            let at = |offset: u64| memory.u64(section.wrapping_add(offset));
            return Ok(Some(Section {
                begin: at(places.begin)?,
                end: at(places.end)?,
                module: at(places.module)?,
                heap: at(places.heap)?,
            }));
        }
        fragment = at(places.fragment_next)? & !1;
        if fragment == 0 {
            return Ok(None);
        }
    }
    Err(RuntimeError::TooMany { what: "the list of code ranges", limit: FRAGMENTS as u64 })
}

/// Code that was compiled at run time.
pub(super) fn compiled(
    memory: &Memory<'_>,
    places: &CodePlaces,
    section: &Section,
    ip: u64,
) -> Result<Option<Method>, RuntimeError> {
    if section.heap == 0 {
        return Ok(None);
    }
    let heap = |offset: u64| memory.u64(section.heap.wrapping_add(offset));
    // Behind the end is room without code, whose last entry in the map is somebody else's.
    if ip < heap(places.heap_start)? || ip >= heap(places.heap_end)? {
        return Ok(None);
    }
    let (base, map) = (heap(places.map_base)?, heap(places.map)?);
    let Some(start) = nibbles::code_start(memory, base, map, places.pointers, ip)? else { return Ok(None) };
    let header = memory.u64(start.wrapping_sub(8))?;
    if header <= places.stub_last {
        return Ok(Some(Method {
            method_desc: None,
            code_start: Avma(start),
            code_end: None,
            kind: CodeKind::Stub((header & 0xff) as u8),
            tier: None,
            range_begin: Avma(section.begin),
            unwind: None,
            code_header: None,
        }));
    }
    let (unwind, end) = compiled_unwind(memory, places, section.begin, header, ip)?;
    if end.is_some_and(|end| ip >= end) {
        return Ok(None);
    }
    let method_desc = memory.u64(header.wrapping_add(places.header_method))?;
    Ok(Some(Method {
        method_desc: (method_desc != 0).then(|| method_desc.into()),
        code_start: Avma(start),
        code_end: end.map(Avma),
        kind: CodeKind::Jit,
        tier: None,
        range_begin: Avma(section.begin),
        unwind,
        code_header: Some(Avma(header)),
    }))
}

/// The unwind information for `ip` of a method with this code header, and where the method's code ends.
fn compiled_unwind(
    memory: &Memory<'_>,
    places: &CodePlaces,
    range_begin: u64,
    header: u64,
    ip: u64,
) -> Result<(Option<UnwindInfo>, Option<u64>), RuntimeError> {
    let count = memory.u32(header.wrapping_add(places.header_unwind_count))?;
    if count > UNWIND_INFOS {
        return Err(RuntimeError::TooMany {
            what: "unwind information of a method",
            limit: UNWIND_INFOS.into(),
        });
    }
    let first = header.wrapping_add(places.header_unwind);
    let mut found: Option<UnwindInfo> = None;
    let mut last = None;
    for number in 0..u64::from(count) {
        let function = first.wrapping_add(number * places.function_bytes);
        let part = |offset: u64| memory.u32(function.wrapping_add(offset)).map(u64::from);
        let start = range_begin.wrapping_add(part(places.function_begin)?);
        let end = match places.function_end {
            Some(offset) => range_begin.wrapping_add(part(offset)?),
            None => 0,
        };
        last = last.max((end > 0).then_some(end));
        if start <= ip && found.is_none_or(|found| start >= found.start.0) {
            let address = Avma(range_begin.wrapping_add(part(places.function_unwind)?));
            found = Some(UnwindInfo { start: Avma(start), end: Avma(end), address });
        }
    }
    Ok((found, last))
}

/// Code that was compiled ahead, and whether it is surely that.
pub(super) fn ahead(section: &Section, ready: &Arc<ReadyCode>, ip: u64) -> Option<(Method, bool)> {
    let found = ready.find(ip)?;
    let method = Method {
        method_desc: (found.method_desc != 0).then(|| MethodDesc::from(found.method_desc)),
        code_start: Avma(found.start),
        code_end: found.end.map(Avma),
        kind: CodeKind::ReadyToRun,
        tier: Some(super::Tier::ReadyToRun),
        range_begin: Avma(section.begin),
        unwind: Some(found.unwind),
        code_header: None,
    };
    Some((method, found.sure))
}
