//! One connection: a command goes out, an answer comes back, each within its time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use biopsy_bytes::ReadError;
use biopsy_model::Pid;

use crate::error::IpcError;
use crate::silence::Silence;
use crate::wire::{self, Command, HEADER_BYTES, Payload};

/// A connection on which a command was sent.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) pid: Pid,
    pub(crate) command: Command,
    pub(crate) stream: UnixStream,
    asked: Instant,
    deadline: Instant,
}

impl Connection {
    /// Sends a command; everything after this has to happen `within`.
    pub(crate) fn ask(
        pid: Pid,
        stream: UnixStream,
        command: Command,
        payload: &Payload,
        within: Duration,
    ) -> Result<Self, IpcError> {
        let bytes = wire::encode(command, payload).ok_or(IpcError::TooLong { command: command.name })?;
        let asked = Instant::now();
        let mut connection = Self { pid, command, stream, asked, deadline: asked + within };
        let sent = connection
            .stream
            .set_write_timeout(Some(within.max(Duration::from_millis(1))))
            .and_then(|()| connection.stream.write_all(&bytes));
        match sent {
            Ok(()) => Ok(connection),
            Err(error) => Err(connection.failed(error)),
        }
    }

    /// The payload of the answer.
    pub(crate) fn answer(&mut self) -> Result<Vec<u8>, IpcError> {
        let mut head = [0; HEADER_BYTES];
        self.read(&mut head)?;
        let head = wire::parse_head(&head).map_err(|source| self.malformed(source))?;
        // At most 64 KiB: the size has 16 bits.
        let mut payload = vec![0; head.payload];
        self.read(&mut payload)?;
        if head.is_error {
            return Err(self.refused(wire::parse_error(&payload), None));
        }
        Ok(payload)
    }

    /// Fills `bytes` before the time is over.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<(), IpcError> {
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.silent());
            }
            let read = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(rest));
            match read {
                Ok(0) => return Err(self.closed()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    pub(crate) fn refused(&self, code: crate::HResult, detail: Option<String>) -> IpcError {
        IpcError::Refused { pid: self.pid, command: self.command.name, code, detail }
    }

    pub(crate) fn malformed(&self, source: ReadError) -> IpcError {
        IpcError::Malformed { pid: self.pid, command: self.command.name, source }
    }

    fn silent(&self) -> IpcError {
        IpcError::Silent {
            pid: self.pid,
            command: self.command.name,
            waited: self.asked.elapsed(),
            why: Silence::of(self.pid),
        }
    }

    fn closed(&self) -> IpcError {
        match Silence::of(self.pid) {
            Silence::Ended => IpcError::Ended { pid: self.pid },
            _ => IpcError::Closed { pid: self.pid, command: self.command.name },
        }
    }

    fn failed(&self, source: io::Error) -> IpcError {
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.silent(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.closed(),
            _ => IpcError::Io { pid: self.pid, command: self.command.name, source },
        }
    }
}
