//! What was found of a virtual machine's memory so far, and how its structures are asked.

use std::ops::Range;

use biopsy_model::footprint::{Blocks, MemoryKind, MemoryPool, RuntimeArea, RuntimeHeap};

use crate::Memory;
use crate::jvm::tables::Tables;

/// What was found so far.
pub(super) struct Found<'m> {
    pub(super) memory: &'m Memory<'m>,
    pub(super) tables: &'m Tables,
    pub(super) heap: RuntimeHeap,
}

impl Found<'_> {
    /// The number of the pool of this name, which is made where there is none.
    pub(super) fn pool(&mut self, name: &str, kind: MemoryKind) -> usize {
        let pools = &mut self.heap.memory.pools;
        pools.iter().position(|pool| pool.name == name).unwrap_or_else(|| {
            pools.push(MemoryPool { name: name.to_owned(), kind, ..MemoryPool::default() });
            pools.len() - 1
        })
    }

    /// Adds a piece of memory that is in use from its beginning to `top`. What of it may be written is committed.
    pub(super) fn space(&mut self, pool: usize, range: Range<u64>, top: u64) {
        let committed = self.memory.writable(&range);
        let used = top.clamp(range.start, range.end.max(range.start)) - range.start;
        if let Some(pool) = self.heap.memory.pools.get_mut(pool) {
            pool.committed = pool.committed.saturating_add(committed);
            pool.used = Blocks { count: 0, bytes: pool.used.bytes.saturating_add(used) };
        }
        let middle = range.start.saturating_add(used);
        self.heap.areas.push(RuntimeArea { range: range.start..middle, pool, used });
        self.heap.areas.push(RuntimeArea { range: middle..range.end, pool, used: 0 });
    }

    /// Adds a piece of memory of which it is not known what is in use; all that is in memory counts.
    pub(super) fn whole(&mut self, name: &str, kind: MemoryKind, range: Range<u64>) {
        let number = self.pool(name, kind);
        let committed = self.memory.writable(&range);
        if let Some(pool) = self.heap.memory.pools.get_mut(number) {
            pool.committed = pool.committed.saturating_add(committed);
        }
        let used = range.end.saturating_sub(range.start);
        self.heap.areas.push(RuntimeArea { range, pool: number, used });
    }

    /// The word at a field of what is at `at`.
    pub(super) fn word(&self, at: u64, owner: &str, field: &str) -> Option<u64> {
        self.memory.u64(at.checked_add(self.tables.field(owner, field)?)?)
    }

    /// The first of these types that has the field: names change between versions.
    pub(super) fn field(&self, owners: &[&str], field: &str) -> Option<u64> {
        owners.iter().find_map(|owner| self.tables.field(owner, field))
    }

    /// Between two addresses that are in one field.
    pub(super) fn between(&self, at: u64, owner: &str, [start, end]: [&str; 2]) -> Option<Range<u64>> {
        let range = self.word(at, owner, start)?..self.word(at, owner, end)?;
        (range.start < range.end && range.end < 1 << 47).then_some(range)
    }
}
