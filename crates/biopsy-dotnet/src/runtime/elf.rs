//! Dynamic symbols of an ELF file that is mapped, read from memory.

use biopsy_bytes::Cursor;

use super::Memory;

/// Program headers; real files have about a dozen.
const PROGRAM_HEADERS: u16 = 256;
/// Bytes of one program header and of one symbol.
const HEADER_BYTES: usize = 56;
const SYMBOL_BYTES: u64 = 24;
/// Entries of the dynamic section.
const DYNAMIC: u64 = 4096;
/// Symbols of one file: libcoreclr.so has some hundred, executables of one file some thousand.
const SYMBOLS: u64 = 200_000;
/// Bytes of notes.
const NOTES: u64 = 4096;

const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const NT_GNU_BUILD_ID: u32 = 3;

/// A symbol: address in memory and bytes.
pub(super) type Symbol = (u64, u64);

/// What is looked for in a mapped ELF file.
#[derive(Debug, Default)]
pub(super) struct MappedElf {
    /// The symbols that were asked for, in that order.
    pub(super) symbols: Vec<Option<Symbol>>,
    /// GNU build id.
    pub(super) build_id: Option<Vec<u8>>,
}

/// Reads the dynamic symbols `names` of the file whose first byte is at `base`; nothing when it is no ELF file.
pub(super) fn read(memory: &Memory<'_>, base: u64, names: &[&[u8]]) -> Option<MappedElf> {
    let head: [u8; 64] = memory.array(base).ok()?;
    let mut cursor = Cursor::new(&head);
    if cursor.take("magic", 6).ok()? != b"\x7fELF\x02\x01" {
        return None;
    }
    cursor.skip("header", 26).ok()?;
    let offset = cursor.u64("program headers").ok()?;
    cursor.skip("header", 16).ok()?;
    let count = cursor.u16("program headers").ok()?.min(PROGRAM_HEADERS);
    let mut bytes = vec![0; usize::from(count) * HEADER_BYTES];
    memory.read(base.checked_add(offset)?, &mut bytes).ok()?;
    let mut cursor = Cursor::new(&bytes);
    let mut dynamic = None;
    let mut found = MappedElf { symbols: vec![None; names.len()], build_id: None };
    for _ in 0..count {
        let kind = cursor.u32("type").ok()?;
        cursor.skip("flags, offset", 12).ok()?;
        let address = base.wrapping_add(cursor.u64("address").ok()?);
        cursor.skip("physical address, size", 16).ok()?;
        let size = cursor.u64("size").ok()?;
        cursor.skip("alignment", 8).ok()?;
        match kind {
            PT_DYNAMIC => dynamic = Some((address, size)),
            PT_NOTE if found.build_id.is_none() => {
                found.build_id = build_id(memory, address, size.min(NOTES));
            }
            _ => {}
        }
    }
    if let Some((address, size)) = dynamic {
        symbols(memory, base, address, size, names, &mut found.symbols);
    }
    Some(found)
}

fn build_id(memory: &Memory<'_>, address: u64, size: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    memory.read(address, &mut bytes).ok()?;
    let mut cursor = Cursor::new(&bytes);
    while cursor.remaining() >= 12 {
        let name = cursor.u32("note").ok()? as usize;
        let length = cursor.u32("note").ok()? as usize;
        let kind = cursor.u32("note").ok()?;
        let owner = cursor.take("owner", name.checked_next_multiple_of(4)?).ok()?;
        let description = cursor.take("description", length.checked_next_multiple_of(4)?).ok()?;
        if kind == NT_GNU_BUILD_ID && owner == b"GNU\0" {
            return description.get(..length).map(<[u8]>::to_vec);
        }
    }
    None
}

