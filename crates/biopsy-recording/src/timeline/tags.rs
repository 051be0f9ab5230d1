//! Numbers of the format: tags of events, codes of enums. Never change a number; add at the end.

use biopsy_model::loss::LossKind;
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::{FrameSpace, StackEnd};
use biopsy_model::symbol::SymbolSource;
use biopsy_model::timeline::WaitState;

// Tags up to 6 fit the first byte of an event: they are for what there is much of.
/// Gives the next thread number of this chunk to a tid; the model does not see it.
pub(super) const THREAD: u64 = 0;
pub(super) const SAMPLE: u64 = 1;
pub(super) const WAIT: u64 = 2;
pub(super) const WAIT_SAMPLE: u64 = 3;
pub(super) const STATES: u64 = 4;
pub(super) const FRAME: u64 = 5;
pub(super) const STACK: u64 = 6;
pub(super) const SYMBOLS: u64 = 7;
pub(super) const MODULE: u64 = 8;
pub(super) const THREAD_START: u64 = 9;
pub(super) const THREAD_NAME: u64 = 10;
pub(super) const THREAD_EXIT: u64 = 11;
pub(super) const PROCESS_START: u64 = 12;
pub(super) const EXEC: u64 = 13;
pub(super) const PROCESS_EXIT: u64 = 14;
pub(super) const SETTINGS: u64 = 15;
pub(super) const LOSS: u64 = 16;
pub(super) const MARK: u64 = 17;
pub(super) const WARNING: u64 = 18;
pub(super) const ALLOCATION: u64 = 19;
pub(super) const RELEASE: u64 = 20;
pub(super) const ALLOCATION_WATCH: u64 = 21;
pub(super) const ALLOCATION_COUNT: u64 = 22;

/// The first byte of an event: three bits of tag, five of length. All bits set say "the number follows".
pub(super) const TAG_SHIFT: u32 = 5;
pub(super) const TAG_ESCAPE: u64 = 0b111;
pub(super) const LENGTH_ESCAPE: u64 = 0b1_1111;

/// Longest text of a timeline in bytes; writers cut longer ones.
pub(super) const MAX_TEXT: usize = 64 << 10;
/// Longest name or path of a symbol in bytes, and most inlined functions of a frame: bounds the size of a chunk.
pub(super) const MAX_SYMBOL_TEXT: usize = 4 << 10;
pub(super) const MAX_FUNCTIONS: usize = 64;

/// Defines the two directions of an enum's code. A code that this version does not know becomes `$unknown`.
macro_rules! codes {
    ($encode:ident, $decode:ident, $type:ident, unknown = $unknown:ident, { $($code:literal = $variant:ident),+ $(,)? }) => {
        pub(super) fn $encode(value: $type) -> u8 {
            match value { $($type::$variant => $code),+ }
        }

        pub(super) fn $decode(code: u8) -> $type {
            match code { $($code => $type::$variant,)+ _ => $type::$unknown }
        }
    };
}

codes!(encode_space, decode_space, FrameSpace, unknown = User, { 0 = User, 1 = Kernel });
// `FramePointers` says "could not be checked", which is what an older reader can say of a newer reason.
codes!(encode_end, decode_end, StackEnd, unknown = FramePointers, {
    0 = Root, 1 = Truncated, 2 = FramePointers, 3 = NoUnwindInfo, 4 = Skipped, 5 = KernelOnly,
});
codes!(encode_state, decode_state, WaitState, unknown = Other, {
    0 = Other, 1 = Sleep, 2 = Disk, 3 = Stopped, 4 = Preempted,
});
codes!(encode_module_kind, decode_module_kind, ModuleKind, unknown = OtherFile, {
    0 = OtherFile, 1 = Elf, 2 = Kernel, 3 = Vdso, 4 = Jit, 5 = Source,
});
codes!(encode_source, decode_source, SymbolSource, unknown = Imported, {
    0 = Imported, 1 = ElfSymbols, 2 = Dwarf, 3 = Kallsyms, 4 = PerfMap, 5 = JitDump,
    6 = RuntimeMemory, 7 = RuntimeEvents, 8 = FunctionStart,
});
codes!(encode_loss, decode_loss, LossKind, unknown = SideBand, {
    0 = SideBand, 1 = Samples, 2 = Waits, 3 = Throttled, 4 = StacksSkipped, 5 = Metrics, 6 = Disk, 7 = Allocations, 8 = Switches,
});
