//! Semaphores of System V, looked at.

use std::io;

/// What the kernel says of one semaphore of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Semaphore {
    /// Its value.
    pub value: i32,
    /// The process that operated on it last; 0: none.
    pub last_pid: i32,
}

/// Looks at one semaphore.
///
/// # Errors
/// EINVAL or EIDRM: there is no such semaphore in our namespace; EACCES: may not be read.
pub fn look(set: i32, number: u16) -> io::Result<Semaphore> {
    let ask = |command| {
        // SAFETY: semctl(2) with GETVAL or GETPID takes three plain numbers, reads no memory of ours, and changes nothing.
        let answer = unsafe { libc::semctl(set, number.into(), command) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
    };
    Ok(Semaphore { value: ask(libc::GETVAL)?, last_pid: ask(libc::GETPID)? })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_set_that_is_not_there_is_an_error() {
        assert!(super::look(-1, 0).is_err());
    }
}
