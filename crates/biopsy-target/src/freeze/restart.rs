//! How a system call that a stop broke off is taken up again.
//!
//! A stopped thread that sat in a system call shows an internal error number in `rax`. When it is let go with its registers
//! unchanged, the kernel itself restarts the call, with the time that is left. Only a thread that comes back through its
//! frame (because its tracer died) needs the restart to be written into its registers.

use biopsy_image::GeneralRegisters;

/// `ERESTARTSYS`, `ERESTARTNOINTR` and `ERESTARTNOHAND` of the kernel's `include/linux/errno.h`.
const RESTART: [i64; 3] = [-512, -513, -514];
/// `ERESTART_RESTARTBLOCK`: poll, nanosleep, futex with a time.
const RESTART_BLOCK: i64 = -516;
const EINTR: i64 = -4;
/// Length of the `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;

/// Calls that give EINTR for a stop instead of being restarted by the kernel, and that have done nothing when they do: all
/// they miss is a part of their time limit, which begins again.
///
/// recvfrom, accept, recvmsg, semop, rt_sigtimedwait, io_getevents, semtimedop, epoll_wait, epoll_pwait, accept4,
/// io_pgetevents, io_uring_enter, epoll_pwait2.
const RESTARTABLE_BY_US: [u64; 13] = [45, 43, 47, 65, 128, 208, 220, 232, 281, 288, 333, 426, 441];

/// What a stopped thread was doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Doing {
    /// It sat in a call that the kernel will restart as if nothing had been.
    Restartable,
    /// It was just leaving a call.
    LeavingCall,
    /// It ran in user mode.
    UserMode,
    /// Its call gives EINTR unless [`restarted`] helps.
    Interrupted,
    /// It sat in a call with a time limit, of which only the kernel knows how much is left.
    TimedCall,
}

/// Tells from the registers.
pub(super) fn doing(registers: &GeneralRegisters) -> Doing {
    if registers.orig_rax.cast_signed() < 0 {
        return Doing::UserMode;
    }
    match registers.rax.cast_signed() {
        result if RESTART.contains(&result) => Doing::Restartable,
        RESTART_BLOCK => Doing::TimedCall,
        EINTR => Doing::Interrupted,
        _ => Doing::LeavingCall,
    }
}

/// Registers with which the thread goes on by itself as it would have in the kernel's hands: for the frame. A timed call
/// begins anew with its whole time.
pub(super) fn by_itself(registers: &GeneralRegisters) -> GeneralRegisters {
    let mut after = *registers;
    match doing(registers) {
        Doing::Restartable | Doing::TimedCall => restart(&mut after),
        Doing::Interrupted if is_ours(registers) => restart(&mut after),
        Doing::Interrupted | Doing::LeavingCall | Doing::UserMode => {}
    }
    after.orig_rax = u64::MAX;
    after
}

/// Registers that restart a call which would give EINTR for our stop; `None` for all other threads, which need nothing.
pub(crate) fn restarted(registers: &GeneralRegisters) -> Option<GeneralRegisters> {
    if doing(registers) != Doing::Interrupted || !is_ours(registers) {
        return None;
    }
    let mut after = *registers;
    restart(&mut after);
    after.orig_rax = u64::MAX;
    Some(after)
}

fn is_ours(registers: &GeneralRegisters) -> bool {
    RESTARTABLE_BY_US.contains(&registers.orig_rax)
}

fn restart(registers: &mut GeneralRegisters) {
    registers.rax = registers.orig_rax;
    registers.rip = registers.rip.wrapping_sub(SYSCALL_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(call: i64, result: i64) -> GeneralRegisters {
        GeneralRegisters {
            orig_rax: call.cast_unsigned(),
            rax: result.cast_unsigned(),
            rip: 0x1002,
            ..GeneralRegisters::default()
        }
    }

    #[test]
    fn kinds() {
        assert_eq!(doing(&stopped(0, -512)), Doing::Restartable);
        assert_eq!(doing(&stopped(7, -516)), Doing::TimedCall);
        assert_eq!(doing(&stopped(232, -4)), Doing::Interrupted);
        assert_eq!(doing(&stopped(39, 17)), Doing::LeavingCall);
        assert_eq!(doing(&stopped(-1, 17)), Doing::UserMode);
    }

    #[test]
    fn p8_timed_calls_are_begun_anew_by_the_frame() {
        let after = by_itself(&stopped(230, -516));
        assert_eq!((after.rax, after.rip, after.orig_rax), (230, 0x1000, u64::MAX));
    }

    #[test]
    fn epoll_is_restarted_and_a_nap_is_left_to_the_kernel() {
        for call in [232, 281, 441] {
            let after = restarted(&stopped(call, -4)).unwrap();
            assert_eq!((after.rax, after.rip, after.orig_rax), (call.cast_unsigned(), 0x1000, u64::MAX));
        }
        assert_eq!(restarted(&stopped(230, -516)), None);
        assert_eq!(restarted(&stopped(0, -512)), None);
        // connect(2) would answer EALREADY.
        assert_eq!(restarted(&stopped(42, -4)), None);
    }

    #[test]
    fn results_and_user_mode_stay() {
        let before = stopped(39, 17);
        let after = by_itself(&before);
        assert_eq!((after.rax, after.rip), (17, 0x1002));
        let before = stopped(-1, -512);
        assert_eq!(by_itself(&before), before, "an ordinary value that looks like one of the kernel's");
    }
}
