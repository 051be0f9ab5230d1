//! ELF files, as far as biopsy reads them: headers, sections, notes, dynamic sections and symbols of 64-bit little-endian
//! files, whole or cut off, on disk, in memory, or mapped in a process whose memory is read piece by piece.
//!
//! ```text
//!  Source (file, bytes, memory) ─► FileHeader ─┬─► segments ─┬─► notes ─► build_id
//!                                              │             └─► Dynamic ─► rows of Sym64, Rela64
//!                                              └─► sections
//!  memory of a process ─► MappedElf: the same by address, and one symbol by its name
//! ```
//!
//! Structures and constants are those of the crate `object` ([`raw`]); what is added here is what makes them safe to use on bytes
//! that nobody vouches for:
//! - a caller says how many rows it takes at most, and memory grows with the bytes that turn out to be there, not with what a
//!   header claims;
//! - a table that is cut off gives the rows that are there, and the header says how many there should be: whether that is an
//!   error is the caller's business;
//! - nothing recurses, nothing panics, and sums of what is read wrap or are checked.
//!
//! Specification: System V gABI, chapters 4 and 5; `elf(5)`; LSB for `.eh_frame_hdr` and the GNU additions.

#![forbid(unsafe_code)]

mod dynamic;
mod header;
mod mapped;
mod note;
mod problem;
mod section;
mod segment;
mod source;
#[cfg(feature = "testing")]
pub mod testing;

pub use object::LittleEndian;
/// Structures, types and constants of `elf.h`.
pub use object::elf as raw;
pub use object::pod::bytes_of;

pub use dynamic::Dynamic;
pub use header::{FileHeader, Ident, Table, file_header};
pub use mapped::{MappedElf, ReadMemory};
pub use note::{Note, NoteHead, build_id, notes, put_note};
pub use problem::Problem;
pub use section::Section;
pub use segment::{Segment, place_of, segments_at};
pub use source::{Memory, Source, read_up_to, rows};

/// Byte order of all files that are read.
pub const LE: LittleEndian = LittleEndian;
