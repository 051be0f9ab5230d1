//! What the dynamic loader writes into a mapped file: addresses that depend on where it is mapped.
//!
//! createdump leaves pages of libraries out that only the loader has written. The file has zeros there; what the loader wrote is
//! the base of the file plus a number from its table (`R_X86_64_RELATIVE`).

use biopsy_elf::raw::{DT_RELA, DT_RELASZ, PT_DYNAMIC, R_X86_64_RELATIVE, Rela64};
use biopsy_elf::{Dynamic, FileHeader, LE, LittleEndian, Memory, place_of, read_up_to, rows};

use super::MissingFiles;

/// Real files have a dozen headers, and libcoreclr.so 19,000 relocations.
const HEADERS: u64 = 64;
const RELOCATIONS: u64 = 1 << 20;

type Row = Rela64<LittleEndian>;

/// Stated addresses that the loader writes, in their order, and what it adds the base to.
#[derive(Debug, Default)]
pub(super) struct Relocations(Vec<(u64, u64)>);

impl Relocations {
    /// Of the file at `path`; none when it is no such file, or says nothing of them.
    pub(super) fn read(files: &dyn MissingFiles, path: &[u8]) -> Self {
        Self::of(files, path).unwrap_or_default()
    }

    fn of(files: &dyn MissingFiles, path: &[u8]) -> Option<Self> {
        let file = Memory(|offset, buffer: &mut [u8]| files.read(path, offset, buffer));
        let segments = FileHeader::read(&file, 0).ok()?.read_segments(&file, HEADERS).ok()?;
        let dynamic = segments.iter().find(|one| one.kind == PT_DYNAMIC)?;
        let dynamic = read_up_to(&file, dynamic.offset, dynamic.file_size.min(Dynamic::MOST)).ok()?;
        let dynamic = Dynamic::parse(&dynamic);
        let (offset, room) = place_of(&segments, dynamic.value(DT_RELA)?)?;
        let size = dynamic.value(DT_RELASZ)?.min(RELOCATIONS * size_of::<Row>() as u64).min(room);
        let table = read_up_to(&file, offset, size).ok()?;
        let relative = rows::<Row>(&table).iter().filter(|row| row.r_type(LE, false) == R_X86_64_RELATIVE);
        let mut found: Vec<_> =
            relative.map(|row| (row.r_offset.get(LE), row.r_addend.get(LE).cast_unsigned())).collect();
        found.sort_unstable();
        Some(Self(found))
    }

    /// Writes into `bytes`, which the file has for the stated address `address`, what the loader wrote for a file at `base`.
    pub(super) fn apply(&self, base: u64, address: u64, bytes: &mut [u8]) {
        let end = address.saturating_add(bytes.len() as u64);
        let first = self.0.partition_point(|(place, _)| place.saturating_add(8) <= address);
        for (place, addend) in self.0.iter().skip(first).take_while(|(place, _)| *place < end) {
            for (index, byte) in base.wrapping_add(*addend).to_le_bytes().into_iter().enumerate() {
                let at = place.wrapping_add(index as u64).checked_sub(address);
                let at = at.and_then(|at| usize::try_from(at).ok());
                if let Some(slot) = at.and_then(|at| bytes.get_mut(at)) {
                    *slot = byte;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use biopsy_elf::testing::ElfBuilder;

    use super::*;

    struct Bytes(Vec<u8>);

    impl MissingFiles for Bytes {
        fn read(&self, _: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
            let from = self.0.get(offset as usize..).unwrap_or_default();
            let count = from.len().min(buffer.len());
            buffer[..count].copy_from_slice(&from[..count]);
            count
        }
    }

    /// An ELF file with a dynamic section and three relocations.
    fn file() -> Vec<u8> {
        let relative = R_X86_64_RELATIVE.0.into();
        let relocations: [[u64; 3]; 3] = [[0x5010, relative, 0x42], [0x5000, relative, 7], [0x5008, 1, 9]];
        let bytes: Vec<u8> = relocations.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut file = ElfBuilder::new(0x1000);
        let at = file.append(&bytes);
        let at = file.address(at);
        file.dynamic(&[(DT_RELA, at), (DT_RELASZ, 72)]).build()
    }

    #[test]
    fn addresses_are_as_the_loader_wrote_them() {
        let relocations = Relocations::read(&Bytes(file()), b"/lib");
        let mut bytes = [0u8; 24];
        relocations.apply(0x7000_0000, 0x5000, &mut bytes);
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect();
        assert_eq!(words, [0x7000_0007, 0, 0x7000_0042]);
        // Half of a word, at either end.
        let mut bytes = [0u8; 16];
        relocations.apply(0x7000_0000, 0x5004, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x42, 0, 0, 0x70]);
    }

    #[test]
    fn files_that_are_cut_or_something_else_have_none() {
        let whole = file();
        for length in 0..whole.len() {
            let mut bytes = [0u8; 8];
            Relocations::read(&Bytes(whole[..length].to_vec()), b"/lib").apply(1, 0x5000, &mut bytes);
        }
        assert!(Relocations::read(&Bytes(b"text".to_vec()), b"/lib").0.is_empty());
    }
}
