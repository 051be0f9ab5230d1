//! The recorders that are compared, each started and stopped in its own way.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{Signal, proc_usage, send_signal};

use super::facts;
use crate::run::{Outcome, output_of};

/// Version that is measured: the newest released.
const SAMPLY: &str = "0.13.1";
/// A recorder that takes longer to stop is killed, and its run is an error.
const STOP_WITHIN: Duration = Duration::from_secs(180);

/// Where the programs are.
#[derive(Debug)]
pub(crate) struct Tools {
    /// The release program.
    pub(crate) biopsy: PathBuf,
    /// Debian's perf.
    pub(crate) perf: Option<PathBuf>,
    /// samply.
    pub(crate) samply: Option<PathBuf>,
}

/// What records, if anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Nothing does.
    None,
    /// biopsy with stacks, thread states and wake-ups, without stacks of waits.
    States,
    /// biopsy as it is by default, with budgeted stacks of waits.
    WaitStacks,
    /// biopsy that keeps the last minutes in memory.
    Recent,
    /// `perf record -F 999 -g -p`.
    Perf,
    /// `samply record -r 999 -p`.
    Samply,
}

impl Kind {
    /// What it is called on the command line.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::States => "states",
            Self::WaitStacks => "biopsy",
            Self::Recent => "recent",
            Self::Perf => "perf",
            Self::Samply => "samply",
        }
    }

    /// Heading.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::States => "biopsy, no wait stacks",
            Self::WaitStacks => "biopsy",
            Self::Recent => "biopsy, last minutes",
            Self::Perf => "perf -p",
            Self::Samply => "samply -p",
        }
    }
}

/// A recorder at work.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    started: Instant,
    output: PathBuf,
    log: PathBuf,
    kind: Kind,
}

/// What it did.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct Record {
    /// From SIGINT to its exit, seconds.
    pub(crate) stop_seconds: f64,
    /// Most memory resident, MB.
    pub(crate) memory_mb: f64,
    /// Bytes it left on disk.
    pub(crate) bytes: u64,
    /// How long it recorded.
    pub(crate) seconds: f64,
    /// What it left.
    #[serde(skip)]
    pub(crate) output: PathBuf,
}

/// Starts the recorder on `pid`, writing below `folder`. `None` for [`Kind::None`].
pub(crate) fn start(tools: &Tools, kind: Kind, pid: u32, folder: &Path) -> Outcome<Option<Running>> {
    let pid = pid.to_string();
    let missing = || format!("{} is missing", kind.name());
    let (mut command, output) = match kind {
        Kind::None => return Ok(None),
        Kind::States | Kind::WaitStacks => {
            let output = folder.join("trace.zip");
            let mut command = Command::new(&tools.biopsy);
            command.args(["trace", &pid, "--for", "1h", "--quiet", "--output"]).arg(&output);
            if kind == Kind::States {
                command.arg("--no-wait-stacks");
            }
            (command, output)
        }
        Kind::Recent => {
            let output = folder.join("recent.zip");
            let mut command = Command::new(&tools.biopsy);
            command.args(["recent", "10m", &pid, "--quiet", "--output"]).arg(&output);
            command.env("XDG_STATE_HOME", folder);
            (command, output)
        }
        Kind::Perf => {
            let output = folder.join("perf.data");
            let mut command = Command::new(tools.perf.as_ref().ok_or_else(missing)?);
            command.args(["record", "-F", "999", "-g", "-p", &pid, "-o"]).arg(&output);
            (command, output)
        }
        Kind::Samply => {
            let output = folder.join("profile.json.gz");
            let mut command = samply_command(tools.samply.as_ref().ok_or_else(missing)?, folder)?;
            command.args(["record", "--save-only", "-r", "999", "-p", &pid, "-o"]).arg(&output);
            (command, output)
        }
    };
    let log = folder.join("recorder.log");
    let file =
        std::fs::File::create(&log).map_err(|error| format!("cannot make `{}`: {error}", log.display()))?;
    let copy = file.try_clone().map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(file).stderr(copy);
    let child = command.spawn().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    Ok(Some(Running { child, started: Instant::now(), output, log, kind }))
}

impl Running {
    /// CPU seconds it has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        proc_usage::cpu_seconds(self.child.id())
    }

    /// Stops it and waits for its result.
    ///
    /// One that has ended by itself with a result, because its target ended, is fine too; its memory is not known then.
    pub(crate) fn stop(mut self) -> Outcome<Record> {
        let pid = self.child.id();
        let mut record = Record { output: self.output.clone(), ..Record::default() };
        let asked = Instant::now();
        record.seconds = asked.duration_since(self.started).as_secs_f64();
        if !proc_usage::is_zombie(pid) {
            send_signal(pid, Signal::INT);
        }
        // Memory and end are looked at while it is still there: a zombie has no memory.
        while !proc_usage::is_zombie(pid) {
            record.memory_mb = record.memory_mb.max(proc_usage::peak_memory_mb(pid));
            if asked.elapsed() > STOP_WITHIN {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(self.failed("did not stop"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        record.stop_seconds = asked.elapsed().as_secs_f64();
        let status = self.child.wait().map_err(|error| error.to_string())?;
        record.bytes = proc_usage::bytes_on_disk(&self.output);
        if record.bytes == 0 && self.kind != Kind::Recent {
            return Err(self.failed(&format!("left no result and ended with {status}")));
        }
        Ok(record)
    }

    fn failed(&self, how: &str) -> String {
        let said = std::fs::read(&self.log).unwrap_or_default();
        let end = String::from_utf8_lossy(&said[said.len().saturating_sub(1500)..]).into_owned();
        format!("{} {how}: {end}", self.kind.name())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Debian's perf, if it is there and has a binary for this kernel's tools.
pub(crate) fn find_perf() -> Option<PathBuf> {
    let works = Command::new("perf").arg("--version").output().is_ok_and(|output| output.status.success());
    works.then(|| PathBuf::from("perf"))
}

/// The samply given, or one built once into `folder`.
pub(crate) fn find_samply(given: Option<&Path>, folder: &Path) -> Option<PathBuf> {
    if let Some(path) = given {
        return path.exists().then(|| path.to_path_buf());
    }
    let root = folder.join("samply");
    let program = root.join("bin/samply");
    if !program.exists() {
        println!("building samply {SAMPLY}, once ...");
        let mut install =
            crate::run::cargo(&["install", "samply", "--version", SAMPLY, "--locked", "--root"]);
        // Peers are built for themselves: with our build's flags and folder they would not be what people run.
        install.arg(&root).env_remove("RUSTFLAGS").env("CARGO_TARGET_DIR", folder.join("samply-build"));
        if let Err(error) = output_of(&mut install) {
            println!("note: {error}");
        }
    }
    program.exists().then_some(program)
}

/// samply 0.13.1 takes the failure of hardware events on a machine without a PMU for a missing permission and refuses to start. Where
/// there is none it runs in a mount namespace of its own in which `perf_event_paranoid` shows 1.
fn samply_command(samply: &Path, folder: &Path) -> Outcome<Command> {
    if facts::has_pmu() {
        return Ok(Command::new(samply));
    }
    let shown = folder.join("perf_event_paranoid");
    std::fs::write(&shown, "1\n").map_err(|error| format!("cannot write `{}`: {error}", shown.display()))?;
    let script = "mount --bind \"$1\" /proc/sys/kernel/perf_event_paranoid && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(shown).arg(samply);
    Ok(command)
}
