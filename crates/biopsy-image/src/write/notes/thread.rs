//! Notes of one thread: `struct elf_prstatus` (`linux/elfcore.h`, x86-64) and `siginfo_t`.

use crate::{GeneralRegisters, ProcessFacts, Thread};

/// Size of the FXSAVE area, which is what NT_FPREGSET holds.
pub(super) const FXSAVE: usize = 512;
/// Size of `struct elf_prstatus`.
const PRSTATUS: usize = 336;
/// Size of `siginfo_t`.
const SIGINFO: usize = 128;

/// NT_PRSTATUS, with this group of processes.
pub(super) fn status(
    process: &ProcessFacts,
    group: u32,
    thread: &Thread,
    registers: &GeneralRegisters,
) -> Vec<u8> {
    let mut out = vec![0; PRSTATUS];
    let signal = thread.signal.as_ref();
    let number = signal.map_or(0, |signal| signal.number);
    let (_, session) = process.group.unwrap_or_default();
    put(&mut out, 0, &number.to_le_bytes());
    put(&mut out, 4, &signal.and_then(|signal| signal.code).unwrap_or(0).to_le_bytes());
    put(&mut out, 12, &(i16::try_from(number).unwrap_or(0)).to_le_bytes());
    put(&mut out, 24, &thread.blocked_signals.unwrap_or(0).to_le_bytes());
    put(&mut out, 32, &thread.tid.0.to_le_bytes());
    put(&mut out, 36, &process.parent.map_or(0, |parent| parent.0).to_le_bytes());
    put(&mut out, 40, &group.to_le_bytes());
    put(&mut out, 44, &session.to_le_bytes());
    put(&mut out, 112, &registers.to_bytes());
    put(&mut out, 328, &u32::from(thread.extended.len() >= FXSAVE).to_le_bytes());
    out
}

/// NT_SIGINFO: as the kernel gave it, else put together from what is known.
pub(super) fn signal_information(thread: &Thread) -> Vec<u8> {
    let mut out = vec![0; SIGINFO];
    let Some(signal) = &thread.signal else { return out };
    if let Some(info) = signal.info.as_ref().and_then(|info| info.get(..SIGINFO)) {
        return info.to_vec();
    }
    put(&mut out, 0, &signal.number.to_le_bytes());
    put(&mut out, 8, &signal.code.unwrap_or(0).to_le_bytes());
    if let Some(address) = signal.address {
        put(&mut out, 16, &address.0.to_le_bytes());
    }
    out
}

/// NT_X86_XSTATE without what is in its initial state at the end: the tiles of AMX, 8 KiB that are next to never in use. gdb knows
/// sizes up to those of AVX-512 and PKRU, and warns of any other, thread by thread.
pub(super) fn extended_state(extended: &[u8]) -> &[u8] {
    /// Ends of the upper halves of the AVX-512 registers, and of PKRU, in the layout of Intel's processors.
    const AVX_512: usize = 2688;
    const PKRU: usize = 2696;
    /// `XCR0` is put here by the kernel (`arch/x86/include/asm/user.h`), the features in use are behind the legacy area.
    const ENABLED: usize = 464;
    let word = |at: usize| {
        extended
            .get(at..)
            .and_then(|rest| rest.first_chunk::<8>())
            .map_or(0, |word| u64::from_le_bytes(*word))
    };
    let (enabled, in_use) = (word(ENABLED), word(FXSAVE));
    let has_avx_512 = enabled & 0xe0 == 0xe0;
    let known = if enabled & 0x200 != 0 { PKRU } else { AVX_512 };
    if extended.len() > PKRU && has_avx_512 && in_use >> 10 == 0 {
        extended.get(..known).unwrap_or(extended)
    } else {
        extended
    }
}

/// Puts `bytes` at a fixed place of a structure of known size.
pub(super) fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::{Avma, Pid, Tid};

    use super::*;
    use crate::ThreadSignal;

    #[test]
    fn tiles_that_are_not_in_use_are_left_out() {
        let mut state = vec![1; 11_008];
        state[464..472].copy_from_slice(&0x6_00e7u64.to_le_bytes());
        state[512..520].copy_from_slice(&0xe7u64.to_le_bytes());
        assert_eq!(extended_state(&state).len(), 2688);
        state[464..472].copy_from_slice(&0x6_02e7u64.to_le_bytes());
        assert_eq!(extended_state(&state).len(), 2696);
        state[512..520].copy_from_slice(&0x6_00e7u64.to_le_bytes());
        assert_eq!(extended_state(&state).len(), 11_008, "in use");
        assert_eq!(extended_state(&state[..832]).len(), 832);
    }

    #[test]
    fn a_status_has_everything_at_the_kernels_place() {
        let registers = GeneralRegisters { r15: 15, rip: 0x40_1000, gs: 7, ..Default::default() };
        let thread = Thread {
            tid: Tid(4712),
            extended: vec![1; 832],
            signal: Some(ThreadSignal { number: 11, code: Some(1), address: Some(Avma(0xdead)), info: None }),
            blocked_signals: Some(0x10),
            ..Default::default()
        };
        let process = ProcessFacts {
            pid: Pid(4711),
            parent: Some(Pid(1)),
            group: Some((4700, 4600)),
            ..Default::default()
        };
        let status = status(&process, 4700, &thread, &registers);
        assert_eq!(status.len(), 336);
        assert_eq!(status[..4], 11i32.to_le_bytes());
        assert_eq!(status[12..14], 11i16.to_le_bytes());
        assert_eq!(status[32..36], 4712u32.to_le_bytes());
        assert_eq!(status[40..44], 4700u32.to_le_bytes());
        assert_eq!(GeneralRegisters::from_bytes(&status[112..]).unwrap(), registers);
        assert_eq!(status[328..332], 1u32.to_le_bytes());
        let information = signal_information(&thread);
        assert_eq!(information[16..24], 0xdeadu64.to_le_bytes());
    }
}
