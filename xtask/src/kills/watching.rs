//! The watcher is killed at random moments, with the wall clock set by a year meanwhile, and after a start of the machine that is
//! simulated: nothing is on afterwards, and the server that was recorded is as it was.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use biopsy_testkit::{Signal, Survival, TempDir, send_signal, temp_dir};

use super::left::strange_files;
use super::servers::{self, Server};
use crate::observe::{is_traced, until_within};
use crate::run::Outcome;

/// The longest moment at which it is killed: by then its captures have made their reports.
const LONGEST: Duration = Duration::from_secs(5);
/// How long what it has begun may take to finish what it has.
const FINISH: Duration = Duration::from_secs(60);
/// How often the server's settings, threads and files are compared.
const COMPARE_EVERY: u32 = 10;
/// A year.
const YEAR: i64 = 31_557_600;

/// What the wall clock says to who has this loaded, set by the seconds in the file that `BIOPSY_CLOCK` names.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("BIOPSY_CLOCK"), "re") : 0;
    long offset = 0;
    if (file) {
        if (fscanf(file, "%ld", &offset) == 1) time->tv_sec += offset;
        fclose(file);
    }
    return (int)result;
}
"#;

/// One watcher after the other beside one server.
struct Trial<'a> {
    program: &'a Path,
    server: &'a Server,
    folder: TempDir,
    temporary: TempDir,
    shim: PathBuf,
    settings: PathBuf,
    result: PathBuf,
}

/// What went wrong, counted.
#[derive(Default)]
struct Wrong {
    still_on: u32,
    harmed: u32,
    files: u32,
}

pub(super) fn run(program: &Path, count: u32, wanted: Option<&str>) -> Outcome {
    let mut wrong = Wrong::default();
    let starts: Vec<_> = servers::ALL
        .iter()
        .filter(|(name, _)| {
            wanted.map_or(["MariaDB", "redis"].contains(name), |wanted| name.contains(wanted))
        })
        .collect();
    let mut done = 0;
    for (at, (name, start)) in starts.iter().enumerate() {
        let server = start()?;
        let trial = Trial::new(program, &server)?;
        let share = count / u32::try_from(starts.len()).unwrap_or(1) + u32::from(at == 0) * (count % 2);
        trial.kills(share, &mut wrong)?;
        trial.restart_of_the_machine(&mut wrong)?;
        trial.ends_by_itself(&mut wrong)?;
        println!("{name}: {share} kills, a simulated start of the machine, two ends of its time");
        done += share;
    }
    let Wrong { still_on, harmed, files } = wrong;
    println!(
        "{done} kills of a watcher: {still_on} still on, {harmed} harmed, {files} files that nobody named"
    );
    if still_on + harmed + files == 0 { Ok(()) } else { Err("not all went well".to_owned()) }
}

