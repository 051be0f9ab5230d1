//! What events refer to by number: stacks, and from version 6 on threads and labels.

use super::limits::Limits;
use super::text::text8;
use biopsy_bytes::{Cursor, ReadError};
use biopsy_model::{Avma, Pid, Tid};
use rustc_hash::FxHashMap;

/// Stacks since the last sequence point.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    addresses: Vec<Avma>,
    /// First address and count, by number.
    places: FxHashMap<u32, (usize, usize)>,
}

impl Stacks {
    pub(super) fn clear(&mut self) {
        self.addresses.clear();
        self.places.clear();
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &[Avma] {
        // 0 is no stack; so is an empty one.
        let Some(&(from, count)) = self.places.get(&number) else { return &[] };
        self.addresses.get(from..from + count).unwrap_or_default()
    }

    /// Reads a stack block. `Ok(false)`: some are left out, they are too many.
    pub(super) fn read(
        &mut self,
        mut body: Cursor<'_>,
        pointer_size: u32,
        limits: &Limits,
    ) -> Result<bool, ReadError> {
        let first = body.u32("First Id")?;
        let count = body.u32("Count")?;
        let limit = limits.stacks / 8;
        for index in 0..count {
            // A stack takes four bytes at least: a hostile count ends where the block does.
            let size = body.u32("StackSize")?;
            let bytes = body.take("stack", usize::try_from(size).unwrap_or(usize::MAX))?;
            let from = self.addresses.len();
            if from + bytes.len() / 4 > limit || self.places.len() >= limit {
                return Ok(false);
            }
            if pointer_size == 4 {
                let words = bytes.chunks_exact(4).filter_map(|word| word.first_chunk().copied());
                self.addresses.extend(words.map(|word| Avma(u32::from_le_bytes(word).into())));
            } else {
                let words = bytes.chunks_exact(8).filter_map(|word| word.first_chunk().copied());
                self.addresses.extend(words.map(|word| Avma(u64::from_le_bytes(word))));
            }
            self.places.insert(first.wrapping_add(index), (from, self.addresses.len() - from));
        }
        Ok(true)
    }
}

/// A thread of version 6.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Thread {
    pub(super) pid: Option<Pid>,
    pub(super) tid: Option<Tid>,
}

/// Reads a thread block.
pub(super) fn read_threads(
    mut body: Cursor<'_>,
    limits: &Limits,
    threads: &mut FxHashMap<u64, Thread>,
) -> Result<(), ReadError> {
    while !body.is_empty() {
        let size = body.u16("RowSize")?;
        let mut row = body.sub("thread", size.into())?;
        let index = row.varint("Index")?;
        let mut thread = Thread::default();
        while !row.is_empty() {
            match row.u8("Kind")? {
                1 => drop(text8(&mut row, "Name", limits.text)?),
                2 => thread.pid = u32::try_from(row.varint("OSProcessId")?).ok().map(Pid),
                3 => thread.tid = u32::try_from(row.varint("OSThreadId")?).ok().map(Tid),
                4 => {
                    text8(&mut row, "Key", limits.text)?;
                    text8(&mut row, "Value", limits.text)?;
                }
                _ => break,
            }
        }
        if threads.len() < limits.rows {
            threads.insert(index, thread);
        }
    }
    Ok(())
}

/// Labels of an event of version 6, those of them that are identities.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Labels {
    pub(super) activity: [u8; 16],
    pub(super) related_activity: [u8; 16],
    pub(super) trace: Option<[u8; 16]>,
    pub(super) span: Option<u64>,
}

/// Reads a block of lists of labels.
pub(super) fn read_labels(
    mut body: Cursor<'_>,
    limits: &Limits,
    lists: &mut FxHashMap<u32, Labels>,
) -> Result<(), ReadError> {
    let first = body.u32("firstIndex")?;
    let count = body.u32("count")?;
    for index in 0..count {
        let mut labels = Labels::default();
        loop {
            let kind = body.u8("Kind")?;
            match kind & 0x7f {
                1 => labels.activity = body.array("ActivityId")?,
                2 => labels.related_activity = body.array("RelatedActivityId")?,
                3 => labels.trace = Some(body.array("TraceId")?),
                4 => labels.span = Some(body.u64("SpanId")?),
                5 => {
                    text8(&mut body, "Key", limits.text)?;
                    text8(&mut body, "Value", limits.text)?;
                }
                6 => {
                    text8(&mut body, "Key", limits.text)?;
                    body.varint("Value")?;
                }
                // What it overrides is of no use to us: opcode, keywords, level, version.
                7 | 9 | 10 => body.skip("label", 1)?,
                8 => body.skip("label", 8)?,
                other => {
                    let found = u64::from(other);
                    let kind = biopsy_bytes::ReadErrorKind::Unexpected { expected: 1, found };
                    return Err(body.error("Kind", kind));
                }
            }
            if kind & 0x80 != 0 {
                break;
            }
        }
        if lists.len() < limits.rows {
            lists.insert(first.wrapping_add(index), labels);
        }
    }
    Ok(())
}
