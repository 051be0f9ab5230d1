//! Whether a stopped thread may carry the calls of a freeze, as far as seccomp is concerned.

use biopsy_model::{Pid, Tid};
use biopsy_sys::ptrace::seccomp::Instruction;

use super::{Answer, Call, answer, read_filters};
use crate::freeze::frame::{NR_WAIT4, WAIT_ALL};
use crate::freeze::inject::{CLONE_FILES, GET_CHILD_SUBREAPER, MIDDLE_FLAGS, NR_CLONE, NR_PRCTL};
use crate::freeze::middle::{ALL_FILES, NR_CLOSE_RANGE, UNSHARE};
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::status::Status;

/// Which ways are open to a thread that may carry the fork itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::freeze) struct Allowed {
    /// The copy may be made by a process in the middle.
    pub(in crate::freeze) middle: bool,
    /// That one may leave the table of open files.
    pub(in crate::freeze) leaving_files: bool,
}

impl Allowed {
    const ALL: Self = Self { middle: true, leaving_files: true };
}

/// The calls of a freeze, at this instruction, with this stack.
struct Calls {
    syscall: u64,
    stack: u64,
}

impl Calls {
    fn call(&self, number: u64, arguments: [u64; 4]) -> Call {
        /// Length of the instruction `syscall`.
        const SYSCALL: u64 = 2;
        let [a, b, c, d] = arguments;
        Call {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            instruction_pointer: self.syscall.wrapping_add(SYSCALL),
            arguments: [a, b, c, d, 0, 0],
        }
    }

    /// What every freeze takes: `clone(CLONE_FILES, stack)`; `wait4(pid, NULL, __WALL | WNOHANG, NULL)`, which removes the ended
    /// child; rt_sigreturn and exit_group, which are made only if biopsy dies: by the thread to get its registers
    /// back, and by the child to end.
    fn always(&self) -> [Call; 4] {
        const RT_SIGRETURN: u64 = 15;
        const EXIT_GROUP: u64 = 231;
        [
            self.call(NR_CLONE, [CLONE_FILES, self.stack, 0, 0]),
            self.call(RT_SIGRETURN, [0, self.stack, 0, 0]),
            self.call(NR_WAIT4, [2, 0, WAIT_ALL | 1, 0]),
            self.call(EXIT_GROUP, [0; 4]),
        ]
    }

    /// With a process in the middle: the question whether orphans come to this process, that process, and the wait for it.
    fn middle(&self) -> [Call; 3] {
        [
            self.call(NR_PRCTL, [GET_CHILD_SUBREAPER, self.stack, 0, 0]),
            self.call(NR_CLONE, [MIDDLE_FLAGS, self.stack, self.stack, 0]),
            self.call(NR_WAIT4, [2, 0, WAIT_ALL, 0]),
        ]
    }

    /// Without a share in the open files.
    fn leaving_files(&self) -> [Call; 2] {
        [
            self.call(NR_CLOSE_RANGE, [ALL_FILES[0], ALL_FILES[1], UNSHARE, 0]),
            self.call(NR_CLONE, [0, self.stack, 0, 0]),
        ]
    }
}

/// Checks a thread that we trace and that stands still. `syscall` is where the instruction is that will make the calls,
/// `stack` the thread's stack pointer.
///
/// # Errors
/// Why it may not.
pub(in crate::freeze) fn may_carry(tid: Tid, syscall: u64, stack: u64) -> Result<Allowed, &'static str> {
    const UNKNOWN: &str = "what its seccomp filters allow cannot be determined";
    let process = ProcRoot::live().process(Pid(tid.0)).map_err(|_| UNKNOWN)?;
    let status = process.read("status", SMALL).map_err(|_| UNKNOWN)?;
    match Status::parse(&status).seccomp {
        // `None`: the kernel was built without.
        Some(0) | None => return Ok(Allowed::ALL),
        Some(2) => {}
        Some(_) => return Err("seccomp lets it make no calls but read, write and exit"),
    }
    let filters = read_filters(tid).map_err(|_| "its seccomp filters cannot be read, and might kill it")?;
    allowed_by(&filters, &Calls { syscall, stack })
}

fn allowed_by(filters: &[Vec<Instruction>], calls: &Calls) -> Result<Allowed, &'static str> {
    for call in calls.always() {
        match answer(filters, &call) {
            Answer::Allow | Answer::Log => {}
            Answer::KillProcess | Answer::KillThread | Answer::Trap => {
                return Err("its seccomp filter would kill it for the fork");
            }
            Answer::Errno(_) | Answer::Trace => return Err("its seccomp filter forbids the fork"),
            Answer::UserNotification => {
                return Err("its seccomp filter would ask another process about the fork");
            }
        }
    }
    let all = |calls: &[Call]| calls.iter().all(|call| answer(filters, call).is_allowed());
    let middle = all(&calls.middle());
    Ok(Allowed { middle, leaving_files: middle && all(&calls.leaving_files()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter that forbids one call, and allows all others.
    fn without(number: u64) -> Vec<Instruction> {
        let number = u32::try_from(number).unwrap();
        [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x0005_0001), (0x06, 0, 0, 0x7fff_0000)]
            .map(|(code, jump_true, jump_false, k)| Instruction { code, jump_true, jump_false, k })
            .to_vec()
    }

    #[test]
    fn what_a_filter_forbids_is_done_without() {
        let calls = Calls { syscall: 0x1000, stack: 0x7000_0000 };
        let allowed = |number| allowed_by(&[without(number)], &calls);
        assert_eq!(allowed_by(&[], &calls), Ok(Allowed::ALL));
        assert_eq!(allowed(NR_PRCTL), Ok(Allowed { middle: false, leaving_files: false }));
        assert_eq!(allowed(NR_CLOSE_RANGE), Ok(Allowed { middle: true, leaving_files: false }));
        assert!(allowed(NR_CLONE).is_err() && allowed(NR_WAIT4).is_err());
    }

    #[test]
    fn arguments_are_told_to_the_filter() {
        let calls = Calls { syscall: 0x1000, stack: 0x7000_0000 };
        // Forbids clone with CLONE_VFORK (0x4000): the low half of the first argument is at 16.
        let filter = [
            (0x20, 0, 0, 0),
            (0x15, 0, 3, 56),
            (0x20, 0, 0, 16),
            (0x45, 0, 1, 0x4000),
            (0x06, 0, 0, 0x0005_0001),
            (0x06, 0, 0, 0x7fff_0000),
        ]
        .map(|(code, jump_true, jump_false, k)| Instruction { code, jump_true, jump_false, k });
        let expected = Allowed { middle: false, leaving_files: false };
        assert_eq!(allowed_by(&[filter.to_vec()], &calls), Ok(expected));
    }
}
