//! Programs at the functions that hand out memory: all calls are counted, and one is sampled each so many bytes.
//!
//! - `enter`, where such a function begins: adds up calls and bytes; when the bytes of the interval are used up, it notes the call.
//! - `leave`, behind its return: if the call was noted, its address, size, registers and the used part of the stack go to the ring
//!   buffer, and the address is kept.
//! - `release`, where `free` begins: if its address was kept, a record says that it goes.
//!
//! Intervals are drawn from an exponential distribution, so that each byte has the same chance whatever the pattern of sizes.

use std::io;

use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{
        GetCurrentPidTgid, GetPrandomU32, GetSmpProcessorId, KtimeGetNs, MapDeleteElem, MapLookupElem,
        MapUpdateElem, ProbeReadUser, RingbufOutput,
    },
    Op,
    Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10},
    Width::{W32, W64},
};
use biopsy_sys::bpf::{LoadError, Map, MapKind, Program, ProgramKind};

use super::layout::{allocation, config, pt_regs, release, sample};
use super::maps::{Maps, NO_WAKEUP};
use super::samples::user_stack;
use super::switches::count;

/// What a function does, and where its arguments are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// `(size)`
    Malloc,
    /// `(number, size)`
    Calloc,
    /// `(address, size)`
    Realloc,
    /// The same, and with no address it calls [`Kind::Malloc`].
    ReallocOfCLibrary,
    /// `(alignment, size)`
    Aligned,
    /// `(where the address goes, alignment, size)`
    PosixMemalign,
    /// `(address)`
    Free,
}

impl Kind {
    /// It hands out memory.
    pub(crate) fn allocates(kind: Self) -> bool {
        kind != Self::Free
    }

    /// All that have an `enter` of their own.
    pub(crate) const ALLOCATING: [Self; 6] = [
        Self::Malloc,
        Self::Calloc,
        Self::Realloc,
        Self::ReallocOfCLibrary,
        Self::Aligned,
        Self::PosixMemalign,
    ];
}

const TID_KEY: i16 = -4;
const TGID_KEY: i16 = -8;
const CPU_KEY: i16 = -12;
const WORD_KEY: i16 = -16;
const THREAD_KEY: i16 = -24;
/// Size, stack pointer, where the address goes.
const CALL: i16 = -48;
/// Address, process.
const ADDRESS_KEY: i16 = -64;
const WORD: i16 = -72;
/// [`release::SIZE`] bytes.
const RECORD: i16 = WORD - 24;

/// Lengths of intervals to choose from; a power of two.
const INTERVALS: u32 = 1024;
/// Calls that are noted and have not returned: at most one for each thread.
const CALLS: u32 = 16_384;
/// Sampled allocations that have not been released.
const KEPT: u32 = 131_072;

/// Counts of one CPU. Words.
mod rate {
    pub(super) const CALLS: i16 = 0;
    pub(super) const BYTES: i16 = 8;
    /// Bytes until the next sample.
    pub(super) const LEFT: i16 = 16;
    pub(super) const SIZE: u32 = 24;
}

/// The programs, and the maps that are read and written from here; the others live as long as the programs that use them.
#[derive(Debug)]
pub(crate) struct AllocationPrograms {
    rates: Map,
    intervals: Map,
    cpus: u32,
    enters: Vec<(Kind, Program)>,
    leave: Program,
    release: Program,
}

/// Allocations since the beginning, all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AllocationCounts {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

