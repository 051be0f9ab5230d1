//! Modules of a core: mapped files, and what their first page says about them.

use crate::mapping::MODULE_GAP;
use crate::process::auxiliary;
use crate::{Backing, Image, ImageModule, Mapping, MemoryExt, ProcessFacts};

/// Most program headers of a module that are looked at; real ones have about a dozen.
const MOST_HEADERS: u64 = 64;
/// Most bytes of its notes.
const NOTE_BYTES: u64 = 16 << 10;
/// Longest build id that is taken; SHA-1 has 20 bytes.
const BUILD_ID_BYTES: usize = 64;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;

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
    let mut header = [0; 64];
    if image.read_exact(module.start, &mut header).is_err() || !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    module.is_elf = true;
    let word = |at: usize| {
        header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    let half = |at: usize| {
        header.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
    };
    let (headers_at, size, count) = (word(32), u64::from(half(54)), u64::from(half(56)).min(MOST_HEADERS));
    if size < 56 {
        return None;
    }
    let mut headers = Vec::new();
    for index in 0..count {
        let address = module.start.checked_add(headers_at).and_then(|at| at.checked_add(index * size));
        let mut entry = [0; 56];
        if address.is_none_or(|address| image.read_exact(address, &mut entry).is_err()) {
            break;
        }
        headers.push(ProgramHeader::parse(&entry));
    }
    let first = headers.iter().find(|one| one.kind == PT_LOAD && one.offset < 4096);
    // The file's start is at `module.start`, so the bias follows from the segment that holds it.
    if let Some(first) = first {
        module.bias = module.start.wrapping_sub(first.address.wrapping_sub(first.offset));
    } else if module.path != b"[vdso]"
        && process.auxiliary.iter().any(|one| one.0 == auxiliary::BASE && one.1 == module.start)
    {
        module.bias = module.start;
    }
    module.build_id = headers
        .iter()
        .filter(|one| one.kind == PT_NOTE)
        .find_map(|one| build_id(image, module.bias.wrapping_add(one.address), one.size));
    // Without all of them the last one is not known.
    let is_whole = first.is_some() && headers.len() as u64 == count && count < MOST_HEADERS;
    let loads = headers.iter().filter(|one| is_whole && one.kind == PT_LOAD);
    loads.map(|one| module.bias.wrapping_add(one.address).saturating_add(one.memory_size)).max()
}

struct ProgramHeader {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
    memory_size: u64,
}

impl ProgramHeader {
    fn parse(entry: &[u8; 56]) -> Self {
        let word = |at: usize| {
            entry.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let kind = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        Self { kind, offset: word(8), address: word(16), size: word(32), memory_size: word(40) }
    }
}

fn build_id(image: &dyn Image, address: u64, size: u64) -> Option<Vec<u8>> {
    let size = usize::try_from(size.min(NOTE_BYTES)).ok()?;
    let bytes = image.read_up_to(address, size).ok()?;
    let mut cursor = biopsy_bytes::Cursor::at(&bytes, address);
    loop {
        let name_size = cursor.u32("n_namesz").ok()? as usize;
        let size = cursor.u32("n_descsz").ok()? as usize;
        let kind = cursor.u32("n_type").ok()?;
        let name = cursor.take("name", name_size.checked_next_multiple_of(4)?).ok()?;
        let contents = cursor.take("contents", size).ok()?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" && (1..=BUILD_ID_BYTES).contains(&size) {
            return Some(contents.to_vec());
        }
        let padding = size.checked_next_multiple_of(4)? - size;
        cursor.skip("padding", padding.min(cursor.remaining())).ok()?;
    }
}
