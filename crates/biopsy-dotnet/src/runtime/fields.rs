//! Reading the fields of types.

use std::sync::Arc;

use biopsy_model::Avma;

use super::field::{Counts, FieldPlaces, Statics};
use super::reader::PARENTS;
use super::{ElementType, Field, FieldPlace, Runtime, RuntimeError, TypeHandle};
use crate::metadata::Table;

/// Bytes of a `FieldDesc`: {u64 method table; u32 token:24, flags; u32 offset:27, type:5} in 8, 9 and 10.
const FIELD_DESC: u64 = 16;
/// Fields of one type; the format of metadata allows 16 million, generated code has some thousand.
const FIELDS: u32 = 1 << 16;
/// Bytes of the names of all fields of one type.
const NAME_BYTES: usize = 32 << 20;
/// The object array or boxed value that thread statics of 8 are in starts with a header of so many bytes.
const STATIC: u32 = 1 << 24;
const THREAD: u32 = 1 << 25;
const RVA: u32 = 1 << 26;
const FULL_TOKEN: u32 = 1 << 30;

impl Runtime<'_> {
    /// The fields that a type declares; inherited ones are at its parent.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn fields(&self, method_table: TypeHandle) -> Result<Arc<[Field]>, RuntimeError> {
        if let Some(fields) = self.field_lists.get(&method_table) {
            return Ok(fields);
        }
        let fields = read(self, &self.fields, method_table)?;
        Ok(self.field_lists.put(method_table, fields.into()))
    }

    /// An instance field by name, inherited ones too.
    ///
    /// # Errors
    /// When fields cannot be read.
    pub fn find_field(&self, method_table: TypeHandle, name: &str) -> Result<Option<Field>, RuntimeError> {
        let mut next = method_table;
        for _ in 0..PARENTS {
            if next == TypeHandle::default() {
                return Ok(None);
            }
            let fields = self.fields(next)?;
            let found = fields
                .iter()
                .find(|field| field.name == name && matches!(field.place, FieldPlace::Instance(_)));
            if let Some(field) = found {
                return Ok(Some(field.clone()));
            }
            next = self.memory.u64(next.at(self.places.method_table.parent))?.into();
        }
        Ok(None)
    }
}

/// Instance fields (inherited ones too) and static fields of a type.
fn counts(runtime: &Runtime<'_>, places: &FieldPlaces, class: u64) -> Result<(u32, u32), RuntimeError> {
    let memory = runtime.memory();
    match places.counts {
        Counts::Fixed { instance, statics } => Ok((
            memory.u16(class.wrapping_add(instance))?.into(),
            memory.u16(class.wrapping_add(statics))?.into(),
        )),
        Counts::Behind { packed, size, instance, statics } => {
            if memory.u8(class.wrapping_add(packed))? != 0 {
                return Err(unexpected(class, "its counts of fields are packed"));
            }
            let behind = class.wrapping_add(memory.u8(class.wrapping_add(size))?.into());
            Ok((memory.u32(behind.wrapping_add(instance))?, memory.u32(behind.wrapping_add(statics))?))
        }
        Counts::Unknown => Ok((
            runtime.layout().field("EEClass", "NumInstanceFields")?,
            runtime.layout().field("EEClass", "NumStaticFields")?,
        )),
    }
}

fn class_of(runtime: &Runtime<'_>, method_table: TypeHandle) -> Result<u64, RuntimeError> {
    let offset = runtime.places.method_table.class;
    let class = runtime.memory().u64(method_table.at(offset))?;
    if class & 1 == 0 {
        return Ok(class);
    }
    Ok(runtime.memory().u64((class & !1).wrapping_add(offset))?)
}

