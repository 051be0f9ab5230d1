//! What a walk of the stacks knows beyond frames: the code that they are in, and the registers of each.

use std::sync::Arc;

use biopsy_model::Tid;
use rustc_hash::FxHashMap;

use crate::unwind::{Modules, WalkedFrame};

/// Frames of one thread whose registers are kept: a stack overflow has tens of thousands.
const KEPT: usize = 64;
/// Frames of all threads whose registers are kept: 40 MB.
const ALL: usize = 500_000;

/// Registers of a frame: of the innermost those of the thread, of callers what they will be when the call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRegisters {
    /// Instruction pointer; the return address, for callers.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// `rbp`, where it is known.
    pub fp: Option<u64>,
    /// `rbx`, `r12` to `r15`, where they are known.
    pub saved: [Option<u64>; 5],
}

impl FrameRegisters {
    /// Those that are known, by their numbers in instructions.
    pub(crate) fn known(&self) -> Vec<(usize, u64)> {
        let numbered = [3, 12, 13, 14, 15].into_iter().zip(self.saved);
        let saved = numbered.filter_map(|(number, value)| Some((number, value?)));
        saved.chain([(4, self.sp)]).chain(self.fp.map(|fp| (5, fp))).collect()
    }
}

/// The code that frames of an image are in, and their registers. Nothing of it is a result: two walks with equal frames are equal.
#[derive(Clone, Default)]
pub struct KnownCode(Option<Arc<(Modules, RegistersOf)>>);

impl KnownCode {
    pub(super) fn new(modules: Modules, registers: RegistersOf) -> Self {
        Self(Some(Arc::new((modules, registers))))
    }

    pub(crate) fn modules(&self) -> Option<&Modules> {
        self.0.as_deref().map(|(modules, _)| modules)
    }

    /// Registers of the innermost frames of a thread.
    #[must_use]
    pub fn registers(&self, thread: Tid) -> &[FrameRegisters] {
        self.0.as_deref().and_then(|(_, registers)| registers.frames.get(&thread)).map_or(&[], Vec::as_slice)
    }
}

impl PartialEq for KnownCode {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KnownCode {}

impl std::fmt::Debug for KnownCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KnownCode").field("known", &self.0.is_some()).finish()
    }
}

/// Registers of frames, by thread.
#[derive(Debug, Default)]
pub(super) struct RegistersOf {
    frames: FxHashMap<Tid, Vec<FrameRegisters>>,
    kept: usize,
}

impl RegistersOf {
    pub(super) fn keep(&mut self, thread: Tid, walked: &[WalkedFrame]) {
        let registers = |frame: &WalkedFrame| FrameRegisters {
            ip: frame.ip.0,
            sp: frame.sp.0,
            fp: frame.fp,
            saved: frame.saved,
        };
        let room = KEPT.min(ALL.saturating_sub(self.kept));
        let frames: Vec<FrameRegisters> = walked.iter().take(room).map(registers).collect();
        self.kept += frames.len();
        self.frames.insert(thread, frames);
    }
}
