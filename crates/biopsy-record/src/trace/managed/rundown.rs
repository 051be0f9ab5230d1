//! All methods that a runtime has compiled, as it tells them itself: for versions whose memory cannot be read (3.1).
//!
//! A session of events is started and ended at once; at its end the runtime describes everything that is there. The process
//! runs on meanwhile, and has one session more for some hundred milliseconds.

use std::time::Duration;

use biopsy_dotnet::ipc::{Client, EventLevel, IpcError, Provider, Rundown, SessionConfig};
use biopsy_dotnet::methods::{MethodMap, feed};
use biopsy_dotnet::nettrace::{Limits, NettraceError, Reader};
use biopsy_model::Pid;

/// Loader, JIT compiler, precompiled code.
const KEYWORDS: u64 = 0x8 | 0x10 | 0x20;
/// A server with 100,000 methods tells them in two seconds.
const WITHIN: Duration = Duration::from_secs(8);
const BUFFER_MB: u32 = 16;

/// Why a runtime did not tell.
#[derive(Debug, thiserror::Error)]
pub(super) enum RundownError {
    #[error(transparent)]
    Ipc(#[from] IpcError),
    #[error(transparent)]
    Stream(#[from] NettraceError),
    #[error("no descriptor or thread is left")]
    Io(#[from] std::io::Error),
}

/// Asks the runtime of a process for its methods.
pub(super) fn methods(pid: Pid) -> Result<MethodMap, RundownError> {
    let client = Client::of(pid)?;
    let config = SessionConfig {
        buffer_mb: BUFFER_MB,
        rundown: Rundown::Keywords(KEYWORDS),
        stacks: false,
        providers: vec![Provider::new("Microsoft-Windows-DotNETRuntime", 0, EventLevel::Critical)],
    };
    let session = client.start_session(&config)?;
    let control = session.control()?;
    // Somebody has to read while the runtime ends the session.
    let stop = std::thread::Builder::new().name("biopsy-rundown".to_owned()).spawn(move || {
        let stopped = control.stop(WITHIN);
        if stopped.is_err() {
            control.cut();
        }
        stopped
    })?;
    let told = read(session);
    // It panicked: the stream says what came of it.
    let stopped = stop.join().unwrap_or(Ok(()));
    let told = told?;
    stopped?;
    Ok(told)
}

fn read(stream: impl std::io::Read) -> Result<MethodMap, NettraceError> {
    let mut methods = MethodMap::new();
    let mut reader = Reader::new(stream, &Limits::default())?;
    while let Some(event) = reader.next_event()? {
        let _ = feed(&mut methods, &event);
    }
    Ok(methods)
}
