//! Fields of types.

use biopsy_model::Avma;

use super::ElementType;
use crate::layout::Layout;

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

/// `ELEMENT_TYPE_CLASS` and `ELEMENT_TYPE_VALUETYPE`: statics of these are kept by the collector.
pub(super) const KEPT_BY_COLLECTOR: [u8; 2] = [0x12, 0x11];

impl Field {
    /// As a static, it is a reference to an object, which the collector looks after.
    #[must_use]
    pub fn is_kept_by_collector(&self) -> bool {
        KEPT_BY_COLLECTOR.contains(&self.element_type.0)
    }
}

/// Where counts of fields are, and statics.
#[derive(Clone, Debug)]
pub(super) struct FieldPlaces {
    pub(super) list: Option<u64>,
    pub(super) counts: Counts,
    pub(super) statics: Statics,
}

#[derive(Clone, Debug)]
pub(super) enum Counts {
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
pub(super) enum Statics {
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
