//! How large objects of a type are and where they hold references.
//!
//! Below the method table lies its GCDesc (`gcdesc.h` of dotnet/runtime), growing downwards. A positive count: so many series,
//! each a start and a length less the size of the object. A negative count: the object is an array of structs, and a pattern of
//! so many items (words that are references, bytes to skip) repeats for each element.

use biopsy_image::{Image, MemoryExt};

use super::Problem;
use crate::layout::{Layout, LayoutError};

/// Bytes of the smallest object: header, method table, one word.
pub(super) const SMALLEST: u64 = 24;
/// Largest size of an object without elements that is believed.
const MOST_BASE: u32 = 1 << 28;
/// Most series or items that are believed. Instance fields are fewer than 2^16.
const MOST_SERIES: u64 = 1 << 16;
/// Places for references in objects of one type, or in one element, beyond which they get no names.
const MOST_NAMED: u64 = 4096;
/// `enum_flag_HasComponentSize`.
const HAS_COMPONENT_SIZE: u32 = 0x8000_0000;
/// `enum_flag_ContainsGCPointers`.
const CONTAINS_POINTERS: u32 = 0x0100_0000;

/// Where all objects of a type hold references.
#[derive(Clone, Debug)]
pub(crate) struct ReferencePlaces {
    /// From an object's address, or from the beginning of an element.
    pub(crate) offsets: Vec<u64>,
    /// Of each element of an array.
    pub(crate) repeats: bool,
}

/// What the heap walk knows of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) base_size: u32,
    pub(super) component_size: u16,
    pub(super) is_collectible: bool,
    references: References,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum References {
    None,
    /// Start, and length less the object's size.
    Series(Box<[(u64, i64)]>),
    /// Start, then pairs of words and bytes to skip, for each element.
    Repeating {
        start: u64,
        items: Box<[(u32, u32)]>,
    },
}

/// Where a method table keeps its flags and its size, and which flag says that it can be unloaded, from the layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) flags: u64,
    pub(super) base_size: u64,
    pub(super) collectible: u32,
}

impl Offsets {
    pub(super) fn of(layout: &Layout) -> Result<Self, LayoutError> {
        Ok(Self {
            flags: layout.field("MethodTable", "MTFlags")?.into(),
            base_size: layout.field("MethodTable", "BaseSize")?.into(),
            collectible: layout.collectible_flag(),
        })
    }
}

impl Shape {
    /// Reads the shape of a type; an error says that there is no method table.
    pub(super) fn read(image: &dyn Image, offsets: Offsets, method_table: u64) -> Result<Self, Problem> {
        let missing = |_| Problem::NoMethodTable;
        if method_table == 0 || !method_table.is_multiple_of(8) {
            return Err(Problem::NoMethodTable);
        }
        let flags = image.read_u32(method_table.wrapping_add(offsets.flags)).map_err(missing)?;
        let base_size = image.read_u32(method_table.wrapping_add(offsets.base_size)).map_err(missing)?;
        if !(16..MOST_BASE).contains(&base_size) {
            return Err(Problem::NoMethodTable);
        }
        let component_size = if flags & HAS_COMPONENT_SIZE != 0 { (flags & 0xffff) as u16 } else { 0 };
        let references = if flags & CONTAINS_POINTERS != 0 {
            References::read(image, method_table)?
        } else {
            References::None
        };
        Ok(Self { base_size, component_size, is_collectible: flags & offsets.collectible != 0, references })
    }

    /// Size in bytes of an object with this many elements, not rounded up.
    #[inline]
    pub(super) fn size(&self, elements: u32) -> u64 {
        (u64::from(self.base_size) + u64::from(self.component_size) * u64::from(elements)).max(SMALLEST)
    }

    /// Whether objects hold references.
    #[inline]
    pub(super) fn has_references(&self) -> bool {
        !matches!(self.references, References::None)
    }

