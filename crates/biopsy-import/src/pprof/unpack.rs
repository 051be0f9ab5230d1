//! The bytes of a profile, out of gzip where they are in it.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

use super::limits::Limits;

/// First bytes of what gzip packed.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why not all of a file is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// gzip says so.
    Packed(String),
    /// It is larger than this.
    Limit(u64),
}

/// The bytes, unpacked, and why they end early.
pub(super) fn unpack(mut from: impl BufRead, limits: &Limits) -> io::Result<(Vec<u8>, Option<Cut>)> {
    let packed = from.fill_buf()?.starts_with(&GZIP);
    let mut bytes = Vec::new();
    let most = limits.unpacked.saturating_add(1);
    let cut = if packed {
        let unpacked = MultiGzDecoder::new(from).take(most).read_to_end(&mut bytes);
        unpacked.err().map(|error| Cut::Packed(error.to_string()))
    } else {
        from.take(most).read_to_end(&mut bytes)?;
        None
    };
    if bytes.len() as u64 > limits.unpacked {
        bytes.truncate(usize::try_from(limits.unpacked).unwrap_or(usize::MAX));
        return Ok((bytes, Some(Cut::Limit(limits.unpacked))));
    }
    Ok((bytes, cut))
}
