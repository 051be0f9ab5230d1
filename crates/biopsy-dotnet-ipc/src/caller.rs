//! One exchange with the runtime of a process: a connection of its own, a command, an answer.

use std::time::Duration;

use biopsy_bytes::Cursor;
use biopsy_model::Pid;

use crate::HResult;
use crate::connection::Connection;
use crate::error::IpcError;
use crate::port::DiagnosticPort;
use crate::wire::{Command, Payload};

/// How long is waited until a runtime takes a connection. It does at once, unless more wait than its queue holds.
const CONNECT: Duration = Duration::from_secs(2);

/// How long a runtime is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimits {
    /// From a command to the end of its answer. Milliseconds, unless the machine is overloaded.
    pub answer: Duration,
    /// From the command that starts a session to its answer: all EventSources of the process are told first.
    pub session: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(5), session: Duration::from_secs(10) }
    }
}

/// Where is asked, and how long is waited.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) port: DiagnosticPort,
    pub(crate) limits: TimeLimits,
}

impl Caller {
    pub(crate) fn pid(&self) -> Pid {
        self.port.pid()
    }

    fn ask(&self, command: Command, payload: &Payload, within: Duration) -> Result<Connection, IpcError> {
        let stream = self.port.connect(CONNECT)?;
        Connection::ask(self.pid(), stream, command, payload, within)
    }

    pub(crate) fn exchange(
        &self,
        command: Command,
        payload: &Payload,
        within: Duration,
    ) -> Result<(Connection, Vec<u8>), IpcError> {
        let mut connection = self.ask(command, payload, within)?;
        let answer = connection.answer()?;
        Ok((connection, answer))
    }

    /// An answer that is one result code.
    pub(crate) fn coded(
        &self,
        command: Command,
        payload: &Payload,
        within: Duration,
    ) -> Result<(), IpcError> {
        let (connection, answer) = self.exchange(command, payload, within)?;
        let code = Cursor::new(&answer).u32("result code").map_err(|source| connection.malformed(source))?;
        if code == HResult::OK.0 { Ok(()) } else { Err(connection.refused(HResult(code), None)) }
    }
}
