//! Notes: the build id.
//!
//! ```text
//! 0         4         8     12         12 + pad4(name_size)
//! name_size desc_size type  name\0...  description...
//! ```

use super::ElfFile;
use super::header::{SegmentKind, u32_at};

const NT_GNU_BUILD_ID: u32 = 3;
const SHT_NOTE: u32 = 7;
/// Notes of a program are a few hundred bytes; only this much of each is looked at.
const NOTE_BYTES: u64 = 64 << 10;

pub(super) fn find_build_id(file: &ElfFile) -> Option<Vec<u8>> {
    // Sections first: a separate debug file keeps the program headers of the original, whose offsets do not
    // hold in it.
    let sections = file.sections().iter().filter(|section| section.kind == SHT_NOTE && section.has_bytes());
    let segments = file.segment(SegmentKind::Note).map(|segment| (segment.offset, segment.file_size));
    sections.map(|section| (section.offset, section.size)).chain(segments).find_map(|(offset, size)| {
        let notes = file.read_up_to("notes", offset, size.min(NOTE_BYTES)).ok()?;
        build_id_in(&notes)
    })
}

fn build_id_in(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let name_size = u32_at(notes, 0)? as usize;
        let description_size = u32_at(notes, 4)? as usize;
        let kind = u32_at(notes, 8)?;
        let description = 12_usize.checked_add(name_size.checked_next_multiple_of(4)?)?;
        let end = description.checked_add(description_size)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name_size.min(4)) == Some(b"GNU\0") {
            let id = notes.get(description..end)?;
            return (1..=64).contains(&id.len()).then(|| id.to_vec());
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_note_is_found_and_lies_are_not_followed() {
        let mut notes = Vec::new();
        for word in [4_u32, 3, 1] {
            notes.extend(word.to_le_bytes());
        }
        notes.extend(b"GNU\0abc\0"); // another note, its description padded to 4
        for word in [4_u32, 4, NT_GNU_BUILD_ID] {
            notes.extend(word.to_le_bytes());
        }
        notes.extend(b"GNU\0\xde\xad\xbe\xef");
        assert_eq!(build_id_in(&notes), Some(vec![0xde, 0xad, 0xbe, 0xef]));
        assert_eq!(build_id_in(&notes[..notes.len() - 1]), None);
        assert_eq!(build_id_in(&[0xff; 64]), None);
    }
}
