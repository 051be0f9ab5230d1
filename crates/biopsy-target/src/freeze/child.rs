//! The frozen child: held at its very first stop, never run, ended at the end.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_sys::ptrace::wait::State;
use biopsy_sys::ptrace::{self, Options, wait};

use super::frame::EXIT_MARK;
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::stat::Stat;

/// How long the end of a child may take: the kernel has to give back its page tables and copied pages.
const LONGEST_END: Duration = Duration::from_secs(20);
/// For a child to stand at its first stop.
const FIRST_STOP: Duration = Duration::from_secs(2);
/// Between two looks whether it has ended, at most.
const LONGEST_NAP: Duration = Duration::from_millis(2);
/// Badness of the child for the out-of-memory killer: the highest there is.
const WORST: &str = "1000";

/// A child that was made by an injected clone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Child {
    /// Its pid as we see it.
    pub(super) pid: Pid,
    /// Its pid as its parent sees it.
    pub(super) inner: u32,
    /// Whether it is a child of the process no more: whoever removes orphans does so with this one.
    pub(super) orphan: bool,
}

impl Child {
    /// When memory runs short, the child goes and not its parent. First of all, before the parent runs again: it is the
    /// parent's writing that takes memory (P5).
    pub(super) fn mark(pid: Pid) -> io::Result<()> {
        fs::write(format!("/proc/{pid}/oom_score_adj"), WORST)
    }

    /// Waits for its first stop and has the kernel kill it if we die. Until then it would end by itself. `of`: the process
    /// whose copy it is. Meanwhile `idle` is called again and again.
    pub(super) fn hold(pid: Pid, of: Pid, idle: &mut dyn FnMut()) -> io::Result<Self> {
        let deadline = Instant::now() + FIRST_STOP;
        loop {
            match wait::look(pid.into())? {
                State::Stopped(_) => break,
                State::Running if Instant::now() < deadline => {
                    idle();
                    std::thread::sleep(Duration::from_micros(20));
                }
                _ => return Err(io::Error::other("the frozen child did not stop")),
            }
        }
        ptrace::set_options(pid.into(), Options::SYSGOOD | Options::EXIT_KILL)?;
        let gone = || io::Error::other("the frozen child is gone");
        let inner = inner_pid(pid).ok_or_else(gone)?;
        let line = ProcRoot::live().process(pid).and_then(|process| process.read("stat", SMALL));
        let stat = line.ok().and_then(|line| Stat::parse(&line)).ok_or_else(gone)?;
        Ok(Self { pid, inner, orphan: stat.parent != of.0 })
    }

    /// Kills one that could not be held.
    pub(super) fn end_unheld(pid: Pid) {
        // It is gone, or the end of this thread takes care of it.
        let _ = ptrace::kill(pid);
        let _ = wait::take(pid.into());
    }

    /// Kills it and takes the news of its end; `idle` is called again and again meanwhile. Its parent still has it as a zombie
    /// afterwards.
    pub(super) fn end(self, idle: &mut dyn FnMut()) -> io::Result<()> {
        // ESRCH: the out-of-memory killer or the watchdog was faster, and it is a zombie.
        let _ = ptrace::kill(self.pid);
        let deadline = Instant::now() + LONGEST_END;
        let mut nap = Duration::from_micros(50);
        while !self.has_ended()? {
            if Instant::now() > deadline {
                return Err(io::Error::other("the frozen child does not end"));
            }
            idle();
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        }
        Ok(())
    }

    /// Whether it has ended; then the news of it is taken.
    pub(super) fn has_ended(self) -> io::Result<bool> {
        match wait::look(self.pid.into())? {
            State::Exited(_) | State::Killed(_) => wait::take(self.pid.into()).map(|_| true),
            State::Gone => Ok(true),
            // A thread that stands at its first stop is killed there.
            State::Running | State::Stopped(_) => Ok(false),
        }
    }
}

/// The pid that a process has in its own namespace.
fn inner_pid(pid: Pid) -> Option<u32> {
    let status = ProcRoot::live().process(pid).ok()?.read("status", SMALL).ok()?;
    crate::process::status::Status::parse(&status).namespace_pids.last().copied()
}

/// Frozen children of `pid` that a killed biopsy left behind: ended, waiting for a parent that does not know them.
pub(super) fn leftovers(pid: Pid) -> Vec<Child> {
    let root = ProcRoot::live();
    let Ok(process) = root.process(pid) else { return Vec::new() };
    let mut found = Vec::new();
    for tid in process.tids(crate::list::MAX_THREADS).unwrap_or_default() {
        let Ok(text) = process.read(&format!("task/{tid}/children"), 1 << 20) else { continue };
        let text = String::from_utf8_lossy(&text);
        for child in text.split_ascii_whitespace().filter_map(|word| word.parse().ok().map(Pid)) {
            if is_leftover(&root, child)
                && let Some(inner) = inner_pid(child)
            {
                found.push(Child { pid: child, inner, orphan: false });
            }
        }
    }
    found
}

fn is_leftover(root: &ProcRoot, pid: Pid) -> bool {
    let Ok(process) = root.process(pid) else { return false };
    let Ok(line) = process.read("stat", SMALL) else { return false };
    let Some((exit_signal, exit_code)) = exit_fields(&line) else { return false };
    let badness =
        || process.read("oom_score_adj", 16).is_ok_and(|text| text.trim_ascii() == WORST.as_bytes());
    is_ours(exit_signal, exit_code, badness)
}

/// Whether a zombie is ours: it sends no signal at its end, and it either ended by itself with our mark, or was killed
/// after it had been marked for the out-of-memory killer. A program's own children of this kind (clone without a signal)
/// have neither, and must stay for the program to wait for.
fn is_ours(exit_signal: i64, exit_code: i64, has_worst_badness: impl FnOnce() -> bool) -> bool {
    const SIGKILL: i64 = 9;
    exit_signal == 0
        && (exit_code == i64::from(EXIT_MARK) << 8 || (exit_code == SIGKILL && has_worst_badness()))
}

/// Fields 38 (exit_signal) and 52 (exit_code) of the `stat` of a zombie (proc_pid_stat(5)); `None` for the living.
fn exit_fields(line: &[u8]) -> Option<(i64, i64)> {
    let close = line.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |manual: usize| fields.get(manual - 3)?.parse::<i64>().ok();
    if *fields.first()? != "Z" {
        return None;
    }
    Some((number(38)?, number(52)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zombie(exit_signal: u32, exit_code: u32) -> Vec<u8> {
        let mut line = b"7 (a) Z (b) Z".to_vec();
        for field in 4..=52 {
            let value = match field {
                38 => exit_signal,
                52 => exit_code,
                _ => 1,
            };
            line.extend_from_slice(format!(" {value}").as_bytes());
        }
        line
    }

    #[test]
    fn fields_of_zombies_only() {
        assert_eq!(exit_fields(&zombie(17, 256)), Some((17, 256)));
        assert_eq!(exit_fields(b"7 (Z) S 1 1"), None);
        assert_eq!(exit_fields(b"7 (Z"), None);
    }

    #[test]
    fn zombies_of_the_program_are_left_to_it() {
        assert!(is_ours(0, 0xb100, || false), "ended by itself after its tracer died");
        assert!(is_ours(0, 9, || true), "killed while it was held");
        assert!(!is_ours(0, 9, || false));
        assert!(!is_ours(0, 0, || true));
        assert!(!is_ours(17, 0xb100, || true), "an ordinary child");
    }
}
