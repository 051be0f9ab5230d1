//! Code that was compiled ahead (ReadyToRun): tables of functions in the image of an assembly, and the runtime's map from the
//! start of a function to its method.

use std::ops::Range;
use std::sync::Arc;

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::super::{Memory, RuntimeError, UnwindInfo};
use super::funclets;
use crate::layout::{Layout, LayoutError};

/// Functions of one image: System.Private.CoreLib has 60,000, composite images of the whole framework some 600,000.
const FUNCTIONS: u32 = 4 << 20;
/// Buckets of the map from functions to methods.
const BUCKETS: u64 = 4 << 20;
/// Bytes of a bucket and of an entry of the table of functions: they have 64 and 8 or 12.
const ROW: u64 = 256;
/// Bytes that are read at once.
const STEP: usize = 1 << 20;

/// Offsets of what belongs to code compiled ahead.
#[derive(Clone, Debug)]
pub(in super::super) struct ReadyPlaces {
    pub(in super::super) info: Option<u64>,
    pub(in super::super) composite: u64,
    pub(in super::super) functions: u64,
    pub(in super::super) count: u64,
    pub(in super::super) map: Option<u64>,
    pub(in super::super) buckets: u64,
    hot_cold: Option<(u64, u64)>,
    function_bytes: u64,
    function_begin: u64,
    function_unwind: u64,
    function_end: Option<u64>,
    bucket_bytes: u64,
    keys: u64,
    values: u64,
    slots: u64,
    value_mask: u64,
}

impl ReadyPlaces {
    pub(super) fn of(layout: &Layout) -> Result<Self, LayoutError> {
        let must = |of: &str, field: &str| layout.field(of, field).map(u64::from);
        let may = |of: &str, field: &str| layout.find_field(of, field).map(u64::from);
        let info = |field| must("ReadyToRunInfo", field);
        // A count is of rows: what a descriptor says of their size must not multiply it.
        let row = |of: &str| layout.size(of).map(|bytes| u64::from(bytes).clamp(1, ROW));
        Ok(Self {
            info: may("Module", "ReadyToRunInfo"),
            composite: info("CompositeInfo")?,
            functions: info("RuntimeFunctions")?,
            count: info("NumRuntimeFunctions")?,
            map: may("ReadyToRunInfo", "EntryPointToMethodDescMap"),
            buckets: must("HashMap", "Buckets")?,
            hot_cold: may("ReadyToRunInfo", "HotColdMap").zip(may("ReadyToRunInfo", "NumHotColdMap")),
            function_bytes: row("RuntimeFunction")?,
            function_begin: must("RuntimeFunction", "BeginAddress")?,
            function_unwind: must("RuntimeFunction", "UnwindData")?,
            function_end: may("RuntimeFunction", "EndAddress"),
            bucket_bytes: row("Bucket")?,
            keys: must("Bucket", "Keys")?,
            values: must("Bucket", "Values")?,
            slots: layout.find_global("HashMapSlotsPerBucket").unwrap_or(4).min(16),
            value_mask: layout.find_global("HashMapValueMask").unwrap_or(i64::MAX.cast_unsigned()),
        })
    }
}

/// A function that was found.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ReadyFunction {
    pub(super) method_desc: u64,
    pub(super) start: u64,
    pub(super) end: Option<u64>,
    pub(super) unwind: UnwindInfo,
    /// It is the method's, and not only the nearest before.
    pub(super) sure: bool,
}

/// A piece of code: a method's body, a funclet, or a cold part.
#[derive(Clone, Copy, Debug)]
struct Piece {
    begin: u32,
    /// 0 where the runtime does not say.
    end: u32,
    unwind: u32,
}

/// What does not change of an image.
#[derive(Debug)]
struct Pieces {
    base: u64,
    /// Behind the last byte of the image.
    end: u64,
    /// Where the table of functions is, and how many it has.
    table: (u64, u32),
    /// By start.
    functions: Vec<Piece>,
    /// Pairs of function numbers: a cold part and the hot part it belongs to, by cold part.
    hot_cold: Vec<(u32, u32)>,
    /// Relative start of each handler, and of the method it belongs to; `None` where the image does not say.
    funclets: Option<Vec<(u32, u32)>>,
}

/// The code of one image.
#[derive(Debug)]
pub(in super::super) struct ReadyCode {
    pieces: Arc<Pieces>,
    /// First address to method, for all methods that have been called.
    methods: FxHashMap<u64, u64>,
    /// Parts of the map are not in the image: the nearest method before may be another one.
    is_partial: bool,
}

