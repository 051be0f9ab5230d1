//! Commands to a running runtime.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use biopsy_bytes::{Cursor, ReadErrorKind};
use biopsy_model::Pid;

use crate::connection::Connection;
use crate::error::IpcError;
use crate::info::{self, ProcessInfo};
use crate::port::DiagnosticPort;
use crate::session::Session;
use crate::session_config::{self, FORMS, SessionConfig};
use crate::wire::{Command, Payload, commands};
use crate::{HResult, PerfMap, perf_map};

/// Most bytes of an environment.
const ENVIRONMENT_MAX: u32 = 16 << 20;

/// How long a runtime is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimits {
    /// Until it takes a connection. It does at once, unless more wait than its queue holds.
    pub connect: Duration,
    /// From a command to the end of its answer. Milliseconds, unless the machine is overloaded.
    pub answer: Duration,
    /// From the command that starts a session to its answer: all EventSources of the process are told first.
    pub session: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            answer: Duration::from_secs(5),
            session: Duration::from_secs(10),
        }
    }
}

/// Speaks with the runtime of one process. Each command is a connection of its own, so that this holds nothing open.
#[derive(Clone, Debug)]
pub struct Client {
    port: DiagnosticPort,
    limits: TimeLimits,
    /// The form of `CollectTracing` that was taken last; 0: none yet. Shared by clones.
    form: Arc<AtomicU8>,
}

impl Client {
    /// For a port that was found.
    #[must_use]
    pub fn new(port: DiagnosticPort) -> Self {
        Self { port, limits: TimeLimits::default(), form: Arc::default() }
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
        self.limits = limits;
        self
    }

    /// Where it speaks to.
    #[must_use]
    pub fn port(&self) -> &DiagnosticPort {
        &self.port
    }

    fn pid(&self) -> Pid {
        self.port.pid()
    }

    fn ask(&self, command: Command, payload: &Payload, within: Duration) -> Result<Connection, IpcError> {
        let stream = self.port.connect(self.limits.connect)?;
        Connection::ask(self.pid(), stream, command, payload, within)
    }

    fn exchange(
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
    fn coded(&self, command: Command, payload: &Payload, within: Duration) -> Result<(), IpcError> {
        let (connection, answer) = self.exchange(command, payload, within)?;
        let code = Cursor::new(&answer).u32("result code").map_err(|source| connection.malformed(source))?;
        if code == HResult::OK.0 { Ok(()) } else { Err(connection.refused(HResult(code), None)) }
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
            match self.exchange(command, &Payload::default(), self.limits.answer) {
                Ok((connection, answer)) => {
                    return info::parse(form, &answer).map_err(|source| connection.malformed(source));
                }
                Err(error) if error.is_unknown_command() => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or(IpcError::Ended { pid: self.pid() }))
    }

    /// The environment as the runtime has it now, `NAME=VALUE`. Not redacted.
    ///
    /// # Errors
    /// [`IpcError`].
    pub fn environment(&self) -> Result<Vec<String>, IpcError> {
        let (mut connection, answer) =
            self.exchange(commands::ENVIRONMENT, &Payload::default(), self.limits.answer)?;
        let mut cursor = Cursor::new(&answer);
        let before = cursor;
        let size = cursor.u32("bytes that follow").map_err(|source| connection.malformed(source))?;
        if size > ENVIRONMENT_MAX {
            let kind = ReadErrorKind::OverLimit { claimed: size.into(), limit: ENVIRONMENT_MAX.into() };
            return Err(connection.malformed(before.error("bytes that follow", kind)));
        }
        let mut block = vec![0; usize::try_from(size).unwrap_or(0)];
        connection.read(&mut block)?;
        info::parse_environment(&block).map_err(|source| connection.malformed(source))
    }

    /// Sets a variable in the runtime's own environment, which processes that it starts inherit.
    ///
    /// # Errors
    /// [`IpcError`].
    pub fn set_variable(&self, name: &str, value: &str) -> Result<(), IpcError> {
        let payload = Payload::default().string(name).string(value);
        self.coded(commands::SET_VARIABLE, &payload, self.limits.answer)
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
            match self.exchange(command, &payload, self.limits.session) {
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
        Err(refused.unwrap_or(IpcError::Ended { pid: self.pid() }))
    }

    fn session(&self, id: u64, form: u8, stream: UnixStream) -> Result<Session, IpcError> {
        Session::new(id, form, stream, self.clone()).map_err(|source| IpcError::Io {
            pid: self.pid(),
            command: "CollectTracing",
            source,
        })
    }

    /// Ends a session by its id.
    ///
    /// # Errors
    /// [`IpcError`].
    pub fn stop_session(&self, id: u64, within: Duration) -> Result<(), IpcError> {
        self.exchange(commands::STOP_TRACING, &Payload::default().u64(id), within).map(|_| ())
    }

    /// The form of `CollectTracing` that the runtime took; `None`: none was started yet.
    #[must_use]
    pub fn known_form(&self) -> Option<u8> {
        Some(self.form.load(Ordering::Relaxed)).filter(|form| *form != 0)
    }

    /// Lets the runtime write the names of its compiled methods for `perf` (.NET 8 and later), and takes the file away from
    /// the target's folder at once. Precompiled code is not in it.
    ///
    /// # Errors
    /// [`IpcError`]: refused, or another tool has such a file already.
    pub fn enable_perf_map(&self) -> Result<PerfMap, IpcError> {
        perf_map::enable(self, |map| {
            self.coded(commands::ENABLE_PERF_MAP, &Payload::default().u32(map), self.limits.session)
        })
    }

    /// Ends what [`Self::enable_perf_map`] began.
    ///
    /// # Errors
    /// [`IpcError`].
    pub fn disable_perf_map(&self) -> Result<(), IpcError> {
        self.coded(commands::DISABLE_PERF_MAP, &Payload::default(), self.limits.answer)
    }

    /// Lets the runtime dump its process with its own helper, to a path as the process sees it. The process stands still
    /// meanwhile; `biopsy dump` does the same with a pause of milliseconds.
    ///
    /// # Errors
    /// [`IpcError::NoCreateDump`], without asking the runtime: with a helper that cannot be executed its diagnostics server
    /// ends. [`IpcError`]: refused, or it took longer than `within`.
    pub fn dump(&self, path: &str, kind: crate::DumpKind, within: Duration) -> Result<(), IpcError> {
        crate::dump::check(self.pid())?;
        let payload = Payload::default().string(path).u32(kind as u32).u32(0);
        let asked = self.exchange(commands::DUMP_3, &payload, within);
        let (connection, answer) = match asked {
            Err(error) if error.is_unknown_command() => self.exchange(commands::DUMP_1, &payload, within)?,
            asked => asked?,
        };
        let mut cursor = Cursor::new(&answer);
        let code = cursor.u32("result code").map_err(|source| connection.malformed(source))?;
        if code == HResult::OK.0 {
            return Ok(());
        }
        let detail = crate::wire::read_string(&mut cursor, "error text").ok().filter(|text| !text.is_empty());
        Err(connection.refused(HResult(code), detail))
    }
}
