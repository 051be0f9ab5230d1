//! Records that `perf record -z` packed.
//!
//! Each record of kind `COMPRESSED` or `COMPRESSED2` holds a piece of one zstd stream that goes through the whole file. What comes
//! out are records again, which need not end where a piece ends; records that are not packed may lie in between.

use super::record::{Extent, extent};
use crate::Limits;
use biopsy_bytes::Cursor;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Unpacked at a time, in bytes.
const STEP: usize = 128 << 10;
/// Bytes that one packed byte may become; stacks of one thread that are copied again and again become 100.
const RATIO: u64 = 250;
/// So much may be unpacked of the smallest file.
const LEAST: u64 = 16 << 20;

/// All records, in the order of the file, none of them packed.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    pub(crate) bytes: Vec<u8>,
    /// Packed records that were unpacked.
    pub(crate) pieces: u64,
    /// Why the rest of the stream could not be unpacked.
    pub(crate) damaged: Option<String>,
    /// There is more than the limits allow.
    pub(crate) over_limit: bool,
}

/// Unpacks all records; `None`: none is packed.
pub(crate) fn unpack(data: &[u8], limits: &Limits) -> Option<Unpacked> {
    let mut cursor = Cursor::new(data);
    let mut found = false;
    while let (Ok(extent), false) = (extent(&mut cursor), found) {
        found = extent.packed.is_some();
    }
    found.then(|| unpack_all(data, limits))
}

fn unpack_all(data: &[u8], limits: &Limits) -> Unpacked {
    let mut all = Unpacked::default();
    let mut decoder = match Decoder::new() {
        Ok(decoder) => decoder,
        Err(error) => {
            all.damaged = Some(error.to_string());
            return all;
        }
    };
    let room = (data.len() as u64).saturating_mul(RATIO).max(LEAST).min(limits.file);
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    // The beginning of a record whose rest is in the next piece.
    let mut begun = Vec::new();
    let mut cursor = Cursor::new(data);
    while let Ok(Extent { whole, packed }) = extent(&mut cursor) {
        let Some(packed) = packed else {
            all.bytes.extend_from_slice(whole);
            continue;
        };
        if all.damaged.is_some() || all.over_limit {
            continue;
        }
        let left = room.saturating_sub(all.bytes.len());
        match unpack_piece(&mut decoder, packed, &mut begun, left) {
            Ok(fits) => {
                all.pieces += 1;
                all.over_limit = !fits;
            }
            Err(error) => all.damaged = Some(error.to_string()),
        }
        let mut records = Cursor::new(&begun);
        let mut whole = 0;
        while extent(&mut records).is_ok() {
            whole = begun.len() - records.remaining();
        }
        all.bytes.extend(begun.drain(..whole));
    }
    // What is cut off behind, and a record that never ended: the reader of the records says so.
    all.bytes.append(&mut begun);
    all.bytes.extend_from_slice(cursor.rest());
    all
}

/// Appends what a piece unpacks to; `false`: it is more than `left` bytes.
fn unpack_piece(
    decoder: &mut Decoder<'_>,
    packed: &[u8],
    out: &mut Vec<u8>,
    left: usize,
) -> std::io::Result<bool> {
    let mut input = InBuffer::around(packed);
    let mut step = vec![0; STEP];
    loop {
        let mut output = OutBuffer::around(step.as_mut_slice());
        decoder.run(&mut input, &mut output)?;
        let full = output.pos() == STEP;
        out.extend_from_slice(output.as_slice());
        if out.len() > left {
            return Ok(false);
        }
        if input.pos() == packed.len() && !full {
            return Ok(true);
        }
    }
}
