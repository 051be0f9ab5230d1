//! The file of a made-up program, as it is in memory: headers, a dynamic section, symbols.

/// Bytes of the headers, of a symbol, and of an entry of the dynamic section (elf(5)).
const HEADER: usize = 64;
const SEGMENT: usize = 56;
const ENTRY: usize = 16;
const SYMBOL: usize = 24;
/// `STB_GLOBAL`, `STT_OBJECT`; a section that nothing is told of.
const GLOBAL_OBJECT: u8 = 0x11;
const SECTION: u16 = 240;

/// A symbol: its name, where it is from the beginning of the file on, and its size.
pub(super) type Symbol<'a> = (&'a str, u64, u64);

/// One segment with all of this, and one of data (where it begins, and its size).
pub(super) fn file(symbols: &[Symbol<'_>], data: (u64, u64)) -> Vec<u8> {
    let dynamic_at = HEADER + 3 * SEGMENT;
    let hash_at = dynamic_at + 5 * ENTRY;
    let table_at = hash_at + 8;
    let names_at = table_at + (symbols.len() + 1) * SYMBOL;
    let (mut table, mut names) = (vec![0; SYMBOL], vec![0]);
    for (name, at, size) in symbols {
        table.extend((names.len() as u32).to_le_bytes());
        table.extend([GLOBAL_OBJECT, 0]);
        table.extend(SECTION.to_le_bytes());
        table.extend(at.to_le_bytes());
        table.extend(size.to_le_bytes());
        names.extend(name.bytes().chain([0]));
    }
    let end = (names_at + names.len()) as u64;
    let mut bytes = Vec::new();
    let mut words = |words: &[u64]| bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    // 64 bits, little-endian; a shared object for x86-64; segments behind the header, no sections.
    words(&[0x0001_0102_464c_457f, 0, 0x0001_003e_0003, 0, HEADER as u64, 0]);
    words(&[0x0038_0040_0000_0000, 0x40 << 16 | 3]);
    let dynamic_bytes = (hash_at - dynamic_at) as u64;
    let (readable, writable) = (4_u64 << 32, 6_u64 << 32);
    for (kind, at, size) in [
        (1 | readable, 0, end),
        (1 | writable, data.0, data.1),
        (2 | readable, dynamic_at as u64, dynamic_bytes),
    ] {
        words(&[kind, at, at, at, size, size, 8]);
    }
    // DT_HASH, DT_SYMTAB, DT_STRTAB, DT_STRSZ, DT_NULL.
    for (tag, value) in [(4, hash_at), (6, table_at), (5, names_at), (10, names.len()), (0, 0)] {
        words(&[tag, value as u64]);
    }
    // No buckets, and so many symbols.
    words(&[(symbols.len() as u64 + 1) << 32]);
    bytes.extend(table);
    bytes.extend(names);
    bytes
}
