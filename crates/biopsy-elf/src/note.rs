//! Notes: small facts about a file or, in a core, about a process.
//!
//! ```text
//! 0         4         8     12         12 + pad4(name_size)
//! name_size desc_size type  name\0...  description, padded to 4 bytes
//! ```
//!
//! Linux pads to 4 bytes in 64-bit files too, whatever the gABI says; notes that are aligned to 8 (`.note.gnu.property`) have sizes
//! where that makes no difference.

use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID, NoteHeader64, NoteType};
use object::read::elf::NoteIterator;

use crate::source::rows;
use crate::{LE, LittleEndian};

/// Longest build id that is taken, in bytes; SHA-1 has 20.
const BUILD_ID: usize = 64;

/// A note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note<'a> {
    /// Who says what the type means, without zero bytes at the end.
    pub owner: &'a [u8],
    /// `NT_*`.
    pub kind: NoteType,
    /// Its description.
    pub contents: &'a [u8],
}

/// The notes in the bytes of a section or segment, up to the first that is cut off.
pub fn notes(bytes: &[u8]) -> impl Iterator<Item = Note<'_>> {
    let notes = NoteIterator::<FileHeader64<LittleEndian>>::new(LE, 4, bytes).ok();
    let notes = notes.into_iter().flatten().map_while(Result::ok);
    notes.map(|note| Note { owner: note.name(), kind: note.n_type(LE), contents: note.desc() })
}

/// The GNU build id in the bytes of a section or segment: 1 to 64 bytes.
#[must_use]
pub fn build_id(bytes: &[u8]) -> Option<&[u8]> {
    let is_id = |note: &Note<'_>| note.kind == NT_GNU_BUILD_ID && note.owner == ELF_NOTE_GNU;
    notes(bytes).find(is_id).map(|note| note.contents).filter(|id| (1..=BUILD_ID).contains(&id.len()))
}

/// The beginning of a note, for those who read contents only where they want them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoteHead<'a> {
    /// As much of the owner as was given, without zero bytes at the end.
    pub owner: &'a [u8],
    /// `NT_*`.
    pub kind: NoteType,
    /// Where the contents begin.
    pub contents_at: u64,
    /// Their size in bytes.
    pub size: u32,
}

impl<'a> NoteHead<'a> {
    /// Of the note at `at` that begins with these bytes; `None` when they are less than its sizes and type.
    #[must_use]
    pub fn of(bytes: &'a [u8], at: u64) -> Option<Self> {
        const SIZE: usize = size_of::<NoteHeader64<LittleEndian>>();
        let (head, name) = bytes.split_at_checked(SIZE)?;
        let [head] = rows::<NoteHeader64<LittleEndian>>(head) else { return None };
        let name_size = head.n_namesz.get(LE);
        let mut owner = name.get(..name_size as usize).unwrap_or(name);
        while let [rest @ .., 0] = owner {
            owner = rest;
        }
        let contents_at = at.saturating_add(SIZE as u64).saturating_add(padded(name_size));
        Some(Self { owner, kind: head.n_type.get(LE), contents_at, size: head.n_descsz.get(LE) })
    }

    /// Where the next note begins.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.contents_at.saturating_add(padded(self.size))
    }
}

/// Appends a note, unless its contents are larger than a note can say.
pub fn put_note(out: &mut Vec<u8>, owner: &[u8], kind: NoteType, contents: &[u8]) {
    let (Ok(name), Ok(size)) = (u32::try_from(owner.len() + 1), u32::try_from(contents.len())) else {
        return;
    };
    for word in [name, size, kind.0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for part in [&[owner, b"\0"].concat(), contents] {
        out.extend_from_slice(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
}

fn padded(size: u32) -> u64 {
    u64::from(size).next_multiple_of(4)
}
