//! The verbs, what is asked of them, and what came of it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::run::{Fault, Ran, run};
use super::shape::{self, Shape};
use super::standby;
use crate::{Program, Survival, TargetProcess, proc_status, temp_dir};

/// How long a run may take beyond what it takes without a fault; generous because the machine is shared.
const PATIENCE: Duration = Duration::from_secs(20);

/// A verb with its arguments. `{pid}` stands for the target, `{out}` for a place in a fresh folder, `{log}` for some text file,
/// `{program}` for a program that lives for a short time, and `{settings}` for those of a watcher, whose one rule is about the target. With
/// `-` as its last word the result comes from standard output.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// The verb itself.
    pub name: &'static str,
    /// What is different from the plain one.
    pub variant: &'static str,
    /// What is typed behind the name of the program.
    pub arguments: &'static [&'static str],
    /// What the target is.
    pub patient: &'static str,
}

/// A process that is looked at in many runs.
#[derive(Debug)]
pub struct Patient {
    target: TargetProcess,
    survival: Survival,
    family: BTreeSet<u32>,
}

/// What a run did wrong.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Problem {
    /// The target is not as it was.
    Harmed(String),
    /// Less than was asked for, and nothing says so.
    SilentLoss(String),
    /// A file or a process that nobody named.
    Leftover(String),
    /// It did not end within its time.
    Hung(String),
    /// It panicked, ended by a signal, or its exit code is not true.
    Ending(String),
}

/// A verb with what it gives when nothing fails.
#[derive(Debug)]
pub struct Trial<'a> {
    program: &'a Path,
    verb: Verb,
    whole: RefCell<Shape>,
    said: BTreeSet<String>,
    counts: BTreeMap<i64, u64>,
    took: Duration,
}

impl Patient {
    /// Starts being watched now.
    #[must_use]
    pub fn of(target: TargetProcess) -> Self {
        let survival = Survival::before_when_settled(target.pid());
        let family = family(target.pid());
        Self { target, survival, family }
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.target.pid()
    }

    /// As [`Self::of`], for a target whose threads and files come and go.
    #[must_use]
    pub fn restless(target: TargetProcess) -> Self {
        let mut patient = Self::of(target);
        patient.survival = patient.survival.threads_may_change().files_may_change();
        patient
    }

