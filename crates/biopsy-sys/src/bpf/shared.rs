//! Memory that programs and their reader share.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Map, MapKind};
use crate::mapping::Mapping;

/// Bytes that programs reach by their address ([`super::asm::Assembler::map_value`]), without a look-up, and the reader without a system
/// call. It begins with zeros, on a page.
#[derive(Debug)]
pub struct SharedBytes {
    map: Map,
    mapping: Mapping,
}

impl SharedBytes {
    /// Makes it.
    ///
    /// # Errors
    /// EPERM without CAP_BPF, ENOMEM, E2BIG above 2 GB.
    pub fn create(name: &str, bytes: u32) -> io::Result<Self> {
        let map = Map::create(MapKind::MappedArray, name, 4, bytes, 1)?;
        let mapping = Mapping::shared(map.as_fd(), bytes as usize, 0, true)?;
        Ok(Self { map, mapping })
    }

    /// For programs.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The word at `offset`, a multiple of eight.
    #[must_use]
    pub fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Sets the word at `offset`, a multiple of eight.
    pub fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Sets bits of the word at `offset`, a multiple of eight, whatever programs do to the others.
    pub fn set_bits(&self, offset: usize, bits: u64) {
        self.word(offset).fetch_or(bits, Ordering::AcqRel);
    }

    /// Copies bytes out, which programs may change meanwhile.
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) {
        self.mapping.copy_out(offset, out);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset < self.mapping.len() & !7,
            "{offset} is no word of {} bytes",
            self.mapping.len()
        );
        let pointer = self.mapping.at(offset).cast::<u64>();
        // SAFETY: the mapping begins on a page and `offset` is a multiple of eight, so the word is aligned; it was checked to lie inside; it
        // is mapped as long as `self` is borrowed, and this side only has atomic access to it.
        unsafe { AtomicU64::from_ptr(pointer) }
    }
}
