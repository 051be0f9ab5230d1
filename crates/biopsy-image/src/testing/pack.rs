//! Packing dumps in all the ways that are read.

use std::hash::Hasher;
use std::io::Write;

use twox_hash::XxHash64;

/// zstd in the seekable format, with frames of `frame` bytes and, if asked for, checksums in the table.
///
/// # Panics
/// When zstd fails.
#[must_use]
pub fn seekable_zstd(bytes: &[u8], frame: usize, checksums: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut table = Vec::new();
    for chunk in bytes.chunks(frame.max(1)) {
        let packed = zstd::bulk::compress(chunk, 1).expect("zstd packs any bytes");
        table.extend((packed.len() as u32).to_le_bytes());
        table.extend((chunk.len() as u32).to_le_bytes());
        if checksums {
            let mut hash = XxHash64::with_seed(0);
            hash.write(chunk);
            table.extend((hash.finish() as u32).to_le_bytes());
        }
        out.extend(packed);
    }
    let count = bytes.len().div_ceil(frame.max(1)) as u32;
    out.extend(0x184D_2A5E_u32.to_le_bytes());
    out.extend((table.len() as u32 + 9).to_le_bytes());
    out.extend(table);
    out.extend(count.to_le_bytes());
    out.push(if checksums { 0x80 } else { 0 });
    out.extend(0x8F92_EAB1_u32.to_le_bytes());
    out
}

/// zstd of several frames that say their sizes, without a seek table.
///
/// # Panics
/// When zstd fails.
#[must_use]
pub fn zstd_frames(bytes: &[u8], frame: usize) -> Vec<u8> {
    bytes
        .chunks(frame.max(1))
        .flat_map(|chunk| zstd::bulk::compress(chunk, 1).expect("zstd packs any bytes"))
        .collect()
}

/// zstd of one frame that does not say its size, as systemd-coredump writes it.
///
/// # Panics
/// When zstd fails.
#[must_use]
pub fn zstd_stream(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("zstd has memory");
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a vector takes any bytes")
}

/// gzip.
///
/// # Panics
/// When the vector cannot grow.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a vector takes any bytes")
}
