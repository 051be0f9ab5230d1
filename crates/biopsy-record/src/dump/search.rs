//! Is a value that was to be masked still in a written dump?

use std::io::{self, Read, Seek, SeekFrom};

use biopsy_redact::memory::{LiteralFinder, OVERLAP};

/// Bytes that are searched at a time.
const STEP: usize = 1 << 20;
/// First bytes of a zstd frame.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How many values are left in the whole file: memory, notes and all. A packed one is unpacked on the way.
///
/// # Errors
/// The file cannot be read or unpacked.
pub fn values_left(mut file: impl Read + Seek, values: &LiteralFinder) -> io::Result<u64> {
    let mut magic = Vec::new();
    file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    if magic == ZSTD { search(zstd::Decoder::new(file)?, values) } else { search(file, values) }
}

fn search(mut reader: impl Read, values: &LiteralFinder) -> io::Result<u64> {
    let mut window = Vec::with_capacity(STEP + OVERLAP);
    let mut left = 0;
    loop {
        let wanted = STEP + OVERLAP - window.len();
        let read = reader.by_ref().take(wanted as u64).read_to_end(&mut window)?;
        let is_end = read < wanted;
        let end = if is_end { window.len() } else { window.len() - OVERLAP };
        // Most of a plain core may be holes.
        if window.iter().any(|byte| *byte != 0) {
            left += values.count(&window, end);
        }
        if is_end {
            return Ok(left);
        }
        window.drain(..end);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use biopsy_redact::memory::Literals;

    use super::*;

    #[test]
    fn values_are_counted_at_every_place_packed_or_not() {
        let mut literals = Literals::new();
        literals.add(b"Lg7kQ2zV99xLmP4t").unwrap();
        let finder = LiteralFinder::new(&literals);
        let wide: Vec<u8> = "Lg7kQ2zV99xLmP4t".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for at in [0, 5, STEP - 8, STEP, STEP + OVERLAP - 3, 2 * STEP - 1] {
            let mut dump = vec![0; 3 * STEP];
            assert_eq!(values_left(Cursor::new(&dump), &finder).unwrap(), 0);
            dump[at..at + 16].copy_from_slice(b"Lg7kQ2zV99xLmP4t");
            dump[at + 100..at + 132].copy_from_slice(&wide);
            assert_eq!(values_left(Cursor::new(&dump), &finder).unwrap(), 2, "at {at}");
            let packed = zstd::bulk::compress(&dump, 1).unwrap();
            assert_eq!(values_left(Cursor::new(&packed), &finder).unwrap(), 2, "at {at}, packed");
            assert!(values_left(Cursor::new(&packed[..packed.len() - 9]), &finder).is_err());
        }
    }
}
