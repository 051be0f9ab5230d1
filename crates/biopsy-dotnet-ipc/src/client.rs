//! Commands to a running runtime.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use biopsy_bytes::Cursor;
use biopsy_model::Pid;

use crate::caller::{Caller, TimeLimits};
use crate::error::IpcError;
use crate::info::{self, ProcessInfo};
use crate::port::DiagnosticPort;
use crate::session::Session;
use crate::session_config::{self, FORMS, SessionConfig};
use crate::wire::{Payload, commands};

/// Speaks with the runtime of one process. Each command is a connection of its own, so that this holds nothing open.
#[derive(Clone, Debug)]
pub struct Client {
    caller: Caller,
    /// The form of `CollectTracing` that was taken last; 0: none yet. Shared by clones.
    form: Arc<AtomicU8>,
}

impl Client {
    /// For a port that was found.
    #[must_use]
    pub fn new(port: DiagnosticPort) -> Self {
        Self { caller: Caller { port, limits: TimeLimits::default() }, form: Arc::default() }
    }

    /// Finds the port of a process.
    ///
    /// # Errors
    /// As [`DiagnosticPort::find`].
    pub fn of(pid: Pid) -> Result<Self, IpcError> {
        Ok(Self::new(DiagnosticPort::find(pid)?))
    }

    /// With other time limits.
    #[must_use]
    pub fn with_limits(mut self, limits: TimeLimits) -> Self {
        self.caller.limits = limits;
        self
    }

    /// Where it speaks to.
    #[must_use]
    pub fn port(&self) -> &DiagnosticPort {
        &self.caller.port
    }

    /// What the runtime says of itself, in the newest form it knows.
    ///
    /// # Errors
    /// [`IpcError`]; [`IpcError::is_unknown_command`] for .NET Core 3.x, which cannot say.
    pub fn process_info(&self) -> Result<ProcessInfo, IpcError> {
        let forms =
            [(3, commands::PROCESS_INFO_3), (2, commands::PROCESS_INFO_2), (1, commands::PROCESS_INFO_1)];
        let mut refused = None;
        for (form, command) in forms {
            match self.caller.exchange(command, &Payload::default(), self.caller.limits.answer) {
                Ok((connection, answer)) => {
                    return info::parse(form, &answer).map_err(|source| connection.malformed(source));
                }
                Err(error) if error.is_unknown_command() => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or(IpcError::Ended { pid: self.caller.pid() }))
    }

    /// Sets a variable in the runtime's own environment, which processes that it starts inherit.
    ///
    /// # Errors
    /// [`IpcError`].
    pub fn set_variable(&self, name: &str, value: &str) -> Result<(), IpcError> {
        let payload = Payload::default().string(name).string(value);
        self.caller.coded(commands::SET_VARIABLE, &payload, self.caller.limits.answer)
    }

    /// Starts a session, with the newest form of the command that the runtime knows. What the form cannot say is left
    /// out: see [`Session::form`].
    ///
    /// # Errors
    /// [`IpcError`].
    pub fn start_session(&self, config: &SessionConfig) -> Result<Session, IpcError> {
        let known = self.form.load(Ordering::Relaxed);
        let mut refused = None;
        for form in FORMS.into_iter().filter(|form| known == 0 || *form <= known) {
            let (command, payload) = session_config::encode(config, form);
            match self.caller.exchange(command, &payload, self.caller.limits.session) {
                Ok((connection, answer)) => {
                    self.form.store(form, Ordering::Relaxed);
                    let id = Cursor::new(&answer)
                        .u64("session id")
                        .map_err(|source| connection.malformed(source))?;
                    return self.session(id, form, connection.stream);
                }
                Err(error) if error.is_unknown_command() => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or(IpcError::Ended { pid: self.caller.pid() }))
    }

    fn session(&self, id: u64, form: u8, stream: UnixStream) -> Result<Session, IpcError> {
        Session::new(id, form, stream, self.caller.clone()).map_err(|source| IpcError::Io {
            pid: self.caller.pid(),
            command: "CollectTracing",
            source,
        })
    }
}
