//! The timeline: an append-only file of [`TimelineEvent`](biopsy_model::timeline::TimelineEvent)s in compressed
//! chunks. Design note `docs/design/01-timeline-format.md` says why it is an own format.
//!
//! ```text
//! file   = "BIOPSYTL" major:u16 minor:u16 header_length:u32 [more header] chunk*
//! chunk  = "BTC1" crc:u32 stored:u32 raw:u32 events:u32 modules:u32 frames:u32 stacks:u32 payload
//!          crc: CRC-32 of all that follows it in the chunk; stored, raw: bytes of the payload, as zstd and unpacked;
//!          modules, frames, stacks: how many were defined before this chunk. stored = 0: end of the timeline.
//! payload= event*
//! event  = (tag:3 bits, length:5 bits) [tag - 7: varint, if the tag bits are 7] [length: varint, if its bits are 31]
//!          body of `length` bytes
//! ```
//!
//! All integers of fixed width are little-endian; `varint` is LEB128, signed values are zigzag-mapped. Chunks stand
//! for themselves, apart from the numbering of definitions: a damaged one is skipped, not the rest of the file.
//! Events of an unknown tag and trailing fields of known ones are skipped.

mod assemble;
mod chunk;
mod context;
mod cut;
mod decode;
mod encode;
mod reader;
mod ring;
mod shift;
mod tags;
mod texts;
mod writer;

pub use cut::cut_at;
pub use reader::{TimelineError, read, read_events};
pub use ring::{Recent, Ring, RingLimits};
pub use shift::Shift;
pub use texts::each_text;
pub use writer::Writer;

/// Entry point for fuzzing: reads any bytes as a timeline, and as the events of a whole chunk (which mutation would
/// hardly find behind a checksum), with small limits.
pub fn fuzz_timeline(bytes: &[u8]) {
    read_and_walk(bytes);
    let Ok(stored) = zstd::bulk::compress(bytes, 1) else { return };
    let (Ok(stored_length), Ok(raw)) = (u32::try_from(stored.len()), u32::try_from(bytes.len())) else {
        return;
    };
    let header = chunk::ChunkHeader {
        crc: 0,
        stored: stored_length,
        raw,
        events: 0,
        before: chunk::Definitions::default(),
    };
    read_and_walk(&[chunk::file_header().as_slice(), &header.to_bytes(&stored), &stored].concat());
}

fn read_and_walk(bytes: &[u8]) {
    if let Ok((timeline, warnings)) = read(bytes, &crate::Limits::small()) {
        // What was accepted must be safe to walk.
        let mut frames = 0;
        for sample in &timeline.samples {
            frames += timeline.frames_of(sample.stack).take(1000).count();
        }
        std::hint::black_box((frames, warnings));
    }
}

#[cfg(test)]
mod tests;
