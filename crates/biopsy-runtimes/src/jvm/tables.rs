//! The tables that HotSpot exports about itself: offsets of fields, addresses of variables, sizes of types, constants.
//!
//! `libjvm.so` exports arrays for its own serviceability agent (`src/hotspot/share/runtime/vmStructs.hpp`): each row names a type
//! and a field in C strings, and the strides and the places of columns are exported variables too. They survive stripping. What
//! a row says is believed only as far as it is small: an offset is bounded, a name is short, a table ends.

use biopsy_elf::{Dynamic, MappedElf};
use rustc_hash::FxHashMap;

use crate::Memory;

/// Rows of one table that are read; version 21 has some 1,600 in the largest.
const ROWS: u64 = 16_384;
/// Bytes of a name; the longest of version 25 has 78.
const NAME: usize = 200;
/// Bytes of a row; they have 16 to 48.
const STRIDE: u64 = 256;
/// The largest offset of a field or size of a type; `JavaThread` has 2,216 bytes in version 25.
const OFFSET: u64 = 1 << 20;
/// Types above a type, as far as fields are looked for.
const PARENTS: usize = 16;

/// What the tables say, by name.
#[derive(Clone, Default, Debug)]
pub(super) struct Tables {
    fields: FxHashMap<Box<str>, FxHashMap<Box<str>, u64>>,
    variables: FxHashMap<Box<str>, FxHashMap<Box<str>, u64>>,
    types: FxHashMap<Box<str>, (u64, Option<Box<str>>)>,
    constants: FxHashMap<Box<str>, i64>,
}

/// The exported variables that say where a table is and how its rows look.
struct Exports<'a> {
    memory: &'a Memory<'a>,
    elf: &'a MappedElf<'a>,
    dynamic: &'a Dynamic,
}

impl Exports<'_> {
    /// The value of an exported variable of 8 bytes.
    fn value(&self, name: &str) -> Option<u64> {
        let (address, _) = self.elf.symbol(self.dynamic, name.as_bytes())?;
        self.memory.u64(address)
    }

    /// Where a column is in a row.
    fn column(&self, name: &str) -> Option<u64> {
        self.value(name).filter(|offset| *offset < STRIDE)
    }

    fn stride(&self, name: &str) -> Option<u64> {
        self.value(name).filter(|stride| (8..=STRIDE).contains(stride))
    }

    /// The text that a column of a row points to.
    fn text(&self, row: u64, column: u64) -> Option<Box<str>> {
        let at = self.memory.u64(row.checked_add(column)?).filter(|at| *at != 0)?;
        let text = self.memory.c_string(at, NAME)?;
        // A name that is cut is nobody's.
        (text.len() < NAME).then(|| text.into())
    }
}

/// The rows of a table, until one has no name.
fn rows(exports: &Exports<'_>, start: u64, stride: u64, name: u64) -> impl Iterator<Item = (u64, Box<str>)> {
    let row = move |number: u64| {
        let at = start.checked_add(number.checked_mul(stride)?)?;
        exports.text(at, name).map(|text| (at, text))
    };
    (0..ROWS).map_while(row)
}

impl Tables {
    /// From the library that is mapped; `None` where it exports no tables, or they are not in the image.
    pub(super) fn read(memory: &Memory<'_>, elf: &MappedElf<'_>, dynamic: &Dynamic) -> Option<Self> {
        let exports = Exports { memory, elf, dynamic };
        let mut tables = Self::default();
        tables.read_fields(&exports)?;
        tables.read_types(&exports)?;
        tables.read_constants(&exports, "Int");
        tables.read_constants(&exports, "Long");
        Some(tables)
    }

    fn read_fields(&mut self, exports: &Exports<'_>) -> Option<()> {
        let column = |name: &str| exports.column(&format!("gHotSpotVMStructEntry{name}"));
        let (type_name, field_name) = (column("TypeNameOffset")?, column("FieldNameOffset")?);
        let (is_static, offset, address) =
            (column("IsStaticOffset")?, column("OffsetOffset")?, column("AddressOffset")?);
        let stride = exports.stride("gHotSpotVMStructEntryArrayStride")?;
        let start = exports.value("gHotSpotVMStructs")?;
        for (row, owner) in rows(exports, start, stride, type_name) {
            let Some(name) = exports.text(row, field_name) else { continue };
            let value = |column| exports.memory.u64(row.wrapping_add(column));
            let of_class = exports.memory.u32(row.wrapping_add(is_static)).unwrap_or(0) != 0;
            let found = if of_class { value(address) } else { value(offset).filter(|value| *value < OFFSET) };
            let Some(found) = found else { continue };
            let into = if of_class { &mut self.variables } else { &mut self.fields };
            into.entry(owner).or_default().entry(name).or_insert(found);
        }
        Some(())
    }

    fn read_types(&mut self, exports: &Exports<'_>) -> Option<()> {
        let column = |name: &str| exports.column(&format!("gHotSpotVMTypeEntry{name}"));
        let (name, parent, size) =
            (column("TypeNameOffset")?, column("SuperclassNameOffset")?, column("SizeOffset")?);
        let stride = exports.stride("gHotSpotVMTypeEntryArrayStride")?;
        for (row, text) in rows(exports, exports.value("gHotSpotVMTypes")?, stride, name) {
            let bytes = exports.memory.u64(row.wrapping_add(size)).filter(|size| *size < OFFSET).unwrap_or(0);
            self.types.entry(text).or_insert((bytes, exports.text(row, parent)));
        }
        Some(())
    }

    /// Constants of 4 or 8 bytes; the rest can be read without those that are not there.
    fn read_constants(&mut self, exports: &Exports<'_>, kind: &str) -> Option<()> {
        let column = |name: &str| exports.column(&format!("gHotSpotVM{kind}ConstantEntry{name}"));
        let (name, value) = (column("NameOffset")?, column("ValueOffset")?);
        let stride = exports.stride(&format!("gHotSpotVM{kind}ConstantEntryArrayStride"))?;
        let start = exports.value(&format!("gHotSpotVM{kind}Constants"))?;
        for (row, text) in rows(exports, start, stride, name) {
            let at = row.wrapping_add(value);
            let number = match kind {
                "Int" => exports.memory.i32(at).map(i64::from),
                _ => exports.memory.u64(at).map(u64::cast_signed),
            };
            if let Some(number) = number {
                self.constants.entry(text).or_insert(number);
            }
        }
        Some(())
    }

    /// Offset of a field in bytes, of the type itself or of one above it.
    pub(super) fn field(&self, type_name: &str, field: &str) -> Option<u64> {
        let mut name = type_name;
        for _ in 0..PARENTS {
            if let Some(offset) = self.fields.get(name).and_then(|fields| fields.get(field)) {
                return Some(*offset);
            }
            name = self.types.get(name)?.1.as_deref()?;
        }
        None
    }

    /// Address of a variable of a class of the runtime.
    pub(super) fn variable(&self, type_name: &str, name: &str) -> Option<u64> {
        self.variables.get(type_name)?.get(name).copied()
    }

    /// Size of a type in bytes.
    pub(super) fn size(&self, type_name: &str) -> Option<u64> {
        self.types.get(type_name).map(|(size, _)| *size).filter(|size| *size > 0)
    }

    /// A constant.
    pub(super) fn constant(&self, name: &str) -> Option<i64> {
        self.constants.get(name).copied()
    }
}
