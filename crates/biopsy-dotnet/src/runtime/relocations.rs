//! What the dynamic loader writes into a mapped file: addresses that depend on where it is mapped.
//!
//! createdump leaves pages of libraries out that only the loader has written. The file has zeros there; what the loader wrote is
//! the base of the file plus a number from its table (`R_X86_64_RELATIVE`).

use biopsy_bytes::Cursor;

use super::MissingFiles;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const R_X86_64_RELATIVE: u64 = 8;
/// Bytes of a program header, of an entry of the dynamic section, of a relocation.
const HEADER: usize = 56;
const DYNAMIC: usize = 16;
const RELA: usize = 24;
/// Real files have a dozen headers, some dozen entries, and libcoreclr.so 19,000 relocations.
const HEADERS: u16 = 64;
const ENTRIES: u64 = 4096;
const RELOCATIONS: u64 = 1 << 20;

/// Stated addresses that the loader writes, in their order, and what it adds the base to.
#[derive(Debug, Default)]
pub(super) struct Relocations(Vec<(u64, u64)>);

impl Relocations {
    /// Of the file at `path`; none when it is no such file, or says nothing of them.
    pub(super) fn read(files: &dyn MissingFiles, path: &[u8]) -> Self {
        Self::of(files, path).unwrap_or_default()
    }

    fn of(files: &dyn MissingFiles, path: &[u8]) -> Option<Self> {
        let bytes = |offset: u64, length: usize| {
            let mut bytes = vec![0; length];
            (files.read(path, offset, &mut bytes) == length).then_some(bytes)
        };
        let head = bytes(0, 64)?;
        let mut cursor = Cursor::new(&head);
        if cursor.take("magic", 6).ok()? != b"\x7fELF\x02\x01" {
            return None;
        }
        cursor.skip("header", 26).ok()?;
        let offset = cursor.u64("program headers").ok()?;
        cursor.skip("header", 16).ok()?;
        let count = cursor.u16("program headers").ok()?.min(HEADERS);
        let headers = bytes(offset, usize::from(count) * HEADER)?;
        let mut cursor = Cursor::new(&headers);
        let mut loads = Vec::new();
        let mut dynamic = None;
        for _ in 0..count {
            let kind = cursor.u32("type").ok()?;
            cursor.skip("flags", 4).ok()?;
            let offset = cursor.u64("offset").ok()?;
            let address = cursor.u64("address").ok()?;
            cursor.skip("physical address", 8).ok()?;
            let size = cursor.u64("size in the file").ok()?;
            cursor.skip("size, alignment", 16).ok()?;
            match kind {
                PT_LOAD => loads.push((address, size, offset)),
                PT_DYNAMIC => dynamic = Some((offset, size)),
                _ => {}
            }
        }
        let (offset, size) = dynamic?;
        let entries = (size / DYNAMIC as u64).min(ENTRIES);
        let table = bytes(offset, usize::try_from(entries).ok()? * DYNAMIC)?;
        let mut cursor = Cursor::new(&table);
        let (mut start, mut size) = (0, 0);
        for _ in 0..entries {
            let tag = cursor.u64("tag").ok()?;
            let value = cursor.u64("value").ok()?;
            match tag {
                0 => break,
                DT_RELA => start = value,
                DT_RELASZ => size = value,
                _ => {}
            }
        }
        let in_load = |(address, size, _): &&(u64, u64, u64)| {
            start.checked_sub(*address).is_some_and(|into| into < *size)
        };
        let (address, _, offset) = loads.iter().find(in_load)?;
        let count = (size / RELA as u64).min(RELOCATIONS);
        let table = bytes(offset.checked_add(start - address)?, usize::try_from(count).ok()? * RELA)?;
        let mut cursor = Cursor::new(&table);
        let mut found = Vec::new();
        for _ in 0..count {
            let place = cursor.u64("place").ok()?;
            let info = cursor.u64("kind").ok()?;
            let addend = cursor.u64("addend").ok()?;
            if info == R_X86_64_RELATIVE {
                found.push((place, addend));
            }
        }
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

    /// An ELF file of two program headers, a dynamic section and three relocations.
    fn file() -> Vec<u8> {
        let mut file = vec![0; 0x200];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01");
        put(32, &64u64.to_le_bytes());
        put(56, &2u16.to_le_bytes());
        // The file lies at the stated address 0x1000.
        put(64, &PT_LOAD.to_le_bytes());
        put(64 + 16, &0x1000u64.to_le_bytes());
        put(64 + 32, &0x200u64.to_le_bytes());
        put(120, &PT_DYNAMIC.to_le_bytes());
        put(120 + 8, &0xb0u64.to_le_bytes());
        put(120 + 32, &48u64.to_le_bytes());
        for (index, word) in [DT_RELA, 0x1100, DT_RELASZ, 72, 0, 0].into_iter().enumerate() {
            put(0xb0 + index * 8, &u64::to_le_bytes(word));
        }
        let relocations = [[0x5010, R_X86_64_RELATIVE, 0x42], [0x5000, R_X86_64_RELATIVE, 7], [0x5008, 1, 9]];
        for (index, word) in relocations.into_iter().flatten().enumerate() {
            put(0x100 + index * 8, &u64::to_le_bytes(word));
        }
        file
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
