//! Locks that nobody waits for: thin locks in the headers of objects, and held `System.Threading.Lock` objects.
//!
//! ```text
//! u32 before an object:  bits 0..16 managed id of the owner, bits 16..22 recursion;  bit 27: something else is there
//! ```

use biopsy_image::Image;
use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::lock::{Lock, LockKind, Locks};
use super::lock_object;
use crate::graph::Graph;
use crate::runtime::{ManagedThread, Runtime};

/// Bits that mark anything but a thin lock: 27 hash code or index, 28 being changed.
const OTHER: u32 = 0x1800_0000;
/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// Locks at most.
const LOCKS: usize = 100_000;

pub(super) fn find(runtime: &Runtime<'_>, threads: &[ManagedThread], graph: &Graph, locks: &mut Locks) {
    let ids: FxHashMap<u32, u32> = threads
        .iter()
        .filter(|thread| !thread.dead && thread.id != 0)
        .map(|thread| (thread.id, thread.os_id))
        .collect();
    let types = graph.types();
    let is_lock: Vec<bool> = types.iter().map(|of| of.name == "System.Threading.Lock").collect();
    let mut pieces = Pieces { image: runtime.memory().image(), start: 0, bytes: Vec::new() };
    for object in graph.objects() {
        let Some(of) = types.get(object.of.0 as usize).filter(|of| !of.is_free) else { continue };
        if locks.locks.len() >= LOCKS {
            locks.problems.push(format!("locks: the first {LOCKS} only"));
            return;
        }
        if is_lock.get(object.of.0 as usize).copied().unwrap_or(false) {
            let held =
                lock_object::read(runtime, threads, object.address).filter(|lock| lock.owner.is_some());
            if let Some(lock) = held.filter(|lock| locks.index_of(lock.object).is_none()) {
                locks.locks.push(lock);
            }
            continue;
        }
        let Some((id, recursion)) = pieces.header(object.address.0).and_then(owner) else { continue };
        let Some(os_id) = ids.get(&id) else { continue };
        locks.locks.push(lock(object.address, crate::names::display_type(&of.name), *os_id, recursion));
    }
}

/// Managed id of the owner and how often it entered again, where the header of an object is that of a thin lock that is
/// held (`SBLK_MASK_LOCK_THREADID`, `SBLK_MASK_LOCK_RECLEVEL` of `syncblk.h`; 16 and 6 bits from .NET 8 on).
pub(super) fn owner(header: u32) -> Option<(u32, u32)> {
    let id = header & 0xffff;
    (header & OTHER == 0 && id != 0).then_some((id, header >> 16 & 0x3f))
}

pub(super) fn lock(object: Avma, type_name: String, owner: u32, recursion: u32) -> Lock {
    Lock {
        object,
        type_name,
        kind: LockKind::ThinMonitor,
        owner: Some(owner),
        readers: Vec::new(),
        recursion,
        waiters: 0,
        sync_block: Avma(0),
    }
}

/// Headers of objects in the order of their addresses.
struct Pieces<'a> {
    image: &'a dyn Image,
    start: u64,
    bytes: Vec<u8>,
}

impl Pieces<'_> {
    fn header(&mut self, object: u64) -> Option<u32> {
        let at = object.checked_sub(4)?;
        if let Some(header) = self.have(at) {
            return Some(header);
        }
        self.bytes.resize(PIECE, 0);
        let read = self.image.read(at, &mut self.bytes).unwrap_or(0);
        self.bytes.truncate(read);
        self.start = at;
        self.have(at)
    }

    fn have(&self, at: u64) -> Option<u32> {
        let offset = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(offset..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
    }
}

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn headers_of_objects_are_read_as_the_runtime_writes_them() {
        assert_eq!(owner(0x0000_0004), Some((4, 0)));
        assert_eq!(owner(0x0002_0005), Some((5, 2)), "entered three times");
        assert_eq!(owner(0x4000_0007), Some((7, 0)), "its finalizer has run");
        assert_eq!(owner(0), None, "nobody holds it");
        assert_eq!(owner(0x0800_0004), None, "an index of a sync block");
        assert_eq!(owner(0x0c00_0004), None, "a hash code");
        assert_eq!(owner(0x1000_0004), None, "being changed");
    }
}
