//! An ELF file put together from the memory of a process that maps it: headers, notes, unwind information and the symbols
//! for dynamic linking. Code and data are not copied. Section headers are not mapped; the two that are of use here
//! are made from `PT_DYNAMIC`.

use gimli::{BaseAddresses, EhFrameHdr, LittleEndian};

use super::bytes::Bytes;
use super::header::{self, Headers, Section, Segment, SegmentKind, u32_at, u64_at};
use super::{ElfError, ElfFile, Limits};

/// The file header and the program headers behind it: real files need about a kilobyte.
const HEADERS: usize = 4096;
/// Notes are a few hundred bytes.
const NOTES: u64 = 64 << 10;
/// Entries of 16 bytes; real files have about 30.
const DYNAMIC: u64 = 4096;
/// Symbols for dynamic linking of one file with their names, in bytes: libLLVM, the largest met, has 8 MB.
const SYMBOLS: u64 = 64 << 20;

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const SYMBOL_BYTES: u64 = 24;
const SHT_STRTAB: u32 = 3;
const SHT_DYNSYM: u32 = 11;

/// Reads up to so many bytes at an address: fewer where the memory is not known.
pub(crate) type ReadMemory<'a> = dyn Fn(u64, usize) -> Vec<u8> + 'a;

/// How much is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parts {
    /// Headers and notes.
    Identity,
    /// Unwind information and symbols too.
    All,
}

impl ElfFile {
    /// The file whose first byte is mapped at `start`. `label` appears in errors only. `parts`: with unwind information and
    /// symbols, or only what tells which file it is.
    pub(crate) fn from_mapped(
        label: &str,
        start: u64,
        read: &ReadMemory<'_>,
        limits: &Limits,
        parts: Parts,
    ) -> Result<Self, ElfError> {
        let first = read(start, HEADERS);
        let mut headers = header::parse(&Bytes::from_pieces(label, vec![(0, first.clone())]), limits)?;
        // Whatever is said about sections is about bytes that are not mapped.
        headers.sections = Vec::new();
        let mut mapped = Mapped { start, read, limits, headers, pieces: vec![(0, first)] };
        mapped.notes();
        match parts {
            Parts::Identity => {}
            Parts::All => {
                mapped.unwind_information();
                mapped.symbols();
            }
        }
        let Mapped { headers, pieces, .. } = mapped;
        Ok(Self::with_headers(Bytes::from_pieces(label, pieces), headers, limits))
    }
}

