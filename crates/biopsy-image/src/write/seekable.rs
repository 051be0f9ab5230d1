//! The table at the end of seekable zstd (zstd's `contrib/seekable_format/zstd_seekable_compression_format.md`, 0.1.0).

/// A skippable frame that holds a seek table.
const SKIPPABLE: u32 = 0x184d_2a5e;
/// The last bytes of the file.
const SEEKABLE: u32 = 0x8f92_eab1;
/// Descriptor: entries have checksums.
const WITH_CHECKSUMS: u8 = 0x80;

/// Sizes and checksums of the frames that were written.
#[derive(Default, Debug)]
pub(super) struct SeekTable {
    entries: Vec<[u32; 3]>,
}

impl SeekTable {
    /// A frame with its content checksum on, which is the number that the table wants (the low half of XXH64) and the last
    /// four bytes of the frame.
    pub(super) fn add(&mut self, frame: &[u8], content: usize) {
        let checksum = frame.last_chunk::<4>().copied().map_or(0, u32::from_le_bytes);
        // A frame holds a block, which is far below 4 GiB.
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        self.entries.push([size(frame.len()), size(content), checksum]);
    }

    /// The table as the last frame of the file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let content = self.entries.len() * 12 + 9;
        let mut out = Vec::with_capacity(content + 8);
        out.extend_from_slice(&SKIPPABLE.to_le_bytes());
        out.extend_from_slice(&(content as u32).to_le_bytes());
        for word in self.entries.as_flattened() {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.push(WITH_CHECKSUMS);
        out.extend_from_slice(&SEEKABLE.to_le_bytes());
        out
    }
}
