//! Answering another program's system calls in the kernel's place (`SECCOMP_RET_USER_NOTIF`), to make a chosen one fail.
//!
//! Only with the feature `testing`: the runs in which the n-th call fails (`cargo xtask faults`) use it. Unlike
//! [`crate::fault`] it reaches every call of an unchanged program, those of the libraries as well, and it does not need
//! ptrace, of which a process can have only one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check;
use biopsy_model::Tid;

/// `AUDIT_ARCH_X86_64`.
const X86_64: u32 = 0xc000_003e;

/// Where the calls of the filtered programs arrive.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    id: u64,
    /// The thread that makes it; 0 when it lies outside of our pid namespace.
    pub tid: Tid,
    /// Which call.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What the caller gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The kernel does what was asked for.
    Continue,
    /// Nothing is done, and the call gives this errno.
    Fail(i32),
}

/// From now on the calls with these numbers, of the calling thread and of what it starts, wait for an answer. This cannot be
/// undone: call it on a thread that ends soon, and answer on another one.
///
/// # Errors
/// EACCES without CAP_SYS_ADMIN; EINVAL on kernels before 5.19, or for more than 250 numbers.
pub fn listen(numbers: &[u32]) -> io::Result<Listener> {
    let program = filter(numbers).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the kernel reads `len` instructions at `filter`, which the vector holds until the end of this function, and
    // writes nothing.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    })?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Notifies for these numbers, allows everything else; `None` when they are too many for the jumps.
fn filter(numbers: &[u32]) -> Option<Vec<libc::sock_filter>> {
    let one = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let count = u8::try_from(numbers.len()).ok().filter(|count| *count <= 250)?;
    // struct seccomp_data: the number at 0, the architecture at 4.
    let mut program =
        vec![one(0x20, 0, 0, 4), one(0x15, 1, 0, X86_64), one(0x06, 0, 0, libc::SECCOMP_RET_ALLOW)];
    program.push(one(0x20, 0, 0, 0));
    for (left, number) in (0..count).rev().zip(numbers) {
        // To the last instruction, behind the other comparisons and the one that allows.
        program.push(one(0x15, left + 1, 0, *number));
    }
    program.push(one(0x06, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(one(0x06, 0, 0, libc::SECCOMP_RET_USER_NOTIF));
    Some(program)
}

impl Listener {
    /// Lets caller and listener take turns on one processor, which saves most of the time on a busy machine.
    ///
    /// # Errors
    /// EINVAL on kernels before 6.6.
    pub fn take_turns(&self) -> io::Result<()> {
        const SYNC_WAKE_UP: libc::c_ulong = 1;
        // SAFETY: the flags are given by value; no pointer is involved.
        let ret =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
        check(ret.into()).map(|_| ())
    }

    /// The next call; waits for it. `None`: the caller was killed meanwhile, or nobody is left who could call.
    ///
    /// # Errors
    /// EINTR.
    pub fn receive(&self) -> io::Result<Option<Call>> {
        // SAFETY: plain integers, of which all bits zero is a value; the kernel demands zeros.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `seccomp_notif`, which is there.
        let ret = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
        match check(ret.into()) {
            Ok(_) => Ok(Some(Call {
                id: call.id,
                tid: Tid(call.pid),
                number: call.data.nr.into(),
                arguments: call.data.args,
            })),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets the caller go on. One that was killed meanwhile needs no answer any more.
    ///
    /// # Errors
    /// None that is expected.
    pub fn answer(&self, call: &Call, answer: Answer) -> io::Result<()> {
        let (error, flags) = match answer {
            // The constant is 1 and has the type of another call's flags.
            Answer::Continue => (0, 1),
            Answer::Fail(errno) => (-errno, 0),
        };
        let mut response = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
        // SAFETY: the kernel reads one `seccomp_notif_resp`, which is there.
        let ret =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
        match check(ret.into()) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_call_gets_the_answer_that_it_is_given() {
        if !biopsy_testkit::require(biopsy_testkit::Privilege::Root) {
            return;
        }
        let (give, take) = sync_channel(1);
        let asker = std::thread::spawn(move || {
            let listener = listen(&[u32::try_from(libc::SYS_getppid).unwrap()]);
            give.send(listener).unwrap();
            // SAFETY: no pointer is given and none returned.
            let first = check(unsafe { libc::syscall(libc::SYS_getppid) });
            // SAFETY: as above.
            let second = check(unsafe { libc::syscall(libc::SYS_getppid) });
            (first.map_err(|error| error.raw_os_error()), second)
        });
        let listener = take.recv().unwrap().unwrap();
        for answer in [Answer::Fail(libc::EMFILE), Answer::Continue] {
            let call = listener.receive().unwrap().unwrap();
            assert_eq!(call.number, libc::SYS_getppid);
            listener.answer(&call, answer).unwrap();
        }
        let (first, second) = asker.join().unwrap();
        assert_eq!(first, Err(Some(libc::EMFILE)));
        assert_eq!(second.unwrap(), i64::from(std::os::unix::process::parent_id()));
    }
}
