//! What a Java virtual machine counts of its heap and its collections, from the memory that it shares for that.
//!
//! HotSpot keeps its counters in a small file that it has mapped (`/tmp/hsperfdata_USER/PID`), for `jstat`. They are read from its memory,
//! nothing is asked of the virtual machine, and no file is opened.
//!
//! ```text
//! header  4 0xcafec0c0 (big-endian) | 1 byte order: 1 little | 2 version | 1 accessible | 4 used | 4 | 8 | 4 offset of entries | 4 number
//! entry   4 length | 4 offset of name | 4 length of vector, 0 for a number | 1 type, J for 64 bits | 3 | 4 offset of data
//! ```
//! `src/hotspot/share/runtime/perfMemory.hpp`.

use std::fmt::Write as _;

use biopsy_bytes::{Cursor, ReadError};
use biopsy_model::Avma;
use biopsy_recording::WriteError;

use super::members::Members;

/// In the path of the file.
const FOLDER: &[u8] = b"/hsperfdata_";
/// The first bytes of it.
const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
/// Bytes that are read: 32 KiB unless somebody asked for more.
const MOST_BYTES: usize = 256 << 10;
/// Entries that are gone over: a few hundred are there.
const MOST_ENTRIES: u32 = 10_000;
/// Counters that are kept: how the names of those of the collector begin.
const KEPT: &str = "sun.gc.";
/// As above, how they end.
const ENDINGS: [&str; 5] = [".used", ".capacity", ".maxCapacity", ".invocations", ".time"];

/// Writes the counters of the collector, where the process is a Java virtual machine that has them.
/// `maps`: its list of mappings.
pub(super) fn write(members: &mut Members<'_>, maps: &[u8]) -> Result<(), WriteError> {
    let Some((start, bytes)) = maps.split(|byte| *byte == b'\n').find_map(place) else { return Ok(()) };
    let mut memory = vec![0u8; bytes.min(MOST_BYTES)];
    let pid = biopsy_model::Tid(members.pid.0);
    let read = biopsy_sys::memory::read(pid, Avma(start), &mut memory).unwrap_or(0);
    let counters = memory.get(..read).map(parse).and_then(Result::ok).unwrap_or_default();
    if counters.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    for (name, value) in counters {
        let _ = writeln!(text, "{name} {value}");
    }
    members.write("jvm.txt", &text)
}

/// Start and length of the mapping of the file in a line of the list of mappings.
fn place(line: &[u8]) -> Option<(u64, usize)> {
    let at = line.windows(FOLDER.len()).position(|part| part == FOLDER)?;
    line.get(..at).filter(|before| before.contains(&b'/'))?;
    let range = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    Some((start, usize::try_from(end.checked_sub(start)?).ok()?))
}

/// The counters that are kept, by name.
fn parse(bytes: &[u8]) -> Result<Vec<(String, i64)>, ReadError> {
    let mut header = Cursor::new(bytes);
    let magic = header.array::<4>("magic")?;
    if magic != MAGIC || header.u8("byte order")? != 1 {
        return Ok(Vec::new());
    }
    header.skip("version, used, times", 19)?;
    let mut at = header.u32("offset of entries")?;
    let count = header.u32("number of entries")?.min(MOST_ENTRIES);
    let mut found = Vec::new();
    for _ in 0..count {
        let mut entry = Cursor::new(bytes.get(at as usize..).unwrap_or_default());
        let length = entry.u32("length of an entry")?;
        let name = entry.u32("offset of a name")?;
        let vector = entry.u32("length of a vector")?;
        let kind = entry.u8("type")?;
        entry.skip("flags", 3)?;
        let data = entry.u32("offset of data")?;
        let of_entry = |offset: u32| bytes.get(at.checked_add(offset)? as usize..);
        let text = of_entry(name).and_then(|rest| rest.split(|byte| *byte == 0).next());
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        if let Some(name) = text.filter(|name| kind == b'J' && vector == 0 && is_kept(name)) {
            let value = Cursor::new(of_entry(data).unwrap_or_default()).i64("a counter")?;
            found.push((name.to_owned(), value));
        }
        at = at.saturating_add(length.max(1));
    }
    Ok(found)
}

/// Reads any bytes as that file, and as a list of mappings with it: for fuzzing. Never panics.
pub(super) fn fuzz(bytes: &[u8]) {
    for (name, _) in parse(bytes).unwrap_or_default() {
        assert!(is_kept(&name), "kept without being wanted: {name}");
    }
    let _ = bytes.split(|byte| *byte == b'\n').find_map(place);
}

fn is_kept(name: &str) -> bool {
    name.starts_with(KEPT) && ENDINGS.iter().any(|ending| name.ends_with(ending)) && name.len() < 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(entries: &[(&str, u8, u32, i64)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 2, 0, 1]);
        bytes.extend([0; 16]);
        bytes.extend(32u32.to_le_bytes());
        bytes.extend((entries.len() as u32).to_le_bytes());
        for (name, kind, vector, value) in entries {
            let data = (20 + name.len() as u32 + 1).next_multiple_of(8);
            let length = data + 8;
            for word in [length, 20, *vector] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend([*kind, 0, 0, 0]);
            bytes.extend(data.to_le_bytes());
            bytes.extend(name.bytes());
            bytes.resize(bytes.len() + (data as usize - 20 - name.len()), 0);
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn counters_of_the_collector_are_read() {
        let bytes = file(&[
            ("sun.gc.collector.0.invocations", b'J', 0, 7),
            ("java.rt.vmArgs", b'B', 9, 0),
            ("sun.gc.generation.1.space.0.used", b'J', 0, 1 << 40),
            ("java.threads.live", b'J', 0, 3),
        ]);
        let wanted = [("sun.gc.collector.0.invocations", 7), ("sun.gc.generation.1.space.0.used", 1 << 40)];
        assert_eq!(parse(&bytes).unwrap(), wanted.map(|(name, value)| (name.to_owned(), value)));
        for cut in 0..bytes.len() {
            let _ = parse(&bytes[..cut]);
        }
        assert_eq!(parse(&[0; 64]).unwrap(), [], "another file");
    }

    #[test]
    fn the_mapping_is_found_by_its_path() {
        let line = b"7f00-7f80 rw-s 00000000 fe:00 77   /tmp/hsperfdata_shop/4711";
        assert_eq!(place(line), Some((0x7f00, 0x80)));
        assert_eq!(place(b"7f00-7f80 rw-s 00000000 fe:00 77   /tmp/shop"), None);
        assert_eq!(place(b""), None);
    }
}