impl<'a> Trial<'a> {
    fn new(program: &'a Path, server: &'a Server) -> Outcome<Self> {
        let (folder, temporary) = (temp_dir("kills-watch"), temp_dir("kills-watch-tmp"));
        let path = |name: &str| folder.path().join(name);
        let (source, shim, settings) = (path("clock.c"), path("clock.so"), path("diagnostics.json"));
        write(&source, CLOCK)?;
        let mut cc = Command::new("cc");
        let built = cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).arg(&source).status();
        if !built.is_ok_and(|status| status.success()) {
            return Err("a library with another clock cannot be built by `cc`".to_owned());
        }
        let name = std::fs::read_to_string(format!("/proc/{}/comm", server.pid)).unwrap_or_default();
        let who = serde_json::json!({"name": name.trim()});
        let rule = |what: &str| serde_json::json!({"who": who, "when": "start", "do": what, "perDay": 1000});
        let rules = serde_json::json!({"watch": {
            "minFree": "1MB",
            "rules": {"minutes": rule("recent 1m"), "now": rule("capture --for 1s"), "all": rule("trace")},
        }});
        write(&settings, &rules.to_string())?;
        // Of long ago, and the only one of its rule: never removed.
        let result = path("out/now/old-1-20200101-000000.biopsy.zip");
        std::fs::create_dir_all(result.parent().unwrap_or(folder.path()))
            .map_err(|error| format!("cannot make a folder of results: {error}"))?;
        write(&result, "a result")?;
        write(&path("clock"), "0")?;
        Ok(Self { program, server, folder, temporary, shim, settings, result })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("TMPDIR", self.temporary.path()).env("XDG_STATE_HOME", self.path("state"));
        command.env("LD_PRELOAD", &self.shim).env("BIOPSY_CLOCK", self.path("clock"));
        command
    }

    fn watch(&self, more: &[&str]) -> Outcome<Child> {
        let mut command = self.command(&["watch", "--config"]);
        command.arg(&self.settings).arg("--output").arg(self.path("out")).args(more);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|error| format!("cannot run biopsy: {error}"))
    }

    /// What `restore` says.
    fn restore(&self) -> Outcome<String> {
        let output =
            self.command(&["restore"]).output().map_err(|error| format!("cannot run biopsy: {error}"))?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        if output.status.success() { Ok(said) } else { Err(format!("`restore`: {}: {said}", output.status)) }
    }

    fn kills(&self, count: u32, wrong: &mut Wrong) -> Outcome {
        let survivals: Vec<Survival> =
            self.server.pids().into_iter().map(Survival::before_when_settled).collect();
        let survivals: Vec<Survival> =
            survivals.into_iter().map(|survival| survival.threads_may_change().files_may_change()).collect();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(self.server.pid);
        for kill in 1..=count {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = f64::from(u32::try_from(state >> 40).unwrap_or(0)) / f64::from(1_u32 << 24);
            let clock = [0, YEAR, -YEAR][kill as usize % 3];
            write(&self.path("clock"), "0")?;
            let mut watcher = self.watch(&[])?;
            let moment = LONGEST.mul_f64(share);
            std::thread::sleep(moment / 2);
            write(&self.path("clock"), &clock.to_string())?;
            std::thread::sleep(moment / 2);
            // It is ours and has not been waited for.
            let _ = watcher.kill();
            let _ = watcher.wait();
            self.look_after(kill, watcher.id(), wrong)?;
            if kill % COMPARE_EVERY == 0 {
                let differences: Vec<String> = survivals.iter().flat_map(Survival::differences).collect();
                if !differences.is_empty() {
                    println!("{} kill {kill}: {differences:?}", self.server.name);
                    wrong.harmed += 1;
                }
            }
        }
        Ok(())
    }

    /// All that a watcher has begun ends, is said, and leaves nothing; the server serves.
    fn look_after(&self, kill: u32, watcher: u32, wrong: &mut Wrong) -> Outcome {
        let told = |what: &str| println!("{} kill {kill}: {what}", self.server.name);
        if !until_within(FINISH, || begun_by(watcher).is_empty()) {
            told(&format!("still on: {:?}", begun_by(watcher)));
            wrong.still_on += 1;
            for pid in begun_by(watcher) {
                send_signal(pid, Signal::KILL);
            }
        }
        let said = self.restore()?;
        if self.leases()? > 0 {
            told(&format!("the journal says that something is on: {said}"));
            wrong.still_on += 1;
        }
        let traced = self.server.pids().into_iter().any(is_traced);
        let answer = self.server.ask();
        if traced || answer.is_err() {
            told(&format!("traced: {traced}; {answer:?}"));
            wrong.harmed += 1;
        }
        let drafts = drafts(&self.path("out"));
        let unnamed = drafts.iter().filter(|draft| !said.contains(&*draft.to_string_lossy()));
        let mut strange: Vec<PathBuf> = unnamed.cloned().collect();
        strange.extend(strange_files(&[self.temporary.path()]));
        if !strange.is_empty() || !self.result.exists() {
            told(&format!("files: {strange:?}; the old result is there: {}", self.result.exists()));
            wrong.files += 1;
        }
        drafts.iter().chain(&strange).for_each(|path| super::left::remove(path));
        Ok(())
    }

    /// How many leases the journal has.
    fn leases(&self) -> Outcome<usize> {
        let path = self.path("state/biopsy/leases.json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            // It was killed before it had any.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(format!("cannot read `{}`: {error}", path.display())),
        };
        let journal: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| format!("`{}`: {error}", path.display()))?;
        Ok(journal["leases"].as_array().map_or(0, Vec::len))
    }

    /// The journal is of another run of the machine, or of another process with that pid: the server has the pid of a holder by now, and
    /// nobody asks it to end.
    fn restart_of_the_machine(&self, wrong: &mut Wrong) -> Outcome {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.server.pid)).unwrap_or_default();
        let start: u64 = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(19)?.parse().ok())
            .ok_or("the start of the server cannot be read")?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let cases = [
            ("another run of the machine", "00000000-0000-4000-8000-000000000000", start),
            ("another process", boot.trim(), start.wrapping_sub(100)),
        ];
        for (case, boot, start) in cases {
            let lease = serde_json::json!({
                "holder": {"pid": self.server.pid, "start_ticks": start}, "what": "watch", "begun_unix": 0, "boot_id": boot,
                "until_boot_seconds": 1,
            });
            let journal = serde_json::json!({"version": 1, "leases": [lease]});
            write(&self.path("state/biopsy/leases.json"), &journal.to_string())?;
            let said = self.restore()?;
            let answer = self.server.ask();
            if answer.is_err() || self.leases()? > 0 {
                println!("{}: {case}: {answer:?}; `restore` said: {said}", self.server.name);
                wrong.harmed += 1;
            }
        }
        Ok(())
    }

    /// Its time is over in three seconds, whatever the wall clock says.
    fn ends_by_itself(&self, wrong: &mut Wrong) -> Outcome {
        for clock in [YEAR, -YEAR] {
            write(&self.path("clock"), "0")?;
            let mut watcher = self.watch(&["--for", "3s"])?;
            std::thread::sleep(Duration::from_secs(1));
            write(&self.path("clock"), &clock.to_string())?;
            let ended = until_within(FINISH, || watcher.try_wait().is_ok_and(|ended| ended.is_some()));
            if !ended {
                println!("{}: the watcher does not end, with a clock set by {clock} s", self.server.name);
                wrong.still_on += 1;
                let _ = watcher.kill();
                let _ = watcher.wait();
            }
            self.look_after(0, watcher.id(), wrong)?;
        }
        Ok(())
    }
}

/// Processes that a watcher has begun: they say on their command line with whom they end.
fn begun_by(watcher: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mark = format!("--until-parent-ends\0{watcher}\0");
    let is_one = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&mark)
    };
    pids.filter(is_one).collect()
}

/// Recordings that are no files yet.
fn drafts(folder: &Path) -> Vec<PathBuf> {
    let rules = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = rules.flat_map(|rule| std::fs::read_dir(rule.path()).into_iter().flatten().flatten());
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "recording")).collect()
}

fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}
