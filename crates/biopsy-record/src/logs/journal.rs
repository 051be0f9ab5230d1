//! The journal of a systemd unit, read through `journalctl`.

use std::io::{BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_model::log::LogLevel;
use serde_json::{Map, Value};

use super::level::{find_level, priority_level};
use super::text::read_line;

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Nanoseconds since 1970.
    pub(crate) time: i128,
    pub(crate) level: LogLevel,
    pub(crate) text: String,
}

/// What came of asking.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    /// Oldest first.
    pub(crate) entries: Vec<Entry>,
    /// There are older ones in the window that did not fit.
    pub(crate) limited: bool,
    /// It did not answer in time; what had come is here.
    pub(crate) out_of_time: bool,
    /// Lines that were no entries.
    pub(crate) unreadable: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("`{0}` cannot be the name of a unit")]
    BadUnit(String),
    #[error("there is no `journalctl` on this machine")]
    Missing,
    #[error("`journalctl` cannot be started: {0}")]
    Start(std::io::Error),
    #[error("`journalctl` failed: {0}")]
    Failed(String),
}

/// Asks for the entries of `unit` between two moments (nanoseconds since 1970), the newest `most` bytes of text,
/// and waits for `longest`.
///
/// # Errors
/// When it cannot be asked.
pub(crate) fn read_journal(
    journalctl: &Path,
    unit: &str,
    from: i128,
    to: i128,
    most: u64,
    longest: Duration,
) -> Result<Answer, JournalError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:@\\*?[]".contains(c);
    if unit.is_empty() || unit.len() > 255 || unit.starts_with('-') || !unit.chars().all(allowed) {
        return Err(JournalError::BadUnit(unit.to_owned()));
    }
    // Newest first, so that what does not fit is the oldest.
    let child = Command::new(journalctl)
        .args(["--output=json", "--quiet", "--no-pager", "--reverse", "--all"])
        .arg(format!("--unit={unit}"))
        .arg(format!("--since=@{}", from.div_euclid(1_000_000_000)))
        .arg(format!("--until=@{}", to.div_euclid(1_000_000_000) + 1))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => Guard(child),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(JournalError::Missing),
        Err(error) => return Err(JournalError::Start(error)),
    };
    let complaint = child.0.stderr.take();
    let (sender, lines) = crossbeam_channel::bounded(1_000);
    let output = child.0.stdout.take();
    // Readers of their own, so that a journal that hangs does not hang us: they end when it is killed.
    let _reader = std::thread::spawn(move || {
        let Some(output) = output else { return };
        let (mut reader, mut line) = (BufReader::new(output), Vec::new());
        while let Ok(Some(_)) = read_line(&mut reader, &mut line) {
            if sender.send(line.clone()).is_err() {
                return;
            }
        }
    });
    let complaint = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(complaint) = complaint {
            // What is read of it is all that matters.
            let _ = complaint.take(4_096).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned()
    });

    let until = Instant::now() + longest;
    let mut answer = Answer::default();
    let mut bytes = 0_u64;
    loop {
        match lines.recv_deadline(until) {
            Ok(line) => match parse_entry(&line) {
                Some(entry) if (from..=to).contains(&entry.time) => {
                    bytes += entry.text.len() as u64;
                    if bytes > most {
                        answer.limited = true;
                        break;
                    }
                    answer.entries.push(entry);
                }
                Some(_) => {}
                None => answer.unreadable += 1,
            },
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => break,
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => {
                answer.out_of_time = true;
                break;
            }
        }
    }
    drop(lines);
    answer.entries.reverse();
    let failed = match answer.limited || answer.out_of_time {
        true => false,
        false => child.0.wait().is_ok_and(|status| !status.success()),
    };
    drop(child);
    // Only where it ended by itself: a child of its own could hold the pipe open.
    let complaint = if failed { complaint.join().unwrap_or_default() } else { String::new() };
    if failed && answer.entries.is_empty() {
        let reason = if complaint.is_empty() { "no reason given".to_owned() } else { complaint };
        return Err(JournalError::Failed(reason));
    }
    Ok(answer)
}

/// Ends the program, whatever happens.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill, and the wait is what is needed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One line of `--output=json`: <https://systemd.io/JOURNAL_EXPORT_FORMATS/#journal-json-format>
pub(super) fn parse_entry(line: &[u8]) -> Option<Entry> {
    let fields: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let text_of = |key: &str| fields.get(key).and_then(field_text);
    let micros: i128 = text_of("__REALTIME_TIMESTAMP")
        .and_then(|text| text.parse().ok())
        .filter(|micros| (0..=i128::from(i64::MAX)).contains(micros))?;
    let message = text_of("MESSAGE").unwrap_or_default();
    let priority = text_of("PRIORITY").and_then(|text| text.parse::<u8>().ok());
    // Everything on the standard output of a service has the priority of information: the text knows better.
    let told = find_level(message.as_bytes());
    let level = match priority_level(priority) {
        LogLevel::Info | LogLevel::Unknown if told != LogLevel::Unknown => told,
        level => level,
    };
    let text = match (text_of("SYSLOG_IDENTIFIER"), text_of("_PID").or_else(|| text_of("SYSLOG_PID"))) {
        (Some(name), Some(pid)) => format!("{name}[{pid}]: {message}"),
        (Some(name), None) => format!("{name}: {message}"),
        _ => message,
    };
    Some(Entry { time: micros * 1_000, level, text })
}

