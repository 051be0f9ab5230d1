//! All triggers of a watch, and whether one of them is due.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_model::ProcessKey;
use biopsy_target::catch::Cause;

use super::comparison::{Quantity, Resource};
use super::dotnet::{DotNetCondition, Listener, Seen};
use super::error::WatchError;
use super::hang::Hang;
use super::latch::{Again, Latch};
use super::log_tail::LogTail;
use super::quantity::duration_text;
use super::reading::Reading;
use super::trigger::Trigger;

/// What has come true.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) trigger: Trigger,
    pub(super) reason: String,
    pub(super) value: Option<f64>,
    pub(super) line: Option<Vec<u8>>,
}

#[derive(Debug)]
enum State {
    /// The process is held at it: no reading tells.
    Traced,
    Bound(Latch),
    Hang(Hang, Latch),
    Log {
        tails: Vec<LogTail>,
        waiting: Option<(Vec<u8>, PathBuf)>,
    },
    After {
        begun: Instant,
    },
    /// What its events have shown; by the place of the condition there.
    DotNet {
        seen: Arc<Mutex<Seen>>,
        at: usize,
        latch: Latch,
    },
}

/// The triggers of one watch with what they remember.
#[derive(Debug)]
pub(super) struct Conditions {
    all: Vec<(Trigger, State)>,
    warnings: Vec<String>,
    /// The session that triggers of .NET listen to; it ends with this.
    _listener: Option<Listener>,
}

