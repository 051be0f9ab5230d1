//! Registers and what else the kernel keeps of a stopped thread.

use std::io;

use biopsy_model::Tid;

use super::request;

/// Words of the kernel's `user_regs_struct` (`arch/x86/include/asm/user_64.h`).
pub const GENERAL_WORDS: usize = 27;
/// The note type of the general registers (`linux/elf.h`).
const NT_PRSTATUS: usize = 1;
/// The note type of the FXSAVE area: x87 and SSE.
const NT_PRFPREG: usize = 2;
/// The note type of the extended state in the layout of XSAVE.
const NT_X86_XSTATE: usize = 0x202;
/// The note type of the user shadow stack.
const NT_X86_SHSTK: usize = 0x204;
/// Size of the kernel's `siginfo_t`.
const SIGNAL_INFO_BYTES: usize = 128;

fn get_set(tid: Tid, kind: usize, address: *mut libc::c_void, length: usize) -> io::Result<usize> {
    let mut vector = libc::iovec { iov_base: address, iov_len: length };
    request(libc::PTRACE_GETREGSET as _, tid, kind, (&raw mut vector).expose_provenance())?;
    Ok(vector.iov_len)
}

/// The general registers, in the kernel's order.
///
/// # Errors
/// ESRCH when the thread is gone or not stopped; EIO for a 32-bit thread.
pub fn general(tid: Tid) -> io::Result<[u64; GENERAL_WORDS]> {
    let mut words = [0u64; GENERAL_WORDS];
    let length = get_set(tid, NT_PRSTATUS, words.as_mut_ptr().cast(), size_of_val(&words))?;
    // The kernel gives the shorter structure of i386 for a thread in 32-bit mode.
    if length == size_of_val(&words) { Ok(words) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
}

/// Sets all general registers at once: a thread has either the old ones or the new ones, whenever its tracer dies.
///
/// # Errors
/// ESRCH when the thread is gone or not stopped; EIO and EINVAL for values the kernel does not accept.
pub fn set_general(tid: Tid, words: &[u64; GENERAL_WORDS]) -> io::Result<()> {
    let mut copy = *words;
    let mut vector = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: size_of_val(&copy) };
    request(libc::PTRACE_SETREGSET as _, tid, NT_PRSTATUS, (&raw mut vector).expose_provenance()).map(drop)
}

/// The extended state (x87, SSE, AVX ...) as XSAVE lays it out, into `out`; returns its length. A length that equals
/// `out`'s may have been cut. Where the CPU has no XSAVE, all there is: the FXSAVE area, [`crate::xsave::FXSAVE_BYTES`].
///
/// # Errors
/// ESRCH when the thread is gone or not stopped.
pub fn extended(tid: Tid, out: &mut [u8]) -> io::Result<usize> {
    match get_set(tid, NT_X86_XSTATE, out.as_mut_ptr().cast(), out.len()) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            get_set(tid, NT_PRFPREG, out.as_mut_ptr().cast(), out.len())
        }
        answer => answer,
    }
}

/// Whether the thread has a user shadow stack.
///
/// # Errors
/// ESRCH when the thread is gone or not stopped.
pub fn has_shadow_stack(tid: Tid) -> io::Result<bool> {
    let mut word = 0u64;
    match get_set(tid, NT_X86_SHSTK, (&raw mut word).cast(), size_of::<u64>()) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(error),
        // ENODEV where the thread has none, EINVAL where the kernel knows of none.
        Err(_) => Ok(false),
    }
}

/// Whether system calls of the thread may be turned into SIGSYS by a switch in its own memory
/// (`PR_SET_SYSCALL_USER_DISPATCH`, as Wine uses it). False on kernels that cannot tell (before Linux 6.4).
///
/// # Errors
/// ESRCH when the thread is gone or not stopped.
pub fn has_call_dispatch(tid: Tid) -> io::Result<bool> {
    // `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG` and `struct ptrace_sud_config`: mode, selector, offset, length.
    let mut words = [0u64; 4];
    match request(0x4211, tid, size_of_val(&words), words.as_mut_ptr().expose_provenance()) {
        Ok(_) => Ok(words[0] != 0),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(error),
        Err(_) => Ok(false),
    }
}

/// The blocked signals (bit 0 is signal 1). Of a thread that waits in a call with a mask of its own (ppoll, sigsuspend),
/// the mask that it will have afterwards.
///
/// # Errors
/// ESRCH when the thread is gone or not stopped.
pub fn signal_mask(tid: Tid) -> io::Result<u64> {
    let mut mask = 0u64;
    request(libc::PTRACE_GETSIGMASK as _, tid, size_of::<u64>(), (&raw mut mask).expose_provenance())?;
    Ok(mask)
}

/// Sets the blocked signals. SIGKILL and SIGSTOP cannot be blocked; the kernel takes them out.
///
/// # Errors
/// ESRCH when the thread is gone or not stopped.
pub fn set_signal_mask(tid: Tid, mask: u64) -> io::Result<()> {
    let mut mask = mask;
    request(libc::PTRACE_SETSIGMASK as _, tid, size_of::<u64>(), (&raw mut mask).expose_provenance())
        .map(drop)
}

/// `siginfo_t` of the signal that the thread is stopped for.
///
/// # Errors
/// EINVAL when it is not stopped for a signal, ESRCH when it is gone or not stopped.
pub fn signal_info(tid: Tid) -> io::Result<[u8; SIGNAL_INFO_BYTES]> {
    let mut info = [0u8; SIGNAL_INFO_BYTES];
    request(libc::PTRACE_GETSIGINFO as _, tid, 0, info.as_mut_ptr().expose_provenance())?;
    Ok(info)
}

/// Whether a signal waits to be delivered to the thread or to its process, blocked ones included
/// (`PTRACE_PEEKSIGINFO`).
///
/// # Errors
/// ESRCH when the thread is gone or not stopped.
pub fn has_pending_signal(tid: Tid) -> io::Result<bool> {
    // `struct ptrace_peeksiginfo_args`: offset, flags, number.
    #[repr(C)]
    struct Arguments {
        offset: u64,
        flags: u32,
        count: i32,
    }
    let mut info = [0u8; SIGNAL_INFO_BYTES];
    for flags in [0, 1 /* PTRACE_PEEKSIGINFO_SHARED */] {
        let arguments = Arguments { offset: 0, flags, count: 1 };
        let found = request(
            libc::PTRACE_PEEKSIGINFO as _,
            tid,
            (&raw const arguments).expose_provenance(),
            info.as_mut_ptr().expose_provenance(),
        )?;
        if found > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A thread's registration for restartable sequences (rseq(2)).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rseq {
    /// Address of its `struct rseq`; 0: none.
    pub area: u64,
    /// Its length in bytes.
    pub length: u32,
    /// What stands before abort handlers.
    pub signature: u32,
}

/// `PTRACE_GET_RSEQ_CONFIGURATION` (Linux 5.13).
///
/// # Errors
/// EIO on older kernels, ESRCH when the thread is gone or not stopped.
pub fn rseq(tid: Tid) -> io::Result<Rseq> {
    // `struct ptrace_rseq_configuration`: pointer, size, signature, flags, pad.
    let mut words = [0u64; 3];
    request(0x420f, tid, size_of_val(&words), words.as_mut_ptr().expose_provenance())?;
    let [area, sizes, _] = words;
    let [a, b, c, d, e, f, g, h] = sizes.to_ne_bytes();
    Ok(Rseq { area, length: u32::from_ne_bytes([a, b, c, d]), signature: u32::from_ne_bytes([e, f, g, h]) })
}
