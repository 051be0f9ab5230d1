//! A snapshot that the runtime tells: for versions whose memory is not understood, from .NET Core 3.1 on.
//!
//! The runtime collects garbage and stands still while it tells: 0.4 to 1.6 µs for each live object were measured, plus the
//! collection. Once begun it cannot be called off, so the pause is predicted, and refused above the budget.

use std::time::{Duration, Instant, SystemTime};

use biopsy_dotnet::gcdump::told::{Completeness, HeapListener, KEYWORDS, PROVIDER};
use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::nettrace::{Limits, NettraceError, Reader};
use biopsy_dotnet_ipc::{Client, EventLevel, IpcError, Provider, Rundown, SessionConfig};
use biopsy_model::Pid;
use biopsy_model::heap::{HeapFacts, HeapSource};
use biopsy_target::ProcRoot;

/// Seconds of pause for each live object: the upper half of what was measured.
const SECONDS_PER_OBJECT: f64 = 1.0e-6;
/// Bytes of memory of its own that a process has for each object, about.
const BYTES_PER_OBJECT: u64 = 64;
/// How long one read waits before the clock is looked at.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long the runtime may take to end the session.
const STOPPING: Duration = Duration::from_secs(10);
/// MiB in which the runtime keeps events that we have not fetched yet.
const BUFFER_MB: u32 = 1024;

/// Most bytes of `/proc/PID/status`.
const STATUS: usize = 64 << 10;

/// How the runtime is asked.
#[derive(Clone, Copy, Debug)]
pub struct AskOptions {
    /// The longest pause that may be predicted.
    pub max_pause: Duration,
    /// The longest that the whole may take; then what came is what there is.
    pub longest: Duration,
}

/// Why the runtime told nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It would stand still for too long.
    #[error(
        "process {pid} would stand still for about {predicted:?} while its runtime walks the heap; {allowed:?} are allowed"
    )]
    TooLong {
        /// The process.
        pid: Pid,
        /// Predicted pause.
        predicted: Duration,
        /// The budget.
        allowed: Duration,
    },
    /// The runtime cannot be asked.
    #[error(transparent)]
    Ipc(#[from] IpcError),
    /// Its answer cannot be read.
    #[error("what the runtime of process {pid} sends cannot be read")]
    Stream {
        /// The process.
        pid: Pid,
        /// Why not.
        #[source]
        source: NettraceError,
    },
    /// It told no objects in time.
    #[error("the runtime of process {pid} sent no objects within {waited:?}")]
    Nothing {
        /// The process.
        pid: Pid,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The system.
    #[error("cannot ask the runtime of process {pid}")]
    Io {
        /// The process.
        pid: Pid,
        /// What it said.
        #[source]
        source: std::io::Error,
    },
}

/// How long a process with so many bytes of memory of its own would stand still, at most about.
#[must_use]
pub fn predict_pause(own_bytes: u64) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let objects = (own_bytes / BYTES_PER_OBJECT) as f64;
    Duration::from_secs_f64(objects * SECONDS_PER_OBJECT)
}

/// Memory in bytes that is the process's own and no file's; 0: not known.
#[must_use]
pub fn own_bytes(pid: Pid) -> u64 {
    let status = ProcRoot::live().process(pid).and_then(|process| process.read("status", STATUS));
    let status = status.unwrap_or_default();
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"RssAnon:"));
    let kib = line.and_then(|line| std::str::from_utf8(line).ok()?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map_or(0, |kib: u64| kib.saturating_mul(1024))
}

/// Asks the runtime for its heap. `own_bytes`: memory of the process that is no file's.
///
/// # Errors
/// [`AskError`]. An answer that is not whole is none: the facts say what is missing.
pub fn ask(pid: Pid, own_bytes: u64, options: &AskOptions) -> Result<(Graph, HeapFacts), AskError> {
    let predicted = predict_pause(own_bytes);
    if predicted > options.max_pause {
        return Err(AskError::TooLong { pid, predicted, allowed: options.max_pause });
    }
    let client = Client::of(pid)?;
    let io = |source| AskError::Io { pid, source };
    let stream = |source| AskError::Stream { pid, source };
    // The runtime tells each type once while anybody wants types. A session that wants none makes it forget that.
    let exceptions = Provider::new(PROVIDER, 0x8000, EventLevel::Error);
    let forgetting = client.start_session(&config(exceptions, 1))?;
    let _ = forgetting.control().map_err(io)?.stop(STOPPING);
    drop(forgetting);
    let started = Instant::now();
    let when = SystemTime::now();
    let session =
        client.start_session(&config(Provider::new(PROVIDER, KEYWORDS, EventLevel::Verbose), BUFFER_MB))?;
    let control = session.control().map_err(io)?;
    control.set_read_timeout(Some(Duration::from_millis(500))).map_err(io)?;
    control.set_read_timeout(Some(options.longest)).map_err(io)?;
    let mut listener = HeapListener::new();
    let mut reader = Reader::new(session, &Limits::default()).map_err(stream)?;
    control.set_read_timeout(Some(PATIENCE)).map_err(io)?;
    let stop = || {
        let _ = control.stop(STOPPING);
    };
    let lost = std::thread::scope(|scope| {
        let mut stopping = None;
        // What the runtime still holds comes while it stops, so somebody has to read on.
        while started.elapsed() < options.longest {
            match reader.next_event() {
                Ok(Some(event)) => listener.event(&event),
                Ok(None) => break,
                Err(error) if error.is_not_ready() => {}
                Err(error) => return Err(stream(error)),
            }
            if listener.is_done() && stopping.is_none() {
                stopping = std::thread::Builder::new().spawn_scoped(scope, stop).ok();
            }
        }
        if stopping.is_none() {
            stop();
        }
        control.cut();
        Ok(reader.lost())
    })?;
    if listener.objects() == 0 {
        return Err(AskError::Nothing { pid, waited: started.elapsed() });
    }
    let told = listener.finish().map_err(io)?;
    let Completeness { lost_node_events, lost_edge_events, edge_imbalance, dangling, damaged, ended } =
        told.completeness;
    let mut warnings = Vec::new();
    if !told.completeness.is_whole() || lost > 0 {
        warnings.push(format!(
            "the runtime's answer is not whole: {lost} events dropped, {lost_node_events} blocks of objects and \
             {lost_edge_events} of references lost, {edge_imbalance} references missing, {damaged} events damaged{}",
            if ended { "" } else { ", the end did not come" }
        ));
    }
    let facts = HeapFacts {
        pid,
        source: HeapSource::Runtime,
        taken_at_unix_seconds: when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        pause_ms: told.pause.map_or(0.0, |pause| pause.0 as f64 / 1e6),
        whole: told.completeness.is_whole() && lost == 0,
        problems: lost_node_events + lost_edge_events + damaged + lost,
        dangling,
        warnings,
        ..told.graph.facts()
    };
    Ok((told.graph, facts))
}

fn config(provider: Provider, buffer_mb: u32) -> SessionConfig {
    SessionConfig { buffer_mb, rundown: Rundown::None, stacks: false, providers: vec![provider] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_ones_own_is_read() {
        assert!(own_bytes(Pid(std::process::id())) > 64 << 10);
        assert_eq!(own_bytes(Pid(u32::MAX)), 0);
    }
}
