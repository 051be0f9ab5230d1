//! Assemblies that are loaded.

use std::sync::Arc;

use biopsy_image::{Backing, mapping};
use biopsy_model::Avma;

use super::places::ModulePlaces;
use super::{Memory, RuntimeError};
use crate::metadata::{Metadata, MetadataError, PeFile, PeLayout, ReadAt};

/// Bytes of the metadata of an assembly that is made at run time.
const DYNAMIC_BYTES: u32 = 64 << 20;
/// UTF-16 units of a path.
const PATH_UNITS: usize = 4096;

/// A module of the runtime: an assembly.
#[derive(Clone, Debug)]
pub struct Module {
    /// Address of the runtime's `Module` structure.
    pub address: Avma,
    /// Simple name of the assembly, from its metadata (`System.Private.CoreLib`).
    pub name: Arc<str>,
    /// Path of its file; empty for assemblies in bundles, from bytes, and made at run time.
    pub path: String,
    /// Address of its first byte; 0 for assemblies made at run time.
    pub base: Avma,
    /// Bytes.
    pub size: u64,
    /// Laid out in memory as sections say (else as in the file).
    pub mapped: bool,
    /// Made by Reflection.Emit.
    pub dynamic: bool,
    /// Its headers, where they could be read.
    pub pe: Option<PeFile>,
    /// Its metadata, where it could be read.
    pub metadata: Option<Arc<Metadata>>,
}

impl Module {
    /// Its metadata.
    ///
    /// # Errors
    /// [`MetadataError::Absent`] when it could not be read.
    pub fn metadata(&self) -> Result<&Metadata, MetadataError> {
        self.metadata.as_deref().ok_or(MetadataError::Absent("metadata of the assembly in the image"))
    }
}

/// Memory from an address on, as bytes of a file.
pub(super) struct FromAddress<'m, 'i> {
    pub(super) memory: &'m Memory<'i>,
    pub(super) base: u64,
}

impl ReadAt for FromAddress<'_, '_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let Some(address) = self.base.checked_add(offset) else { return false };
        self.memory.read_bulk(address, buffer).is_ok()
    }
}

/// Reads a module.
pub(super) fn read(memory: &Memory<'_>, places: &ModulePlaces, address: u64) -> Result<Module, RuntimeError> {
    let (base, size, mapped) = layout_of(memory, places, address).unwrap_or((0, 0, None));
    let mut module = Module {
        address: Avma(address),
        name: "".into(),
        path: String::new(),
        base: Avma(base),
        size,
        mapped: mapped.unwrap_or(true),
        dynamic: false,
        pe: None,
        metadata: None,
    };
    if base != 0 {
        let source = FromAddress { memory, base };
        // Where nobody says which, the one whose metadata reads is right: the CLI header is found through sections.
        let layouts: &[PeLayout] = match mapped {
            Some(true) => &[PeLayout::Mapped],
            Some(false) => &[PeLayout::Flat],
            None => &[PeLayout::Mapped, PeLayout::Flat],
        };
        for &layout in layouts {
            let Ok(pe) = PeFile::parse(&source, layout) else { continue };
            let Ok(metadata) = pe.metadata(&source) else { continue };
            module.mapped = layout == PeLayout::Mapped;
            if module.size == 0 {
                module.size = pe.image_bytes().into();
            }
            module.pe = Some(pe);
            module.metadata = Some(Arc::new(metadata));
            break;
        }
        module.path = path_of(memory, places, &module);
    }
    if module.metadata.is_none()
        && let Some(bytes) = dynamic_metadata(memory, places, address)
    {
        let metadata = Metadata::parse(bytes)?;
        module.dynamic = base == 0;
        module.metadata = Some(Arc::new(metadata));
    }
    if let Some(metadata) = &module.metadata {
        module.name = metadata.assembly_name().unwrap_or_default().into();
    }
    if module.name.is_empty() {
        let file = module.path.rsplit('/').next().unwrap_or_default();
        module.name = file.strip_suffix(".dll").unwrap_or(file).into();
    }
    if module.metadata.is_none() && module.name.is_empty() {
        return Err(RuntimeError::Unexpected {
            what: "a module",
            address: Avma(address),
            found: "neither an image nor metadata".to_string(),
        });
    }
    Ok(module)
}

