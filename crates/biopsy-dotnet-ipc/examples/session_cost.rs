//! What sessions of events cost a server that answers: `session_cost PID PORT PATH CONNECTIONS SECONDS ROUNDS VARIANT...`.
//!
//! Asks over so many connections without a break, and measures windows of so many seconds in turn without and with each
//! variant: requests a second and CPU of the process per request, each as the ratio to the windows without around it.
//! A variant is `NAME=SESSION+SESSION...`, a session `STACKS/PROVIDER/PROVIDER...` (`STACKS` 0 or 1), a provider
//! `NAME:KEYWORDS (hex):LEVEL:ARGUMENTS:FILTER`, where a filter is `=1,2` (these) or `-1,2` (all but these); or
//! `NAME=!COMMAND`, a shell command with `{pid}` that is interrupted at the end of its window.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![expect(clippy::print_stdout, reason = "this is what it is for")]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use biopsy_dotnet::nettrace::{Limits, Reader};
use biopsy_dotnet_ipc::{Client, EventFilter, EventLevel, Provider, Rundown, SessionConfig, SessionControl};
use biopsy_model::Pid;
use biopsy_testkit::{Askers, Window};

type Failure = Box<dyn std::error::Error>;
/// Events by provider, id and name.
type Counts = BTreeMap<(String, u32, String), u64>;

/// Attaching is no part of a window.
const SETTLE: Duration = Duration::from_millis(1500);
/// Nor is what comes right behind an end.
const REST: Duration = Duration::from_secs(2);
/// Compiles what is hot at its last tier.
const WARM_UP: Duration = Duration::from_secs(10);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pid, port, path, connections, seconds, rounds, variants @ ..] = &arguments[..] else {
        return Err("usage: session_cost PID PORT PATH CONNECTIONS SECONDS ROUNDS VARIANT...".into());
    };
    let (pid, seconds): (u32, f64) = (pid.parse()?, seconds.parse()?);
    let askers = Askers::start(port.parse()?, path, connections.parse()?, false);
    std::thread::sleep(WARM_UP);
    let window = Duration::from_secs_f64(seconds);
    let measure = || askers.window(pid, window);
    let mut results: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut without = vec![measure()];
    for round in 0..rounds.parse::<usize>()? {
        for at in 0..variants.len() {
            let variant = &variants[(at + round) % variants.len()];
            let (name, what) = variant.split_once('=').ok_or("a variant is NAME=WHAT")?;
            let running = Running::start(pid, what)?;
            std::thread::sleep(SETTLE);
            let with = measure();
            let seen = running.stop()?;
            std::thread::sleep(REST);
            let before = without[without.len() - 1];
            let after = measure();
            without.push(after);
            let ratio = |of: fn(&Window) -> f64| of(&with) * 2.0 / (of(&before) + of(&after));
            results
                .entry(name)
                .or_default()
                .push((ratio(|window| window.per_second), ratio(|window| window.cpu_per_request)));
            for (key, count) in seen {
                *counts.entry(name).or_default().entry(key).or_default() += count;
            }
        }
    }
    drop(askers.stop());
    let of = |value: fn(&Window) -> f64| quartiles(without.iter().map(value).collect());
    println!(
        "without: {} requests/s; CPU us per request {}",
        of(|w| w.per_second),
        of(|w| w.cpu_per_request * 1e6)
    );
    for (name, ratios) in &results {
        let rate = quartiles(ratios.iter().map(|(rate, _)| *rate).collect());
        let cpu = quartiles(ratios.iter().map(|(_, cpu)| *cpu).collect());
        println!("{name:<24} rate {rate}   CPU per request {cpu}");
        #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
        let total = ratios.len() as f64 * (seconds + SETTLE.as_secs_f64());
        let mut seen: Vec<_> = counts.get(name).into_iter().flatten().collect();
        seen.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for ((provider, id, event), count) in seen.into_iter().take(12) {
            #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
            let rate = *count as f64 / total;
            println!("    {rate:>10.1}/s {provider} {id} {event}");
        }
    }
    Ok(())
}

/// Median with the quartiles.
fn quartiles(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: usize| values[(values.len() - 1) * share / 4];
    format!("{:.3} ({:.3} to {:.3})", at(2), at(1), at(3))
}

/// A variant that is on.
enum Running {
    Sessions(Vec<(SessionControl, JoinHandle<Counts>)>),
    Command(Child),
}

impl Running {
    fn start(pid: u32, what: &str) -> Result<Self, Failure> {
        if let Some(command) = what.strip_prefix('!') {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &format!("exec {}", command.replace("{pid}", &pid.to_string()))]);
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            return Ok(Self::Command(shell.spawn()?));
        }
        let client = Client::of(Pid(pid))?;
        let mut sessions = Vec::new();
        for text in what.split('+').filter(|text| !text.is_empty()) {
            let session = client.start_session(&config(text)?)?;
            let control = session.control()?;
            sessions.push((control, std::thread::spawn(move || count(session))));
        }
        Ok(Self::Sessions(sessions))
    }

    fn stop(self) -> Result<Counts, Failure> {
        let mut all = Counts::new();
        match self {
            Self::Sessions(sessions) => {
                for (control, thread) in sessions {
                    control.stop(Duration::from_secs(20))?;
                    for (key, count) in thread.join().unwrap_or_default() {
                        *all.entry(key).or_default() += count;
                    }
                }
            }
            Self::Command(mut child) => {
                if let Some(status) = child.try_wait()? {
                    return Err(format!("the command of a variant has ended already, with {status}").into());
                }
                Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
                let status = child.wait()?;
                if status.code().is_some_and(|code| code != 0) {
                    return Err(format!("the command of a variant ended with {status}").into());
                }
            }
        }
        Ok(all)
    }
}

fn count(session: biopsy_dotnet_ipc::Session) -> Counts {
    let mut counts = Counts::new();
    let Ok(mut reader) = Reader::new(session, &Limits::default()) else { return counts };
    while let Ok(Some(event)) = reader.next_event() {
        let metadata = event.metadata;
        *counts.entry((metadata.provider.clone(), metadata.id, metadata.name.clone())).or_default() += 1;
    }
    counts
}

fn config(text: &str) -> Result<SessionConfig, Failure> {
    let (stacks, rest) = text.split_once('/').ok_or("a session is STACKS/PROVIDER...")?;
    let providers: Result<Vec<Provider>, Failure> = rest.split('/').map(provider).collect();
    Ok(SessionConfig { buffer_mb: 64, rundown: Rundown::None, stacks: stacks == "1", providers: providers? })
}

fn provider(text: &str) -> Result<Provider, Failure> {
    let mut parts = text.splitn(5, ':');
    let name = parts.next().unwrap_or_default();
    let keywords = u64::from_str_radix(parts.next().unwrap_or("ffffffffffffffff"), 16)?;
    let level = match parts.next() {
        Some("0") => EventLevel::LogAlways,
        Some("1") => EventLevel::Critical,
        Some("2") => EventLevel::Error,
        Some("3") => EventLevel::Warning,
        Some("5") => EventLevel::Verbose,
        _ => EventLevel::Informational,
    };
    let mut provider = Provider::new(name, keywords, level);
    if let Some(arguments) = parts.next() {
        provider = provider.with_arguments(arguments);
    }
    let ids = |list: &str| list.split(',').filter_map(|id| id.parse().ok()).collect();
    Ok(match parts.next().map(|filter| filter.split_at(1)) {
        Some(("=", list)) => provider.with_filter(EventFilter::Only(ids(list))),
        Some(("-", list)) => provider.with_filter(EventFilter::Without(ids(list))),
        _ => provider,
    })
}
