//! The session that triggers listen to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use biopsy_dotnet_ipc::{Client, EventFilter, EventLevel, IpcError, Provider, Rundown, SessionConfig};
use biopsy_model::Pid;

use super::condition::{DotNetCondition, DotNetQuantity};
use super::seen::Seen;
use crate::dotnet::{LaneStream, plan, providers};

/// Wakes up so often when nothing comes.
const TICK: Duration = Duration::from_millis(50);
/// After an end that nobody wanted, a new session is tried so often.
const AGAIN: Duration = Duration::from_secs(2);

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Opens the session. It is open when this returns: what happens from then on is seen.
    pub(crate) fn start(pid: Pid, conditions: Vec<DotNetCondition>) -> Result<Self, IpcError> {
        let config = config(&conditions);
        let client = Client::of(pid)?;
        let stream = open(&client, &config)?;
        let seen = Arc::new(Mutex::new(Seen::new(conditions)));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, told) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name(format!("biopsy-on-{pid}"))
            .spawn(move || listen(&client, &config, stream, &shared, &told))
            .map_err(|source| IpcError::Io { pid, command: "CollectTracing", source })?;
        Ok(Self { seen, stop, thread: Some(thread) })
    }

    /// What was seen.
    pub(crate) fn seen(&self) -> Arc<Mutex<Seen>> {
        Arc::clone(&self.seen)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(client: &Client, config: &SessionConfig) -> Result<LaneStream, IpcError> {
    let session = client.start_session(config)?;
    let pid = client.port().pid();
    let stream = LaneStream::new(plan::Group::of_triggers(), session, None);
    stream.map(LaneStream::unsorted).map_err(|source| IpcError::Io { pid, command: "CollectTracing", source })
}

fn listen(
    client: &Client,
    config: &SessionConfig,
    stream: LaneStream,
    seen: &Mutex<Seen>,
    stop: &AtomicBool,
) {
    let mut stream = stream;
    let mut stopped = false;
    let mut again = Instant::now();
    loop {
        if stop.load(Ordering::Relaxed) && !stopped {
            stopped = true;
            stream.stop();
        }
        if stream.has_ended() {
            if stopped {
                return;
            }
            // Its process has ended, or somebody ended all sessions.
            std::thread::sleep(TICK);
            if again.elapsed() > AGAIN {
                again = Instant::now();
                match open(client, config) {
                    Ok(opened) => stream = opened,
                    Err(error) if error.is_end() => return,
                    Err(error) => tracing::debug!(%error, "no session for triggers"),
                }
            }
            continue;
        }
        if stream.wait(TICK) {
            let now = Instant::now();
            stream
                .pump(&mut |_, event| seen.lock().unwrap_or_else(PoisonError::into_inner).event(event, now));
        }
        stream.cut_if_late();
        seen.lock().unwrap_or_else(PoisonError::into_inner).tick(Instant::now());
    }
}

/// No more than the conditions need.
fn config(conditions: &[DotNetCondition]) -> SessionConfig {
    let mut keywords = 0;
    let (mut requests, mut status) = (false, false);
    let mut sources: Vec<&str> = Vec::new();
    let mut any_counter = false;
    for condition in conditions {
        match condition {
            DotNetCondition::Exception { .. } => keywords |= providers::EXCEPTION,
            // Seen by the signal that ends the process.
            DotNetCondition::Unhandled => {}
            DotNetCondition::Bound { quantity, .. } => match quantity {
                DotNetQuantity::Heap | DotNetQuantity::Generation(_) => keywords |= providers::GC,
                DotNetQuantity::PoolQueue => sources.push("System.Runtime"),
                DotNetQuantity::Request => requests = true,
                DotNetQuantity::Status => status = true,
                DotNetQuantity::Counter { source: Some(source), .. } => sources.push(source),
                DotNetQuantity::Counter { source: None, .. } => any_counter = true,
            },
        }
    }
    let mut providers = Vec::new();
    if keywords != 0 {
        let level =
            if keywords == providers::EXCEPTION { EventLevel::Error } else { EventLevel::Informational };
        providers.push(
            Provider::new(providers::RUNTIME, keywords, level).with_filter(EventFilter::Only(vec![4, 80])),
        );
    }
    if requests {
        providers.push(Provider::new(providers::HOSTING, u64::MAX, EventLevel::Informational));
        providers.push(providers::activities());
    }
    if status {
        providers.push(providers::diagnostic_sources());
    }
    if any_counter {
        sources.extend(providers::COUNTER_SOURCES);
        sources.extend(providers::RATE_SOURCES);
    }
    // Something has to come each second, so that the runtime notices when nobody listens any more.
    if sources.is_empty() {
        providers.push(providers::counters("System.Runtime"));
    }
    sources.sort_unstable();
    sources.dedup();
    if !sources.is_empty() {
        // A provider can be in a session once.
        let fresh: Vec<&str> =
            sources.iter().copied().filter(|name| !providers.iter().any(|one| one.name == *name)).collect();
        for provider in &mut providers {
            if sources.contains(&provider.name.as_str()) {
                *provider = provider.clone().with_arguments("EventCounterIntervalSec=1");
            }
        }
        providers.extend(fresh.into_iter().map(providers::counters));
        let meters = if any_counter { &providers::METERS[..] } else { &[] };
        providers.push(providers::metrics(sources.iter().copied().chain(meters.iter().copied())));
    }
    SessionConfig { buffer_mb: 16, rundown: Rundown::None, stacks: false, providers }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn names(triggers: &[&str]) -> Vec<String> {
        let conditions: Vec<_> = triggers.iter().map(|text| parse(text).unwrap().unwrap()).collect();
        config(&conditions).providers.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn no_more_than_is_needed_and_nothing_twice() {
        assert_eq!(names(&["exception:X", "gc-heap>1G"]), [providers::RUNTIME, "System.Runtime"]);
        assert_eq!(names(&["threadpool-queue>1"]), ["System.Runtime", providers::METRICS]);
        assert_eq!(
            names(&["request>1s", "counter:Microsoft.AspNetCore.Hosting/current-requests>5"]),
            [providers::HOSTING, "System.Threading.Tasks.TplEventSource", providers::METRICS]
        );
        let mut all = names(&["counter:x>1", "request>1s", "request-status>=500", "unhandled-exception"]);
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
