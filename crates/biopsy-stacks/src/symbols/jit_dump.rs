//! Jitdump files: code with names and lines, written by JIT compilers for `perf inject` (JVM with `libperf-jvmti.so`,
//! V8 with `--perf-prof`); tools/perf/Documentation/jitdump-specification.txt in the Linux sources.
//!
//! ```text
//! header:  0 "DTiJ" magic  4 version  8 header size  12 machine  16 pad  20 pid  24 timestamp  32 flags  40
//! record:  0 id  4 total size  8 timestamp  16 ...
//! LOAD 0:  16 pid  20 tid  24 vma  32 code address  40 code size  48 index  56 name\0 code
//! MOVE 1:  16 pid  20 tid  24 vma  32 old address  40 new address  48 code size  56 index  64
//! DEBUG 2: 16 code address  24 count  32 { address, line: u32, discriminator: u32, file name\0 }
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use biopsy_model::symbol::Function;
use rustc_hash::FxHashMap;

use super::file_source::open_owned;
use super::jit_files::{JitIndex, is_replaced};
use crate::elf::bytes::{u32_at, u64_at};

const MAGIC: u32 = 0x4a69_5444;
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const DEBUG: u32 = 2;
/// Records of one file that are kept.
const RECORDS: usize = 2 << 20;
const NAME_BYTES: usize = 4096;
/// Line entries of one piece of code that are read, in bytes.
const LINE_BYTES: usize = 1 << 20;
const OVERLAPS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    size: u64,
    order: u32,
    /// Place of the name in the file.
    name: u64,
    /// Place and size of the line entries.
    lines: Option<(u64, u32)>,
}

/// The index of one jitdump; names and lines stay in the file.
#[derive(Debug)]
pub(crate) struct JitDump {
    file: File,
    identity: (u64, u64),
    entries: Vec<Entry>,
    /// The newest place of each piece of code by the compiler's number for it, which moves refer to.
    newest: FxHashMap<u64, Entry>,
    next: u64,
    /// Lines that belong to the next load of code at this address.
    pending: Option<(u64, u64, u32)>,
    order: u32,
}

impl JitIndex for JitDump {
    fn open(path: &Path, owner: Option<u32>) -> io::Result<Self> {
        let (file, metadata) = open_owned(path, owner)?;
        let mut header = [0; 40];
        file.read_exact_at(&mut header, 0)?;
        let size = u32_at(&header, 8).unwrap_or(0);
        if u32_at(&header, 0) != Some(MAGIC) || size < 40 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a jitdump file"));
        }
        let identity = (metadata.dev(), metadata.ino());
        let mut dump = Self {
            file,
            identity,
            entries: Vec::new(),
            newest: FxHashMap::default(),
            next: u64::from(size),
            pending: None,
            order: 0,
        };
        dump.refresh()?;
        Ok(dump)
    }

    fn is_stale(&self, path: &Path) -> bool {
        is_replaced(path, self.identity, self.next)
    }

    /// Reads the records that were appended.
    fn refresh(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let before = self.entries.len();
        let mut raw = [0; 64];
        while self.entries.len() < RECORDS {
            let Some(rest) = length.checked_sub(self.next).filter(|rest| *rest >= 16) else { break };
            let count = usize::try_from(rest).unwrap_or(usize::MAX).min(raw.len());
            self.file.read_exact_at(&mut raw[..count], self.next)?;
            let raw = &raw[..count];
            let (Some(id), Some(size)) = (u32_at(raw, 0), u32_at(raw, 4)) else { break };
            if size < 16 || u64::from(size) > rest {
                break; // Not written to its end yet, or damaged: read again at the next call.
            }
            self.take(id, size, raw);
            self.next += u64::from(size);
        }
        if self.entries.len() > before {
            self.entries.sort_unstable_by_key(|entry| (entry.start, entry.order));
        }
        Ok(())
    }
}

impl JitDump {
    fn take(&mut self, id: u32, size: u32, raw: &[u8]) {
        let field = |offset| u64_at(raw, offset).unwrap_or(0);
        self.order += 1;
        match id {
            LOAD if size > 56 => {
                let start = field(32);
                let pending = self.pending.take().filter(|(address, ..)| *address == start);
                let lines = pending.map(|(_, at, size)| (at, size));
                let entry = Entry { start, size: field(40), order: self.order, name: self.next + 56, lines };
                self.entries.push(entry);
                self.newest.insert(field(48), entry);
            }
            MOVE if size >= 64 => {
                if let Some(entry) = self.newest.get_mut(&field(56)) {
                    *entry =
                        Entry { start: field(40), size: field(48), order: self.order, lines: None, ..*entry };
                    self.entries.push(*entry);
                }
            }
            DEBUG if size >= 32 => self.pending = Some((field(16), self.next + 32, size - 32)),
            _ => {}
        }
    }