/// The fields that a type declares.
fn read(
    runtime: &Runtime<'_>,
    places: &FieldPlaces,
    method_table: TypeHandle,
) -> Result<Vec<Field>, RuntimeError> {
    let info = runtime.type_of(method_table)?;
    if info.is_array() || method_table.is_descriptor() {
        return Ok(Vec::new());
    }
    let class = class_of(runtime, method_table)?;
    let (mut instance, statics) = counts(runtime, places, class)?;
    if let Some(parent) = info.parent {
        let (inherited, _) = counts(runtime, places, class_of(runtime, parent)?)?;
        instance = instance.saturating_sub(inherited);
    }
    if instance > FIELDS || statics > FIELDS {
        return Err(unexpected(class, "too many fields"));
    }
    let memory = runtime.memory();
    let Some(list) = places.list else {
        return Err(runtime
            .layout()
            .field("EEClass", "FieldDescList")
            .map_or_else(Into::into, |_| unexpected(class, "")));
    };
    let list = memory.u64(class.wrapping_add(list))?;
    let bases = if statics > 0 { static_bases(runtime, places, method_table) } else { (None, None) };
    let mut fields = Vec::new();
    let mut name_bytes = 0;
    for number in 0..u64::from(instance + statics) {
        let address = list.wrapping_add(number * FIELD_DESC);
        let [first, second] = [memory.u32(address.wrapping_add(8))?, memory.u32(address.wrapping_add(12))?];
        let row = if first & FULL_TOKEN != 0 { first & 0x00ff_ffff } else { first & 0x0001_ffff };
        let (offset, element) = (second & 0x07ff_ffff, (second >> 27) as u8);
        let place = if first & STATIC == 0 {
            FieldPlace::Instance(offset)
        } else if first & RVA != 0 {
            FieldPlace::Rva(offset)
        } else if first & THREAD != 0 {
            FieldPlace::ThreadStatic(offset)
        } else {
            let base = if super::field::KEPT_BY_COLLECTOR.contains(&element) { bases.0 } else { bases.1 };
            base.map_or(FieldPlace::Unknown, |base| {
                FieldPlace::Static(Avma(base.wrapping_add(offset.into())))
            })
        };
        let module = runtime.module_with(info.module, Table::Field, row)?;
        let name = module.metadata()?.field_name(row)?.to_string();
        name_bytes += name.len();
        if name_bytes > NAME_BYTES {
            return Err(unexpected(class, "too long names of fields"));
        }
        fields.push(Field { name, row, element_type: ElementType(element), place });
    }
    Ok(fields)
}

/// Where statics that the collector looks after are, and the others.
fn static_bases(
    runtime: &Runtime<'_>,
    places: &FieldPlaces,
    method_table: TypeHandle,
) -> (Option<u64>, Option<u64>) {
    let memory = runtime.memory();
    let word = |address: u64| memory.u64(address).ok().filter(|&value| value != 0);
    match places.statics {
        Statics::InFront { auxiliary, size, collected, plain } => {
            // Bit 0: the initialiser has not run yet.
            let base = |offset: u64| {
                let data = word(method_table.at(auxiliary))?;
                let value = memory.u64(data.wrapping_sub(size).wrapping_add(offset)).ok()? & !1;
                (value != 0).then_some(value)
            };
            (base(collected), base(plain))
        }
        Statics::OfModule { module, collected, dynamic, entry, virtuals, flags2, size } => {
            let bases = || {
                let flags = memory.u32(method_table.at(runtime.places.method_table.flags)).ok()?;
                let of = word(method_table.at(runtime.places.method_table.module))?;
                let local = word(of.wrapping_add(module))?;
                if flags & 2 != 0 {
                    // Collectible, or made at run time: they are elsewhere.
                    return None;
                }
                if flags & 4 == 0 {
                    return Some((word(local.wrapping_add(collected)), Some(local)));
                }
                // An instance of a generic type: its number lies behind the parts of the method table that are optional.
                let tables = u64::from(memory.u16(method_table.at(virtuals)).ok()?).div_ceil(8);
                let optional = (memory.u16(method_table.at(flags2)).ok()? & 15).count_ones();
                let slots = tables + u64::from(optional.saturating_sub(2));
                let behind = method_table.at(size).wrapping_add(slots * 8);
                let number = memory.u32(behind.wrapping_add(8)).ok()?;
                let table = word(local.wrapping_add(dynamic))?;
                let plain = word(table.wrapping_add(u64::from(number).wrapping_mul(entry)))?;
                Some((word(plain), Some(plain)))
            };
            bases().unwrap_or((None, None))
        }
        Statics::Unknown => (None, None),
    }
}

fn unexpected(class: u64, found: &str) -> RuntimeError {
    RuntimeError::Unexpected { what: "a class", address: Avma(class), found: found.to_string() }
}
