//! A synthetic ELF core, byte by byte: right ones, and all kinds of wrong ones.

use biopsy_elf::put_note;
use biopsy_elf::raw::NoteType;

use crate::GeneralRegisters;

/// A segment of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First address (`p_vaddr`).
    pub start: u64,
    /// Bytes that are in the file.
    pub bytes: Vec<u8>,
    /// Size in memory (`p_memsz`); the bytes behind `bytes` were left out.
    pub size: u64,
    /// `p_flags`: 4 read, 2 write, 1 execute.
    pub flags: u32,
}

/// A note.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreNote {
    /// Owner, without the zero byte.
    pub owner: Vec<u8>,
    /// Type.
    pub kind: u32,
    /// Contents.
    pub contents: Vec<u8>,
}

/// Builds a core. Notes and segments are written in the order they were added.
#[derive(Clone, Debug)]
pub struct CoreBuilder {
    class: u8,
    data: u8,
    e_type: u16,
    machine: u16,
    extended_count: bool,
    notes: Vec<CoreNote>,
    segments: Vec<Segment>,
    page: u64,
}

impl Default for CoreBuilder {
    fn default() -> Self {
        Self {
            class: 2,
            data: 1,
            e_type: 4,
            machine: 62,
            extended_count: false,
            notes: Vec::new(),
            segments: Vec::new(),
            page: 4096,
        }
    }
}

impl CoreBuilder {
    /// An empty core of x86-64.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Other values in the ELF header: class (1: 32-bit), data (2: big-endian), `e_type`, `e_machine`.
    #[must_use]
    pub fn header(mut self, class: u8, data: u8, e_type: u16, machine: u16) -> Self {
        (self.class, self.data, self.e_type, self.machine) = (class, data, e_type, machine);
        self
    }

    /// Writes the number of program headers into the first section header (PN_XNUM), however many there are.
    #[must_use]
    pub fn extended_count(mut self) -> Self {
        self.extended_count = true;
        self
    }

    /// Alignment of segments in the file.
    #[must_use]
    pub fn page(mut self, page: u64) -> Self {
        self.page = page;
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, owner: &str, kind: u32, contents: impl Into<Vec<u8>>) -> Self {
        self.notes.push(CoreNote { owner: owner.into(), kind, contents: contents.into() });
        self
    }

    /// Adds NT_PRSTATUS of a thread with a signal (0: none) and registers.
    #[must_use]
    pub fn thread(self, tid: u32, signal: u16, registers: &GeneralRegisters) -> Self {
        let mut contents = vec![0; 336];
        contents[12..14].copy_from_slice(&signal.to_le_bytes());
        contents[32..36].copy_from_slice(&tid.to_le_bytes());
        contents[112..112 + GeneralRegisters::SIZE].copy_from_slice(&registers.to_bytes());
        self.note("CORE", 1, contents)
    }

    /// Adds NT_PRPSINFO.
    #[must_use]
    pub fn process(self, pid: u32, name: &str, arguments: &str) -> Self {
        let mut contents = vec![0; 136];
        contents[24..28].copy_from_slice(&pid.to_le_bytes());
        contents[28..32].copy_from_slice(&1u32.to_le_bytes());
        for (at, most, text) in [(40, 15, name), (56, 79, arguments)] {
            let text = &text.as_bytes()[..text.len().min(most)];
            contents[at..at + text.len()].copy_from_slice(text);
        }
        self.note("CORE", 3, contents)
    }

    /// Adds NT_SIGINFO.
    #[must_use]
    pub fn signal(self, number: i32, code: i32, address: u64) -> Self {
        let mut contents = vec![0; 128];
        contents[..4].copy_from_slice(&number.to_le_bytes());
        contents[8..12].copy_from_slice(&code.to_le_bytes());
        contents[16..24].copy_from_slice(&address.to_le_bytes());
        self.note("CORE", 0x5349_4749, contents)
    }

    /// Adds NT_AUXV.
    #[must_use]
    pub fn auxiliary(self, entries: &[(u64, u64)]) -> Self {
        let entries = entries.iter().chain([&(0, 0)]);
        let contents: Vec<u8> =
            entries.flat_map(|(kind, value)| [kind.to_le_bytes(), value.to_le_bytes()].concat()).collect();
        self.note("CORE", 6, contents)
    }

    /// Adds NT_FILE: start, end, offset in pages of 4096 bytes, path.
    #[must_use]
    pub fn files(self, files: &[(u64, u64, u64, &[u8])]) -> Self {
        let mut contents = [files.len() as u64, 4096].map(u64::to_le_bytes).concat();
        for (start, end, pages, _) in files {
            for word in [start, end, pages] {
                contents.extend_from_slice(&word.to_le_bytes());
            }
        }
        for (_, _, _, path) in files {
            contents.extend_from_slice(path);
            contents.push(0);
        }
        self.note("CORE", 0x4649_4c45, contents)
    }

    /// Adds a segment whose memory is all in the file.
    #[must_use]
    pub fn memory(self, start: u64, flags: u32, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let size = bytes.len() as u64;
        self.segment(Segment { start, bytes, size, flags })
    }

    /// Adds a segment.
    #[must_use]
    pub fn segment(mut self, segment: Segment) -> Self {
        self.segments.push(segment);
        self
    }

    /// Size of what comes before the contents of the first segment.
    #[must_use]
    pub fn head_size(&self) -> usize {
        64 + self.headers() * 56 + self.encode_notes().len() + 64
    }

    fn headers(&self) -> usize {
        self.segments.len() + 1
    }

    fn encode_notes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for note in &self.notes {
            put_note(&mut out, &note.owner, NoteType(note.kind), &note.contents);
        }
        out
    }

    /// The bytes of the file.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let notes = self.encode_notes();
        let count = self.headers();
        let notes_at = 64 + count * 56;
        let sections_at = notes_at + notes.len();
        let mut out = vec![0x7f, b'E', b'L', b'F', self.class, self.data, 1];
        out.resize(16, 0);
        out.extend(self.e_type.to_le_bytes());
        out.extend(self.machine.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend([0, 64, sections_at as u64].map(u64::to_le_bytes).concat());
        out.extend(0u32.to_le_bytes());
        let in_header = if self.extended_count { 0xffff } else { count as u16 };
        out.extend([64, 56, in_header, 64, 1, 0].map(u16::to_le_bytes).concat());
        let header = |out: &mut Vec<u8>, kind: u32, flags: u32, words: [u64; 6]| {
            out.extend_from_slice(&kind.to_le_bytes());
            out.extend_from_slice(&flags.to_le_bytes());
            words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        };
        header(&mut out, 4, 0, [notes_at as u64, 0, 0, notes.len() as u64, 0, 4]);
        let mut at = ((sections_at + 64) as u64).next_multiple_of(self.page);
        let mut places = Vec::new();
        for segment in &self.segments {
            let in_file = segment.bytes.len() as u64;
            header(&mut out, 1, segment.flags, [at, segment.start, 0, in_file, segment.size, self.page]);
            places.push(at);
            at = (at + in_file).next_multiple_of(self.page);
        }
        out.extend(notes);
        let mut section = [0; 64];
        section[44..48].copy_from_slice(&(count as u32).to_le_bytes());
        out.extend(section);
        for (segment, at) in self.segments.iter().zip(places) {
            out.resize(at as usize, 0);
            out.extend_from_slice(&segment.bytes);
        }
        out
    }
}
