//! Headers of events within a block, compressed by what they have in common with the one before, or whole.

use biopsy_bytes::{Cursor, ReadError};

/// A header, with what carries over to the next one.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Row {
    pub(super) metadata: u32,
    pub(super) sequence: u32,
    /// Thread that wrote the event: an id, from version 6 on an index.
    pub(super) capture_thread: u64,
    pub(super) processor: u32,
    /// Thread that the event is about.
    pub(super) thread: u64,
    pub(super) stack: u32,
    pub(super) ticks: u64,
    pub(super) activity: [u8; 16],
    pub(super) related_activity: [u8; 16],
    /// Version 6.
    pub(super) labels: u32,
    /// No later event of the stream is older.
    pub(super) sorted: bool,
    pub(super) payload: u32,
}

impl Row {
    /// Reads a compressed header; what it leaves out is as in the one before.
    #[inline]
    pub(super) fn read_compressed(&mut self, cursor: &mut Cursor<'_>, version: u32) -> Result<(), ReadError> {
        let flags = cursor.u8("Flags")?;
        if flags & 1 != 0 {
            self.metadata = cursor.varint_u32("MetadataId")?;
        }
        if flags & 2 != 0 {
            let ahead = cursor.varint_u32("SequenceNumber")?;
            self.sequence = self.sequence.wrapping_add(ahead).wrapping_add(1);
            self.capture_thread = cursor.varint("CaptureThreadId")?;
            self.processor = cursor.varint_u32("ProcessorNumber")?;
        } else if self.metadata != 0 {
            self.sequence = self.sequence.wrapping_add(1);
        }
        if flags & 4 != 0 {
            self.thread = cursor.varint("ThreadId")?;
        }
        if flags & 8 != 0 {
            self.stack = cursor.varint_u32("StackId")?;
        }
        // Events of another thread may be older: the difference wraps.
        self.ticks = self.ticks.wrapping_add(cursor.varint("TimeStamp")?);
        if version >= 6 {
            if flags & 16 != 0 {
                self.labels = cursor.varint_u32("LabelListId")?;
            }
        } else {
            if flags & 16 != 0 {
                self.activity = cursor.array("ActivityId")?;
            }
            if flags & 32 != 0 {
                self.related_activity = cursor.array("RelatedActivityId")?;
            }
        }
        self.sorted = flags & 64 != 0;
        if flags & 128 != 0 {
            self.payload = cursor.varint_u32("PayloadSize")?;
        }
        Ok(())
    }

    /// Reads a whole header. The second value is the length of header and payload that it claims.
    pub(super) fn read_whole(cursor: &mut Cursor<'_>, version: u32) -> Result<(Row, u32), ReadError> {
        let size = cursor.u32("EventSize")?;
        let metadata = cursor.u32("MetadataId")?;
        let mut row = Row {
            metadata: metadata & 0x7fff_ffff,
            // The documents call the bit `IsSorted`; the runtime sets it where an event is not (ep-block.c).
            sorted: metadata >> 31 == 0,
            sequence: cursor.u32("SequenceNumber")?,
            thread: cursor.u64("ThreadId")?,
            capture_thread: cursor.u64("CaptureThreadId")?,
            processor: cursor.u32("ProcessorNumber")?,
            stack: cursor.u32("StackId")?,
            ticks: cursor.u64("TimeStamp")?,
            ..Row::default()
        };
        if version >= 6 {
            row.labels = cursor.u32("LabelListId")?;
        } else {
            row.activity = cursor.array("ActivityId")?;
            row.related_activity = cursor.array("RelatedActivityId")?;
        }
        row.payload = cursor.u32("PayloadSize")?;
        Ok((row, size))
    }
}
