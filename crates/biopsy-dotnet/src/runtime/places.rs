//! The offsets that everything needs, looked up once.

use crate::layout::{Layout, LayoutError};

/// Offsets in bytes, by type; what some version lacks is optional.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) method_table: MethodTable,
    pub(super) class: Class,
    pub(super) module: ModulePlaces,
    pub(super) method: MethodPlaces,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MethodTable {
    pub(super) flags: u64,
    pub(super) base_size: u64,
    /// Row of the type: u16 (8), or the upper 24 bits of a u32 (9, 10).
    pub(super) token: Option<u64>,
    pub(super) flags2: Option<u64>,
    pub(super) parent: u64,
    pub(super) module: u64,
    pub(super) class: u64,
    pub(super) instantiation: u64,
    pub(super) dictionary_count: u64,
    pub(super) argument_count: u64,
    pub(super) type_argument: u64,
    pub(super) virtuals: u64,
    /// The flag of types that may be unloaded.
    pub(super) collectible: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) method_table: u64,
    pub(super) element_type: Option<u64>,
    pub(super) rank: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ModulePlaces {
    /// Module to PEAssembly to PEImage to layout; base, size and flags of that.
    pub(super) image: Option<[u64; 6]>,
    pub(super) base: Option<u64>,
    pub(super) path: Option<u64>,
    pub(super) file_name: Option<u64>,
    pub(super) dynamic: Option<u64>,
    pub(super) dynamic_pointer: Option<u64>,
    pub(super) dynamic_data: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MethodPlaces {
    pub(super) chunk_index: u64,
    pub(super) flags: u64,
    pub(super) slot: u64,
    pub(super) token: u64,
    pub(super) chunk_size: u64,
    pub(super) chunk_method_table: u64,
    pub(super) chunk_token: u64,
    pub(super) token_bits: u32,
    pub(super) alignment: u64,
    pub(super) dynamic_name: Option<u64>,
    pub(super) instantiation: Option<u64>,
    pub(super) instantiation_flags: Option<u64>,
    pub(super) argument_count: Option<u64>,
}

impl Places {
    pub(super) fn of(layout: &Layout) -> Result<Self, LayoutError> {
        let must = |of: &str, field: &str| layout.field(of, field).map(u64::from);
        let may = |of: &str, field: &str| layout.find_field(of, field).map(u64::from);
        let dictionaries = may("GenericsDictInfo", "NumDicts");
        let arguments = must("GenericsDictInfo", "NumTypeArgs")?;
        let image = (|| {
            Some([
                may("Module", "PEAssembly")?,
                may("PEAssembly", "PEImage")?,
                may("PEImage", "LoadedImageLayout")?,
                may("PEImageLayout", "Base")?,
                may("PEImageLayout", "Size")?,
                may("PEImageLayout", "Flags")?,
            ])
        })();
        Ok(Self {
            method_table: MethodTable {
                flags: must("MethodTable", "MTFlags")?,
                base_size: must("MethodTable", "BaseSize")?,
                token: may("MethodTable", "Token"),
                flags2: may("MethodTable", "MTFlags2"),
                parent: must("MethodTable", "ParentMethodTable")?,
                module: must("MethodTable", "Module")?,
                class: must("MethodTable", "EEClassOrCanonMT")?,
                instantiation: must("MethodTable", "PerInstInfo")?,
                // Two numbers of 16 bits side by side.
                dictionary_count: dictionaries.unwrap_or(arguments.saturating_sub(2)),
                argument_count: arguments,
                type_argument: must("ParamTypeDesc", "TypeArg")?,
                virtuals: must("MethodTable", "NumVirtuals")?,
                collectible: layout.collectible_flag(),
            },
            class: Class {
                method_table: must("EEClass", "MethodTable")?,
                element_type: may("EEClass", "InternalCorElementType"),
                rank: must("ArrayClass", "Rank")?,
            },
            module: ModulePlaces {
                image,
                base: may("Module", "Base"),
                path: may("Module", "Path"),
                file_name: may("Module", "FileName"),
                dynamic: may("Module", "DynamicMetadata"),
                dynamic_pointer: may("DynamicMetadata", "DataPtr"),
                dynamic_data: may("DynamicMetadata", "Data"),
            },
            method: MethodPlaces {
                chunk_index: must("MethodDesc", "ChunkIndex")?,
                flags: must("MethodDesc", "Flags")?,
                slot: must("MethodDesc", "Slot")?,
                token: must("MethodDesc", "Flags3AndTokenRemainder")?,
                chunk_size: layout.size("MethodDescChunk")?.into(),
                chunk_method_table: must("MethodDescChunk", "MethodTable")?,
                chunk_token: must("MethodDescChunk", "FlagsAndTokenRange")?,
                token_bits: u32::try_from(layout.global("MethodDescTokenRemainderBitCount")?)
                    .unwrap_or(12)
                    .min(24),
                alignment: layout.find_global("MethodDescAlignment").unwrap_or(8),
                dynamic_name: may("DynamicMethodDesc", "MethodName"),
                instantiation: may("InstantiatedMethodDesc", "PerInstInfo"),
                instantiation_flags: may("InstantiatedMethodDesc", "Flags2"),
                argument_count: may("InstantiatedMethodDesc", "NumGenericArgs"),
            },
        })
    }
}
