//! Reading a BPF ring buffer.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Map;
use crate::mapping::Mapping;

/// Bits of a record's length word (include/uapi/linux/bpf.h, `BPF_RINGBUF_*_BIT`).
const BUSY: u32 = 1 << 31;
const DISCARD: u32 = 1 << 30;
const HEADER: u64 = 8;

/// The reading end of a map of kind `RingBuf`. The consumer page is followed by the producer page and the data,
/// which is mapped twice in a row so that every record is contiguous (kernel/bpf/ringbuf.c).
#[derive(Debug)]
pub struct RingBuf {
    consumer: Mapping,
    producer: Mapping,
    page: usize,
    mask: u64,
    scratch: Vec<u8>,
}

impl RingBuf {
    /// Maps the ring buffer of `map`.
    ///
    /// # Errors
    /// When the kernel refuses the mapping.
    pub fn map(map: &Map) -> io::Result<Self> {
        // SAFETY: sysconf takes an integer and touches no memory of ours.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(|_| io::Error::from(io::ErrorKind::Other))?;
        let size = map.max_entries() as usize;
        let offset = i64::try_from(page).map_err(|_| io::Error::from(io::ErrorKind::Other))?;
        let consumer = Mapping::shared(map.as_fd(), page, 0, true)?;
        let producer = Mapping::shared(map.as_fd(), page + 2 * size, offset, false)?;
        Ok(Self { consumer, producer, page, mask: size as u64 - 1, scratch: Vec::new() })
    }

    /// Bytes that wait to be read, and the size of the buffer.
    #[must_use]
    pub fn fill(&self) -> (u64, u64) {
        let head = position(&self.producer).load(Ordering::Acquire);
        let tail = position(&self.consumer).load(Ordering::Relaxed);
        (head.saturating_sub(tail), self.mask + 1)
    }

    /// Hands every finished record to `sink`, oldest first, until there is none or `most` have been read, and frees
    /// their space. Returns how many there were.
    pub fn read(&mut self, most: usize, mut sink: impl FnMut(&[u8])) -> usize {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut tail = position(&self.consumer).load(Ordering::Relaxed);
        // Pairs with the producer's release of its position.
        let head = position(&self.producer).load(Ordering::Acquire);
        let mut count = 0;
        while tail < head && count < most {
            let at = usize::try_from(tail & self.mask).expect("below the buffer's size");
            let length = length_word(&self.producer, self.page + at).load(Ordering::Acquire);
            if length & BUSY != 0 {
                // A producer is still writing it: what follows has to wait for it.
                break;
            }
            let bytes = (length & !DISCARD) as usize;
            let advance = (HEADER + bytes as u64).next_multiple_of(8);
            if bytes as u64 > self.mask {
                break;
            }
            if length & DISCARD == 0 {
                scratch.resize(bytes, 0);
                self.producer.copy_out(self.page + at + 8, &mut scratch);
                sink(&scratch);
                count += 1;
            }
            tail += advance;
            // The kernel may reuse the space from here on; the bytes have been copied.
            position(&self.consumer).store(tail, Ordering::Release);
        }
        self.scratch = scratch;
        count
    }
}

/// The position word at the start of the consumer or producer page.
fn position(mapping: &Mapping) -> &AtomicU64 {
    debug_assert!(mapping.len() >= 8);
    let pointer = mapping.at(0).cast::<u64>();
    // SAFETY: the page is mapped as long as `mapping` is borrowed, page-aligned, and both sides access the word
    // atomically; on the read-only producer mapping it is only loaded.
    unsafe { AtomicU64::from_ptr(pointer) }
}

/// The length word of the record at `offset`.
fn length_word(mapping: &Mapping, offset: usize) -> &AtomicU32 {
    let pointer = mapping.at(offset).cast::<u32>();
    // SAFETY: records are 8-aligned and inside the mapping (`at` checks), the mapping lives as long as the borrow, and
    // the word is only loaded.
    unsafe { AtomicU32::from_ptr(pointer) }
}
