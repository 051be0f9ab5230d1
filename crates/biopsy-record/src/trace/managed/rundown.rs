//! All methods that a runtime has compiled, as it tells them itself: for versions whose memory cannot be read (3.1).
//!
//! A session of events is started and ended at once; at its end the runtime describes everything that is there. The process
//! runs on meanwhile, and has one session more for some hundred milliseconds.

use std::time::Duration;

use biopsy_dotnet::methods::{MethodMap, feed};
use biopsy_dotnet::nettrace::{Limits, NettraceError, Reader};
use biopsy_dotnet_ipc::{Client, EventLevel, IpcError, Provider, Rundown, SessionConfig};
use biopsy_model::Pid;

/// Loader, JIT compiler, precompiled code.
const KEYWORDS: u64 = 0x8 | 0x10 | 0x20;
/// .NET 3.1 needs seconds of its own CPU time for 100,000 methods, and 23 s were seen where the machine had none to spare.
const WITHIN: Duration = Duration::from_secs(45);
/// .NET 3.1 sends nothing before it has told everything: what does not fit is lost (of 100,000 methods, 16 MB hold a tenth). It
/// takes as much as it needs, and gives it back.
const BUFFER_MB: u32 = 256;

/// What a runtime told.
pub(super) struct Told {
    pub(super) methods: MethodMap,
    /// Why that is not all, where it is not.
    pub(super) incomplete: Option<String>,
}

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
pub(super) fn methods(pid: Pid) -> Result<Told, RundownError> {
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
    let panicked =
        || IpcError::Io { pid, command: "StopTracing", source: std::io::Error::other("it panicked") };
    let stopped = stop.join().unwrap_or_else(|_| Err(panicked()));
    let mut told = match told {
        // Nothing came, because the session had to be cut: that is the reason to tell.
        Err(error) => return Err(stopped.err().map_or(error.into(), RundownError::from)),
        Ok(told) => told,
    };
    if let Err(error) = stopped {
        told.incomplete = Some(error.to_string());
    }
    Ok(told)
}

/// Reads to the end; a stream that breaks off is as good as far as it goes.
fn read(stream: impl std::io::Read) -> Result<Told, NettraceError> {
    let mut methods = MethodMap::new();
    let mut reader = Reader::new(stream, &Limits::default())?;
    let mut incomplete = None;
    loop {
        match reader.next_event() {
            Ok(Some(event)) => {
                let _ = feed(&mut methods, &event);
            }
            Ok(None) => break,
            Err(error) => {
                incomplete = Some(error.to_string());
                break;
            }
        }
    }
    if incomplete.is_none() && reader.lost() > 0 {
        incomplete = Some(format!("{} events about them were lost", reader.lost()));
    }
    Ok(Told { methods, incomplete })
}