/// Why they could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AllocationError {
    /// A map was refused.
    #[error("the kernel refused a BPF map")]
    Map(#[source] io::Error),
    /// A program was refused.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl AllocationPrograms {
    /// Loads them; nothing runs yet.
    pub(super) fn load(maps: &Maps, cpus: u32) -> Result<Self, AllocationError> {
        let map = |kind, name, key, value, entries| {
            Map::create(kind, name, key, value, entries).map_err(AllocationError::Map)
        };
        let rates = map(MapKind::Array, "biopsy_rates", 4, rate::SIZE, cpus)?;
        let intervals = map(MapKind::Array, "biopsy_interval", 4, 8, INTERVALS)?;
        // Thread → the call that was noted.
        let calls = map(MapKind::Hash, "biopsy_calls", 8, 24, CALLS)?;
        // Address and process → 1.
        let kept = map(MapKind::Hash, "biopsy_kept", 16, 8, KEPT)?;
        // One record under construction for each CPU. Not that of the samples, whose timer may tick in the middle.
        let scratch = map(MapKind::Array, "biopsy_alloc", 4, sample::SIZE, cpus)?;
        let load = |name, code: &[u64]| Program::load(ProgramKind::Functions, name, code);
        let mut enters = Vec::new();
        for kind in Kind::ALLOCATING {
            let code = enter(maps, &rates, &intervals, &calls, &kept, kind);
            enters.push((kind, load("biopsy_enter", &code)?));
        }
        let leave = load("biopsy_leave", &leave(maps, &calls, &kept, &scratch))?;
        let release = load("biopsy_release", &release_program(maps, &kept))?;
        Ok(Self { rates, intervals, cpus, enters, leave, release })
    }

    /// The program for the beginning of a function.
    pub(crate) fn enter(&self, kind: Kind) -> &Program {
        let of_kind = self.enters.iter().find(|(of, _)| *of == kind);
        of_kind.map_or(&self.release, |(_, program)| program)
    }

    /// The program for the return of what hands out memory.
    pub(crate) fn leave(&self) -> &Program {
        &self.leave
    }

    /// From now on a sample is taken each so many bytes, on average.
    pub(crate) fn set_interval(&self, bytes: u64) -> io::Result<()> {
        for number in 0..INTERVALS {
            // In the middle of each of so many equal parts of the distribution.
            let share = (f64::from(number) + 0.5) / f64::from(INTERVALS);
            #[expect(clippy::cast_precision_loss, reason = "an average")]
            let length = -share.ln() * bytes as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive, and some times the average"
            )]
            let length = length.max(1.0) as u64;
            self.intervals.update(&number.to_ne_bytes(), &length.to_ne_bytes(), false)?;
        }
        Ok(())
    }

    /// All allocations so far.
    pub(crate) fn counts(&self) -> AllocationCounts {
        let mut sum = AllocationCounts::default();
        for cpu in 0..self.cpus {
            let mut value = [0; rate::SIZE as usize];
            let _ = self.rates.lookup(&cpu.to_ne_bytes(), &mut value);
            let word = |at: i16| {
                let at = usize::try_from(at).expect("offsets are positive");
                u64::from_ne_bytes(value[at..at + 8].try_into().expect("8 bytes"))
            };
            sum.calls = sum.calls.wrapping_add(word(rate::CALLS));
            sum.bytes = sum.bytes.wrapping_add(word(rate::BYTES));
        }
        sum
    }
}

/// Where `pt_regs` has the arguments of a function (System V ABI of x86-64), its result, and the stack pointer.
const ARGUMENTS: [i16; 3] = [112, 104, 96];
const RESULT: i16 = 80;

