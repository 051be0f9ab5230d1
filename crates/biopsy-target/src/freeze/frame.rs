//! The signal frames that carry a thread back to where it was, and its children to their end, without any tracer.
//!
//! The kernel's rt_sigreturn(2) takes a frame from the stack and loads every register from it: general, x87, vectors, flags
//! and the signal mask. A frame is what makes the injection safe against our own death: it is in the process before the
//! first register is changed, and from then on the thread finds back by itself.
//!
//! ```text
//! top ──►  ┌──────────────────────────┐  128 bytes (red zone) below the stack pointer of the thread
//!          │ an answer                │  8 bytes that a call may write to
//!          ├──────────────────────────┤
//!          │ frame of the children    │  rip = `syscall`, rax = exit_group, rdi = EXIT_MARK
//!          ├──────────────────────────┤
//!          │ frame that waits         │  rip = `syscall`, rax = wait4, rdi = pid that the kernel writes; `ret` enters the next
//!          ├──────────────────────────┤
//!          │ extended state           │  64-byte aligned; XSAVE layout with the kernel's two magic numbers (or FXSAVE's, see below)
//!          ├──────────────────────────┤
//! base ──► │ frame of the thread      │  all registers as they were; the return address is the restorer
//!          └──────────────────────────┘
//! ```
//!
//! The frame that waits is for the thread that makes the process in the middle (see [`super::middle`]): should we die, the
//! thread removes that process before it goes home. The kernel itself writes whom to wait for (`CLONE_PARENT_SETTID`).
//!
//! Layouts: `struct rt_sigframe` (`arch/x86/include/asm/sigframe.h`), `struct ucontext`, `struct sigcontext_64`,
//! `struct _fpx_sw_bytes` (`arch/x86/include/uapi/asm/sigcontext.h`).

use biopsy_image::GeneralRegisters;

/// Exit code of a frozen child that had to end by itself because its tracer died. Together with exit signal 0 it marks the
/// zombies that a killed biopsy leaves.
pub(super) const EXIT_MARK: u8 = 0xb1;
/// `exit_group` on x86-64.
const NR_EXIT_GROUP: u64 = 231;
/// `wait4` on x86-64.
pub(super) const NR_WAIT4: u64 = 61;
/// `__WALL` of wait(2): children of every kind.
pub(super) const WAIT_ALL: u64 = 0x4000_0000;
/// A pid that no process has (the most is 2^22): what is waited for if no child was made.
const NOBODY: u64 = 0x7fff_ffff;
/// Where `rdi` is in a frame: behind the return address, flags, link, stack and eight registers.
const RDI: u64 = 8 + 16 + 24 + 8 * 8;
/// Room for an answer.
const ANSWER_BYTES: u64 = 8;
/// The return address, `struct ucontext` and `siginfo_t`.
const FRAME_BYTES: u64 = 8 + UCONTEXT_BYTES + 128;
/// Flags, link, stack, `struct sigcontext_64`, signal mask.
const UCONTEXT_BYTES: u64 = 16 + 24 + 256 + 8;
/// `UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`: the stack segment is in the frame and is to be taken from it.
const UC_SEGMENTS: u64 = 2 | 4;
/// `UC_FP_XSTATE`: the extended state has the layout of XSAVE.
const UC_FP_XSTATE: u64 = 1;
/// Where the software bytes lie in the FXSAVE area.
const SOFTWARE_BYTES: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// Where the header of XSAVE lies: first the bits of the components that are not in their initial state.
const HEADER: usize = 512;
/// Components that every frame restores: x87 and SSE.
const LEGACY_COMPONENTS: u64 = 3;
/// Protection keys. Their initial state by the kernel is not the all-zero one of the CPU, so they are always given.
const PROTECTION_KEYS: u64 = 1 << 9;

/// Bytes to be written below a stack, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Frames {
    /// Where the bytes belong.
    pub(super) base: u64,
    /// The bytes.
    pub(super) bytes: Vec<u8>,
    /// Stack pointer for the thread: its frame, which a `ret` enters.
    pub(super) thread: u64,
    /// Stack pointer for the thread that has to wait for a child first, and then goes the same way.
    pub(super) waiting: u64,
    /// Where the kernel is to write the pid of that child (4 bytes).
    pub(super) awaited: u64,
    /// Stack pointer for a child: it ends.
    pub(super) child: u64,
    /// Where a call may write an answer (8 bytes).
    pub(super) answer: u64,
}

/// Addresses of the two instructions that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// `syscall; ret`.
    pub(super) syscall: u64,
    /// `mov $15, %eax; syscall`: rt_sigreturn.
    pub(super) restorer: u64,
}