impl ReadyCode {
    /// Reads the tables of the image that `module` is in, whose section is `base..end`; what does not change is taken from what was
    /// read `before`.
    pub(in super::super) fn read(
        memory: &Memory<'_>,
        places: &ReadyPlaces,
        module: u64,
        (base, end): (u64, u64),
        before: Option<&Self>,
    ) -> Result<Self, RuntimeError> {
        let info = places.info.ok_or_else(|| missing("Module", "ReadyToRunInfo"))?;
        let map = places.map.ok_or_else(|| missing("ReadyToRunInfo", "EntryPointToMethodDescMap"))?;
        let info = memory.u64(module.wrapping_add(info))?;
        let composite = memory.u64(info.wrapping_add(places.composite))?;
        let table = memory.u64(composite.wrapping_add(places.functions))?;
        let count = memory.u32(composite.wrapping_add(places.count))?;
        // Another image may have come to the place of one that was unloaded.
        let pieces = match before.map(|before| &before.pieces) {
            Some(pieces) if pieces.table == (table, count) && pieces.end == end => Arc::clone(pieces),
            _ => Arc::new(Pieces::read(memory, places, composite, (table, count), base..end)?),
        };
        let mut code = Self { pieces, methods: FxHashMap::default(), is_partial: false };
        code.read_map(memory, places, composite.wrapping_add(map))?;
        Ok(code)
    }

    /// A map has grown: read it again. Methods come into it when they are first called.
    fn read_map(&mut self, memory: &Memory<'_>, places: &ReadyPlaces, map: u64) -> Result<(), RuntimeError> {
        let buckets = memory.u64(map.wrapping_add(places.buckets))?;
        let count = memory.u64(buckets)?;
        if count > BUCKETS {
            return Err(RuntimeError::TooMany { what: "methods of an image", limit: BUCKETS });
        }
        let size = usize::try_from(places.bucket_bytes).unwrap_or(64);
        // The first bucket holds how many there are.
        let mut at = buckets.wrapping_add(places.bucket_bytes);
        let mut left = usize::try_from(count).unwrap_or(0);
        while left > 0 {
            let some = left.min((STEP / size).max(1));
            let mut bytes = vec![0; some * size];
            match memory.read_bulk(at, &mut bytes) {
                Ok(()) => {}
                // Excerpts have what their writer asked for, page by page. What is not there is zeros, which say nothing.
                Err(error) if error.is_missing() => {
                    self.is_partial = true;
                    read_pages(memory, at, &mut bytes);
                }
                Err(error) => return Err(error.into()),
            }
            for bucket in bytes.chunks_exact(size) {
                self.take_bucket(places, bucket);
            }
            at = at.wrapping_add((some * size) as u64);
            left -= some;
        }
        Ok(())
    }

    fn take_bucket(&mut self, places: &ReadyPlaces, bucket: &[u8]) {
        let word = |at: u64| {
            let at = usize::try_from(at).ok()?;
            bucket.get(at..)?.first_chunk::<8>().map(|eight| u64::from_le_bytes(*eight))
        };
        for slot in 0..places.slots {
            let (Some(key), Some(value)) = (word(places.keys + slot * 8), word(places.values + slot * 8))
            else {
                return;
            };
            // 0 is empty, 1 is deleted. Values are shifted: the topmost bit marks collisions.
            if key > 1 {
                self.methods.insert(key, (value & places.value_mask) << 1);
            }
        }
    }