impl Conditions {
    pub(super) fn new(
        key: &ProcessKey,
        triggers: Vec<Trigger>,
        again: Again,
        now: Instant,
    ) -> Result<Self, WatchError> {
        let mut warnings = Vec::new();
        let mut all = Vec::new();
        let listener = listen(key, &triggers)?;
        let mut of_dotnet = 0;
        for trigger in triggers {
            let state = match &trigger {
                Trigger::Exit
                | Trigger::Failure
                | Trigger::Crash
                | Trigger::DotNet(DotNetCondition::Unhandled) => State::Traced,
                Trigger::DotNet(condition) => {
                    let lasting = match condition {
                        DotNetCondition::Bound { lasting, .. } => *lasting,
                        _ => Duration::ZERO,
                    };
                    of_dotnet += 1;
                    match &listener {
                        Some(listener) => State::DotNet {
                            seen: listener.seen(),
                            at: of_dotnet - 1,
                            latch: Latch::new(lasting, again),
                        },
                        None => State::Traced,
                    }
                }
                Trigger::Bound { lasting, .. } => State::Bound(Latch::new(*lasting, again)),
                Trigger::Hang { lasting } => {
                    if biopsy_files::read_kernels(format!("/proc/{}/syscall", key.pid)).is_err() {
                        warnings.push(format!(
                            "`{trigger}` finds no deadlocks: what the threads of process {} wait for may not be read",
                            key.pid
                        ));
                    }
                    State::Hang(Hang::new(key.pid.0, *lasting), Latch::new(Duration::ZERO, again))
                }
                Trigger::Log { path, .. } => State::Log { tails: tails(key, path.as_ref())?, waiting: None },
                Trigger::After { .. } => State::After { begun: now },
            };
            all.push((trigger, state));
        }
        Ok(Self { all, warnings, _listener: listener })
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The trigger that holds a process for this cause; the one that says most about it.
    pub(super) fn trigger_of(&self, cause: Cause) -> Option<Trigger> {
        let by_signal = matches!(cause, Cause::Signal { .. } | Cause::Killed { .. });
        let failed = by_signal || !matches!(cause, Cause::Exit { code: 0 });
        let rank = |trigger: &Trigger| match trigger {
            Trigger::Crash if by_signal => Some(0),
            Trigger::Failure if failed => Some(1),
            Trigger::Exit => Some(2),
            Trigger::DotNet(DotNetCondition::Unhandled) if is_abort(cause) => Some(0),
            _ => None,
        };
        let found = self.all.iter().filter_map(|(trigger, _)| Some((rank(trigger)?, trigger)));
        found.min_by_key(|(rank, _)| *rank).map(|(_, trigger)| trigger.clone())
    }

    /// Takes a reading. The first trigger that is due fires, if enough time has passed since the last firing; the others
    /// stay due.
    pub(super) fn read(&mut self, reading: &Reading, spaced: bool) -> Option<Due> {
        let mut found = None;
        for (trigger, state) in &mut self.all {
            let may_fire = spaced && found.is_none();
            let due = state.read(trigger, reading, may_fire, &mut self.warnings);
            found = found.or(due);
        }
        found
    }
}

impl State {
    /// Whether it is due; when it may fire, it has fired then.
    fn read(
        &mut self,
        trigger: &Trigger,
        reading: &Reading,
        may_fire: bool,
        warnings: &mut Vec<String>,
    ) -> Option<Due> {
        let due = |reason: String, value| Due { trigger: trigger.clone(), reason, value, line: None };
        match (self, trigger) {
            (State::Bound(latch), Trigger::Bound { quantity, comparison, bound, lasting }) => {
                let value = reading.of(*quantity);
                let holds = value.map(|value| comparison.holds(value, *bound));
                if !latch.is_due(reading.at, holds) || !may_fire {
                    return None;
                }
                latch.fired();
                let last = value.map_or_else(String::new, |value| quantity.value_text(value));
                let bound = quantity.value_text(*bound);
                let (what, sign) = (noun(*quantity), comparison.sign());
                Some(due(
                    match lasting.is_zero() {
                        true => format!("{what} {sign} {bound}: {last}"),
                        false => {
                            format!("{what} {sign} {bound} for {}, last {last}", duration_text(*lasting))
                        }
                    },
                    value,
                ))
            }
            (State::Hang(hang, latch), Trigger::Hang { lasting }) => {
                let why = hang.look(reading.at);
                if !latch.is_due(reading.at, Some(why.is_some())) || !may_fire {
                    return None;
                }
                latch.fired();
                why.map(|why| due(format!("nothing moved for {}: {why}", duration_text(*lasting)), None))
            }
            (State::Log { tails, waiting }, Trigger::Log { pattern, .. }) => {
                for tail in tails {
                    let path = tail.path().to_owned();
                    let result = tail.read(|line| {
                        if waiting.is_none() && pattern.is_match(line) {
                            *waiting = Some((line.to_vec(), path.clone()));
                        }
                        true
                    });
                    if let Err(error) = result {
                        let warning = format!("`{}` cannot be read: {error}", path.display());
                        if !warnings.contains(&warning) {
                            warnings.push(warning);
                        }
                    }
                }
                let (line, path) = if may_fire { waiting.take()? } else { return None };
                let reason = format!("a line of `{}` matches `{pattern}`", path.display());
                Some(Due { line: Some(line), ..due(reason, None) })
            }
            (State::After { begun }, Trigger::After { duration }) => {
                if !may_fire || reading.at.duration_since(*begun) < *duration {
                    return None;
                }
                *begun = reading.at;
                Some(due(format!("{} have passed", duration_text(*duration)), None))
            }
            (State::DotNet { seen, at, latch }, Trigger::DotNet(condition)) => {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if let DotNetCondition::Bound { quantity, comparison, bound, lasting } = condition
                    && !quantity.is_event()
                {
                    let value = seen.value(quantity, reading.at);
                    let holds = value.map(|value| comparison.holds(value, *bound));
                    if !latch.is_due(reading.at, holds) || !may_fire {
                        return None;
                    }
                    latch.fired();
                    let last = value.map_or_else(String::new, |value| quantity.value_text(value));
                    let (what, sign, bound) =
                        (quantity.noun(), comparison.sign(), quantity.value_text(*bound));
                    let reason = match lasting.is_zero() {
                        true => format!("{what} {sign} {bound}: {last}"),
                        false => {
                            format!("{what} {sign} {bound} for {}, last {last}", duration_text(*lasting))
                        }
                    };
                    return Some(due(reason, value));
                }
                if !may_fire {
                    return None;
                }
                let hit = seen.take_hit(*at)?;
                let reason = match condition {
                    DotNetCondition::Exception { .. } => format!("exception thrown: {}", hit.reason),
                    _ => hit.reason,
                };
                Some(due(reason, hit.value))
            }
            _ => None,
        }
    }
}

/// Opens the session for triggers of .NET. The end of a process is seen without.
fn listen(key: &ProcessKey, triggers: &[Trigger]) -> Result<Option<Listener>, WatchError> {
    let listened = |trigger: &Trigger| match trigger {
        Trigger::DotNet(DotNetCondition::Unhandled) => None,
        Trigger::DotNet(condition) => Some(condition.clone()),
        _ => None,
    };
    let all: Vec<DotNetCondition> = triggers.iter().filter_map(listened).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let started = Listener::start(key.pid, all);
    started.map(Some).map_err(|source| WatchError::DotNet { key: key.clone(), source })
}

/// The runtime ends its process by this signal when nobody catches an exception, and when an application fails fast.
fn is_abort(cause: Cause) -> bool {
    const SIGABRT: i32 = 6;
    matches!(cause, Cause::Signal { signal: SIGABRT })
}

fn noun(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Cpu => "CPU",
        Quantity::Memory => "resident memory",
        Quantity::Growth => "growth of resident memory",
        Quantity::Threads => "threads",
        Quantity::Descriptors => "open descriptors",
        Quantity::Pressure(Resource::Cpu) => "CPU pressure",
        Quantity::Pressure(Resource::Memory) => "memory pressure",
        Quantity::Pressure(Resource::Io) => "I/O pressure",
    }
}

