//! A file as a process has mapped it: everything is found by address, and sections are not there.

use std::convert::Infallible;

use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, GnuHashHeader, HashHeader, PT_DYNAMIC, PT_NOTE,
    ProgramType, SHN_UNDEF, Sym64,
};

use crate::source::{read_up_to, rows};
use crate::{Dynamic, FileHeader, LE, LittleEndian, Memory, Problem, Segment, build_id, place_of};

/// Bytes of a note segment that are read.
const NOTES: u64 = 64 << 10;
/// Longest name of a symbol that is looked for, in bytes.
const NAME: usize = 255;
/// Symbols that are looked through: libcoreclr.so has some hundred, executables of one file some thousand.
const SYMBOLS: u64 = 200_000;
/// Bytes of the table of buckets of a hash table.
const BUCKETS: u64 = 64 << 20;
/// Bytes of the last chain of a hash table.
const CHAIN: u64 = 1 << 20;
const SYMBOL: u64 = size_of::<Sym64<LittleEndian>>() as u64;

/// Reads memory from an address on, and says how many bytes it were: fewer than asked for only where the next one is missing.
pub type ReadMemory<'a> = dyn Fn(u64, &mut [u8]) -> usize + 'a;

/// A file that is mapped in a process: header and program headers, and what they lead to, read when it is asked for.
pub struct MappedElf<'a> {
    memory: Memory<&'a ReadMemory<'a>>,
    start: u64,
    /// The file header.
    pub header: FileHeader,
    /// The program headers, as many as were taken and are there.
    pub segments: Vec<Segment>,
    /// Actual minus stated addresses, by the segment that holds the beginning of the file; `None` when there is none.
    pub bias: Option<u64>,
}

impl std::fmt::Debug for MappedElf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedElf")
            .field("start", &self.start)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl<'a> MappedElf<'a> {
    /// The file whose first byte is at `start`, with at most `most` program headers. `read` reads memory from an address on and
    /// says how many bytes it were.
    ///
    /// # Errors
    /// When there is no header of an ELF file. Program headers that are not there are just missing.
    pub fn read(read: &'a ReadMemory<'a>, start: u64, most: u64) -> Result<Self, Problem<Infallible>> {
        let memory = Memory(read);
        let header = FileHeader::read(&memory, start)?;
        let segments = header.read_segments(&memory, most).unwrap_or_default();
        let first = segments.iter().find(|one| one.is_load() && one.offset < 4096);
        let bias = first.map(|first| start.wrapping_sub(first.address.wrapping_sub(first.offset)));
        Ok(Self { memory, start, header, segments, bias })
    }

    /// All program headers are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.segments.len() as u64 == self.header.segments.count
    }

    /// Program headers of one type.
    pub fn of(&self, kind: ProgramType) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| segment.kind == kind)
    }

    /// The address in memory of a stated one.
    #[must_use]
    pub fn actual(&self, stated: u64) -> u64 {
        self.bias.unwrap_or(self.start).wrapping_add(stated)
    }

    /// The stated address that a value of the dynamic section means, when it is one: glibc makes actual ones of them when it loads
    /// the file; musl, and the kernel with the vdso, leave them.
    #[must_use]
    pub fn stated(&self, value: u64) -> Option<u64> {
        let stated = value.wrapping_sub(self.actual(0));
        [stated, value].into_iter().find(|stated| place_of(&self.segments, *stated).is_some())
    }

    /// Bytes from a stated address on: as many as the file has there and memory still has, up to `size`, which the caller has
    /// bounded.
    #[must_use]
    pub fn bytes(&self, stated: u64, size: u64) -> Vec<u8> {
        let room = place_of(&self.segments, stated).map_or(0, |(_, room)| room);
        read_up_to(&self.memory, self.actual(stated), size.min(room)).unwrap_or_default()
    }

    /// GNU build id, 1 to 64 bytes.
    #[must_use]
    pub fn build_id(&self) -> Option<Vec<u8>> {
        self.of(PT_NOTE).find_map(|note| {
            let size = note.file_size.min(NOTES);
            let bytes = read_up_to(&self.memory, self.actual(note.address), size).unwrap_or_default();
            build_id(&bytes).map(<[u8]>::to_vec)
        })
    }

    /// The dynamic section, as it is in memory.
    #[must_use]
    pub fn dynamic(&self) -> Option<Dynamic> {
        let segment = self.of(PT_DYNAMIC).next()?;
        let size = segment.file_size.min(Dynamic::MOST);
        let bytes = read_up_to(&self.memory, self.actual(segment.address), size).unwrap_or_default();
        Some(Dynamic::parse(&bytes))
    }

    /// How many symbols for dynamic linking there are, by the hash tables. The older one says it; the GNU one ends with the last.
    #[must_use]
    pub fn symbol_count(&self, dynamic: &Dynamic) -> Option<u64> {
        let address = |tag| self.stated(dynamic.value(tag)?);
        let by_gnu_hash = address(DT_GNU_HASH).and_then(|table| self.gnu_count(table));
        by_gnu_hash.or_else(|| {
            let head = self.bytes(address(DT_HASH)?, size_of::<HashHeader<LittleEndian>>() as u64);
            rows::<HashHeader<_>>(&head).first().map(|head| head.chain_count.get(LE).into())
        })
    }

    fn gnu_count(&self, table: u64) -> Option<u64> {
        let hash = GnuHash::read(self, table)?;
        let size = u64::from(hash.buckets) * 4;
        if size > BUCKETS {
            return None;
        }
        let starts = self.bytes(hash.bucket_table, size);
        let last = words(&starts).max()?;
        if last < hash.first {
            return Some(hash.first.into());
        }
        let chain = self.bytes(hash.chain_of(last)?, CHAIN);
        let rest = words(&chain).position(|value| value & 1 == 1)?;
        Some(u64::from(last) + rest as u64 + 1)
    }

    /// Address in memory and size in bytes of a symbol for dynamic linking that this file defines.
    ///
    /// By `DT_GNU_HASH` it takes a handful of small reads; without, the symbols are read one after the other, up to their names,
    /// which follow them in all real files.
    #[must_use]
    pub fn symbol(&self, dynamic: &Dynamic, name: &[u8]) -> Option<(u64, u64)> {
        let address = |tag| self.stated(dynamic.value(tag)?);
        let (symbols, names) = (address(DT_SYMTAB)?, address(DT_STRTAB)?);
        let names = names..names.saturating_add(dynamic.value(DT_STRSZ).unwrap_or(u64::MAX));
        let found = |symbol: &Sym64<LittleEndian>| {
            let at = names.start.saturating_add(symbol.st_name.get(LE).into());
            let here = symbol.st_shndx.get(LE) != SHN_UNDEF && names.contains(&at) && self.name_is(at, name);
            here.then(|| (self.actual(symbol.st_value.get(LE)), symbol.st_size.get(LE)))
        };
        if let Some(table) = address(DT_GNU_HASH) {
            return GnuHash::read(self, table)?.find(self, symbols, name, found);
        }
        let count = (names.start.saturating_sub(symbols) / SYMBOL).min(SYMBOLS);
        rows(&self.bytes(symbols, count * SYMBOL)).iter().find_map(found)
    }

    fn name_is(&self, at: u64, wanted: &[u8]) -> bool {
        let size = wanted.len().min(NAME) as u64 + 1;
        self.bytes(at, size).split_last() == Some((&0, wanted))
    }
}

