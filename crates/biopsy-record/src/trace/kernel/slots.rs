//! The table of slots, as the reader sees it: who gives slots to threads, and takes them back.

use std::collections::HashSet;

use super::layout::{ThreadTimes, slot, thread};
use super::maps::Maps;

const OWNER: usize = slot::OWNER.cast_unsigned() as usize;
const TIMES: usize = slot::TIMES.cast_unsigned() as usize;
const STATE: usize = thread::STATE.cast_unsigned() as usize;
const OUT_TIME: usize = thread::OUT_TIME.cast_unsigned() as usize;
const SIZE: usize = slot::SIZE.cast_unsigned() as usize;

/// The slots of a session. Programs only ever change whether an entry has moved to the slot of its thread.
pub(super) struct Slots<'a> {
    maps: &'a Maps,
    count: u32,
}

impl<'a> Slots<'a> {
    pub(super) fn new(maps: &'a Maps) -> Self {
        Self { maps, count: maps.slot_count.cast_unsigned() }
    }

    fn at(&self, tid: u32) -> usize {
        (tid & (self.count - 1)) as usize * SIZE
    }

    fn owner(&self, at: usize) -> u64 {
        self.maps.slots.load(at + OWNER)
    }

    /// The thread's entry is in its slot.
    pub(super) fn has(&self, tid: u32) -> bool {
        self.owner(self.at(tid)) == u64::from(tid)
    }

    /// Copies the entry of a thread, if it is in its slot.
    pub(super) fn read(&self, tid: u32, value: &mut [u8]) -> bool {
        self.maps.slots.copy_out(self.at(tid) + TIMES, value);
        self.has(tid)
    }

    /// Hands out the entries of all slots, and notes whose they are.
    pub(super) fn read_all(&self, owners: &mut HashSet<u32>, mut sink: impl FnMut(u32, ThreadTimes)) {
        owners.clear();
        let mut value = [0; ThreadTimes::BYTES];
        for index in 0..self.count as usize {
            let at = index * SIZE;
            let Some(tid) = u32::try_from(self.owner(at)).ok().filter(|&tid| tid != 0) else { continue };
            self.maps.slots.copy_out(at + TIMES, &mut value);
            if let Some(times) = ThreadTimes::parse(&value) {
                owners.insert(tid);
                sink(tid, times);
            }
        }
    }

    /// Lets a thread move to its slot, unless that is another's.
    pub(super) fn give(&self, tid: u32) {
        let at = self.at(tid);
        if self.owner(at) == 0 {
            self.maps.slots.store(at + OWNER, u64::from(tid) | slot::GIVEN);
        }
    }

    /// What was noted of threads is not true any more, because switches were not watched for a time. Only while no program runs.
    pub(super) fn begin_anew(&self) {
        for at in (0..self.count as usize).map(|index| index * SIZE) {
            if self.owner(at) != 0 {
                self.maps.slots.store(at + TIMES + STATE, 0);
                self.maps.slots.store(at + TIMES + OUT_TIME, 0);
            }
        }
    }

    /// No thread has one. Only while no program runs.
    pub(super) fn clear(&self) {
        for index in 0..self.count as usize {
            self.maps.slots.store(index * SIZE + OWNER, 0);
        }
    }

    /// A thread has ended.
    pub(super) fn take_back(&self, tid: u32) {
        let at = self.at(tid);
        if self.owner(at) & !slot::GIVEN == u64::from(tid) {
            self.maps.slots.store(at + OWNER, 0);
        }
    }
}