    /// The function that an address is in; `None` when it is in none, or in one that was never called, which belongs to no method
    /// yet.
    pub(in super::super) fn find(&self, ip: u64) -> Option<ReadyFunction> {
        let pieces = &*self.pieces;
        let relative = u32::try_from(ip.checked_sub(pieces.base)?).ok()?;
        if ip >= pieces.end {
            return None;
        }
        let number = pieces.functions.partition_point(|piece| piece.begin <= relative).checked_sub(1)?;
        let piece = *pieces.functions.get(number)?;
        if piece.end != 0 && relative >= piece.end {
            return None;
        }
        let next = pieces.functions.get(number + 1).map_or(0, |next| pieces.base + u64::from(next.begin));
        let behind = if piece.end == 0 { next } else { pieces.base + u64::from(piece.end) };
        let unwind = UnwindInfo {
            start: Avma(pieces.base + u64::from(piece.begin)),
            end: Avma(next),
            address: Avma(pieces.base.wrapping_add(u64::from(piece.unwind))),
        };
        let method_at = |begin: u32| {
            let start = pieces.base + u64::from(begin);
            Some((*self.methods.get(&start)?, start))
        };
        if let Some((method_desc, start)) = method_at(piece.begin) {
            let end = Some(behind).filter(|&end| end != 0);
            return Some(ReadyFunction { method_desc, start, end, unwind, sure: true });
        }
        let cold = u32::try_from(number).ok()?;
        let split = pieces.hot_cold.binary_search_by_key(&cold, |&(cold, _)| cold).ok();
        if split.is_none()
            && let Some(funclets) = &pieces.funclets
        {
            let at = funclets.binary_search_by_key(&piece.begin, |&(start, _)| start).ok()?;
            let (method_desc, start) = method_at(funclets.get(at)?.1)?;
            return Some(ReadyFunction { method_desc, start, end: None, unwind, sure: true });
        }
        if self.is_partial {
            return None;
        }
        // Funclets, and cold parts, come behind the body they belong to; only the body is in the map.
        let mut at = match split {
            Some(split) => pieces.hot_cold.get(split)?.1 as usize,
            None => number,
        };
        loop {
            if let Some((method_desc, start)) = method_at(pieces.functions.get(at)?.begin) {
                return Some(ReadyFunction { method_desc, start, end: None, unwind, sure: false });
            }
            at = at.checked_sub(1)?;
        }
    }
}

impl Pieces {
    fn read(
        memory: &Memory<'_>,
        places: &ReadyPlaces,
        composite: u64,
        (table, count): (u64, u32),
        image: Range<u64>,
    ) -> Result<Self, RuntimeError> {
        if count > FUNCTIONS {
            return Err(RuntimeError::TooMany { what: "functions of an image", limit: FUNCTIONS.into() });
        }
        let functions = read_functions(memory, places, table, count)?;
        let mut hot_cold = Vec::new();
        if let Some((place, count)) = places.hot_cold {
            // Two numbers for each method that was split; no table where none was.
            let count = memory.u32(composite.wrapping_add(count)).unwrap_or(0).min(FUNCTIONS);
            let table = memory.u64(composite.wrapping_add(place)).unwrap_or(0);
            let mut bytes = vec![0; count as usize * 4];
            if table != 0 && memory.read_bulk(table, &mut bytes).is_ok() {
                let words = bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four));
                let words: Vec<_> = words.collect();
                hot_cold = words.as_chunks::<2>().0.iter().map(|[cold, hot]| (*cold, *hot)).collect();
            }
        }
        let funclets = funclets::read(memory, image.start);
        Ok(Self { base: image.start, end: image.end, table: (table, count), functions, hot_cold, funclets })
    }
}

/// Reads the pages that are there.
fn read_pages(memory: &Memory<'_>, address: u64, bytes: &mut [u8]) {
    const PAGE: u64 = 4096;
    let mut at = address;
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = usize::try_from(PAGE - at % PAGE).unwrap_or(usize::MAX).min(rest.len());
        let (page, behind) = rest.split_at_mut(length);
        if memory.read_bulk(at, page).is_err() {
            page.fill(0);
        }
        at = at.wrapping_add(length as u64);
        rest = behind;
    }
}

fn read_functions(
    memory: &Memory<'_>,
    places: &ReadyPlaces,
    address: u64,
    count: u32,
) -> Result<Vec<Piece>, RuntimeError> {
    let size = usize::try_from(places.function_bytes).unwrap_or(12);
    let mut functions = Vec::new();
    let mut at = address;
    let mut left = count as usize;
    while left > 0 {
        let some = left.min((STEP / size).max(1));
        let mut bytes = vec![0; some * size];
        memory.read_bulk(at, &mut bytes)?;
        for function in bytes.chunks_exact(size) {
            let word = |at: u64| {
                let four = function.get(usize::try_from(at).ok()?..)?.first_chunk::<4>()?;
                Some(u32::from_le_bytes(*four))
            };
            let (Some(begin), Some(unwind)) = (word(places.function_begin), word(places.function_unwind))
            else {
                break;
            };
            let end = places.function_end.and_then(word).filter(|&end| end > begin).unwrap_or(0);
            functions.push(Piece { begin, end, unwind });
        }
        at = at.wrapping_add((some * size) as u64);
        left -= some;
    }
    // Sorted in every real image; the search relies on it.
    if !functions.is_sorted_by_key(|piece| piece.begin) {
        functions.sort_unstable_by_key(|piece| piece.begin);
    }
    Ok(functions)
}

fn missing(type_name: &str, field: &str) -> LayoutError {
    LayoutError::NoField { type_name: type_name.to_string(), field: field.to_string() }
}