/// The hash table of GNU.
///
/// ```text
/// 0 buckets  4 first symbol  8 bloom words  12 shift  16 bloom (8 each)  buckets (4 each)  chains (4 each; bit 0: last)
/// ```
struct GnuHash {
    buckets: u32,
    /// Number of the first symbol that is in it.
    first: u32,
    bucket_table: u64,
}

impl GnuHash {
    fn read(file: &MappedElf<'_>, table: u64) -> Option<Self> {
        const SIZE: u64 = size_of::<GnuHashHeader<LittleEndian>>() as u64;
        let bytes = file.bytes(table, SIZE);
        let head = rows::<GnuHashHeader<LittleEndian>>(&bytes).first()?;
        let bloom = u64::from(head.bloom_count.get(LE)) * 8;
        let bucket_table = table.checked_add(SIZE)?.checked_add(bloom)?;
        Some(Self { buckets: head.bucket_count.get(LE), first: head.symbol_base.get(LE), bucket_table })
    }

    /// Where the word of a symbol is.
    fn chain_of(&self, symbol: u32) -> Option<u64> {
        let chains = self.bucket_table.checked_add(u64::from(self.buckets) * 4)?;
        chains.checked_add(u64::from(symbol.checked_sub(self.first)?) * 4)
    }

    fn find<T>(
        &self,
        file: &MappedElf<'_>,
        symbols: u64,
        name: &[u8],
        found: impl Fn(&Sym64<LittleEndian>) -> Option<T>,
    ) -> Option<T> {
        let wanted = object::elf::gnu_hash(name);
        let slot = wanted.checked_rem(self.buckets)?;
        let word = |at| words(&file.bytes(at, 4)).next();
        let mut index = word(self.bucket_table.checked_add(u64::from(slot) * 4)?)?;
        for _ in 0..SYMBOLS {
            let chain = word(self.chain_of(index)?)?;
            if chain | 1 == wanted | 1 {
                let at = symbols.checked_add(u64::from(index) * SYMBOL)?;
                if let Some(found) = rows(&file.bytes(at, SYMBOL)).first().and_then(&found) {
                    return Some(found);
                }
            }
            if chain & 1 != 0 {
                return None;
            }
            index = index.checked_add(1)?;
        }
        None
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
}
