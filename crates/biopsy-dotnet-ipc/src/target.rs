//! What `/proc` says of the process behind a diagnostics port.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use biopsy_model::Pid;

/// Bytes read of an environment, or of a table of mappings.
const MOST: u64 = 4 << 20;

/// The process, read through its folder in `/proc`.
#[derive(Clone, Debug)]
pub(crate) struct TargetFacts {
    pub(crate) pid: Pid,
    folder: PathBuf,
    pub(crate) start_ticks: u64,
    /// State of its main thread, as in `/proc/PID/stat`.
    pub(crate) state: u8,
    /// Its pid in its own namespace.
    pub(crate) ns_pid: u32,
    /// Its effective user.
    pub(crate) uid: u32,
}

impl TargetFacts {
    /// Reads them; `None`: there is no such process.
    pub(crate) fn read(proc_folder: &Path, pid: Pid) -> Option<Self> {
        let folder = proc_folder.join(pid.to_string());
        let (state, start_ticks) = parse_stat(&read_some(&folder.join("stat")).ok()?)?;
        let status = read_some(&folder.join("status")).ok()?;
        let ns_pid = field(&status, b"NSpid:").and_then(last_number).unwrap_or(pid.0);
        // Real, effective, saved, file system.
        let uid = field(&status, b"Uid:")
            .and_then(|text| {
                number(text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1)?)
            })
            .unwrap_or(0);
        Some(Self { pid, folder, start_ticks, state, ns_pid, uid })
    }

    /// Whether it has ended: a zombie has, although its entry is there.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// A path below its folder in `/proc`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The environment it was started with.
    pub(crate) fn environment(&self) -> io::Result<Environment> {
        read_some(&self.folder.join("environ")).map(Environment)
    }

    /// Whether a file of this name is among its mappings; `None`: they may not be read.
    pub(crate) fn maps(&self, file: &[u8]) -> Option<bool> {
        let maps = read_some(&self.folder.join("maps")).ok()?;
        Some(maps.split(|byte| *byte == b'\n').any(|line| {
            line.ends_with(file) && line.len() > file.len() && line[line.len() - file.len() - 1] == b'/'
        }))
    }

    /// State and name of each thread.
    pub(crate) fn threads(&self) -> Vec<(u8, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.folder.join("task")) else { return Vec::new() };
        let read = |entry: fs::DirEntry| {
            let (state, _) = parse_stat(&read_some(&entry.path().join("stat")).ok()?)?;
            let mut name = read_some(&entry.path().join("comm")).ok()?;
            name.truncate(name.iter().position(|byte| *byte == b'\n').unwrap_or(name.len()));
            Some((state, name))
        };
        entries.take(4096).flatten().filter_map(read).collect()
    }
}

/// Variables of a process.
#[derive(Debug)]
pub(crate) struct Environment(Vec<u8>);

impl Environment {
    /// Value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// A setting of the runtime, by either of its prefixes: the full name, and the value.
    pub(crate) fn setting(&self, name: &str) -> Option<(String, &[u8])> {
        ["DOTNET_", "COMPlus_"].iter().find_map(|prefix| {
            let full = format!("{prefix}{name}");
            let value = self.get(&full)?;
            Some((full, value))
        })
    }
}

/// State and start of a line of `/proc/PID/stat`. The name in it may hold anything, so it is parsed from its end.
fn parse_stat(line: &[u8]) -> Option<(u8, u64)> {
    let after = line.get(line.iter().rposition(|byte| *byte == b')')? + 1..)?;
    let mut words = after.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let state = *words.next()?.first()?;
    // The 22nd field; the state is the third.
    let start = words.nth(18)?;
    Some((state, std::str::from_utf8(start).ok()?.parse().ok()?))
}

fn field<'a>(status: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

fn last_number(text: &[u8]) -> Option<u32> {
    number(text.split(u8::is_ascii_whitespace).rfind(|word| !word.is_empty())?)
}

pub(crate) fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    biopsy_files::open_kernels(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_from_its_end() {
        let line = b"4711 (a) R b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21";
        assert_eq!(parse_stat(line), Some((b'S', 987_654)));
        assert_eq!(parse_stat(b"4711 (x"), None);
    }

    #[test]
    fn settings_have_two_prefixes() {
        let environment = Environment(b"A=1\0COMPlus_EnableDiagnostics=0\0TMPDIR=/x=y\0".to_vec());
        assert_eq!(
            environment.setting("EnableDiagnostics"),
            Some(("COMPlus_EnableDiagnostics".to_owned(), &b"0"[..]))
        );
        assert_eq!(environment.get("TMPDIR"), Some(&b"/x=y"[..]));
        assert_eq!(environment.get("TMP"), None);
    }

    #[test]
    fn this_process_is_read() {
        let facts = TargetFacts::read(Path::new("/proc"), Pid(std::process::id())).unwrap();
        assert!(facts.start_ticks > 0 && !facts.has_ended());
        assert!(!facts.threads().is_empty());
        assert_eq!(facts.maps(b"libcoreclr.so"), Some(false));
    }
}