    fn problems(&self) -> Vec<Problem> {
        // What ends our program may reach the kernel a moment later than its end reaches us.
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            let mut found: Vec<Problem> =
                self.survival.differences().into_iter().map(Problem::Harmed).collect();
            found.extend(family(self.pid()).difference(&self.family).map(|pid| {
                let (state, _) = proc_status::state_and_start(*pid).unwrap_or(('?', 0));
                Problem::Leftover(format!("a process of the target, in state {state}"))
            }));
            if found.is_empty() || Instant::now() > deadline {
                return found;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Children of the target, and processes that look like it: a frozen copy does, but may have been given to another parent.
fn family(target: u32) -> BTreeSet<u32> {
    let command_line = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let (parent, line) = (Some(target.to_string()), command_line(target));
    let pids = std::fs::read_dir("/proc").map(|entries| {
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .collect::<Vec<_>>()
    });
    pids.unwrap_or_default()
        .into_iter()
        .filter(|pid| {
            *pid != target
                && (proc_status::field(*pid, "PPid") == parent
                    || (!line.is_empty() && command_line(*pid) == line))
        })
        .collect()
}

impl<'a> Trial<'a> {
    /// Runs the verb three times without a fault and keeps what was in each result.
    ///
    /// # Panics
    ///
    /// When it does not succeed even then.
    #[must_use]
    pub fn begin(program: &'a Path, verb: Verb, patient: &Patient) -> Self {
        let mut trial = Self {
            program,
            verb,
            whole: RefCell::default(),
            said: BTreeSet::new(),
            counts: BTreeMap::new(),
            took: Duration::ZERO,
        };
        let mut shapes = Vec::new();
        for _ in 0..3 {
            let folder = temp_dir("faults");
            let ran = run(trial.command(patient, &folder), None, Duration::from_secs(60));
            assert!(
                ran.status.is_some_and(|status| status.success()),
                "without a fault: {}",
                trial.told(&ran)
            );
            let (shape, confessions) = trial.result(&ran, &folder).expect("the result can be read");
            shapes.push(shape);
            trial.said.extend(confessions);
            trial.said.extend(trial.lines(&ran));
            for (number, count) in &ran.counts {
                let most = trial.counts.entry(*number).or_default();
                *most = (*most).max(*count);
            }
            trial.took = trial.took.max(ran.took);
        }
        trial.whole = shape::common(&shapes).into();
        let problems = patient.problems();
        assert!(problems.is_empty(), "without a fault: {problems:?}");
        trial
    }

    /// How often each call was made without a fault.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<i64, u64> {
        &self.counts
    }

    /// Runs it with this call failing. `None`: the call was not made this time.
    #[must_use]
    pub fn with(&self, fault: Fault, patient: &Patient) -> Option<(Vec<Problem>, Ran)> {
        let (mut problems, ran) = self.run_and_judge(fault, patient);
        if problems.iter().any(is_silent) {
            // What the fault takes away is missing again. What only chance took, as the sleep of a thread that was just awake in a
            // target that lives, is not.
            let (again, ran_again) = self.run_and_judge(fault, patient);
            if ran_again.hit && !again.iter().any(is_silent) {
                problems.retain(|one| !is_silent(one));
                problems.extend(again);
            }
        }
        ran.hit.then_some((problems, ran))
    }

    fn run_and_judge(&self, fault: Fault, patient: &Patient) -> (Vec<Problem>, Ran) {
        let folder = temp_dir("faults");
        let ran = run(self.command(patient, &folder), Some(fault), self.took * 3 + PATIENCE);
        let mut problems = patient.problems();
        problems.extend(left_running(folder.path()));
        let harmless = problems.len();
        self.judge(fault, &ran, &folder, &mut problems);
        if problems.iter().any(is_silent) && self.look_again(patient) {
            problems.truncate(harmless);
            self.judge(fault, &ran, &folder, &mut problems);
        }
        (problems, ran)
    }

    /// What is not there without a fault either is no loss by now: the heap of a program that lives is collected. False: that is
    /// not known.
    fn look_again(&self, patient: &Patient) -> bool {
        let folder = temp_dir("faults");
        let ran = run(self.command(patient, &folder), None, self.took * 3 + PATIENCE);
        let Ok((shape, _)) = self.result(&ran, &folder) else { return false };
        let still = shape::common(&[self.whole.borrow().clone(), shape]);
        self.whole.replace(still);
        true
    }

    fn judge(&self, fault: Fault, ran: &Ran, folder: &TempDir, problems: &mut Vec<Problem>) {
        let text = self.told(ran);
        let Some(status) = ran.status else {
            problems.push(Problem::Hung(text));
            return;
        };
        let code = match status.code() {
            Some(code) => code,
            None => {
                problems.push(Problem::Ending(text));
                return;
            }
        };
        if text.contains("panicked")
            || text.contains("RUST_BACKTRACE")
            || !(matches!(code, 0 | 3 | 4 | 5 | 7 | 8 | 9)
                || code == 6 && self.verb.name == "watch"
                // A lock that somebody has: there is one watcher of each user.
                || code == 2 && text.contains("another watcher of this user runs already"))
        {
            problems.push(Problem::Ending(text.clone()));
        }
        match (code, self.result(ran, folder)) {
            // A wait that came to its end; a dump of which not a byte could be written.
            (3, Err(_)) if text.contains("nothing was dumped: ") || text.contains("not whole: ") => {}
            (0 | 3, Err(error)) => problems.push(Problem::Ending(format!("no result: {error}; {text}"))),
            (0 | 3, Ok((shape, confessions))) => {
                let mut confessed = confessions.difference(&self.said).count() > 0;
                confessed |= self.lines(ran).difference(&self.said).count() > 0;
                let missing = shape::missing(&self.whole.borrow(), &shape);
                // These say that something is not there any more. What is not there is no loss: threads and files come and go.
                let gone = matches!(fault.errno, libc::ESRCH | libc::ENOENT);
                if !missing.is_empty() && !confessed && !gone {
                    problems.push(Problem::SilentLoss(format!("{}; {text}", missing.join(", "))));
                }
                if code == 3 && !confessed {
                    problems.push(Problem::Ending(format!("code 3 without a reason; {text}")));
                }
            }
            _ if !text.contains("error: ") => problems.push(Problem::Ending(format!("no reason; {text}"))),
            _ => {}
        }
        // What lies in a folder that is named is named with it.
        for left in std::fs::read_dir(folder.path()).into_iter().flatten().flatten().map(|entry| entry.path())
        {
            let name = left.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let asked = matches!(code, 0 | 3) && left == self.out(folder);
            // A folder for results was asked for, also where there is none.
            let is_place =
                self.verb.name == "watch" && (name == standby::HOME || everything_in(&left).is_empty());
            if !asked && !is_place && !text.contains(&name) {
                problems.push(Problem::Leftover(format!("`{name}`; {text}")));
            }
        }
        if self.verb.name == "watch" {
            let left = standby::left_on(self.program, folder.path(), &self.out(folder), &text);
            problems.extend(left.into_iter().map(Problem::Leftover));
        }
    }

    fn out(&self, folder: &TempDir) -> PathBuf {
        let ending =
            self.verb.arguments.iter().find_map(|word| word.strip_prefix("{out}")).unwrap_or_default();
        folder.path().join(format!("result{ending}"))
    }

    fn command(&self, patient: &Patient, folder: &TempDir) -> Command {
        let mut command = Command::new(self.program);
        for word in self.verb.arguments {
            match *word {
                "{pid}" => command.arg(patient.pid().to_string()),
                word if word.starts_with("{out}") => command.arg(self.out(folder)),
                "{program}" => command.arg(Program::ShortLived.path()),
                "{settings}" => command.arg(standby::settings(folder.path(), patient.pid())),
                "{log}" => command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")),
                word => command.arg(word),
            };
        }
        command.current_dir(folder.path()).env("TMPDIR", folder.path()).env("HOME", folder.path());
        if self.verb.name == "watch" {
            standby::at_home(&mut command, folder.path());
        }
        command.env("NO_COLOR", "1").env("XDG_CACHE_HOME", folder.path()).env_remove("RUST_BACKTRACE");
        command
    }

    /// What the result consists of, and what it says is missing.
    fn result(&self, ran: &Ran, folder: &TempDir) -> Result<(Shape, BTreeSet<String>), String> {
        let received = temp_dir("received");
        let out = match self.verb.arguments.last() {
            Some(&"-") => {
                let file = received.path().join("result.core");
                std::fs::write(&file, &ran.out).map_err(|error| error.to_string())?;
                file
            }
            _ => self.out(folder),
        };
        let recording = matches!(self.verb.name, "capture" | "trace");
        // A bundle of several dumps has a report on each.
        let printed = |out: &[u8]| {
            let all: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(out).into_iter().collect();
            all.map_err(|error| error.to_string()).and_then(|all| match all.is_empty() {
                true => Err("there is nothing".to_owned()),
                false => Ok(all),
            })
        };
        let analyzed = |file: &Path| {
            let mut analyze = Command::new(self.program);
            analyze.args(["analyze", "--json"]).arg(file);
            let output = analyze.output().map_err(|error| error.to_string())?;
            // It says with 3 that it knows that it is not whole.
            match output.status.code() {
                Some(0 | 3) => printed(&output.stdout),
                _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        };
        let reports = match self.verb.name {
            "stacks" => printed(&ran.out)?,
            "watch" => {
                let results = everything_in(&out).into_iter().filter(|path| path.is_file());
                results.map(|file| analyzed(&file)).collect::<Result<Vec<_>, _>>()?.concat()
            }
            _ => analyzed(&out)?,
        };
        let mut shape = Shape::new();
        let mut confessions = BTreeSet::new();
        for report in &reports {
            let part = if recording { shape::of_recording(report) } else { shape::of_memory(report) };
            for (what, count) in part {
                *shape.entry(what).or_default() += count;
            }
            confessions.extend(shape::confessions(report));
        }
        for member in members(&out) {
            *shape.entry(format!("member {}", shape::without_numbers(&member))).or_default() += 1;
        }
        Ok((shape, confessions))
    }

    /// What it said to people: on standard error, and on standard output where that is not the result itself.
    fn said(&self, ran: &Ran) -> String {
        let is_result = self.verb.name == "stacks" || self.verb.arguments.last() == Some(&"-");
        let out = if is_result { "".into() } else { String::from_utf8_lossy(&ran.out) };
        format!("{}\n{out}", String::from_utf8_lossy(&ran.err))
    }

    /// The same by lines, without numbers.
    fn lines(&self, ran: &Ran) -> BTreeSet<String> {
        // A line on standard output tells several things.
        self.said(ran).lines().flat_map(|line| line.split("; ")).map(shape::without_numbers).collect()
    }

    fn told(&self, ran: &Ran) -> String {
        let ending = ran.status.map_or_else(|| "did not end".to_owned(), |status| status.to_string());
        format!("{ending}: {}", self.said(ran).trim().replace('\n', " / "))
    }
}

fn is_silent(problem: &Problem) -> bool {
    matches!(problem, Problem::SilentLoss(_))
}

/// Processes that have the folder of the run in their arguments, as biopsy, and what it forked and never let go, and such programs
/// that it started as have not come to their end.
fn left_running(folder: &Path) -> Vec<Problem> {
    let program = Program::ShortLived.path();
    let words = [folder.as_os_str().as_encoded_bytes(), program.as_os_str().as_encoded_bytes()];
    let theirs = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.iter().any(|word| line.windows(word.len()).any(|part| part == *word))
    };
    let all = || {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(theirs)
    };
    // Each of them is to be seen all the time: some patients start such programs again and again.
    let mut left: BTreeSet<u32> = all().collect();
    let deadline = Instant::now() + Duration::from_secs(5);
    while !left.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        left = left.intersection(&all().collect()).copied().collect();
    }
    let told = |pid: &u32| {
        let (state, _) = proc_status::state_and_start(*pid).unwrap_or(('?', 0));
        let name = proc_status::field(*pid, "Name").unwrap_or_default();
        Problem::Leftover(format!("process {name}, in state {state}"))
    };
    left.iter().map(told).collect()
}

/// The members of a bundle or a folder.
fn members(path: &Path) -> Vec<String> {
    if path.is_dir() {
        return everything_in(path)
            .iter()
            .filter_map(|member| Some(member.strip_prefix(path).ok()?.to_string_lossy().into_owned()))
            .collect();
    }
    if path.extension().is_none_or(|ending| ending != "zip") {
        return Vec::new();
    }
    let output = Command::new("unzip").arg("-Z1").arg(path).output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// All files and folders below `folder`.
fn everything_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}
