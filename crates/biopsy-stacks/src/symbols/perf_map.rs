//! `/tmp/perf-PID.map`: names of code that a JIT compiler made, appended by the runtime as it goes
//! (tools/perf/Documentation/jit-interface.txt in the Linux sources).
//!
//! ```text
//! 7f0012345000 1a0 void [app] Service::Handle(int32)[Tier1]      START SIZE NAME, numbers in hex
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::file_source::open_owned;
use super::jit_files::{JitIndex, is_replaced};

/// Read per call of `refresh` at most, in bytes: a runtime writes about 100 bytes a method.
const BYTES: u64 = 256 << 20;
const CHUNK: usize = 256 << 10;
const ENTRIES: usize = 4 << 20;
const NAME_BYTES: usize = 4096;
/// How many pieces of code that begin before an address are looked at: code that was freed and whose memory is used
/// again leaves its lines in the file.
const OVERLAPS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    size: u64,
    /// Where the name begins in the file.
    name: u64,
}

/// The index of one perf map; the names stay in the file.
#[derive(Debug)]
pub(crate) struct PerfMap {
    file: File,
    identity: (u64, u64),
    /// Sorted by start, then by place in the file.
    entries: Vec<Entry>,
    /// Up to where the file was read: the end of a whole line.
    read: u64,
}

impl JitIndex for PerfMap {
    /// Opens and reads a map. `owner`: the uid that must own it (or root must): `/tmp` is everybody's, and another
    /// user's file could put false names into the recording.
    fn open(path: &Path, owner: Option<u32>) -> io::Result<Self> {
        let (file, metadata) = open_owned(path, owner)?;
        let mut map = Self { file, identity: (metadata.dev(), metadata.ino()), entries: Vec::new(), read: 0 };
        map.refresh()?;
        Ok(map)
    }

    fn is_stale(&self, path: &Path) -> bool {
        is_replaced(path, self.identity, self.read)
    }

    /// Reads what was appended.
    fn refresh(&mut self) -> io::Result<()> {
        let before = self.entries.len();
        let mut buffer = vec![0; CHUNK];
        let mut filled = 0;
        let mut position = self.read;
        let mut in_long_line = false;
        let end = self.read.saturating_add(BYTES);
        while position < end && self.entries.len() < ENTRIES {
            let count = self.file.read_at(&mut buffer[filled..], position + filled as u64)?;
            if count == 0 {
                break;
            }
            filled += count;
            let whole =
                buffer[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
            // A line longer than the buffer is no entry: it is dropped, with what follows up to the next newline.
            let used = if whole == 0 && filled == buffer.len() { filled } else { whole };
            let mut at = position;
            for line in buffer[..whole].split_inclusive(|byte| *byte == b'\n') {
                // The end of a line that was dropped is no entry, whatever it says.
                let is_rest = std::mem::take(&mut in_long_line);
                if self.entries.len() < ENTRIES && !is_rest {
                    self.entries.extend(parse(line, at));
                }
                at += line.len() as u64;
            }
            in_long_line |= whole == 0 && used > 0;
            buffer.copy_within(used..filled, 0);
            filled -= used;
            position += used as u64;
            self.read = position;
        }
        if self.entries.len() > before {
            self.entries.sort_unstable_by_key(|entry| (entry.start, entry.name));
        }
        Ok(())
    }
}

impl PerfMap {
    /// The name of the code at `address`: of the line written last that covers it.
    pub(crate) fn find(&self, address: u64) -> Option<String> {
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let near = self.entries[..after].iter().rev().take(OVERLAPS);
        let covering = near.filter(|entry| address - entry.start < entry.size);
        let newest = covering.max_by_key(|entry| entry.name)?;
        let mut name = vec![0; NAME_BYTES];
        let count = self.file.read_at(&mut name, newest.name).ok()?;
        let line = name[..count].split(|byte| *byte == b'\n').next()?;
        let name = String::from_utf8_lossy(line).trim().to_owned();
        (!name.is_empty()).then_some(name)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

/// `START SIZE NAME`; some runtimes write `0x` before the numbers.
fn parse(line: &[u8], at: u64) -> Option<Entry> {
    let mut fields = line.splitn(3, |byte| *byte == b' ');
    let start = hex(fields.next()?)?;
    let size = hex(fields.next()?)?;
    let name = fields.next()?;
    let offset = line.len() - name.len();
    let named = name.iter().any(|byte| !byte.is_ascii_whitespace());
    (named && size > 0).then_some(Entry { start, size, name: at + offset as u64 })
}

fn hex(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    // `from_str_radix` would take a sign.
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Parses arbitrary bytes as a perf map and looks addresses up in it: for fuzzing.
pub(crate) fn fuzz(bytes: &[u8]) {
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let _ = parse(line, number as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn newest_line_wins_and_junk_is_skipped() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(
            b"1000 100 old method\n\
              \n\
              zz 10 no\n\
              1000\n\
              2000 0 empty\n\
              3000 10 \n\
              0x4000 0x10 with prefix\n\
              -5 10 signed\n\
              +5 10 signed\n\
              ffffffffffffffff ffffffffffffffff end\n\
              \xff\xfe\xfd\n\
              5000 10 \xff lossy\n\
              1080 100 new method",
        )
        .unwrap();
        let mut map = PerfMap::open(file.path(), None).unwrap();
        assert_eq!(map.len(), 4);
        assert_eq!(map.find(0x1090).as_deref(), Some("old method"), "the last line is not whole yet");
        file.write_all(b" II\n").unwrap();
        map.refresh().unwrap();
        assert_eq!(map.find(0x1090).as_deref(), Some("new method II"));
        assert_eq!(map.find(0x1010).as_deref(), Some("old method"));
        assert_eq!(map.find(0x400f).as_deref(), Some("with prefix"));
        assert_eq!(map.find(0x4010), None);
        assert_eq!(map.find(0x5000).as_deref(), Some("\u{fffd} lossy"));
        assert_eq!(map.find(u64::MAX).as_deref(), Some("end"));
        assert!(!map.is_stale(file.path()));
        file.as_file().set_len(3).unwrap();
        assert!(map.is_stale(file.path()));
    }

    #[test]
    fn a_line_longer_than_any_buffer_is_no_entry() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"1000 10 first\n2000 10 ").unwrap();
        file.write_all(&vec![b'x'; 3 * CHUNK]).unwrap();
        // Behind a full buffer, what is left of the line looks like one.
        file.write_all(b"\n3000 10 last\n4000 10 ").unwrap();
        let long = vec![b'y'; 2 * CHUNK - "4000 10 ".len()];
        file.write_all(&long).unwrap();
        file.write_all(b"5000 10 no line\n6000 10 after\n").unwrap();
        let map = PerfMap::open(file.path(), None).unwrap();
        assert_eq!(map.find(0x1000).as_deref(), Some("first"));
        assert_eq!(map.find(0x2000), None);
        assert_eq!(map.find(0x3000).as_deref(), Some("last"));
        assert_eq!(map.find(0x5000), None, "the end of a long line is no line");
        assert_eq!(map.find(0x6000).as_deref(), Some("after"));
    }

    #[test]
    fn another_users_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let uid = file.as_file().metadata().unwrap().uid();
        assert!(PerfMap::open(file.path(), Some(uid)).is_ok());
        // Root may write anybody's map; nobody else may.
        assert_eq!(PerfMap::open(file.path(), Some(uid + 1)).is_ok(), uid == 0);
        assert!(PerfMap::open(Path::new("/dev/zero"), None).is_err());
    }
}
