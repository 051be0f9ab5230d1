//! Header, directory and streams of a minidump, and the places of things in it.

use std::ops::Range;

/// `MINIDUMP_HEADER`: signature, version, streams, place of the directory.
const HEADER: u32 = 32;
const DIRECTORY_ENTRY: u32 = 12;
/// Streams that are written, at most: the directory has its place before they are made.
const MOST_STREAMS: u32 = 10;

/// Where something is in the file: `MINIDUMP_LOCATION_DESCRIPTOR`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Location {
    pub(super) size: u32,
    pub(super) place: u32,
}

impl Location {
    pub(super) fn bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.size.to_le_bytes());
        bytes[4..].copy_from_slice(&self.place.to_le_bytes());
        bytes
    }
}

/// Memory with its distance from the first byte of memory, whose place is not known before all else is.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) range: Range<u64>,
    distance: u32,
}

/// Bytes before memory.
#[derive(Default, Debug)]
pub(super) struct Parts {
    body: Vec<u8>,
    streams: Vec<(u32, Location)>,
    /// Positions in `body` of places of memory, which are filled in at the end.
    to_memory: Vec<(usize, u32)>,
}

impl Parts {
    /// Gives each run its place behind the others.
    pub(super) fn plan_memory(&mut self, runs: &[Range<u64>]) -> Vec<Memory> {
        let mut distance = 0u32;
        runs.iter()
            .map(|range| {
                let memory = Memory { range: range.clone(), distance };
                distance =
                    distance.saturating_add(u32::try_from(range.end - range.start).unwrap_or(u32::MAX));
                memory
            })
            .collect()
    }

    /// Puts bytes somewhere, and says where.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Location {
        self.body.resize(self.body.len().next_multiple_of(8), 0);
        let location = Location { size: length(bytes.len()), place: self.place() };
        self.body.extend_from_slice(bytes);
        location
    }

    /// Puts a text as `MINIDUMP_STRING`.
    pub(super) fn put_text(&mut self, text: &[u8]) -> u32 {
        let wide: Vec<u16> = String::from_utf8_lossy(text).encode_utf16().collect();
        let mut bytes = length(wide.len() * 2).to_le_bytes().to_vec();
        bytes.extend(wide.iter().chain([&0]).flat_map(|unit| unit.to_le_bytes()));
        self.put(&bytes).place
    }

    /// A stream of this type.
    pub(super) fn stream(&mut self, kind: u32, bytes: &[u8]) {
        let location = self.put(bytes);
        self.streams.push((kind, location));
    }

    /// A stream some of whose words are places of memory.
    pub(super) fn stream_with_memory(&mut self, kind: u32, bytes: &[u8], places: &[(usize, &Memory)]) {
        self.stream(kind, bytes);
        let start = self.body.len() - bytes.len();
        self.to_memory.extend(places.iter().map(|(at, memory)| (start + at, memory.distance)));
    }

    /// Header, directory and all that was put; memory follows.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.body.resize(self.body.len().next_multiple_of(16), 0);
        let memory = self.place();
        for (at, distance) in &self.to_memory {
            if let Some(word) = self.body.get_mut(*at..at + 4) {
                word.copy_from_slice(&memory.saturating_add(*distance).to_le_bytes());
            }
        }
        let mut out = Vec::with_capacity(memory as usize);
        out.extend_from_slice(b"MDMP");
        for word in [0xa793, length(self.streams.len()), HEADER, 0, 0, 0, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for (kind, location) in &self.streams {
            out.extend_from_slice(&kind.to_le_bytes());
            out.extend_from_slice(&location.bytes());
        }
        out.resize(body_start() as usize, 0);
        out.extend_from_slice(&self.body);
        out
    }

    fn place(&self) -> u32 {
        body_start() + length(self.body.len())
    }
}

fn body_start() -> u32 {
    (HEADER + MOST_STREAMS * DIRECTORY_ENTRY).next_multiple_of(8)
}

/// Everything before memory is far below 4 GiB.
pub(super) fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
