//! Reading an event's ring buffer.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings as raw;

use super::Event;
use crate::mapping::Mapping;

/// Size of `struct perf_event_header`: type u32, misc u16, size u16.
const HEADER: usize = 8;

/// One record, copied out of the ring.
#[derive(Debug)]
pub struct Record<'a> {
    /// `PERF_RECORD_*`.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// The bytes after the header.
    pub body: &'a [u8],
}

/// What a read left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingStatus {
    /// Everything there was has been read.
    Drained,
    /// A record had an impossible length; what was in the ring has been given up.
    Corrupt,
}

/// The ring buffer of one event (and of those that send their output to it). The layout is that of
/// `struct perf_event_mmap_page` in include/uapi/linux/perf_event.h.
#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    data_offset: usize,
    data_len: usize,
    scratch: Vec<u8>,
}

impl Ring {
    /// Maps a ring of `pages` data pages (a power of two) for `event`.
    ///
    /// # Errors
    /// EPERM above the user's limit of locked memory (`kernel.perf_event_mlock_kb`), ENOMEM.
    pub fn map(event: &Event, pages: usize) -> io::Result<Self> {
        if !pages.is_power_of_two() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: sysconf takes an integer and touches no memory of ours.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(|_| io::Error::from(io::ErrorKind::Other))?;
        let data_len = pages * page;
        let mapping = Mapping::shared(event.as_fd(), page + data_len, 0, true)?;
        Ok(Self { mapping, data_offset: page, data_len, scratch: Vec::new() })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        let pointer = self.mapping.at(offset).cast::<u64>();
        // SAFETY: the header page is mapped as long as `self` lives, `offset` is one of the two u64 fields below, which
        // are 8-aligned, and both sides access them atomically.
        unsafe { AtomicU64::from_ptr(pointer) }
    }

    fn head(&self) -> &AtomicU64 {
        self.word(std::mem::offset_of!(raw::perf_event_mmap_page, data_head))
    }

    fn tail(&self) -> &AtomicU64 {
        self.word(std::mem::offset_of!(raw::perf_event_mmap_page, data_tail))
    }

    /// Hands every record that is there to `sink`, oldest first, and frees its space.
    pub fn read(&mut self, mut sink: impl FnMut(Record<'_>)) -> RingStatus {
        // The kernel publishes records before `data_head` (its smp_wmb pairs with this acquire), and reuses space only
        // up to `data_tail`, which is stored (release) after the bytes have been copied out.
        let head = self.head().load(Ordering::Acquire);
        let mut tail = self.tail().load(Ordering::Relaxed);
        let mut status = RingStatus::Drained;
        let mut scratch = std::mem::take(&mut self.scratch);
        while tail < head {
            let mut header = [0; HEADER];
            self.copy(tail, &mut header);
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let misc = u16::from_ne_bytes([header[4], header[5]]);
            let size = u16::from_ne_bytes([header[6], header[7]]);
            if usize::from(size) < HEADER || tail + u64::from(size) > head {
                status = RingStatus::Corrupt;
                tail = head;
                break;
            }
            scratch.resize(usize::from(size) - HEADER, 0);
            self.copy(tail + HEADER as u64, &mut scratch);
            tail += u64::from(size);
            sink(Record { kind, misc, body: &scratch });
        }
        self.tail().store(tail, Ordering::Release);
        self.scratch = scratch;
        status
    }

    /// Copies from a position of the endless stream, wrapping around the end of the buffer.
    fn copy(&self, position: u64, out: &mut [u8]) {
        let start = usize::try_from(position % self.data_len as u64).expect("below the buffer's length");
        let first = out.len().min(self.data_len - start);
        let (before, after) = out.split_at_mut(first);
        self.mapping.copy_out(self.data_offset + start, before);
        self.mapping.copy_out(self.data_offset, after);
    }
}
