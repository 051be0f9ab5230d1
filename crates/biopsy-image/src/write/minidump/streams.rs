//! The streams (`minidumpapiset.h`, and Breakpad's `minidump_format.h` for those of Linux).

use super::context::context;
use super::parts::{Location, Memory, Parts, length};
use crate::{Backing, Image, ImageModule};

const THREAD_LIST: u32 = 3;
const MODULE_LIST: u32 = 4;
const MEMORY_LIST: u32 = 5;
const EXCEPTION: u32 = 6;
const SYSTEM_INFORMATION: u32 = 7;
const MISCELLANEOUS: u32 = 15;
const THREAD_NAMES: u32 = 24;
const LINUX_AUXILIARY_VECTOR: u32 = 0x4767_0008;
const LINUX_MAPS: u32 = 0x4767_0009;
/// `BpEL`: a build id follows.
const ELF_BUILD_ID: u32 = 0x4270_454c;
const ARCHITECTURE_AMD64: u16 = 9;
/// Breakpad's number for Linux.
const PLATFORM_LINUX: u32 = 0x8201;

/// Adds all streams.
pub(super) fn add_all(image: &dyn Image, parts: &mut Parts, memory: &[Memory]) {
    let contexts: Vec<Option<Location>> =
        image.threads().iter().map(|thread| context(thread).map(|bytes| parts.put(&bytes))).collect();
    system(image, parts);
    process(image, parts);
    threads(image, parts, memory, &contexts);
    exception(image, parts, &contexts);
    modules(image.modules(), parts);
    memory_list(parts, memory);
    names(image, parts);
    let auxiliary: Vec<u8> = image
        .process()
        .auxiliary
        .iter()
        .flat_map(|(kind, value)| [kind.to_le_bytes(), value.to_le_bytes()].concat())
        .collect();
    parts.stream(LINUX_AUXILIARY_VECTOR, &auxiliary);
    parts.stream(LINUX_MAPS, &maps(image));
}

/// `MINIDUMP_SYSTEM_INFO`.
fn system(image: &dyn Image, parts: &mut Parts) {
    let kernel = image.process().kernel.clone().unwrap_or_default();
    let text = parts.put_text(format!("Linux {kernel}").as_bytes());
    let mut version =
        kernel.split(|one: char| !one.is_ascii_digit()).map(|part| part.parse().unwrap_or(0u32));
    let mut out = Vec::with_capacity(56);
    out.extend_from_slice(&ARCHITECTURE_AMD64.to_le_bytes());
    out.extend_from_slice(&[0; 6]);
    for _ in 0..3 {
        out.extend_from_slice(&version.next().unwrap_or(0).to_le_bytes());
    }
    out.extend_from_slice(&PLATFORM_LINUX.to_le_bytes());
    out.extend_from_slice(&text.to_le_bytes());
    out.resize(56, 0);
    parts.stream(SYSTEM_INFORMATION, &out);
}

/// `MINIDUMP_MISC_INFO`: the pid.
fn process(image: &dyn Image, parts: &mut Parts) {
    let mut out = Vec::with_capacity(24);
    for word in [24, 1, image.process().pid.0, 0, 0, 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    parts.stream(MISCELLANEOUS, &out);
}

/// `MINIDUMP_THREAD` of each thread with registers.
fn threads(image: &dyn Image, parts: &mut Parts, memory: &[Memory], contexts: &[Option<Location>]) {
    let known =
        || image.threads().iter().zip(contexts).filter_map(|(thread, place)| Some((thread, (*place)?)));
    let mut out = length(known().count()).to_le_bytes().to_vec();
    let mut places = Vec::new();
    for (thread, place) in known() {
        out.extend_from_slice(&thread.tid.0.to_le_bytes());
        out.extend_from_slice(&[0; 20]);
        let sp = thread.registers.as_ref().map_or(0, |registers| registers.rsp);
        match find(memory, sp) {
            Some(stack) => {
                out.extend_from_slice(&descriptor(stack));
                places.push((out.len() - 4, stack));
            }
            None => {
                out.extend_from_slice(&sp.to_le_bytes());
                out.extend_from_slice(&[0; 8]);
            }
        }
        out.extend_from_slice(&place.bytes());
    }
    parts.stream_with_memory(THREAD_LIST, &out, &places);
}

/// `MINIDUMP_EXCEPTION_STREAM` of the signal that the first thread has, as Breakpad writes it.
fn exception(image: &dyn Image, parts: &mut Parts, contexts: &[Option<Location>]) {
    let Some(thread) = image.threads().first() else { return };
    let Some(signal) = thread.signal.as_ref().filter(|signal| signal.number > 0) else { return };
    let mut out = Vec::with_capacity(168);
    for word in [thread.tid.0, 0, signal.number.cast_unsigned(), signal.code.unwrap_or(0).cast_unsigned()] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&signal.address.unwrap_or_default().0.to_le_bytes());
    out.resize(160, 0);
    out.extend_from_slice(&contexts.first().copied().flatten().unwrap_or_default().bytes());
    parts.stream(EXCEPTION, &out);
}

