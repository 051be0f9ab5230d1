//! The texts of one process on their way into the recording.

use biopsy_model::order::Order as _;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use biopsy_model::Pid;
use biopsy_model::loss::Warning;
use biopsy_recording::{RecordingFolder, WriteError, layout};
use biopsy_target::proc_root::ProcessDir;

use super::config::{Config, Moment};
use crate::masking::Masking;

/// What was taken, and what was not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Members written.
    pub members: Vec<String>,
    /// What a reader of the recording should know.
    pub warnings: Vec<Warning>,
}

/// Reads from one process and writes its members.
pub(super) struct Members<'a> {
    pub(super) pid: Pid,
    pub(super) dir: &'a ProcessDir,
    pub(super) config: &'a Config,
    pub(super) moment: Moment,
    folder: &'a RecordingFolder,
    pub(super) masking: &'a Masking,
    summary: &'a mut Summary,
    forbidden: Vec<String>,
    failed: Vec<String>,
}

impl<'a> Members<'a> {
    pub(super) fn new(
        pid: Pid,
        dir: &'a ProcessDir,
        config: &'a Config,
        moment: Moment,
        folder: &'a RecordingFolder,
        masking: &'a Masking,
        summary: &'a mut Summary,
    ) -> Members<'a> {
        Members {
            pid,
            dir,
            config,
            moment,
            folder,
            masking,
            summary,
            forbidden: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// The name of a member at this moment.
    pub(super) fn member(&self, name: &str) -> String {
        let name = match (self.moment, name.rsplit_once('.')) {
            (Moment::Start, _) => name.to_owned(),
            (Moment::End, Some((stem, ending))) => format!("{stem}-end.{ending}"),
            (Moment::End, None) => format!("{name}-end"),
        };
        layout::process_member(self.pid, &name)
    }

    /// Reads a file of the process. `None`: it is not there, or the process has ended; other errors are remembered.
    pub(super) fn read(&mut self, file: &str) -> Option<Vec<u8>> {
        let read = self.dir.read(file, self.config.member_bytes);
        self.note(file, read)
    }

    /// Remembers why something is not there although the process has it.
    pub(super) fn note<T>(&mut self, file: &str, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) if is_absent(file, &error) => None,
            Err(error) => {
                let (list, entry) = match error.kind() {
                    io::ErrorKind::PermissionDenied => (&mut self.forbidden, file.to_owned()),
                    _ => (&mut self.failed, format!("{file} ({error})")),
                };
                if !list.contains(&entry) {
                    list.push(entry);
                }
                None
            }
        }
    }

    /// Copies a text of `/proc`.
    pub(super) fn copy(&mut self, file: &str, name: &str) -> Result<(), WriteError> {
        match self.read(file) {
            Some(bytes) => {
                let full = bytes.len() >= self.config.member_bytes;
                let mut text = String::from_utf8_lossy(&bytes).into_owned();
                if full {
                    text.push_str("\n[... the rest is left out]\n");
                }
                self.write(name, &text)
            }
            None => Ok(()),
        }
    }

    /// Writes a text, masked.
    pub(super) fn write(&mut self, name: &str, text: &str) -> Result<(), WriteError> {
        let member = self.member(name);
        let text = self.masking.text(&member, text);
        self.write_masked(&member, &text)
    }

    /// Writes a text that was masked piece by piece, under the full name of its member.
    pub(super) fn write_masked(&mut self, member: &str, text: &str) -> Result<(), WriteError> {
        write_member(self.folder, member, text)?;
        self.summary.members.push(member.to_owned());
        Ok(())
    }

    pub(super) fn warn(&mut self, code: &str, message: String) {
        self.summary.warnings.push(Warning::new(code, message));
    }

    /// Says what was refused, and what failed.
    pub(super) fn finish(mut self) {
        if !self.failed.is_empty() {
            let message = format!("cannot read {} of process {}", self.failed.join(", "), self.pid);
            self.warn("context.not-read", message);
        }
        if self.forbidden.is_empty() {
            return;
        }
        let message = format!("no permission to read {} of process {}", self.forbidden.join(", "), self.pid);
        let hint = Some("run as root, or as the user of the process with CAP_SYS_PTRACE".to_owned());
        self.summary.warnings.push(Warning { hint, ..Warning::new("context.not-permitted", message) });
    }
}

/// Writes a member in one go, without waiting for the disk: there may be a thousand of them.
pub(super) fn write_member(folder: &RecordingFolder, member: &str, text: &str) -> Result<(), WriteError> {
    match folder.create_member(member) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(|error| file.write_error(error)),
        // Taken again, for a recording that was sealed and goes on.
        Err(WriteError::Exists { .. }) => folder.write_text(member, text),
        Err(error) => Err(error),
    }
}

/// Whether the error says that there is nothing to read: the process has ended, or has no such thing.
fn is_absent(file: &str, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        // That of a kernel without security modules; of anything else it is a call that failed.
        io::ErrorKind::InvalidInput => file.starts_with("attr/"),
        _ => error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()),
    }
}

/// A table of counts, the largest first: `12  what`.
pub(super) fn count_lines<K: Ord + std::fmt::Display>(
    counts: std::collections::BTreeMap<K, u64>,
    most: usize,
) -> String {
    let mut sorted: Vec<(u64, K)> = counts.into_iter().map(|(key, count)| (count, key)).collect();
    sorted.order_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut text = String::new();
    for (count, key) in sorted.iter().take(most) {
        let _ = writeln!(text, "{count:>8}  {key}");
    }
    if sorted.len() > most {
        let _ = writeln!(text, "          [... {} more kinds]", sorted.len() - most);
    }
    text
}

/// One line of any text: control characters are written as escapes, since names of files and threads hold them.
pub(super) fn one_line(bytes: &[u8]) -> String {
    biopsy_target::printable(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn what_is_not_there_is_no_loss_and_a_call_that_failed_is_one() {
        for (file, errno, absent) in [
            ("task", Errno::NOENT, true),
            ("task", Errno::SRCH, true),
            ("attr/current", Errno::INVAL, true),
            // Listing a folder asks fcntl(2) for the flags of its descriptor.
            ("task", Errno::INVAL, false),
            ("fd", Errno::IO, false),
            ("environ", Errno::ACCESS, false),
        ] {
            assert_eq!(is_absent(file, &errno.into()), absent, "{file}: {errno}");
        }
    }
}
