//! What objects of collectible types keep alive without a field: the loader allocator, and with it the code of their type.
//!
//! A type knows its module, a module its native `LoaderAllocator`, and that a handle to the managed object. Where in it the handle
//! is, is found by looking: the word that leads to an object of `System.Reflection.LoaderAllocator`.

use biopsy_image::MemoryExt;
use biopsy_model::Avma;

use crate::runtime::{Runtime, TypeHandle};

/// Bytes of a native `LoaderAllocator` that are looked through.
const LOOKED_THROUGH: usize = 4096;
/// The managed half.
const MANAGED: &str = "System.Reflection.LoaderAllocator";

/// Address of the managed loader allocator of a collectible type.
pub(super) fn loader_allocator(runtime: &Runtime<'_>, method_table: TypeHandle) -> Option<Avma> {
    let image = runtime.memory().image();
    let layout = runtime.layout();
    let offset = u64::from(layout.find_field("Module", "LoaderAllocator")?);
    // Generic instances over collectible types belong to the module that loaded them, not to that of their definition.
    let auxiliary = layout
        .find_field("MethodTable", "AuxiliaryData")
        .or_else(|| layout.find_field("MethodTable", "WriteableData"));
    let loader_module = auxiliary.and_then(|auxiliary| {
        let at = image.read_u64(method_table.at(auxiliary.into())).ok()?;
        let module = layout.find_field("MethodTableAuxiliaryData", "LoaderModule").unwrap_or(8);
        image.read_u64(at.wrapping_add(u64::from(module))).ok()
    });
    let own = runtime.type_of(method_table).ok().map(|info| info.module.0);
    [loader_module, own].into_iter().flatten().filter(|module| *module != 0).find_map(|module| {
        let native = image.read_u64(module.wrapping_add(offset)).ok().filter(|native| *native != 0)?;
        let bytes = image.read_up_to(native, LOOKED_THROUGH).ok()?;
        bytes.as_chunks::<8>().0.iter().find_map(|eight| {
            let handle = u64::from_le_bytes(*eight);
            if handle == 0 || !handle.is_multiple_of(8) {
                return None;
            }
            let object =
                image.read_u64(handle).ok().filter(|object| *object != 0 && object.is_multiple_of(8))?;
            let object = Avma(object);
            (*runtime.type_of_object(object).ok()?.name == *MANAGED).then_some(object)
        })
    })
}