/// The files to follow.
fn tails(key: &ProcessKey, path: Option<&PathBuf>) -> Result<Vec<LogTail>, WatchError> {
    if let Some(path) = path {
        // One that is not there yet may come; one that cannot be read never fires.
        return match biopsy_files::open(path, biopsy_files::Links::Follow).map_err(std::io::Error::from) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(WatchError::Log { path: path.clone(), source })
            }
            _ => Ok(vec![LogTail::new(path.clone())]),
        };
    }
    let mut tails: Vec<LogTail> = Vec::new();
    let mut seen = Vec::new();
    for descriptor in [1, 2] {
        // Opened through the process: it may be a file of a container, or one without a name.
        let path = PathBuf::from(format!("/proc/{}/fd/{descriptor}", key.pid));
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let identity =
            (std::os::unix::fs::MetadataExt::dev(&metadata), std::os::unix::fs::MetadataExt::ino(&metadata));
        if metadata.is_file() && !seen.contains(&identity) {
            seen.push(identity);
            tails.push(LogTail::new(path));
        }
    }
    if tails.is_empty() { Err(WatchError::NoOutputFile { key: key.clone() }) } else { Ok(tails) }
}

#[cfg(test)]
mod tests {
    use biopsy_model::{BootId, Pid};

    use super::*;

    fn conditions(texts: &[&str], again: Again) -> Conditions {
        let key = ProcessKey { boot_id: BootId::default(), pid: Pid(std::process::id()), start_ticks: 1 };
        let triggers = texts.iter().map(|text| Trigger::parse(text).unwrap()).collect();
        Conditions::new(&key, triggers, again, Instant::now()).unwrap()
    }

    /// What fires at which second, for these values of CPU and memory (in MiB), with spacing in seconds.
    fn run(conditions: &mut Conditions, every: u64, values: &[(f64, f64)]) -> Vec<(u64, String)> {
        let start = Instant::now();
        let mut last = None;
        let mut fired = Vec::new();
        for (second, (cpu, memory)) in (0_u64..).zip(values) {
            let reading = Reading {
                at: start + Duration::from_secs(second),
                cpu: Some(*cpu),
                memory: Some(memory * 1024.0 * 1024.0),
                growth: None,
                threads: Some(3.0),
                descriptors: None,
                pressure: [None; 3],
            };
            let spaced = last.is_none_or(|last| second - last >= every);
            if let Some(due) = conditions.read(&reading, spaced) {
                last = Some(second);
                fired.push((second, due.reason));
            }
        }
        fired
    }

