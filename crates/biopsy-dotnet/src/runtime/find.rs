//! Which runtimes are in an image.

use biopsy_model::order::Order as _;
use std::sync::Arc;

use biopsy_elf::MappedElf;
use biopsy_image::{Image, ImageModule};
use biopsy_model::Avma;

use super::version;
use super::{Memory, MissingFiles, RuntimeVersion};

/// What the runtime exports for debuggers: from 6 on, and from 9 on.
const DAC_TABLE: &[u8] = b"g_dacTable";
const DESCRIPTOR: &[u8] = b"DotNetRuntimeContractDescriptor";
/// Program headers of a module; real files have about a dozen.
const PROGRAM_HEADERS: u64 = 256;
/// ELF modules that are looked at.
const MODULES: usize = 4096;
/// Bytes that are cached while looking.
const CACHED: usize = 4 << 20;

/// How a runtime got into the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RuntimeKind {
    /// `libcoreclr.so`.
    Library,
    /// Linked into the executable of a program that is one file.
    SingleFile,
}

/// A runtime that is in an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundRuntime {
    /// How it got there.
    pub kind: RuntimeKind,
    /// Path of the library or executable, as the process saw it.
    pub path: Vec<u8>,
    /// Where its first byte is mapped.
    pub base: Avma,
    /// Behind its last mapped byte.
    pub end: Avma,
    /// Its version, where it could be told.
    pub version: Option<RuntimeVersion>,
    /// GNU build id, where it is in the image.
    pub build_id: Option<Vec<u8>>,
    /// Address and bytes of `g_dacTable`.
    pub dac_table: Option<(Avma, u64)>,
    /// Address of `DotNetRuntimeContractDescriptor`.
    pub descriptor: Option<Avma>,
}

/// The runtimes in an image, by the modules that export what a debugger needs; one process may have two. A library of a version
/// that exports nothing (3.1, 5) is found by its name.
#[must_use]
pub fn find_runtimes(image: &dyn Image) -> Vec<FoundRuntime> {
    find_runtimes_with(image, None)
}

/// As [`find_runtimes`]; what the image has left out of mapped files is read from `files`.
#[must_use]
pub fn find_runtimes_with(image: &dyn Image, files: Option<Arc<dyn MissingFiles>>) -> Vec<FoundRuntime> {
    let memory = Memory::new(Box::new(image), files, CACHED);
    let mut found: Vec<_> = image
        .modules()
        .iter()
        .filter(|module| module.is_elf || name_of(&module.path) == LIBRARY)
        .take(MODULES)
        .filter_map(|module| runtime_in(&memory, module))
        .collect();
    // Libraries first: an executable of one file that loads a runtime of its own is the rarer case.
    found.order_by_key(|one| (one.kind == RuntimeKind::SingleFile, one.base));
    found
}

const LIBRARY: &[u8] = b"libcoreclr.so";

fn runtime_in(memory: &Memory<'_>, module: &ImageModule) -> Option<FoundRuntime> {
    let is_library = name_of(&module.path) == LIBRARY;
    let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
    let elf = MappedElf::read(&read, module.start, PROGRAM_HEADERS).ok();
    let dynamic = elf.as_ref().and_then(MappedElf::dynamic).unwrap_or_default();
    let symbol = |name| elf.as_ref()?.symbol(&dynamic, name);
    let (dac_table, descriptor) = (symbol(DAC_TABLE), symbol(DESCRIPTOR));
    if dac_table.is_none() && descriptor.is_none() && !is_library {
        return None;
    }
    let build_id = elf.as_ref().and_then(MappedElf::build_id).or_else(|| module.build_id.clone());
    Some(FoundRuntime {
        kind: if is_library { RuntimeKind::Library } else { RuntimeKind::SingleFile },
        path: module.path.clone(),
        base: Avma(module.start),
        end: Avma(module.end),
        version: version::find(memory, module),
        build_id,
        dac_table: dac_table.map(|(address, bytes)| (Avma(address), bytes)),
        descriptor: descriptor.map(|(address, _)| Avma(address)),
    })
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}
