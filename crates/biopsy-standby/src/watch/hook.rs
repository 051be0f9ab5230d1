//! Tells somebody else: a program of the user's that gets a line of JSON for each result and each failure.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Happened;

/// So long may a program take that was told something.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many may run at once: whoever hangs gets no more.
const AT_ONCE: usize = 4;

/// The programs that were told something and still run.
#[derive(Default)]
pub(super) struct Hook {
    running: Vec<(Child, Instant)>,
}

impl Hook {
    /// Tells it, if there is one; what went wrong in words.
    pub(super) fn tell(&mut self, words: &[String], happened: &Happened<'_>) -> Option<String> {
        let (program, arguments) = words.split_first()?;
        if self.running.len() >= AT_ONCE {
            return Some(format!("`{program}` was not told of it: {AT_ONCE} of it run already"));
        }
        let mut text = serde_json::to_vec(happened).unwrap_or_default();
        text.push(b'\n');
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C is for the watcher.
        let spawned = command.process_group(0).spawn();
        match spawned {
            Ok(mut child) => {
                // A pipe takes more than a line; a program that does not read it needs none.
                if let Some(mut input) = child.stdin.take() {
                    let _ = input.write_all(&text);
                }
                self.running.push((child, Instant::now()));
                None
            }
            Err(error) => Some(format!("cannot run `{program}`, which is to be told: {error}")),
        }
    }

    /// Looks who has ended, and kills who takes too long; what went wrong in words.
    pub(super) fn look_after(&mut self) -> Vec<String> {
        let mut failed = Vec::new();
        self.running.retain_mut(|(child, since)| match child.try_wait() {
            Ok(None) if since.elapsed() < PATIENCE => true,
            Ok(None) => {
                kill_group(child);
                failed.push(format!(
                    "the program that is told ran for {} s, and was killed",
                    PATIENCE.as_secs()
                ));
                false
            }
            Ok(Some(status)) if !status.success() => {
                failed.push(format!("the program that is told failed: {status}"));
                false
            }
            Ok(Some(_)) | Err(_) => false,
        });
        failed
    }

    /// Waits for those that run, as long as they may.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut failed = self.look_after();
        while !self.running.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
            failed.extend(self.look_after());
        }
        failed
    }
}

/// Kills a program and what it has started, which is in its group unless it left that.
fn kill_group(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It is not waited for yet: its id is nobody else's.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_program_reads_a_line_of_json() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told");
        let line = Happened {
            event: "made",
            rule: "slow",
            pid: Some(7),
            text: "a \"b\"\n".to_owned(),
            ..Happened::default()
        };
        let mut hook = Hook::default();
        let script = "cat > \"$0\"";
        assert_eq!(hook.tell(&words(&["sh", "-c", script, file.to_str().unwrap()]), &line), None);
        assert_eq!(hook.finish(), Vec::<String>::new());
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(text.lines().count(), 1);
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&told["event"], &told["rule"], &told["pid"]),
            (&"made".into(), &"slow".into(), &7.into())
        );
    }

    #[test]
    fn what_goes_wrong_is_said_and_stops_nothing() {
        let mut hook = Hook::default();
        assert_eq!(hook.tell(&[], &Happened::default()), None);
        assert!(
            hook.tell(&words(&["/nowhere/at-all"]), &Happened::default())
                .unwrap()
                .contains("cannot run `/nowhere/at-all`")
        );
        assert_eq!(hook.tell(&words(&["false"]), &Happened::default()), None);
        assert!(hook.finish()[0].contains("failed: exit status: 1"));
        // Who hangs gets no more.
        for _ in 0..AT_ONCE {
            assert_eq!(hook.tell(&words(&["sleep", "600"]), &Happened::default()), None);
        }
        assert!(hook.tell(&words(&["sleep", "600"]), &Happened::default()).unwrap().contains("run already"));
        hook.running
            .iter_mut()
            .for_each(|(_, since)| *since = Instant::now().checked_sub(PATIENCE * 2).unwrap());
        assert_eq!(hook.finish().len(), AT_ONCE);
    }
}
