//! A running session: a stream of nettrace, and the handle that ends it.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::caller::Caller;
use crate::error::IpcError;
use crate::wire::{Payload, commands};

/// Events of a runtime, from now on, as nettrace. The session ends when this and its [`SessionControl`]s are dropped:
/// the runtime notices at the next event it writes that nobody reads any more.
#[derive(Debug)]
pub struct Session {
    id: u64,
    form: u8,
    stream: UnixStream,
    caller: Caller,
}

impl Session {
    pub(crate) fn new(id: u64, form: u8, stream: UnixStream, caller: Caller) -> Result<Self, io::Error> {
        stream.set_read_timeout(None)?;
        Ok(Self { id, form, stream, caller })
    }

    /// Its number in the runtime.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Which form of `CollectTracing` the runtime took, 1 to 6: event filters need 5, sessions without stacks 3.
    #[must_use]
    pub fn form(&self) -> u8 {
        self.form
    }

    /// Whether reading waits for events (as it does at first) or gives `WouldBlock` when there are none yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }

    /// A handle that ends it from another thread while this one is read.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn control(&self) -> io::Result<SessionControl> {
        Ok(SessionControl { id: self.id, stream: self.stream.try_clone()?, caller: self.caller.clone() })
    }
}

/// For poll(2).
impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Read for Session {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            // The process was killed: what it has sent is all there is.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            read => read,
        }
    }
}

/// For poll(2).
impl AsFd for SessionControl {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Ends a session.
#[derive(Debug)]
pub struct SessionControl {
    id: u64,
    stream: UnixStream,
    caller: Caller,
}

impl SessionControl {
    /// Whether reading waits; see [`Session::set_nonblocking`]. It is the same stream.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }

    /// The longest that one read waits; `None`: for ever.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_read_timeout(&self, longest: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(longest)
    }

    /// Asks the runtime to end the session. What it still holds comes through the stream, then the stream ends; somebody
    /// has to read it meanwhile.
    ///
    /// # Errors
    /// [`IpcError`]: it does not answer in time; [`Self::cut`] ends it then.
    pub fn stop(&self, within: Duration) -> Result<(), IpcError> {
        self.caller.exchange(commands::STOP_TRACING, &Payload::default().u64(self.id), within).map(|_| ())
    }

    /// Closes the stream from our side: a reader comes to its end at once, and the runtime ends the session when it
    /// notices.
    pub fn cut(&self) {
        // It may be closed already; then there is nothing to do.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