/// A field is text, or a list of bytes when it is not UTF-8, or a list of these when it is there twice.
fn field_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(bytes) => {
            let bytes: Option<Vec<u8>> =
                bytes.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect();
            match bytes {
                Some(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
                None => match value.get(0) {
                    Some(Value::String(text)) => Some(text.clone()),
                    _ => None,
                },
            }
        }
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    const TEN: i128 = 1_795_255_200_000_000_000;
    const MINUTE: Duration = Duration::from_secs(60);

    /// A program in the place of `journalctl`.
    fn program(folder: &tempfile::TempDir, body: &str) -> PathBuf {
        let path = folder.path().join("journalctl");
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("executable");
        path
    }

    #[test]
    fn entries_of_every_shape() {
        let entry = |json: &str| parse_entry(json.as_bytes());
        assert_eq!(
            entry(
                r#"{"__REALTIME_TIMESTAMP":"1795255200000000","PRIORITY":"4","MESSAGE":"slow","SYSLOG_IDENTIFIER":"db","_PID":"7"}"#
            ),
            Some(Entry { time: TEN, level: LogLevel::Warning, text: "db[7]: slow".to_owned() })
        );
        assert_eq!(
            entry(
                r#"{"__REALTIME_TIMESTAMP":"1795255200000000","PRIORITY":"6","MESSAGE":[69,82,82,79,82,32,255]}"#
            ),
            Some(Entry { time: TEN, level: LogLevel::Error, text: "ERROR \u{fffd}".to_owned() })
        );
        assert_eq!(
            entry(r#"{"__REALTIME_TIMESTAMP":"1","MESSAGE":null}"#).map(|e| e.text),
            Some(String::new())
        );
        for bad in ["", "[]", "{}", r#"{"__REALTIME_TIMESTAMP":"soon"}"#, r#"{"__REALTIME_TIMESTAMP":"-5"}"#]
        {
            assert_eq!(entry(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_window_in_order_and_limited_to_the_newest() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let line = |second: i128| {
            format!(
                "echo '{{\"__REALTIME_TIMESTAMP\":\"{}\",\"MESSAGE\":\"line {second}\"}}'",
                TEN / 1000 + second * 1_000_000
            )
        };
        let body = [
            "test \"$6\" = --unit=db || exit 3".to_owned(),
            line(9),
            line(5),
            "echo rubbish".to_owned(),
            line(2),
            line(1),
        ];
        let path = program(&folder, &body.join("\n"));
        let read = |most| {
            read_journal(&path, "db", TEN + 2_000_000_000, TEN + 5_000_000_000, most, MINUTE)
                .expect("answers")
        };
        let answer = read(1_000);
        let texts: Vec<&str> = answer.entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(texts, ["line 2", "line 5"]);
        assert_eq!((answer.unreadable, answer.limited), (1, false));
        let answer = read(7);
        assert_eq!(answer.entries.len(), 1);
        assert_eq!(answer.entries[0].text, "line 5");
        assert!(answer.limited);
    }

    #[test]
    fn a_journal_that_hangs_is_left() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let line = format!("echo '{{\"__REALTIME_TIMESTAMP\":\"{}\",\"MESSAGE\":\"x\"}}'", TEN / 1000);
        let path = program(&folder, &format!("{line}\nexec sleep 1000"));
        let answer =
            read_journal(&path, "db", TEN, TEN, 100, Duration::from_millis(500)).expect("some answer");
        assert!(answer.out_of_time);
    }

    #[test]
    fn what_goes_wrong_is_said() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = program(&folder, "echo 'No journal files were opened' >&2\nexit 1");
        let fails = |path: &Path, unit: &str| {
            read_journal(path, unit, 0, TEN, 100, MINUTE).expect_err("fails").to_string()
        };
        assert_eq!(fails(&path, "db"), "`journalctl` failed: No journal files were opened");
        assert_eq!(fails(&folder.path().join("none"), "db"), "there is no `journalctl` on this machine");
        assert_eq!(fails(&path, "--merge"), "`--merge` cannot be the name of a unit");
        assert_eq!(fails(&path, "a b"), "`a b` cannot be the name of a unit");
    }
}
