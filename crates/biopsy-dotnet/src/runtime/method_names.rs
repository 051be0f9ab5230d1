//! Names of methods by their `MethodDesc`.

use std::sync::Arc;

use super::places::Places;
use super::{Memory, MethodDesc, RuntimeError, TypeHandle};

/// Method without metadata: `DynamicMethod`, IL stubs (`mcDynamic` of `method.hpp`).
pub(super) const DYNAMIC: u16 = 7;
/// Methods of arrays that the runtime makes up (`mcArray`).
pub(super) const ARRAY: u16 = 4;
/// Instances of generic methods (`mcInstantiated`).
pub(super) const INSTANTIATED: u16 = 5;
/// Type arguments of a method.
const ARGUMENTS: u16 = 1024;
/// Bytes of the name of a dynamic method.
const NAME_BYTES: usize = 4096;
/// `InstantiatedMethodDesc` that is the definition: `Flags2 & KindMask` (`method.hpp`).
const KIND_MASK: u16 = 7;
const GENERIC_DEFINITION: u16 = 0;

/// What a `MethodDesc` says.
#[derive(Clone, Debug)]
pub(super) struct RawMethod {
    pub(super) method_table: TypeHandle,
    /// Row in the table of methods; 0 for methods without one.
    pub(super) row: u32,
    /// Kind: `MethodClassification` of `method.hpp`.
    pub(super) kind: u16,
    pub(super) slot: u16,
    /// Type arguments of the method itself.
    pub(super) arguments: Vec<TypeHandle>,
    /// Name of a dynamic method.
    pub(super) dynamic_name: Option<String>,
}

/// Reads a `MethodDesc`.
pub(super) fn read(
    memory: &Memory<'_>,
    places: &Places,
    method_desc: MethodDesc,
) -> Result<RawMethod, RuntimeError> {
    let method = &places.method;
    let address = method_desc.0.0;
    if address & 7 != 0 || address < 0x1000 {
        return Err(RuntimeError::Unexpected {
            what: "a method",
            address: method_desc.0,
            found: "not an address of a method".to_string(),
        });
    }
    let at = |offset| method_desc.at(offset);
    let index = memory.u8(at(method.chunk_index))?;
    let chunk =
        address.wrapping_sub(method.chunk_size).wrapping_sub(u64::from(index).wrapping_mul(method.alignment));
    let method_table = memory.u64(chunk.wrapping_add(method.chunk_method_table))?.into();
    let range = u32::from(memory.u16(chunk.wrapping_add(method.chunk_token))?);
    let remainder = u32::from(memory.u16(at(method.token))?);
    let high = range & ((1 << (24 - method.token_bits)) - 1);
    let low = remainder & ((1u32 << method.token_bits) - 1);
    let kind = memory.u16(at(method.flags))? & 7;
    let mut raw = RawMethod {
        method_table,
        row: high << method.token_bits | low,
        kind,
        slot: memory.u16(at(method.slot))?,
        arguments: Vec::new(),
        dynamic_name: None,
    };
    if kind == DYNAMIC {
        raw.row = 0;
        if let Some(place) = method.dynamic_name {
            let name = memory.u64(at(place))?;
            let bytes = if name == 0 { Vec::new() } else { memory.c_string(name, NAME_BYTES)? };
            raw.dynamic_name = Some(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    if kind == INSTANTIATED {
        raw.arguments = arguments(memory, places, address)?;
    }
    Ok(raw)
}

fn arguments(memory: &Memory<'_>, places: &Places, address: u64) -> Result<Vec<TypeHandle>, RuntimeError> {
    let method = &places.method;
    let (Some(table), Some(count)) = (method.instantiation, method.argument_count) else {
        return Ok(Vec::new());
    };
    if let Some(flags) = method.instantiation_flags
        && memory.u16(address.wrapping_add(flags))? & KIND_MASK == GENERIC_DEFINITION
    {
        return Ok(Vec::new());
    }
    let count = memory.u16(address.wrapping_add(count))?;
    let dictionary = memory.u64(address.wrapping_add(table))?;
    if dictionary == 0 || count > ARGUMENTS {
        return Ok(Vec::new());
    }
    (0..u64::from(count)).map(|one| Ok(memory.u64(dictionary.wrapping_add(one * 8))?.into())).collect()
}

/// Name of a method of an array: the runtime gives the first slots behind those of `System.Array`'s to them, in this order.
pub(super) fn array_method(slot_of_own: u16) -> Arc<str> {
    match slot_of_own {
        0 => "Get".into(),
        1 => "Set".into(),
        2 => "Address".into(),
        _ => ".ctor".into(),
    }
}
