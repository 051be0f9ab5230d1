//! Threads that wait: what the kernel part, or `/proc`, says of one now.

use super::kernel::{ThreadTimes, thread_state};
use super::off_cpu::StillWaiting;
use super::thread_times::SwitchTimes;

impl StillWaiting for super::kernel::KernelSession {
    fn now(&self, tid: u32) -> Option<ThreadTimes> {
        self.thread(tid)
    }
}

/// Without the kernel part: what `/proc` says of a blocked thread.
pub(super) struct FromProc<'a>(pub(super) &'a SwitchTimes);

impl StillWaiting for FromProc<'_> {
    fn now(&self, tid: u32) -> Option<ThreadTimes> {
        let known = self.0.thread(tid)?;
        let blocked = sleeping_thread(known.tgid, tid)?;
        Some(ThreadTimes { ip: blocked.ip, sp: blocked.sp, bp: 0, syscall: blocked.syscall, ..known })
    }
}

/// A blocked thread's registers, from `/proc/PID/task/TID/syscall` (proc_pid_syscall(5)): number and six arguments in a
/// system call, or -1; then stack pointer and instruction pointer. `None`: it runs, or may not be looked at.
pub(super) fn sleeping_thread(pid: u32, tid: u32) -> Option<ThreadTimes> {
    let text = biopsy_files::read_kernels(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let text = String::from_utf8(text).ok()?;
    let fields: Vec<&str> = text.split_whitespace().collect();
    let number: i64 = fields.first()?.parse().ok()?;
    let hex = |field: &str| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok();
    let [.., sp, ip] = fields.as_slice() else { return None };
    let state = biopsy_files::read_kernels(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let after_name = state.iter().rposition(|&byte| byte == b')')?;
    let letter = *state.get(after_name + 2)?;
    let out_state = match letter {
        b'S' => 1,
        b'D' => 2,
        b'T' | b't' => 4,
        _ => return None,
    };
    Some(ThreadTimes {
        state: thread_state::WAITING,
        out_state,
        syscall: number.cast_unsigned(),
        sp: hex(sp)?,
        ip: hex(ip)?,
        tgid: pid,
        ..ThreadTimes::default()
    })
}