    #[test]
    fn reasons_in_words() {
        let mut all = conditions(&["cpu>90%:2s"], Again::AfterFalse);
        let fired = run(&mut all, 0, &[(95.0, 0.0), (95.0, 0.0), (97.31, 0.0)]);
        assert_eq!(fired, [(2, "CPU > 90% for 2s, last 97.3%".to_owned())]);
        let mut all = conditions(&["memory>=1536M"], Again::AfterFalse);
        let fired = run(&mut all, 0, &[(0.0, 100.0), (0.0, 2048.0)]);
        assert_eq!(fired, [(1, "resident memory >= 1.5 GiB: 2.0 GiB".to_owned())]);
        let mut all = conditions(&["threads<5"], Again::AfterFalse);
        assert_eq!(run(&mut all, 0, &[(0.0, 0.0)]), [(0, "threads < 5: 3".to_owned())]);
    }

    #[test]
    fn what_cannot_be_read_never_fires() {
        let mut all = conditions(&["fds<1000000"], Again::AfterFalse);
        assert_eq!(run(&mut all, 0, &[(0.0, 0.0); 3]), []);
    }

    #[test]
    fn spacing_delays_and_loses_nothing() {
        let mut all = conditions(&["cpu>90%", "memory>1G"], Again::AfterFalse);
        let values = [(99.0, 2000.0), (99.0, 2000.0), (99.0, 2000.0), (99.0, 2000.0)];
        let seconds: Vec<u64> = run(&mut all, 3, &values).into_iter().map(|(second, _)| second).collect();
        assert_eq!(seconds, [0, 3], "both at once: the second one when it may");
        let mut all = conditions(&["memory>1G"], Again::WhileTrue);
        let seconds: Vec<u64> =
            run(&mut all, 2, &[(0.0, 2000.0); 6]).into_iter().map(|(second, _)| second).collect();
        assert_eq!(seconds, [0, 2, 4]);
    }

    #[test]
    fn after_a_time() {
        let mut all = conditions(&["after:2s"], Again::AfterFalse);
        let seconds: Vec<u64> =
            run(&mut all, 0, &[(0.0, 0.0); 8]).into_iter().map(|(second, _)| second).collect();
        assert_eq!(seconds.first().map(|second| second / 4), Some(0));
        assert!(seconds.len() >= 2, "and again after the same time: {seconds:?}");
    }

    #[test]
    fn lines_that_match_wait_for_their_turn() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = fs::File::create(&path).unwrap();
        writeln!(log, "ERROR of before").unwrap();
        let mut all = conditions(&[&format!("log:{}:ERROR [0-9]+", path.display())], Again::AfterFalse);
        writeln!(log, "all is well\nERROR 17 happened").unwrap();
        let reading = Reading {
            at: Instant::now(),
            cpu: None,
            memory: None,
            growth: None,
            threads: None,
            descriptors: None,
            pressure: [None; 3],
        };
        assert!(all.read(&reading, false).is_none());
        let due = all.read(&reading, true).unwrap();
        assert_eq!(due.line.as_deref(), Some(&b"ERROR 17 happened"[..]));
        assert_eq!(due.reason, format!("a line of `{}` matches `ERROR [0-9]+`", path.display()));
        assert!(all.read(&reading, true).is_none());
    }

    #[test]
    fn the_trigger_that_says_most() {
        let all = conditions(&["exit", "exit!=0", "crash", "cpu>1%"], Again::AfterFalse);
        let name = |cause| all.trigger_of(cause).unwrap().to_string();
        assert_eq!(name(Cause::Exit { code: 0 }), "exit");
        assert_eq!(name(Cause::Exit { code: 2 }), "exit!=0");
        assert_eq!(name(Cause::Signal { signal: 11 }), "crash");
        assert_eq!(name(Cause::Killed { signal: 9 }), "crash");
        let none = conditions(&["cpu>1%"], Again::AfterFalse).trigger_of(Cause::Exit { code: 0 });
        assert!(none.is_none());
    }
}
