//! BPF maps.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{bpf, command};

/// Kinds of `enum bpf_map_type` that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// Keys to values.
    Hash,
    /// Index to values; never empty.
    Array,
    /// The same, and its values can be mapped (Linux 5.5).
    MappedArray,
    /// The same as an array, and programs only read it (Linux 5.2): with [`Map::freeze`], its values are constants to them.
    Constants,
    /// Variable-length records to user space (Linux 5.8); `max_entries` is its size in bytes.
    RingBuf,
}

/// `BPF_F_MMAPABLE`.
const MMAPABLE: u32 = 1 << 10;
/// `BPF_F_RDONLY_PROG`.
const READ_BY_PROGRAMS: u32 = 1 << 7;

#[repr(C)]
#[derive(Default)]
struct CreateAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
struct ElemAttr {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct FreezeAttr {
    map_fd: u32,
}

#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// A map. It ends with its last descriptor or the last program that uses it.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key_size: usize,
    value_size: usize,
    max_entries: u32,
}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// EPERM without CAP_BPF, ENOMEM, EINVAL for a kind the kernel does not know.
    pub fn create(
        kind: MapKind,
        name: &str,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    ) -> io::Result<Self> {
        let mut attr = CreateAttr {
            map_type: match kind {
                MapKind::Hash => 1,
                MapKind::Array | MapKind::MappedArray | MapKind::Constants => 2,
                MapKind::RingBuf => 27,
            },
            map_flags: match kind {
                MapKind::MappedArray => MMAPABLE,
                MapKind::Constants => READ_BY_PROGRAMS,
                MapKind::Hash | MapKind::Array | MapKind::RingBuf => 0,
            },
            key_size,
            value_size,
            max_entries,
            ..CreateAttr::default()
        };
        for (to, from) in attr.map_name.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        let fd = bpf(command::MAP_CREATE, &mut attr)?;
        let fd = i32::try_from(fd).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, key_size: key_size as usize, value_size: value_size as usize, max_entries })
    }

    /// Most entries it can hold (bytes, for a ring buffer).
    #[must_use]
    pub fn max_entries(&self) -> u32 {
        self.max_entries
    }

    fn elem(&self, key: &[u8], value: u64, flags: u64) -> ElemAttr {
        assert_eq!(key.len(), self.key_size, "keys of this map have {} bytes", self.key_size);
        ElemAttr {
            map_fd: self.fd.as_raw_fd().unsigned_abs(),
            padding: 0,
            key: key.as_ptr().expose_provenance() as u64,
            value,
            flags,
        }
    }

    /// Copies the value of `key` into `value`. `Ok(false)`: there is no such key.
    ///
    /// # Errors
    /// Other than ENOENT.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        assert_eq!(value.len(), self.value_size, "values of this map have {} bytes", self.value_size);
        let mut attr = self.elem(key, value.as_mut_ptr().expose_provenance() as u64, 0);
        match bpf(command::MAP_LOOKUP_ELEM, &mut attr) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets the value of `key`. With `only_new`, an existing one stays (EEXIST).
    ///
    /// # Errors
    /// E2BIG when the map is full; EEXIST.
    pub fn update(&self, key: &[u8], value: &[u8], only_new: bool) -> io::Result<()> {
        assert_eq!(value.len(), self.value_size, "values of this map have {} bytes", self.value_size);
        let mut attr = self.elem(key, value.as_ptr().expose_provenance() as u64, u64::from(only_new));
        bpf(command::MAP_UPDATE_ELEM, &mut attr).map(drop)
    }

    /// From now on, user space cannot change it (Linux 5.2).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn freeze(&self) -> io::Result<()> {
        let mut attr = FreezeAttr { map_fd: self.fd.as_raw_fd().unsigned_abs() };
        bpf(command::MAP_FREEZE, &mut attr).map(drop)
    }

    /// Removes `key`. It is no error if it is not there.
    ///
    /// # Errors
    /// Other than ENOENT.
    pub fn delete(&self, key: &[u8]) -> io::Result<()> {
        let mut attr = self.elem(key, 0, 0);
        match bpf(command::MAP_DELETE_ELEM, &mut attr) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    /// Copies all entries of a hash map with 4-byte keys, in one call where possible (Linux 5.6).
    /// `keys` and `values` are overwritten; the result is the number of entries. Entries that change meanwhile
    /// are seen in one of their states.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read_all(&self, keys: &mut Vec<u8>, values: &mut Vec<u8>) -> io::Result<usize> {
        let capacity = self.max_entries as usize;
        keys.resize(capacity * self.key_size, 0);
        values.resize(capacity * self.value_size, 0);
        let mut total = 0;
        // The position token of a hash map is a u32 bucket number.
        let mut position = [0_u8; 8];
        let mut first = true;
        while total < capacity {
            let mut next = [0_u8; 8];
            let mut attr = BatchAttr {
                in_batch: if first { 0 } else { position.as_ptr().expose_provenance() as u64 },
                out_batch: next.as_mut_ptr().expose_provenance() as u64,
                keys: keys[total * self.key_size..].as_mut_ptr().expose_provenance() as u64,
                values: values[total * self.value_size..].as_mut_ptr().expose_provenance() as u64,
                count: u32::try_from(capacity - total).unwrap_or(u32::MAX),
                map_fd: self.fd.as_raw_fd().unsigned_abs(),
                elem_flags: 0,
                flags: 0,
            };
            let result = bpf(command::MAP_LOOKUP_BATCH, &mut attr);
            match result {
                Ok(_) => total += attr.count as usize,
                // ENOENT says that the end was reached; `count` entries came with it.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                    total += attr.count as usize;
                    break;
                }
                Err(error) => return Err(error),
            }
            position = next;
            first = false;
        }
        Ok(total.min(capacity))
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
