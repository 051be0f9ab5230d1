//! Modules of a core: mapped files, and what their first page says about them.

use biopsy_elf::MappedElf;
use biopsy_elf::raw::PT_LOAD;

use crate::mapping::MODULE_GAP;
use crate::process::auxiliary;
use crate::{Backing, Image, ImageModule, Mapping, MemoryExt, ProcessFacts};

/// Most program headers of a module that are looked at; real ones have about a dozen.
const MOST_HEADERS: u64 = 64;

/// Finds the modules of any image by its mappings: neighbouring mappings of the same file, from one whose offset is 0 up to
/// the next such one; and the vdso. Of the first `most` the ELF header and notes are read from memory, for build id and
/// bias.
///
/// A module reaches as far as its program headers say, and without them to the next large gap: the program of a single-file
/// .NET application maps parts of itself a second time, flat and gigabytes away, which made one module of all in between.
pub fn find(
    image: &dyn Image,
    mappings: &[Mapping],
    process: &ProcessFacts,
    most: usize,
) -> Vec<ImageModule> {
    let mut modules: Vec<ImageModule> = Vec::new();
    let mut first_offset = 0;
    let mut reach = None;
    for mapping in mappings {
        let (path, offset, deleted) = match &mapping.backing {
            Backing::File { path, offset, deleted, .. } => (path.as_slice(), *offset, *deleted),
            Backing::Kernel { label } if label == "[vdso]" => (label.as_bytes(), 0, false),
            _ => continue,
        };
        // Memory that a runtime shares with itself, and devices, are no modules.
        if [&b"/memfd:"[..], b"/dev/", b"/SYSV"].iter().any(|start| path.starts_with(start)) {
            continue;
        }
        let is_near = |last: &ImageModule| match reach {
            Some(reach) => mapping.start < reach,
            None => mapping.start.saturating_sub(last.end) <= MODULE_GAP,
        };
        match modules.last_mut().filter(|last| last.path == path && offset > first_offset && is_near(last)) {
            Some(last) => last.end = mapping.end,
            None => {
                let mut module = ImageModule {
                    start: mapping.start,
                    end: mapping.end,
                    path: path.to_vec(),
                    build_id: None,
                    bias: 0,
                    is_elf: false,
                    deleted,
                };
                first_offset = offset;
                reach = if modules.len() < most { look_at(image, &mut module, process) } else { None };
                modules.push(module);
            }
        }
    }
    modules
}

/// Reads the ELF header, program headers and notes of a module from memory, as far as they are there. Returns the address
/// behind its last segment, if they say one.
fn look_at(image: &dyn Image, module: &mut ImageModule, process: &ProcessFacts) -> Option<u64> {
    let read = |at, buffer: &mut [u8]| image.read_available(at, buffer);
    let file = MappedElf::read(&read, module.start, MOST_HEADERS).ok()?;
    module.is_elf = true;
    if let Some(bias) = file.bias {
        module.bias = bias;
    } else if module.path != b"[vdso]"
        && process.auxiliary.iter().any(|one| one.0 == auxiliary::BASE && one.1 == module.start)
    {
        module.bias = module.start;
    }
    module.build_id = file.build_id();
    // Without all of them the last one is not known.
    let loads = file.of(PT_LOAD).filter(|_| file.is_whole() && file.bias.is_some());
    loads.map(|one| file.actual(one.address).saturating_add(one.memory_size)).max()
}
