//! Contents of sections, decompressed within limits.
//!
//! ```text
//! Elf64_Chdr (SHF_COMPRESSED):  0 type  4 reserved  8 size  16 alignment  24 data
//! .zdebug_* (older GNU tools):  0 "ZLIB"  4 size, big-endian  12 data
//! ```

use std::io::Read;

use biopsy_elf::raw::{CompressionHeader64, ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD};
use biopsy_elf::{LE, LittleEndian, Section, rows};
use biopsy_model::Svma;
use flate2::{Decompress, FlushDecompress, Status};

use super::{ElfError, ElfFile};

type Header = CompressionHeader64<LittleEndian>;

enum Packing {
    Zlib,
    Zstd,
}

impl ElfFile {
    /// Bytes of the named section, decompressed; `Ok(None)` when the file has no such section. For `.debug_*` the
    /// older `.zdebug_*` is taken too. `limit`, in bytes, holds for both the packed and the unpacked size.
    pub(crate) fn section_bytes(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, ElfError> {
        let old_name = name.strip_prefix(".debug_").map(|rest| format!(".zdebug_{rest}"));
        let old = || old_name.as_deref().and_then(|name| self.section(name));
        let Some(section) = self.section(name).or_else(old) else { return Ok(None) };
        let raw = self.read("section", section.offset, section.size, limit)?;
        let old_packing = section.name.starts_with(".zdebug_") && raw.starts_with(b"ZLIB");
        if !section.is_compressed() && !old_packing {
            return Ok(Some(raw));
        }
        let damaged =
            || ElfError::Compression { path: self.path().to_owned(), section: section.name.clone() };
        let (packing, size, data) = packed(&raw, old_packing).ok_or_else(damaged)?;
        if size > limit {
            return Err(ElfError::TooLarge {
                path: self.path().to_owned(),
                what: "unpacked section",
                size,
                limit,
            });
        }
        unpack(&packing, size, data).ok_or_else(damaged).map(Some)
    }

    /// Address and bytes of the named section, unpacked; `None` when there is none, or it is damaged or above the
    /// limit for unwind sections.
    pub fn raw_section(&self, name: &str) -> Option<(Svma, Vec<u8>)> {
        let section = self.section(name)?;
        Some((Svma(section.address), self.section_bytes(name, self.limits().unwind).ok().flatten()?))
    }

    /// Unpacked size of the named section in bytes, as it claims; zero when there is none.
    pub(crate) fn unpacked_size(&self, name: &str) -> u64 {
        let Some(section) = self.section(name) else { return 0 };
        if !section.is_compressed() {
            return section.size;
        }
        let size = size_of::<Header>() as u64;
        let header = self.read_up_to("compression header", section.offset, size).unwrap_or_default();
        rows::<Header>(&header).first().map_or(section.size, |header| header.ch_size.get(LE))
    }

    pub(crate) fn section_at(&self, index: u32) -> Option<&Section> {
        self.sections().get(index as usize)
    }
}

fn packed(raw: &[u8], old: bool) -> Option<(Packing, u64, &[u8])> {
    if old {
        let size = raw.get(4..12)?.first_chunk().map(|size| u64::from_be_bytes(*size))?;
        return Some((Packing::Zlib, size, raw.get(12..)?));
    }
    let (head, data) = raw.split_at_checked(size_of::<Header>())?;
    let header = rows::<Header>(head).first()?;
    let packing = match header.ch_type.get(LE) {
        ELFCOMPRESS_ZLIB => Packing::Zlib,
        ELFCOMPRESS_ZSTD => Packing::Zstd,
        _ => return None,
    };
    Some((packing, header.ch_size.get(LE), data))
}

/// Deflate makes at most 1,032 bytes of one; what zstd makes of more is let grow.
fn bounded_by(data: &[u8], size: u64) -> usize {
    let most = (data.len() as u64).saturating_mul(1_032);
    usize::try_from(size.min(most)).unwrap_or(0).saturating_add(1)
}

/// Unpacks to exactly `size` bytes, which was checked against the limit; memory grows with what really comes out.
fn unpack(packing: &Packing, size: u64, data: &[u8]) -> Option<Vec<u8>> {
    // Not more beforehand than data of that length may become: a claim alone takes no memory.
    let mut out = Vec::with_capacity(bounded_by(data, size));
    match packing {
        // At once, into the room that there is: what is packed with more than it claims does not end there.
        Packing::Zlib => {
            let unpacked = Decompress::new(true).decompress_vec(data, &mut out, FlushDecompress::Finish);
            unpacked.ok().filter(|status| *status == Status::StreamEnd)?;
        }
        // One byte more than claimed shows a lie without following it.
        Packing::Zstd => {
            let mut unpacked = zstd::Decoder::new(data).ok()?.take(size.checked_add(1)?);
            unpacked.read_to_end(&mut out).ok()?;
        }
    }
    (out.len() as u64 == size).then_some(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A section of text that packs well, its size, and how each kind of packing writes it.
    fn samples() -> (Vec<u8>, [(Packing, Vec<u8>); 2]) {
        let section: Vec<u8> = (0..40_000_u32).flat_map(|at| (at / 7).to_le_bytes()).collect();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        zlib.write_all(&section).expect("into memory");
        let zlib = zlib.finish().expect("into memory");
        let zstd = zstd::encode_all(section.as_slice(), 3).expect("into memory");
        (section, [(Packing::Zlib, zlib), (Packing::Zstd, zstd)])
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed() {
        let (section, packed) = samples();
        for (packing, data) in packed {
            assert_eq!(unpack(&packing, section.len() as u64, &data), Some(section.clone()));
        }
    }

    #[test]
    fn a_size_that_is_not_so_is_damage_and_takes_no_memory() {
        let (section, packed) = samples();
        let size = section.len() as u64;
        for (packing, data) in packed {
            for wrong in [0, 1, size / 2, size - 1, size + 1, 2 * size, u64::MAX - 1, u64::MAX] {
                assert_eq!(unpack(&packing, wrong, &data), None, "{wrong} bytes are claimed");
            }
            assert!(bounded_by(&data, u64::MAX) <= 1_033 * data.len());
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_refused_or_read_and_never_a_crash() {
        let (section, packed) = samples();
        let size = section.len() as u64;
        for (packing, data) in packed {
            for cut in (0..data.len()).step_by(97) {
                assert_eq!(unpack(&packing, size, &data[..cut]), None, "{cut} of {} bytes", data.len());
            }
            for at in (0..data.len()).step_by(61) {
                let mut changed = data.clone();
                changed[at] ^= 0x55;
                let unpacked = unpack(&packing, size, &changed);
                assert!(unpacked.is_none_or(|unpacked| unpacked.len() == section.len()));
            }
        }
    }
}
