//! Mappings: as they are up to a limit, and summed up by file.

use biopsy_model::order::Order as _;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use biopsy_recording::WriteError;

use super::config::Moment;
use super::members::{Members, one_line};

/// Bytes of the mappings that are gone over: a process may have 65,530 of them, of 100 bytes each.
const MOST_BYTES: usize = 32 << 20;

/// Bytes that are kept as they are.
const KEPT_BYTES: usize = 1 << 20;

/// Files in the summary.
const MOST_FILES: usize = 500;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    bytes: u64,
    mappings: u64,
    executable: u64,
    writable: u64,
}

/// Writes both, and gives the list itself: reading it keeps the process from mapping memory, so it is read once.
pub(super) fn write(members: &mut Members<'_>) -> Result<Vec<u8>, WriteError> {
    let read = members.dir.read("maps", MOST_BYTES);
    let Some(bytes) = members.note("maps", read) else { return Ok(Vec::new()) };
    members.write("maps-summary.txt", &summary(&bytes))?;
    if members.moment == Moment::Start {
        members.write("maps.txt", &kept(&bytes))?;
    }
    Ok(bytes)
}

/// The beginning of the list, and how much more there is.
fn kept(bytes: &[u8]) -> String {
    let end = match bytes.get(..KEPT_BYTES) {
        Some(kept) => kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1),
        None => bytes.len(),
    };
    let mut text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
    let left_out = bytes.get(end..).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    if left_out > 0 {
        let _ = writeln!(text, "[... {left_out} more mappings]");
    }
    text
}

/// Sums by file, the largest first.
fn summary(maps: &[u8]) -> String {
    let mut sums: BTreeMap<Vec<u8>, Sum> = BTreeMap::new();
    let mut total = Sum::default();
    for line in maps.split(|byte| *byte == b'\n') {
        let Some((length, permissions, path)) = parse(line) else { continue };
        for sum in [sums.entry(path.to_vec()).or_default(), &mut total] {
            sum.bytes = sum.bytes.saturating_add(length);
            sum.mappings += 1;
            sum.executable =
                sum.executable.saturating_add(if permissions.contains(&b'x') { length } else { 0 });
            sum.writable = sum.writable.saturating_add(if permissions.contains(&b'w') { length } else { 0 });
        }
    }
    let mut sorted: Vec<(Vec<u8>, Sum)> = sums.into_iter().collect();
    sorted.order_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    let mut text = String::from("  mapped kB  writable kB  executable kB  mappings  what\n");
    let mut line = |sum: &Sum, name: &str| {
        let kilobytes = |bytes: u64| bytes / 1024;
        let _ = writeln!(
            text,
            "{:>11}  {:>11}  {:>13}  {:>8}  {name}",
            kilobytes(sum.bytes),
            kilobytes(sum.writable),
            kilobytes(sum.executable),
            sum.mappings
        );
    };
    line(&total, "all");
    for (path, sum) in sorted.iter().take(MOST_FILES) {
        line(sum, &if path.is_empty() { "[anonymous]".to_owned() } else { one_line(path) });
    }
    if sorted.len() > MOST_FILES {
        let _ = writeln!(text, "[... {} more files]", sorted.len() - MOST_FILES);
    }
    text
}

/// Length, permissions and path (empty: anonymous) of one line of proc_pid_maps(5).
fn parse(line: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let range = std::str::from_utf8(fields.next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let length = u64::from_str_radix(end, 16).ok()?.checked_sub(u64::from_str_radix(start, 16).ok()?)?;
    let permissions = fields.next()?;
    let path = fields.nth(3).unwrap_or_default().trim_ascii_start();
    Some((length, permissions, path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mappings_are_summed_up_by_file() {
        let maps = b"1000-3000 r-xp 00000000 08:01 5                          /usr/lib/my lib.so (deleted)\n\
            3000-4000 rw-p 00002000 08:01 5                          /usr/lib/my lib.so (deleted)\n\
            8000-c000 rw-p 00000000 00:00 0 \n\
            c000-d000 rw-p 00000000 00:00 0                          [heap]\n\
            garbage\n";
        let text = summary(maps);
        let lines: Vec<String> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "32 24 8 4 all",
                "16 16 0 1 [anonymous]",
                "12 4 8 2 /usr/lib/my lib.so (deleted)",
                "4 4 0 1 [heap]"
            ]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(maps in proptest::collection::vec(any::<u8>(), 0..300)) {
            summary(&maps);
        }
    }
}
