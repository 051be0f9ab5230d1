//! The seccomp filters of a thread (`PTRACE_SECCOMP_GET_FILTER`).

use std::io;

use biopsy_model::Tid;

use super::request;

/// One instruction of classic BPF (`struct sock_filter` of `linux/filter.h`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many to skip when the test is true.
    pub jump_true: u8,
    /// How many to skip when it is false.
    pub jump_false: u8,
    /// The operand.
    pub k: u32,
}

/// The most instructions that a filter has (`BPF_MAXINSNS`).
const MOST: usize = 4096;

/// The filter with this index, 0 being the one that was installed last; `None` behind the oldest one.
///
/// # Errors
/// EACCES without CAP_SYS_ADMIN or when we are under seccomp ourselves; EMEDIUMTYPE for a filter that is not classic BPF;
/// EINVAL when the thread has none or the kernel cannot tell; ESRCH when it is gone or not stopped.
pub fn filter(tid: Tid, index: usize) -> io::Result<Option<Vec<Instruction>>> {
    let mut program = vec![Instruction::default(); MOST];
    // The kernel checks nothing about the length of the buffer: it writes at most `BPF_MAXINSNS` instructions, the most
    // that it let in.
    let ret = request(0x420c, tid, index, program.as_mut_ptr().expose_provenance());
    match ret {
        Ok(count) => {
            program.truncate(usize::try_from(count).unwrap_or(0));
            Ok(Some(program))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}
