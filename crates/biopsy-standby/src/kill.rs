//! Ends processes of a kind in order, so that new ones start watched.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_capture::{Failure, FailureKind};
use biopsy_watch::Observed;
use biopsy_watch::kinds::Kinds;
use biopsy_watch::settings::{CommandCheck, meant};
use rustix::process::Signal;

use crate::journal::{gone_within, signal};
use crate::observed::{Eyes, unseen};
use crate::settings;

/// How long a process has to end once it was asked its own way, and by SIGTERM.
const ASKED: Duration = Duration::from_secs(10);
/// The kernel ends it; that takes as long as its memory takes to be given back.
const KILLED: Duration = Duration::from_secs(10);
/// Longest environment that is handed on.
const ENVIRONMENT: u64 = 2 << 20;

/// A process of the kind, and what became of it.
#[derive(Debug)]
pub struct Killed {
    /// The process.
    pub process: Observed,
    /// In words.
    pub how: &'static str,
    /// It is there, and was to end.
    pub is_left: bool,
}

/// What became of the processes of a kind.
#[derive(Debug)]
pub struct Kills {
    /// Those of this user; of root all.
    pub mine: Vec<Killed>,
    /// How many of others there are, which were left alone.
    pub others: usize,
}

/// Ends processes of a kind. `force`: those that do not end when they are asked are killed. `dry_run`: none is asked.
///
/// # Errors
/// There is no such kind.
pub fn kill(kind: &str, force: bool, dry_run: bool, command: CommandCheck<'_>) -> Result<Kills, Failure> {
    // Kinds of one's own are wanted; that settings are wrong is no reason not to end a compiler.
    let kinds =
        settings::load(None, command).map_or_else(|_| Kinds::shipped(), |loaded| loaded.settings.kinds);
    if kinds.knows(kind) != Some(true) {
        let names: Vec<&str> = kinds.names().filter(|name| kinds.knows(name) == Some(true)).collect();
        let message = format!("there is no kind `{kind}` of processes here");
        return Err(Failure::new(FailureKind::Usage, message).with_hint(Some(meant(kind, &names))));
    }
    let me = rustix::process::geteuid();
    let mut eyes = Eyes::open(kinds.ask_for_parents());
    let own = biopsy_model::Pid(std::process::id());
    let all = eyes.all().map_err(|error| unseen(&error))?;
    let of_kind = all.into_iter().filter(|process| process.key.pid != own && kinds.is(kind, process));
    let (mine, others): (Vec<_>, Vec<_>) =
        of_kind.partition(|process| me.is_root() || process.uid == me.as_raw());
    let end = |process: Observed| {
        let how = if dry_run { How::Asked("would be asked to end") } else { end(&process, force) };
        let is_left = matches!(how, How::Not(_));
        let (How::Asked(how) | How::Not(how)) = how;
        Killed { process, how, is_left }
    };
    Ok(Kills { mine: mine.into_iter().map(end).collect(), others: others.len() })
}

enum How {
    Asked(&'static str),
    Not(&'static str),
}

fn end(process: &Observed, force: bool) -> How {
    if ask_its_own_way(process) && gone_within(&process.key, ASKED) {
        return How::Asked("ended by itself, as its own command for that asked it to");
    }
    match signal(&process.key, Signal::TERM) {
        Ok(false) => return How::Asked("had ended"),
        Ok(true) if gone_within(&process.key, ASKED) => return How::Asked("ended in order, at SIGTERM"),
        Ok(true) => {}
        Err(_) => return How::Not("could not be asked"),
    }
    if !force {
        return How::Not("did not end within 10 s; `--force` kills it");
    }
    match signal(&process.key, Signal::KILL) {
        Ok(_) if gone_within(&process.key, KILLED) => How::Asked("was killed"),
        Ok(_) | Err(_) => How::Not("could not be killed"),
    }
}

/// The compiler server ends what it compiles and then itself when its own program is run again with `-shutdown`; so does what has its name.
/// Only of our own user and in our own file system: a program of somebody else's is not run with our rights, and root of a container is somebody
/// else, whose paths and environment lead elsewhere here.
fn ask_its_own_way(process: &Observed) -> bool {
    let is_server = [process.entry.as_deref().unwrap_or_default(), &process.exe].iter().any(|name| {
        name.rsplit('/').next().is_some_and(|file| file.trim_end_matches(".dll") == "VBCSCompiler")
    });
    let is_mine = process.uid == rustix::process::geteuid().as_raw() && shares_namespaces(process);
    if !is_server || !is_mine || process.exe.is_empty() {
        return false;
    }
    let mut command = Command::new(&process.exe);
    command.args(process.arguments.iter().skip(1)).arg("-shutdown");
    command.env_clear().envs(environment(process));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begin.elapsed() < ASKED => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => break,
        }
    }
    // It hangs as well, and is ours.
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// Whether it sees the same files, processes and users as we do.
fn shares_namespaces(process: &Observed) -> bool {
    ["mnt", "pid", "user"].iter().all(|kind| {
        let of = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/{kind}")).ok();
        let own = of("self");
        own.is_some() && own == of(&process.key.pid.to_string())
    })
}

/// The environment that it was started with: its pipe is found by it.
fn environment(process: &Observed) -> BTreeMap<OsString, OsString> {
    let mut bytes = Vec::new();
    use std::io::Read;
    let read = std::fs::File::open(format!("/proc/{}/environ", process.key.pid))
        .and_then(|file| file.take(ENVIRONMENT).read_to_end(&mut bytes));
    if read.is_err() || !biopsy_target::is_same(&process.key) {
        return BTreeMap::new();
    }
    let pair = |entry: &[u8]| {
        let at = entry.iter().position(|&byte| byte == b'=').filter(|at| *at > 0)?;
        Some((OsString::from_vec(entry[..at].to_vec()), OsString::from_vec(entry[at + 1..].to_vec())))
    };
    bytes.split(|&byte| byte == 0).filter_map(pair).collect()
}
