//! Which thread of the image runs which of the runtime's threads (`m`).

use biopsy_image::{GeneralRegisters, OwnNumbers};
use biopsy_model::Tid;
use rustc_hash::FxHashMap;

use super::goroutine::Place;
use super::layout::{Layout, g};
use crate::Memory;

/// Threads by `m`, and the other way round.
#[derive(Debug, Default)]
pub(super) struct Threads {
    by_m: FxHashMap<u64, Tid>,
    numbers: OwnNumbers,
    registers: FxHashMap<Tid, GeneralRegisters>,
}

impl Threads {
    pub(super) fn of(memory: &Memory<'_>) -> Self {
        let image = memory.image();
        let registers: FxHashMap<Tid, GeneralRegisters> =
            image.threads().iter().filter_map(|thread| Some((thread.tid, thread.registers?))).collect();
        // A program without C keeps the goroutine of a thread right below what `fs` points to (runtime·settls), whatever number
        // the thread has in whose namespace.
        let by_m = registers.iter().filter_map(|(tid, registers)| {
            let own = memory.pointer(registers.fs_base.checked_sub(8)?)?;
            let m = memory.pointer(own.checked_add(g::M)?)?;
            let g0 = memory.pointer(m)?;
            (memory.u64(g0.checked_add(g::M)?) == Some(m)).then_some((m, *tid))
        });
        Self { by_m: by_m.collect(), numbers: OwnNumbers::of(image), registers }
    }

    /// The thread of an `m`.
    pub(super) fn of_m(&self, memory: &Memory<'_>, layout: &Layout, m: u64) -> Option<Tid> {
        let number = || u32::try_from(memory.u64(m.checked_add(layout.m_thread)?)?).ok();
        self.by_m.get(&m).copied().or_else(|| self.numbers.thread(number()?))
    }

    /// Where a thread is.
    pub(super) fn place(&self, tid: Tid) -> Option<Place> {
        self.registers.get(&tid).map(|registers| Place { pc: registers.rip, sp: registers.rsp })
    }
}