    /// The places of references that every object, or every element, has; `None`: how many there are depends on the object, or there are none.
    pub(super) fn places(&self) -> Option<ReferencePlaces> {
        match &self.references {
            References::Series(_) if self.component_size == 0 => {
                let mut offsets = Vec::new();
                let good = self.for_each_run(u64::from(self.base_size), |start, words| {
                    let room = MOST_NAMED.saturating_sub(offsets.len() as u64);
                    offsets.extend((0..words.min(room)).map(|word| start + word * 8));
                });
                (good && (offsets.len() as u64) < MOST_NAMED)
                    .then_some(ReferencePlaces { offsets, repeats: false })
            }
            References::Repeating { items, .. } => {
                let mut offsets = Vec::new();
                let mut at = 0_u64;
                for (words, skip) in items {
                    let room = MOST_NAMED.saturating_sub(offsets.len() as u64);
                    offsets.extend((0..u64::from(*words).min(room)).map(|word| at + word * 8));
                    at += u64::from(*words) * 8 + u64::from(*skip);
                }
                let whole = at == u64::from(self.component_size);
                (whole && (offsets.len() as u64) < MOST_NAMED)
                    .then_some(ReferencePlaces { offsets, repeats: true })
            }
            References::None | References::Series(_) => None,
        }
    }

    /// Calls `each` with each run of references in an object of `size` bytes: offset from the object's address, and how many.
    /// `false`: some would lie outside of the object and were left out.
    #[inline]
    pub(super) fn for_each_run(&self, size: u64, mut each: impl FnMut(u64, u64)) -> bool {
        // The header lies before the object's address, so its last field ends 8 bytes earlier.
        let end = size.saturating_sub(8);
        match &self.references {
            References::None => true,
            References::Series(series) => {
                let mut good = true;
                for (start, length) in series {
                    let length = i64::try_from(size).unwrap_or(i64::MAX).saturating_add(*length);
                    match u64::try_from(length) {
                        Ok(length) if start.saturating_add(length) <= end => each(*start, length / 8),
                        Ok(_) | Err(_) => good = false,
                    }
                }
                good
            }
            References::Repeating { start, items } => {
                let mut at = *start;
                while at < end {
                    for (words, skip) in items {
                        let bytes = u64::from(*words) * 8;
                        if at + bytes > end {
                            return false;
                        }
                        each(at, u64::from(*words));
                        at += bytes + u64::from(*skip);
                    }
                }
                true
            }
        }
    }
}

impl References {
    fn read(image: &dyn Image, method_table: u64) -> Result<Self, Problem> {
        let below = |bytes: u64| method_table.wrapping_sub(bytes);
        let missing = |_| Problem::BadReferences;
        let count = image.read_u64(below(8)).map_err(missing)?.cast_signed();
        let many = count.unsigned_abs();
        if many == 0 || many > MOST_SERIES {
            return Err(Problem::BadReferences);
        }
        if count > 0 {
            let mut bytes = vec![0; many as usize * 16];
            image.read_exact(below(8 + many * 16), &mut bytes).map_err(missing)?;
            let series = bytes.as_chunks::<16>().0.iter().rev().map(|pair| {
                let (length, start) = halves(pair);
                (start, length.cast_signed())
            });
            return Ok(Self::Series(series.collect()));
        }
        let start = image.read_u64(below(16)).map_err(missing)?;
        let mut bytes = vec![0; many as usize * 8];
        image.read_exact(below(16 + many * 8), &mut bytes).map_err(missing)?;
        let items: Box<[(u32, u32)]> =
            bytes.as_chunks::<8>().0.iter().rev().map(|pair| words(*pair)).collect();
        let step: u64 = items.iter().map(|(words, skip)| u64::from(*words) * 8 + u64::from(*skip)).sum();
        // A pattern of no length would never reach the end of an array.
        if step == 0 || start > u64::from(MOST_BASE) {
            return Err(Problem::BadReferences);
        }
        Ok(Self::Repeating { start, items })
    }
}

fn halves(pair: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*pair);
    (both as u64, (both >> 64) as u64)
}

fn words(pair: [u8; 8]) -> (u32, u32) {
    let both = u64::from_le_bytes(pair);
    (both as u32, (both >> 32) as u32)
}