    /// Name, and file and line where the compiler wrote them, of the code loaded last at `address`.
    pub(crate) fn find(&self, address: u64) -> Option<Function> {
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let near = self.entries[..after].iter().rev().take(OVERLAPS);
        let newest =
            near.filter(|entry| address - entry.start < entry.size).max_by_key(|entry| entry.order)?;
        let name = self.text(newest.name)?;
        let line = newest.lines.and_then(|(at, size)| self.line(at, size, address));
        let (file, line) = line.unzip();
        Some(Function { name, file, line })
    }

    fn text(&self, at: u64) -> Option<String> {
        let mut raw = vec![0; NAME_BYTES];
        let count = self.file.read_at(&mut raw, at).ok()?;
        let name = raw[..count].split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn line(&self, at: u64, size: u32, address: u64) -> Option<(String, u32)> {
        let mut raw = vec![0; (size as usize).min(LINE_BYTES)];
        self.file.read_exact_at(&mut raw, at).ok()?;
        let mut rest = &raw[..];
        let mut best: Option<(u64, u32, &[u8])> = None;
        let mut file: &[u8] = b"";
        while let (Some(start), Some(line)) = (u64_at(rest, 0), u32_at(rest, 8)) {
            let Some(tail) = rest.get(16..) else { break };
            let Some(end) = tail.iter().position(|byte| *byte == 0) else { break };
            // "\xff" stands for the same name as before.
            if &tail[..end] != b"\xff" {
                file = &tail[..end];
            }
            if start <= address && best.is_none_or(|(at, ..)| at <= start) {
                best = Some((start, line, file));
            }
            rest = &tail[end + 1..];
        }
        let (_, line, file) = best?;
        Some((String::from_utf8_lossy(file).into_owned(), line))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn words(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn record(id: u32, body: &[u8]) -> Vec<u8> {
        let mut raw = id.to_le_bytes().to_vec();
        raw.extend((16 + body.len() as u32).to_le_bytes());
        raw.extend(1_u64.to_le_bytes());
        raw.extend(body);
        raw
    }

    fn load(address: u64, size: u64, index: u64, name: &str) -> Vec<u8> {
        let mut body = words(&[7, address, address, size, index]);
        body.extend(name.as_bytes());
        body.push(0);
        body.extend(vec![0x90; size as usize]);
        record(LOAD, &body)
    }

    #[test]
    fn names_lines_moves_and_a_record_cut_short() {
        let mut bytes = Vec::new();
        for word in [MAGIC, 1, 40, 62, 0, 7] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(words(&[0, 0]));
        let mut lines = words(&[0x1000, 2]);
        for (address, line, name) in [(0x1000_u64, 10_u32, &b"Foo.java\0"[..]), (0x1008, 12, b"\xff\0")] {
            lines.extend(address.to_le_bytes());
            lines.extend(line.to_le_bytes());
            lines.extend([0; 4]);
            lines.extend(name);
        }
        bytes.extend(record(DEBUG, &lines));
        bytes.extend(load(0x1000, 0x20, 1, "Foo.bar()"));
        bytes.extend(load(0x2000, 0x20, 2, "Foo.baz()"));
        bytes.extend(record(MOVE, &words(&[7, 0, 0x2000, 0x3000, 0x20, 2])));
        let late = load(0x1000, 0x10, 3, "later");
        bytes.extend(&late[..late.len() - 4]);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let mut dump = JitDump::open(file.path(), None).unwrap();
        let found = dump.find(0x1009).unwrap();
        assert_eq!(
            (found.name.as_str(), found.file.as_deref(), found.line),
            ("Foo.bar()", Some("Foo.java"), Some(12))
        );
        assert_eq!(dump.find(0x3001).unwrap().name, "Foo.baz()");
        assert_eq!(dump.find(0x4000), None);
        file.write_all(&late[late.len() - 4..]).unwrap();
        dump.refresh().unwrap();
        assert_eq!(dump.find(0x1009).unwrap().name, "later");
    }
}