impl Entry {
    /// Registers with which a thread makes a system call: its number, three arguments, and the frame behind the call.
    pub(super) fn call(
        self,
        number: u64,
        [rdi, rsi, rdx]: [u64; 3],
        frame: u64,
        before: GeneralRegisters,
    ) -> GeneralRegisters {
        GeneralRegisters {
            rip: self.syscall,
            rsp: frame,
            rax: number,
            rdi,
            rsi,
            rdx,
            r10: 0,
            r8: 0,
            // No call is broken off any more: else the kernel would restart one, with these registers.
            orig_rax: u64::MAX,
            ..before
        }
    }
}

/// The most bytes that frames with this extended state take, including alignment.
pub(super) fn space(extended: &[u8]) -> u64 {
    3 * FRAME_BYTES + extended.len() as u64 + 4 + ANSWER_BYTES + 4 * 64
}

/// Builds all frames below `top`. `registers` are those that the thread is to go on with (see [`super::restart`]).
pub(super) fn build(
    top: u64,
    registers: &GeneralRegisters,
    extended: &[u8],
    signal_mask: u64,
    entry: Entry,
) -> Option<Frames> {
    let top = top & !63;
    let answer = top.checked_sub(ANSWER_BYTES)?;
    // The kernel puts frames 8 bytes below a multiple of 16, as a `call` would.
    let frame_below = |address: u64| (address.checked_sub(FRAME_BYTES)? & !15).checked_sub(8);
    let child = frame_below(answer)?;
    let waiting = frame_below(child)?;
    let (state, has_header) = match extended.len() {
        // A CPU without XSAVE: the kernel takes the area as it is.
        biopsy_sys::xsave::FXSAVE_BYTES => (extended.to_vec(), false),
        _ => (usable_state(extended)?, true),
    };
    let state_at = waiting.checked_sub(state.len() as u64)? & !63;
    let thread = frame_below(state_at)?;
    let mut bytes = vec![0; usize::try_from(top.checked_sub(thread)?).ok()?];
    let offset = |address: u64| usize::try_from(address - thread).ok();

    let layout = if has_header { UC_FP_XSTATE } else { 0 };
    write_frame(bytes.get_mut(..)?, entry.restorer, registers, Some((state_at, layout)), signal_mask)?;
    bytes.get_mut(offset(state_at)?..)?.get_mut(..state.len())?.copy_from_slice(&state);
    let call = GeneralRegisters {
        rip: entry.syscall,
        eflags: 0x202,
        cs: registers.cs,
        ss: registers.ss,
        ..GeneralRegisters::default()
    };
    let wait = GeneralRegisters { rax: NR_WAIT4, rdi: NOBODY, rdx: WAIT_ALL, rsp: thread, ..call };
    let last = GeneralRegisters { rax: NR_EXIT_GROUP, rdi: EXIT_MARK.into(), rsp: child, ..call };
    // Extended state is reset here (no pointer): a child never needs it, and the thread gets its own from its frame right
    // after. In that one it would be a loss (P6).
    write_frame(bytes.get_mut(offset(waiting)?..)?, entry.restorer, &wait, None, u64::MAX)?;
    write_frame(bytes.get_mut(offset(child)?..)?, entry.restorer, &last, None, u64::MAX)?;
    Some(Frames { base: thread, bytes, thread, waiting, awaited: waiting + RDI, child, answer })
}

/// One `rt_sigframe` at the start of `out`, which is zero. `state`: where the extended state is, and the flag for its layout.
fn write_frame(
    out: &mut [u8],
    restorer: u64,
    registers: &GeneralRegisters,
    state: Option<(u64, u64)>,
    signal_mask: u64,
) -> Option<()> {
    let (state_at, layout) = state.unwrap_or((0, 0));
    let flags = UC_SEGMENTS | layout;
    // The alternate signal stack: a size of 1 is refused by the kernel (ENOMEM), which leaves the thread's own as it is. A
    // valid one would replace it (P7).
    let (stack_pointer, stack_flags, stack_size) = (0, 0, 1);
    let r = registers;
    let segments = (r.cs & 0xffff) | (r.ss & 0xffff) << 48;
    let head = [restorer, flags, 0, stack_pointer, stack_flags, stack_size];
    let general = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
        r.rcx, r.rsp, r.rip, r.eflags, segments,
    ];
    // Error code, trap number, old mask and fault address are not restored.
    let tail = [0, 0, 0, 0, state_at, 0, 0, 0, 0, 0, 0, 0, 0, signal_mask];
    let words = head.iter().chain(&general).chain(&tail);
    for (index, word) in words.enumerate() {
        out.get_mut(index * 8..index * 8 + 8)?.copy_from_slice(&word.to_le_bytes());
    }
    Some(())
}

