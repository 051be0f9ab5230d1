//! Opening a runtime: its layout, by descriptor or by layout file.

use biopsy_model::Avma;

use super::{FoundRuntime, Memory, Options, RuntimeError};
use crate::layout::{Global, Layout, LayoutError, LayoutFiles, json};

/// "DNCCDAC\0".
const MAGIC: u64 = 0x0043_4144_4343_4e44;
/// Addresses beside a descriptor, or in `g_dacTable`: 24 and 157 in real ones.
const ADDRESSES: u64 = 4096;
/// Descriptors inside of descriptors.
const PARTS: usize = 16;
/// The platform that layouts are for.
const RID: &str = "linux-x64";

/// The layout of a runtime, and the addresses of `g_dacTable`.
pub(super) fn layout(
    memory: &Memory<'_>,
    found: &FoundRuntime,
    options: &Options,
) -> Result<(Layout, Vec<Avma>), RuntimeError> {
    let table = match found.dac_table {
        Some((address, bytes)) => read_addresses(memory, address.0, bytes / 8)?,
        None => Vec::new(),
    };
    let bytes = found.dac_table.map_or(0, |(_, bytes)| bytes);
    let files: &LayoutFiles = &options.layouts;
    let file = found.version.and_then(|version| files.find(version.major, version.minor, RID));
    let described = match found.descriptor {
        Some(address) => Some(descriptor(memory, address.0)?),
        None => None,
    };
    let mut layout = match (described, file) {
        (Some(mut layout), Some(file)) => {
            layout.fill_from(&files.layout(file, &table, bytes)?);
            layout
        }
        // A version without a file: what its descriptor says, and nothing else.
        (Some(layout), None) => layout,
        (None, Some(file)) if file.matches.as_ref().is_some_and(|one| !one.supplement) => {
            files.layout(file, &table, bytes)?
        }
        (None, _) => {
            let version =
                found.version.map_or_else(|| "of unknown version".to_string(), |one| one.to_string());
            return Err(LayoutError::UnknownVersion { version, known: files.known() }.into());
        }
    };
    beside(&mut layout, &table);
    Ok((layout, table))
}

/// `SyncBlockCache::s_pSyncBlockCache` follows `g_pSyncTable` in `g_dacTable` (`dacvars.h`) of every version, and no descriptor
/// has it.
fn beside(layout: &mut Layout, table: &[Avma]) {
    if layout.find_global("SyncBlockCache").is_some() {
        return;
    }
    let Some(sync_table) = layout.find_global("SyncTableEntries") else { return };
    let slot = table.iter().position(|address| address.0 == sync_table);
    if let Some(&next) = slot.and_then(|slot| table.get(slot + 1)) {
        layout.globals.insert("SyncBlockCache".into(), Global::Address(next.0));
    }
}

fn read_addresses(memory: &Memory<'_>, address: u64, count: u64) -> Result<Vec<Avma>, RuntimeError> {
    if count > ADDRESSES {
        return Err(RuntimeError::TooMany { what: "the table of addresses", limit: ADDRESSES });
    }
    (0..count).map(|number| Ok(Avma(memory.u64(address.wrapping_add(number * 8))?))).collect()
}

/// The layout that a descriptor and those below it say.
///
/// ```text
/// u64 "DNCCDAC\0", u32 flags, u32 bytes of JSON, u64 JSON, u32 addresses, u32 0, u64 addresses
/// ```
fn descriptor(memory: &Memory<'_>, address: u64) -> Result<Layout, RuntimeError> {
    let mut whole = Layout::default();
    let mut pending = vec![("descriptor".to_string(), address)];
    let mut seen = Vec::new();
    while let Some((label, address)) = pending.pop() {
        if seen.contains(&address) || seen.len() == PARTS {
            continue;
        }
        seen.push(address);
        let magic = memory.u64(address)?;
        if magic != MAGIC {
            return Err(RuntimeError::Unexpected {
                what: "the descriptor of the runtime",
                address: Avma(address),
                found: format!("{magic:#x}"),
            });
        }
        let size = memory.u32(address.wrapping_add(12))? as usize;
        if size > json::JSON_BYTES {
            return Err(LayoutError::TooMuch { label, what: "bytes", limit: json::JSON_BYTES }.into());
        }
        let text = memory.u64(address.wrapping_add(16))?;
        let count = memory.u32(address.wrapping_add(24))?;
        let addresses = memory.u64(address.wrapping_add(32))?;
        let addresses = read_addresses(memory, addresses, count.into())?;
        let mut bytes = vec![0; size];
        memory.read_bulk(text, &mut bytes)?;
        let parsed = json::parse(&label, &bytes, &addresses)?;
        whole.fill_from(&parsed.layout);
        for (name, place) in parsed.parts {
            // The address of a pointer that is set when the part (the collector) has started.
            match memory.u64(place) {
                Ok(MAGIC) => pending.push((format!("{label} {name}"), place)),
                Ok(to) if to != 0 => pending.push((format!("{label} {name}"), to)),
                _ => {}
            }
        }
    }
    Ok(whole)
}
