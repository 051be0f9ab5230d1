//! One recording: a command of biopsy in a process of its own.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use biopsy_model::{Pid, ProcessKey};
use biopsy_target::ProcRoot;
use biopsy_target::catch::Arriving;
use biopsy_watch::engine::Fire;
use biopsy_watch::rules::Verb;
use rustix::process::Signal;

use crate::commands::{self, Coming};
use crate::{report, results};

/// Most of what a command says about its failure that is read.
const COMPLAINT: u64 = 64 << 10;

/// A command that runs. Dropping it does not end it: whoever watches asks it to end, or ends himself.
pub(super) struct Worker {
    pub(super) fire: Fire,
    /// What the target is called.
    pub(super) title: String,
    pub(super) output: PathBuf,
    pub(super) begun: Instant,
    child: Child,
    said: File,
    complained: File,
    pub(super) was_asked: bool,
}

/// How it ended.
pub(super) enum Ended {
    /// There is a result.
    Made {
        /// Its size.
        bytes: u64,
        /// The first finding.
        headline: Option<String>,
        /// It has less than was asked for.
        is_partial: bool,
    },
    /// Nothing happened that it waited for, or nothing could be recorded.
    Nothing(String),
    /// Somebody has killed it.
    Killed(String),
}

impl Worker {
    /// Starts it. The folder of its output is there.
    pub(super) fn start(
        program: &Path,
        fire: Fire,
        title: String,
        output: PathBuf,
        more: &[String],
        arriving: Option<Arriving>,
    ) -> std::io::Result<Self> {
        let folder = output.parent().unwrap_or(Path::new("/"));
        let (said, complained) = (tempfile::tempfile_in(folder)?, tempfile::tempfile_in(folder)?);
        let mut command = Command::new(program);
        command.args(["--until-parent-ends".to_owned(), std::process::id().to_string()]);
        command.args(commands::words(&fire.rule.what, &fire.key.pid.to_string(), &fire.triggers));
        if matches!(fire.rule.what.verb, Verb::Capture | Verb::Trace) {
            command.arg("--unattended");
        }
        command.args(more);
        command.args(["--json", "--quiet", "--output"]).arg(&output);
        // Ctrl-C is for the watcher, which asks in its turn: asked twice, a command hurries.
        command.process_group(0).stdin(Stdio::null());
        if let Some(arriving) = arriving {
            command.arg("--at-gate").stdin(holding(arriving, &title)?);
        }
        command.stdout(said.try_clone()?).stderr(complained.try_clone()?);
        let child = command.spawn()?;
        Ok(Self { fire, title, output, begun: Instant::now(), child, said, complained, was_asked: false })
    }

    /// Its process.
    pub(super) fn key(&self) -> Option<ProcessKey> {
        biopsy_target::identity::key_of(&ProcRoot::live(), self.pid())
    }

    /// CPU time that its recorders have used so far, without what is made of a recording afterwards; `None`: none of them runs now.
    pub(super) fn recorder_cpu(&self) -> Option<Duration> {
        /// There as long as something is recorded, as all threads but the first are that belong to it.
        const RECORDER: &str = "biopsy-trace";
        let threads = biopsy_target::usage::threads(&ProcRoot::live(), &self.key()?);
        let runs = threads.iter().any(|(_, name, _)| name == RECORDER);
        let others = threads.iter().filter(|(tid, ..)| tid.0 != self.child.id());
        runs.then(|| others.map(|(.., used)| *used).sum())
    }

    pub(super) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Asks it to end and keep what there is. It is our child, and not waited for yet: its pid is nobody else's.
    pub(super) fn ask(&mut self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // It may be about to end.
            let _ = rustix::process::kill_process(pid, signal);
        }
        self.was_asked = true;
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => Some(status),
            // Somebody else has waited for it.
            Err(_) => None,
        };
        Some(self.outcome(status))
    }

    fn outcome(&mut self, status: Option<ExitStatus>) -> Ended {
        let Ok(meta) = self.output.metadata() else {
            let mut why = self.complaint(status);
            let draft = results::draft_of(&self.output);
            if draft.is_dir() {
                why = format!("{why}; what there is of it is in {}", draft.display());
            }
            let is_killed = !self.was_asked && status.is_some_and(|status| status.signal().is_some());
            return if is_killed { Ended::Killed(why) } else { Ended::Nothing(why) };
        };
        let is_partial = status.and_then(|status| status.code()) != Some(0);
        Ended::Made { bytes: meta.len(), headline: self.headline(), is_partial }
    }

    fn headline(&mut self) -> Option<String> {
        self.said.seek(SeekFrom::Start(0)).ok()?;
        report::headline(BufReader::new(&self.said))
    }

    fn complaint(&mut self, status: Option<ExitStatus>) -> String {
        let mut text = Vec::new();
        // Without it the status has to do.
        let _ = self.complained.seek(SeekFrom::Start(0));
        let _ = (&self.complained).take(COMPLAINT).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|line| {
            line.strip_prefix("error: ").or_else(|| line.strip_prefix("nothing was ").map(|_| line))
        });
        match (line, status) {
            (Some(line), _) => line.to_owned(),
            (None, Some(status)) => format!("nothing was made, and the command said nothing ({status})"),
            (None, None) => "nothing was made".to_owned(),
        }
    }
}

/// What a command reads that is to take over a program at its start. It goes on when the command says so there, or ends.
fn holding(arriving: Arriving, title: &str) -> std::io::Result<OwnedFd> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let glance = &arriving.glance;
    let coming =
        Coming { name: title.to_owned(), exe: glance.exe.clone(), arguments: glance.arguments.clone() };
    let mut line = serde_json::to_vec(&coming)?;
    line.push(b'\n');
    let wait = move || {
        // More than a socket keeps goes when it is read; who has ended reads nothing.
        let _ = ours.write_all(&line).and_then(|()| ours.read(&mut [0]));
        drop(arriving);
    };
    std::thread::Builder::new().name("holds-a-start".to_owned()).stack_size(64 << 10).spawn(wait)?;
    Ok(theirs.into())
}