/// The extended state as rt_sigreturn accepts it: only components that are in use, so that it is never longer than the
/// kernel allows the thread (on a machine with AMX, ptrace gives the tiles of every thread; rt_sigreturn refuses them of a
/// thread that may not use them, and would then load nothing but SSE).
fn usable_state(extended: &[u8]) -> Option<Vec<u8>> {
    use biopsy_sys::xsave::{LEGACY_BYTES, component_end};
    let word =
        |at: usize| extended.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map(u64::from_le_bytes);
    if extended.len() < LEGACY_BYTES {
        return None;
    }
    // In the software bytes ptrace gives the components that the kernel has enabled (`XCR0`).
    let enabled = word(SOFTWARE_BYTES)?;
    let components = (word(HEADER)? & enabled) | LEGACY_COMPONENTS | (enabled & PROTECTION_KEYS);
    let mut length = LEGACY_BYTES;
    for bit in (0..63).filter(|bit| components >> bit & 1 != 0) {
        length = length.max(component_end(bit)?);
    }
    let mut state = extended.get(..length)?.to_vec();
    let total = u32::try_from(length).ok()?;
    let put = |state: &mut Vec<u8>, at: usize, bytes: &[u8]| {
        state.get_mut(at..at + bytes.len()).map(|place| place.copy_from_slice(bytes))
    };
    put(&mut state, SOFTWARE_BYTES, &[0; 48])?;
    put(&mut state, SOFTWARE_BYTES, &MAGIC_1.to_le_bytes())?;
    put(&mut state, SOFTWARE_BYTES + 4, &total.checked_add(4)?.to_le_bytes())?;
    put(&mut state, SOFTWARE_BYTES + 8, &components.to_le_bytes())?;
    put(&mut state, SOFTWARE_BYTES + 16, &total.to_le_bytes())?;
    // The header: components, then zeros (standard layout, nothing reserved set), else XRSTOR faults.
    put(&mut state, HEADER, &[0; 64])?;
    put(&mut state, HEADER, &components.to_le_bytes())?;
    state.extend_from_slice(&MAGIC_2.to_le_bytes());
    Some(state)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENTRY: Entry = Entry { syscall: 0x1111, restorer: 0x2222 };

    fn word(frames: &Frames, address: u64) -> u64 {
        let at = usize::try_from(address - frames.base).unwrap();
        u64::from_le_bytes(frames.bytes[at..at + 8].try_into().unwrap())
    }

    /// As ptrace gives it: `enabled` in the software bytes, `used` in the header.
    fn extended(length: usize, enabled: u64, used: u64) -> Vec<u8> {
        let mut bytes = vec![0x5a; length];
        bytes[464..472].copy_from_slice(&enabled.to_le_bytes());
        bytes[512..576].fill(0);
        bytes[512..520].copy_from_slice(&used.to_le_bytes());
        bytes
    }

    fn registers() -> GeneralRegisters {
        let mut words = [0; 27];
        for (index, word) in words.iter_mut().enumerate() {
            *word = 0x0101_0101_0101_0101 * (index as u64 + 1);
        }
        GeneralRegisters { cs: 0x33, ss: 0x2b, ..GeneralRegisters::from_words(&words) }
    }

    #[test]
    fn every_register_is_in_the_frame_where_the_kernel_looks() {
        let r = registers();
        let frames = build(0x7000_0000, &r, &extended(576, 3, 3), 0xabcd, ENTRY).unwrap();
        let context = frames.thread + 8 + 40;
        let expected = [
            r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
            r.rcx, r.rsp, r.rip, r.eflags,
        ];
        for (index, value) in expected.into_iter().enumerate() {
            assert_eq!(word(&frames, context + index as u64 * 8), value, "register {index}");
        }
        assert_eq!(word(&frames, context + 18 * 8), 0x33 | 0x2b << 48);
        assert_eq!(word(&frames, frames.thread), ENTRY.restorer, "a `ret` leads to the restorer");
        assert_eq!(word(&frames, frames.thread + 8), 7, "extended state and stack segment are there");
        assert_eq!(word(&frames, context + 256), 0xabcd, "signal mask");
    }

    #[test]
    fn p6_the_thread_has_extended_state_and_the_child_none() {
        let frames = build(0x7000_0000, &registers(), &extended(576, 3, 3), 0, ENTRY).unwrap();
        let pointer = |frame: u64| word(&frames, frame + 8 + 40 + 23 * 8);
        let state = pointer(frames.thread);
        assert_eq!(state % 64, 0, "XRSTOR needs it");
        assert_eq!(word(&frames, state + 464) & 0xffff_ffff, u64::from(MAGIC_1));
        assert_eq!(word(&frames, state + 464) >> 32, 580);
        assert_eq!(word(&frames, state + 576) & 0xffff_ffff, u64::from(MAGIC_2));
        assert_eq!(pointer(frames.child), 0);
    }

    #[test]
    fn without_xsave_the_frame_has_the_fxsave_area_and_does_not_call_it_xsave() {
        let area = vec![0x5a; 512];
        let frames = build(0x7000_0000, &registers(), &area, 0, ENTRY).unwrap();
        let state = word(&frames, frames.thread + 8 + 40 + 23 * 8);
        assert_eq!(state % 64, 0);
        let at = usize::try_from(state - frames.base).unwrap();
        assert_eq!(&frames.bytes[at..at + 512], &area[..]);
        assert_eq!(word(&frames, frames.thread + 8), 6, "the stack segment only");
    }

    #[test]
    fn p7_the_alternate_stack_is_one_that_the_kernel_refuses() {
        let frames = build(0x7000_0000, &registers(), &extended(576, 3, 3), 0, ENTRY).unwrap();
        for frame in [frames.thread, frames.waiting, frames.child] {
            assert_eq!(word(&frames, frame + 24), 0, "address");
            assert_eq!(word(&frames, frame + 32), 0, "flags: neither SS_DISABLE nor SS_AUTODISARM");
            assert_eq!(word(&frames, frame + 40), 1, "size");
        }
    }

    #[test]
    fn the_child_ends_by_itself() {
        let frames = build(0x7000_0000, &registers(), &extended(576, 3, 3), 0, ENTRY).unwrap();
        let context = frames.child + 8 + 40;
        assert_eq!(word(&frames, frames.child), ENTRY.restorer);
        assert_eq!(word(&frames, context + 16 * 8), ENTRY.syscall);
        assert_eq!(word(&frames, context + 13 * 8), NR_EXIT_GROUP);
        assert_eq!(word(&frames, context + 8 * 8), u64::from(EXIT_MARK));
        assert_eq!(word(&frames, context + 256), u64::MAX, "no signal reaches it");
    }

    #[test]
    fn the_thread_waits_for_whom_the_kernel_wrote_and_goes_home() {
        let frames = build(0x7000_0000, &registers(), &extended(576, 3, 3), 0, ENTRY).unwrap();
        let context = frames.waiting + 8 + 40;
        assert_eq!(word(&frames, frames.waiting), ENTRY.restorer);
        assert_eq!(word(&frames, context + 16 * 8), ENTRY.syscall);
        assert_eq!(word(&frames, context + 13 * 8), NR_WAIT4);
        assert_eq!(frames.awaited, context + 8 * 8, "the first argument");
        assert_eq!(
            word(&frames, frames.awaited),
            NOBODY,
            "its upper half is zero: the kernel writes a pid of 4 bytes"
        );
        assert_eq!(word(&frames, context + 9 * 8), 0, "no status is written anywhere");
        assert_eq!(word(&frames, context + 12 * 8), WAIT_ALL, "it waits");
        assert_eq!(
            word(&frames, context + 15 * 8),
            frames.thread,
            "its `ret` enters the frame of the thread"
        );
        assert_eq!(word(&frames, context + 256), u64::MAX, "no signal breaks it off");
    }

    #[test]
    fn state_of_components_that_are_not_in_use_is_left_out() {
        // AMX enabled (bits 17 and 18), not in use: 8 KiB of tiles behind the rest.
        let state = usable_state(&extended(11_008, 3 | 3 << 17, 3)).unwrap();
        assert_eq!(state.len(), 576 + 4);
        assert_eq!(state[480..484], 576_u32.to_le_bytes());
        assert_eq!(usable_state(&extended(576, 3, 3)[..575]), None);
    }

    #[test]
    fn a_state_that_is_cut_is_refused() {
        // AVX in use, but the bytes end before.
        if biopsy_sys::xsave::component_end(2).is_some() {
            assert_eq!(usable_state(&extended(600, 7, 7)), None);
        }
    }

    proptest! {
        #[test]
        fn frames_stay_inside_their_space(top in 0x10_0000_u64..0x7fff_ffff_f000, length in 576_usize..3000) {
            let state = extended(length, 3, 3);
            let frames = build(top, &registers(), &state, 0, ENTRY).unwrap();
            prop_assert!(frames.base + frames.bytes.len() as u64 <= top);
            prop_assert!(top - frames.base <= space(&state));
            prop_assert_eq!(frames.thread % 16, 8);
            prop_assert_eq!(frames.child % 16, 8);
            prop_assert_eq!(frames.waiting % 16, 8);
            prop_assert!(frames.answer + 8 <= frames.base + frames.bytes.len() as u64);
        }

        #[test]
        fn any_state_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..3000), top in any::<u64>()) {
            let _ = build(top, &registers(), &bytes, 0, ENTRY);
        }
    }
}