fn symbols(
    memory: &Memory<'_>,
    base: u64,
    dynamic: u64,
    size: u64,
    names: &[&[u8]],
    found: &mut [Option<Symbol>],
) -> Option<()> {
    let (mut table, mut strings, mut strings_bytes, mut hash) = (0, 0, 0, 0);
    for entry in 0..(size / 16).min(DYNAMIC) {
        let [tag, value] = memory.words::<2>(dynamic.wrapping_add(entry * 16)).ok()?;
        match tag {
            0 => break,
            DT_SYMTAB => table = value,
            DT_STRTAB => strings = value,
            DT_STRSZ => strings_bytes = value,
            DT_GNU_HASH => hash = value,
            _ => {}
        }
    }
    if table == 0 || strings == 0 {
        return None;
    }
    // The loader turns these into addresses; musl, and files nobody has loaded, leave them as they are.
    let fixed = |value: u64| if value < base { value.wrapping_add(base) } else { value };
    let (table, strings) = (fixed(table), fixed(strings));
    if hash != 0 {
        let hash = fixed(hash);
        for (slot, name) in found.iter_mut().zip(names) {
            *slot = by_hash(memory, base, hash, table, strings, name);
        }
        return Some(());
    }
    // No table of hashes: one symbol after the other, up to the strings, which follow in all real files.
    let count = (strings.saturating_sub(table) / SYMBOL_BYTES).min(SYMBOLS);
    for number in 0..count {
        let at = table.wrapping_add(number * SYMBOL_BYTES);
        let Some((name, symbol)) = symbol_at(memory, base, at) else { continue };
        if u64::from(name) >= strings_bytes {
            continue;
        }
        for (slot, wanted) in found.iter_mut().zip(names) {
            if slot.is_none() && name_is(memory, strings.wrapping_add(name.into()), wanted) {
                *slot = Some(symbol);
            }
        }
    }
    Some(())
}

/// One name through `DT_GNU_HASH`: four reads instead of one of all symbols.
fn by_hash(
    memory: &Memory<'_>,
    base: u64,
    hash: u64,
    table: u64,
    strings: u64,
    name: &[u8],
) -> Option<Symbol> {
    let buckets = memory.u32(hash).ok()?;
    let first = memory.u32(hash.checked_add(4)?).ok()?;
    let bloom = memory.u32(hash.checked_add(8)?).ok()?;
    let wanted = name.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
    let bucket_table = hash.checked_add(16)?.checked_add(u64::from(bloom).checked_mul(8)?)?;
    let slot = wanted.checked_rem(buckets)?;
    let mut index = memory.u32(bucket_table.checked_add(u64::from(slot) * 4)?).ok()?;
    if index < first {
        return None;
    }
    let chains = bucket_table.checked_add(u64::from(buckets) * 4)?;
    for _ in 0..SYMBOLS {
        let chain = memory.u32(chains.checked_add(u64::from(index - first) * 4)?).ok()?;
        if chain | 1 == wanted | 1 {
            let at = table.checked_add(u64::from(index) * SYMBOL_BYTES)?;
            let (text, symbol) = symbol_at(memory, base, at)?;
            if name_is(memory, strings.checked_add(text.into())?, name) {
                return Some(symbol);
            }
        }
        if chain & 1 != 0 {
            return None;
        }
        index = index.checked_add(1)?;
    }
    None
}

/// Offset of the name, and where the symbol is; nothing for symbols that are defined elsewhere.
fn symbol_at(memory: &Memory<'_>, base: u64, at: u64) -> Option<(u32, Symbol)> {
    let bytes: [u8; 24] = memory.array(at).ok()?;
    let mut cursor = Cursor::new(&bytes);
    let name = cursor.u32("name").ok()?;
    cursor.skip("info", 2).ok()?;
    let section = cursor.u16("section").ok()?;
    let value = cursor.u64("value").ok()?;
    let size = cursor.u64("size").ok()?;
    (section != 0).then_some((name, (base.wrapping_add(value), size)))
}

fn name_is(memory: &Memory<'_>, at: u64, wanted: &[u8]) -> bool {
    let mut bytes = [0; 64];
    let Some(bytes) = bytes.get_mut(..=wanted.len()) else { return false };
    memory.read(at, bytes).is_ok() && bytes.split_last() == Some((&0, wanted))
}