fn enter(maps: &Maps, rates: &Map, intervals: &Map, calls: &Map, kept: &Map, kind: Kind) -> Vec<u64> {
    let mut asm = Assembler::new();
    let done = asm.label();
    let [first, second, third] = ARGUMENTS;
    asm.mov(R6, R1);
    if matches!(kind, Kind::Realloc | Kind::ReallocOfCLibrary) {
        let fresh = asm.label();
        asm.load(W64, R1, R6, first);
        asm.jump_if_imm(R1, Cond::Equal, 0, if kind == Kind::Realloc { fresh } else { done });
        // What was there goes, wherever the rest is put.
        released(&mut asm, maps, kept, fresh);
        asm.place(fresh);
    }
    match kind {
        Kind::Malloc | Kind::Free => asm.load(W64, R7, R6, first),
        Kind::Calloc => {
            asm.load(W64, R7, R6, first);
            asm.load(W64, R8, R6, second);
            asm.op(Op::Mul, R7, R8);
        }
        Kind::Realloc | Kind::ReallocOfCLibrary | Kind::Aligned => asm.load(W64, R7, R6, second),
        Kind::PosixMemalign => asm.load(W64, R7, R6, third),
    }
    asm.call(GetSmpProcessorId);
    asm.store(W32, R10, CPU_KEY, R0);
    asm.map(R1, rates);
    asm.address(R2, R10, CPU_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    asm.mov(R9, R0);
    asm.load(W64, R1, R9, rate::CALLS);
    asm.op_imm(Op::Add, R1, 1);
    asm.store(W64, R9, rate::CALLS, R1);
    asm.load(W64, R1, R9, rate::BYTES);
    asm.op(Op::Add, R1, R7);
    asm.store(W64, R9, rate::BYTES, R1);
    asm.load(W64, R1, R9, rate::LEFT);
    asm.op(Op::Sub, R1, R7);
    asm.store(W64, R9, rate::LEFT, R1);
    asm.jump_if_imm(R1, Cond::SignedGreater, 0, done);

    // This one is sampled; how many bytes until the next?
    asm.call(GetPrandomU32);
    asm.op_imm(Op::And, R0, (INTERVALS - 1).cast_signed());
    asm.store(W32, R10, WORD_KEY, R0);
    asm.map(R1, intervals);
    asm.address(R2, R10, WORD_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    asm.load(W64, R1, R0, 0);
    asm.store(W64, R9, rate::LEFT, R1);
    asm.call(GetCurrentPidTgid);
    asm.store(W64, R10, THREAD_KEY, R0);
    asm.store(W64, R10, CALL, R7);
    asm.load(W64, R1, R6, pt_regs::SP);
    asm.store(W64, R10, CALL + 8, R1);
    if kind == Kind::PosixMemalign {
        asm.load(W64, R1, R6, first);
        asm.store(W64, R10, CALL + 16, R1);
    } else {
        asm.store_imm(W64, R10, CALL + 16, 0);
    }
    asm.map(R1, calls);
    asm.address(R2, R10, THREAD_KEY);
    asm.address(R3, R10, CALL);
    asm.mov_imm(R4, 0);
    asm.call(MapUpdateElem);
    asm.place(done);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}

fn leave(maps: &Maps, calls: &Map, kept: &Map, scratch: &Map) -> Vec<u64> {
    let mut asm = Assembler::new();
    let (done, have_address, emit, lost) = (asm.label(), asm.label(), asm.label(), asm.label());
    asm.mov(R6, R1);
    asm.call(GetCurrentPidTgid);
    asm.store(W64, R10, THREAD_KEY, R0);
    asm.store(W32, R10, TID_KEY, R0);
    asm.op_imm(Op::ShiftRight, R0, 32);
    asm.store(W32, R10, TGID_KEY, R0);
    asm.store(W64, R10, ADDRESS_KEY + 8, R0);
    asm.map(R1, calls);
    asm.address(R2, R10, THREAD_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    // The return of a function that was called by the one that was noted is not its return.
    asm.load(W64, R1, R0, 8);
    asm.load(W64, R2, R6, pt_regs::SP);
    asm.op(Op::Sub, R2, R1);
    asm.jump_if_imm(R2, Cond::NotEqual, 8, done);
    asm.load(W64, R1, R0, 0);
    asm.store(W64, R10, CALL, R1);
    asm.load(W64, R7, R0, 16);
    asm.map(R1, calls);
    asm.address(R2, R10, THREAD_KEY);
    asm.call(MapDeleteElem);
    asm.load(W64, R8, R6, RESULT);
    asm.jump_if_imm(R7, Cond::Equal, 0, have_address);
    asm.jump_if_imm(R8, Cond::NotEqual, 0, done);
    asm.address(R1, R10, WORD);
    asm.mov_imm(R2, 8);
    asm.mov(R3, R7);
    asm.call(ProbeReadUser);
    asm.jump_if_imm(R0, Cond::NotEqual, 0, done);
    asm.load(W64, R8, R10, WORD);
    asm.place(have_address);
    asm.jump_if_imm(R8, Cond::Equal, 0, done);
    asm.store(W64, R10, ADDRESS_KEY, R8);
    asm.store_imm(W64, R10, WORD, 1);
    asm.map(R1, kept);
    asm.address(R2, R10, ADDRESS_KEY);
    asm.address(R3, R10, WORD);
    asm.mov_imm(R4, 0);
    asm.call(MapUpdateElem);
    asm.jump_if_imm(R0, Cond::NotEqual, 0, lost);

    asm.call(GetSmpProcessorId);
    asm.store(W32, R10, CPU_KEY, R0);
    asm.map(R1, scratch);
    asm.address(R2, R10, CPU_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    asm.mov(R9, R0);
    asm.store_imm(W32, R9, 0, allocation::KIND.cast_signed());
    for (from, to) in [(CPU_KEY, sample::CPU), (TID_KEY, sample::TID), (TGID_KEY, sample::TGID)] {
        asm.load(W32, R1, R10, from);
        asm.store(W32, R9, to, R1);
    }
    asm.call(KtimeGetNs);
    asm.store(W64, R9, sample::TIME, R0);
    asm.load(W64, R1, R6, pt_regs::IP);
    asm.store(W64, R9, sample::IP, R1);
    asm.load(W64, R1, R6, pt_regs::BP);
    asm.store(W64, R9, sample::BP, R1);
    asm.load(W64, R7, R6, pt_regs::SP);
    asm.store(W64, R9, sample::SP, R7);
    asm.store_imm(W32, R9, sample::KERNEL_BYTES, 0);
    asm.store_imm(W32, R9, sample::FLAGS, 0);
    for (from, to) in [(ADDRESS_KEY, allocation::ADDRESS), (CALL, allocation::SIZE)] {
        asm.load(W64, R1, R10, from);
        asm.store(W64, R9, to, R1);
    }
    user_stack(&mut asm, maps, emit);

    asm.place(emit);
    asm.store(W32, R9, sample::STACK_BYTES, R8);
    // Another thread may have come in between on this CPU: then the record is a mixture.
    asm.load(W32, R1, R9, sample::TID);
    asm.load(W32, R2, R10, TID_KEY);
    asm.jump_if(R1, Cond::NotEqual, R2, lost);
    asm.map(R1, &maps.events);
    asm.mov(R2, R9);
    asm.mov(R3, R8);
    asm.op_imm(Op::Add, R3, sample::STACK);
    asm.mov_imm(R4, NO_WAKEUP);
    asm.call(RingbufOutput);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    asm.place(lost);
    count(&mut asm, maps, config::LOST_ALLOCATIONS);
    asm.place(done);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}

fn release_program(maps: &Maps, kept: &Map) -> Vec<u64> {
    let mut asm = Assembler::new();
    let done = asm.label();
    asm.mov(R6, R1);
    asm.load(W64, R1, R6, ARGUMENTS[0]);
    asm.jump_if_imm(R1, Cond::Equal, 0, done);
    released(&mut asm, maps, kept, done);
    asm.place(done);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}

/// If the address in R1 was kept, it is forgotten, and a record says so. R6 is kept.
fn released(asm: &mut Assembler, maps: &Maps, kept: &Map, otherwise: biopsy_sys::bpf::asm::Label) {
    asm.store(W64, R10, ADDRESS_KEY, R1);
    asm.call(GetCurrentPidTgid);
    asm.op_imm(Op::ShiftRight, R0, 32);
    asm.store(W64, R10, ADDRESS_KEY + 8, R0);
    asm.map(R1, kept);
    asm.address(R2, R10, ADDRESS_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, otherwise);
    asm.map(R1, kept);
    asm.address(R2, R10, ADDRESS_KEY);
    asm.call(MapDeleteElem);
    asm.store_imm(W32, R10, RECORD, release::KIND.cast_signed());
    asm.load(W64, R1, R10, ADDRESS_KEY + 8);
    asm.store(W32, R10, RECORD + release::TGID, R1);
    asm.load(W64, R1, R10, ADDRESS_KEY);
    asm.store(W64, R10, RECORD + release::ADDRESS, R1);
    asm.call(KtimeGetNs);
    asm.store(W64, R10, RECORD + release::TIME, R0);
    asm.map(R1, &maps.events);
    asm.address(R2, R10, RECORD);
    asm.mov_imm(R3, release::SIZE);
    asm.mov_imm(R4, NO_WAKEUP);
    asm.call(RingbufOutput);
    asm.jump_if_imm(R0, Cond::Equal, 0, otherwise);
    count(asm, maps, config::LOST_ALLOCATIONS);
}