struct Mapped<'a> {
    start: u64,
    read: &'a ReadMemory<'a>,
    limits: &'a Limits,
    headers: Headers,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Mapped<'_> {
    fn segment(&self, kind: SegmentKind) -> Option<Segment> {
        self.headers.segments.iter().find(|segment| segment.kind == kind).copied()
    }

    fn load_of(&self, svma: u64) -> Option<&Segment> {
        let mut loads = self.headers.segments.iter().filter(|segment| segment.kind == SegmentKind::Load);
        loads.find(|load| svma.wrapping_sub(load.svma) < load.file_size)
    }

    /// Actual minus stated address.
    fn bias(&self) -> u64 {
        let first = self.headers.segments.iter().find(|segment| segment.kind == SegmentKind::Load);
        first.map_or(self.start, |load| self.start.wrapping_sub(load.svma.wrapping_sub(load.offset)))
    }

    fn bytes(&self, svma: u64, size: u64) -> Vec<u8> {
        let room = self.load_of(svma).map_or(0, |load| load.file_size - svma.wrapping_sub(load.svma));
        let size = usize::try_from(size.min(room)).unwrap_or(0);
        (self.read)(self.bias().wrapping_add(svma), size)
    }

    /// Keeps a piece; says where it lies in the file.
    fn keep(&mut self, svma: u64, size: u64) -> Option<(u64, u64)> {
        let load = self.load_of(svma)?;
        let offset = load.offset.checked_add(svma.wrapping_sub(load.svma))?;
        let bytes = self.bytes(svma, size);
        let kept = bytes.len() as u64;
        self.pieces.push((offset, bytes));
        Some((offset, kept))
    }

    fn notes(&mut self) {
        let notes: Vec<Segment> = self
            .headers
            .segments
            .iter()
            .filter(|segment| segment.kind == SegmentKind::Note)
            .copied()
            .collect();
        for note in notes.iter().take(16) {
            self.keep(note.svma, note.file_size.min(NOTES));
        }
    }

    /// The index and what it points to, up to the end of the segment: its length is not stated.
    fn unwind_information(&mut self) {
        let Some(index) = self.segment(SegmentKind::EhFrameHeader) else { return };
        if index.file_size > self.limits.unwind {
            return;
        }
        self.keep(index.svma, index.file_size);
        let header = self.bytes(index.svma, index.file_size);
        let bases = BaseAddresses::default().set_eh_frame_hdr(index.svma);
        let parsed = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8);
        let Some(frames) = parsed.ok().and_then(|parsed| parsed.eh_frame_ptr().direct().ok()) else { return };
        self.keep(frames, self.limits.unwind);
    }

    fn symbols(&mut self) {
        let Some(dynamic) = self.segment(SegmentKind::Dynamic) else { return };
        let entries = self.bytes(dynamic.svma, dynamic.file_size.min(DYNAMIC * 16));
        let value = |tag: u64| {
            let mut entries = entries.chunks_exact(16);
            let entry = entries.find(|entry| u64_at(entry, 0) == Some(tag))?;
            u64_at(entry, 8)
        };
        // glibc turns these addresses into actual ones when it loads the file, musl leaves them.
        let bias = self.bias();
        let svma = |tag: u64| {
            let stated = value(tag)?;
            [stated.wrapping_sub(bias), stated].into_iter().find(|svma| self.load_of(*svma).is_some())
        };
        let count = svma(DT_GNU_HASH)
            .and_then(|table| self.gnu_count(table))
            .or_else(|| svma(DT_HASH).and_then(|table| u32_at(&self.bytes(table, 8), 4)).map(u64::from));
        let (Some(symbols), Some(names), Some(names_size), Some(count)) =
            (svma(DT_SYMTAB), svma(DT_STRTAB), value(DT_STRSZ), count)
        else {
            return;
        };
        let size = count.min(self.limits.symbols).saturating_mul(SYMBOL_BYTES);
        if size > SYMBOLS || names_size > SYMBOLS {
            return;
        }
        let (Some(table), Some(strings)) = (self.keep(symbols, size), self.keep(names, names_size)) else {
            return;
        };
        let section = |name: &str, kind, svma, (offset, size), link| Section {
            name: name.to_owned(),
            kind,
            compressed: false,
            executable: false,
            svma,
            offset,
            size,
            link,
        };
        self.headers.sections = vec![
            section("", 0, 0, (0, 0), 0),
            section(".dynsym", SHT_DYNSYM, symbols, (table.0, table.1 / SYMBOL_BYTES * SYMBOL_BYTES), 2),
            section(".dynstr", SHT_STRTAB, names, strings, 0),
        ];
    }

    /// How many symbols there are: the GNU hash table does not say it, but ends with the last one.
    ///
    /// ```text
    /// 0 buckets  4 first symbol  8 bloom words  12 shift  16 bloom (8 each)  buckets (4 each)  chains (4 each; bit 0: last)
    /// ```
    fn gnu_count(&self, table: u64) -> Option<u64> {
        let head = self.bytes(table, 16);
        let (buckets, first, bloom) = (u32_at(&head, 0)?, u64::from(u32_at(&head, 4)?), u32_at(&head, 8)?);
        let at = table.checked_add(16)?.checked_add(u64::from(bloom) * 8)?;
        let size = u64::from(buckets) * 4;
        if size > SYMBOLS {
            return None;
        }
        let starts = self.bytes(at, size);
        let last =
            starts.as_chunks::<4>().0.iter().map(|bucket| u64::from(u32::from_le_bytes(*bucket))).max()?;
        if last < first {
            return Some(first);
        }
        let chain = at.checked_add(size)?.checked_add((last - first).checked_mul(4)?)?;
        let chain = self.bytes(chain, 1 << 20);
        let rest = chain.as_chunks::<4>().0.iter().position(|value| value[0] & 1 == 1)?;
        Some(last + rest as u64 + 1)
    }
}
