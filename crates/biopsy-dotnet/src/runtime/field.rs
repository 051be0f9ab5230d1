//! Fields of types.

use biopsy_model::Avma;

use super::{ElementType, Runtime, RuntimeError, TypeHandle};
use crate::layout::Layout;
use crate::metadata::Table;

/// Bytes of a `FieldDesc`: {u64 method table; u32 token:24, flags; u32 offset:27, type:5} in 8, 9 and 10.
const FIELD_DESC: u64 = 16;
/// Fields of one type; the format of metadata allows 16 million, generated code has some thousand.
const FIELDS: u32 = 1 << 16;
/// `ELEMENT_TYPE_CLASS` and `ELEMENT_TYPE_VALUETYPE`: statics of these are kept by the collector.
const KEPT_BY_COLLECTOR: [u8; 2] = [0x12, 0x11];
/// The object array or boxed value that thread statics of 8 are in starts with a header of so many bytes.
const STATIC: u32 = 1 << 24;
const THREAD: u32 = 1 << 25;
const RVA: u32 = 1 << 26;
const FULL_TOKEN: u32 = 1 << 30;

/// Where the value of a field is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FieldPlace {
    /// So many bytes behind the method table word of an object (add 8 to an object's address), or from the start of a value.
    Instance(u32),
    /// At this address, for all threads. Has no meaning before the type's initialiser has run.
    Static(Avma),
    /// One for each thread; so many bytes into the type's thread statics.
    ThreadStatic(u32),
    /// In the image of the assembly, at this relative virtual address.
    Rva(u32),
    /// A static of a type whose statics are not allocated, or not found.
    Unknown,
}

/// A field that a type declares (inherited ones are at the parent).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name, as in the metadata.
    pub name: String,
    /// Row in the table of fields.
    pub row: u32,
    /// How the value is stored.
    pub element_type: ElementType,
    /// Where the value is.
    pub place: FieldPlace,
}

/// Where counts of fields are, and statics.
#[derive(Clone, Debug)]
pub(super) struct FieldPlaces {
    list: Option<u64>,
    counts: Counts,
    statics: Statics,
}

#[derive(Clone, Debug)]
enum Counts {
    /// u16 at fixed places in the class (9 and later).
    Fixed {
        instance: u64,
        statics: u64,
    },
    /// u32 behind the class, whose size is in it (8).
    Behind {
        packed: u64,
        size: u64,
        instance: u64,
        statics: u64,
    },
    Unknown,
}

#[derive(Clone, Debug)]
enum Statics {
    /// In front of the auxiliary data of the method table (9 and later).
    InFront {
        auxiliary: u64,
        size: u64,
        collected: u64,
        plain: u64,
    },
    /// In a table of the module (8).
    OfModule {
        module: u64,
        collected: u64,
        dynamic: u64,
        entry: u64,
        virtuals: u64,
        flags2: u64,
        size: u64,
    },
    Unknown,
}

impl FieldPlaces {
    pub(super) fn of(layout: &Layout) -> Self {
        let may = |of: &str, field: &str| layout.find_field(of, field).map(u64::from);
        let fixed = || {
            Some(Counts::Fixed {
                instance: may("EEClass", "NumInstanceFields")?,
                statics: may("EEClass", "NumStaticFields")?,
            })
        };
        let behind = || {
            Some(Counts::Behind {
                packed: may("EEClass", "FieldsArePacked")?,
                size: may("EEClass", "FixedEEClassFields")?,
                instance: may("EEClassPackedFields", "NumInstanceFields")?,
                statics: may("EEClassPackedFields", "NumStaticFields")?,
            })
        };
        let in_front = || {
            Some(Statics::InFront {
                auxiliary: may("MethodTable", "AuxiliaryData")?,
                size: layout.find_size("DynamicStaticsInfo")?.into(),
                collected: may("DynamicStaticsInfo", "GCStatics")?,
                plain: may("DynamicStaticsInfo", "NonGCStatics")?,
            })
        };
        let of_module = || {
            Some(Statics::OfModule {
                module: may("Module", "ModuleID")?,
                collected: may("DomainLocalModule", "GCStatics")?,
                dynamic: may("DomainLocalModule", "DynamicClassTable")?,
                entry: layout.find_size("DynamicClassInfo")?.into(),
                virtuals: may("MethodTable", "NumVirtuals")?,
                flags2: may("MethodTable", "Flags2")?,
                size: layout.find_size("MethodTable")?.into(),
            })
        };
        Self {
            list: may("EEClass", "FieldDescList"),
            counts: behind().or_else(fixed).unwrap_or(Counts::Unknown),
            statics: in_front().or_else(of_module).unwrap_or(Statics::Unknown),
        }
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
pub(super) fn read(
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
            let base = if KEPT_BY_COLLECTOR.contains(&element) { bases.0 } else { bases.1 };
            base.map_or(FieldPlace::Unknown, |base| {
                FieldPlace::Static(Avma(base.wrapping_add(offset.into())))
            })
        };
        let module = runtime.module_with(info.module, Table::Field, row)?;
        fields.push(Field {
            name: module.metadata()?.field_name(row)?.to_string(),
            row,
            element_type: ElementType(element),
            place,
        });
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
