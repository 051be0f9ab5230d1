//! Whether a stopped thread may carry the calls of a freeze, as far as seccomp is concerned.

use biopsy_model::Pid;

use super::{Answer, Call, answer, read_filters};
use crate::freeze::inject::CLONE_FLAGS;
use crate::proc_root::{ProcRoot, SMALL};
use crate::status::Status;

/// `clone(CLONE_FILES, stack)`, as `freeze` makes it; `wait4(pid, NULL, __WALL | WNOHANG, NULL)`, which removes the ended child;
/// rt_sigreturn and exit_group, which are made only if biopsy dies: by the thread to get its registers back, and by the
/// child to end.
fn calls(syscall: u64, stack: u64) -> [Call; 4] {
    const CLONE: u32 = 56;
    const WAIT4: u32 = 61;
    const RT_SIGRETURN: u32 = 15;
    const EXIT_GROUP: u32 = 231;
    /// Length of the instruction `syscall`.
    const SYSCALL: u64 = 2;
    let call =
        |number, arguments| Call { number, instruction_pointer: syscall.wrapping_add(SYSCALL), arguments };
    [
        call(CLONE, [CLONE_FLAGS, stack, 0, 0, 0, 0]),
        call(RT_SIGRETURN, [0, stack, 0, 0, 0, 0]),
        call(WAIT4, [2, 0, 0x4000_0001, 0, 0, 0]),
        call(EXIT_GROUP, [0; 6]),
    ]
}

/// Checks a thread that we trace and that stands still. `syscall` is where the instruction is that will make the calls,
/// `stack` the thread's stack pointer.
///
/// # Errors
/// Why it may not.
pub(in crate::freeze) fn may_carry(tid: u32, syscall: u64, stack: u64) -> Result<(), &'static str> {
    const UNKNOWN: &str = "what seccomp allows it cannot be told";
    let process = ProcRoot::live().process(Pid(tid)).map_err(|_| UNKNOWN)?;
    let status = process.read("status", SMALL).map_err(|_| UNKNOWN)?;
    match Status::parse(&status).seccomp {
        // `None`: the kernel was built without.
        Some(0) | None => return Ok(()),
        Some(2) => {}
        Some(_) => return Err("seccomp lets it make no calls but read, write and exit"),
    }
    let filters = read_filters(tid).map_err(|_| "its seccomp filters cannot be read, and might kill it")?;
    for call in calls(syscall, stack) {
        match answer(&filters, &call) {
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
    Ok(())
}