/// The module with its metadata as it is now, when that was made or edited at run time.
pub(super) fn read_edited(memory: &Memory<'_>, places: &ModulePlaces, module: &Module) -> Option<Module> {
    let bytes = dynamic_metadata(memory, places, module.address.0)?;
    let metadata = Metadata::parse(bytes).ok()?;
    Some(Module { metadata: Some(Arc::new(metadata)), ..module.clone() })
}

/// Base, size, and whether it is mapped where somebody says so.
fn layout_of(memory: &Memory<'_>, places: &ModulePlaces, address: u64) -> Option<(u64, u64, Option<bool>)> {
    if let Some([assembly, image, layout, base, size, flags]) = places.image {
        let at = |from: u64, offset: u64| memory.u64(from.wrapping_add(offset)).ok().filter(|&to| to != 0);
        if let Some(layout) = at(address, assembly).and_then(|to| at(to, image)).and_then(|to| at(to, layout))
        {
            let flags = memory.u32(layout.wrapping_add(flags)).ok()?;
            let size = memory.u32(layout.wrapping_add(size)).ok()?;
            return Some((at(layout, base)?, size.into(), Some(flags & 1 != 0)));
        }
        return None;
    }
    let base = memory.u64(address.wrapping_add(places.base?)).ok()?;
    Some((base, 0, None))
}

/// The path of the file that is mapped there from its start on; else what the runtime calls it.
fn path_of(memory: &Memory<'_>, places: &ModulePlaces, module: &Module) -> String {
    let mapping = mapping::find(memory.image().mappings(), module.base.0);
    if let Some(Backing::File { path, offset: 0, .. }) = mapping.map(|one| &one.backing)
        && path.ends_with(b".dll")
    {
        return String::from_utf8_lossy(path).into_owned();
    }
    let text = |place: Option<u64>| {
        let at = memory.u64(module.address.0.wrapping_add(place?)).ok().filter(|&at| at != 0)?;
        let text = utf16_until_zero(memory, at);
        (!text.is_empty()).then_some(text)
    };
    text(places.path).or_else(|| text(places.file_name)).unwrap_or_default()
}

fn utf16_until_zero(memory: &Memory<'_>, address: u64) -> String {
    let mut units = Vec::new();
    while units.len() < PATH_UNITS {
        match memory.u16(address.wrapping_add(units.len() as u64 * 2)) {
            Ok(0) | Err(_) => break,
            Ok(unit) => units.push(unit),
        }
    }
    String::from_utf16_lossy(&units)
}

/// Metadata that was made or edited at run time: bytes with their count in front (9, 10), or count and pointer (8).
fn dynamic_metadata(memory: &Memory<'_>, places: &ModulePlaces, address: u64) -> Option<Arc<[u8]>> {
    let at = memory.u64(address.wrapping_add(places.dynamic?)).ok().filter(|&at| at != 0)?;
    let size = memory.u32(at).ok().filter(|&size| size != 0 && size <= DYNAMIC_BYTES)?;
    let from = match (places.dynamic_pointer, places.dynamic_data) {
        (Some(pointer), _) => memory.u64(at.wrapping_add(pointer)).ok()?,
        (None, Some(data)) => at.wrapping_add(data),
        (None, None) => return None,
    };
    let mut magic = [0; 4];
    memory.read(from, &mut magic).ok()?;
    if &magic != b"BSJB" {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    memory.read_bulk(from, &mut bytes).ok()?;
    Some(bytes.into())
}