/// `MINIDUMP_MODULE` of each module.
fn modules(modules: &[ImageModule], parts: &mut Parts) {
    let mut out = length(modules.len()).to_le_bytes().to_vec();
    for module in modules {
        let name = parts.put_text(&module.path);
        let build_id = module.build_id.as_ref().map(|id| {
            let mut record = ELF_BUILD_ID.to_le_bytes().to_vec();
            record.extend_from_slice(id);
            parts.put(&record)
        });
        out.extend_from_slice(&module.start.to_le_bytes());
        let size = u32::try_from(module.end.saturating_sub(module.start)).unwrap_or(u32::MAX);
        for word in [size, 0, 0, name] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&[0; 52]);
        out.extend_from_slice(&build_id.unwrap_or_default().bytes());
        out.extend_from_slice(&[0; 24]);
    }
    parts.stream(MODULE_LIST, &out);
}

/// `MINIDUMP_MEMORY_LIST`.
fn memory_list(parts: &mut Parts, memory: &[Memory]) {
    let mut out = length(memory.len()).to_le_bytes().to_vec();
    let mut places = Vec::with_capacity(memory.len());
    for one in memory {
        out.extend_from_slice(&descriptor(one));
        places.push((out.len() - 4, one));
    }
    parts.stream_with_memory(MEMORY_LIST, &out, &places);
}

/// `MINIDUMP_THREAD_NAME_LIST`.
fn names(image: &dyn Image, parts: &mut Parts) {
    let named: Vec<(u32, u32)> = image
        .threads()
        .iter()
        .filter_map(|thread| Some((thread.tid.0, parts.put_text(thread.name.as_deref()?))))
        .collect();
    let mut out = length(named.len()).to_le_bytes().to_vec();
    for (tid, place) in named {
        out.extend_from_slice(&tid.to_le_bytes());
        out.extend_from_slice(&u64::from(place).to_le_bytes());
    }
    parts.stream(THREAD_NAMES, &out);
}

/// `/proc/PID/maps` as the kernel would print it.
fn maps(image: &dyn Image) -> Vec<u8> {
    let mut out = Vec::new();
    for mapping in image.mappings() {
        let right = |allowed, letter| if allowed { letter } else { '-' };
        let rights = mapping.protection;
        let nothing = Vec::new();
        let (path, offset, deleted, (device, inode)) = match &mapping.backing {
            Backing::File { path, offset, deleted, identity } => {
                (path.as_slice(), *offset, *deleted, *identity)
            }
            Backing::Anonymous { label } | Backing::Kernel { label } => (label.as_bytes(), 0, false, (0, 0)),
            Backing::Unknown => (nothing.as_slice(), 0, false, (0, 0)),
        };
        let line = format!(
            "{:08x}-{:08x} {}{}{}{} {offset:08x} {:02x}:{:02x} {inode} ",
            mapping.start,
            mapping.end,
            right(rights.read, 'r'),
            right(rights.write, 'w'),
            right(rights.execute, 'x'),
            if mapping.shared { 's' } else { 'p' },
            // As `new_encode_dev` of `linux/kdev_t.h` has them apart.
            device >> 8 & 0xfff,
            device & 0xff,
        );
        out.extend_from_slice(line.as_bytes());
        for &byte in path {
            // The kernel writes a line feed in a name like this.
            if byte == b'\n' { out.extend_from_slice(b"\\012") } else { out.push(byte) }
        }
        if deleted {
            out.extend_from_slice(b" (deleted)");
        }
        out.push(b'\n');
    }
    out
}

/// The memory that holds `address`.
fn find(memory: &[Memory], address: u64) -> Option<&Memory> {
    let after = memory.partition_point(|one| one.range.start <= address);
    memory.get(after.checked_sub(1)?).filter(|one| one.range.contains(&address))
}

/// `MINIDUMP_MEMORY_DESCRIPTOR`, its last word still without the place.
fn descriptor(memory: &Memory) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&memory.range.start.to_le_bytes());
    let size = u32::try_from(memory.range.end - memory.range.start).unwrap_or(u32::MAX);
    bytes[8..12].copy_from_slice(&size.to_le_bytes());
    bytes
}
