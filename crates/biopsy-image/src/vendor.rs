//! The notes with owner `biopsy` in the cores that we write: encoding and parsing side by side (`docs/formats/core.md`).

use biopsy_elf::put_note;
use biopsy_elf::raw::NoteType;
use std::ops::Range;

use biopsy_bytes::Cursor;
pub use biopsy_model::dump::{CaptureMethod, CoreKind, Reason};

use biopsy_model::Tid;

use crate::{Backing, Mapping, Protection};

/// Owner of the notes.
pub const OWNER: &[u8] = b"biopsy";
/// Version that is written, and the newest that is understood.
pub const VERSION: u32 = 1;
/// Type of the note about the dump. Types are far from the kernel's: gdb looks at the type without the owner, and refuses a core
/// whose note 1 is not an NT_PRSTATUS.
pub const DUMP: NoteType = NoteType(0x6269_6f01);
/// Type of the note of threads.
pub const THREADS: NoteType = NoteType(0x6269_6f02);
/// Type of the note of mappings.
pub const MAPPINGS: NoteType = NoteType(0x6269_6f03);
/// Type of the note of what was left out.
pub const LEFT_OUT: NoteType = NoteType(0x6269_6f04);
/// Type of the note at the end of the file.
pub const END: NoteType = NoteType(0x6269_6f05);
/// Type of the note of what the core lacks, in words: threads that could not be stopped in time, for example.
pub const WARNINGS: NoteType = NoteType(0x6269_6f06);
/// Most of these that are written and read.
const MOST_WARNINGS: usize = 1024;
/// Size in bytes of the end note with its header and padding: its place is reserved before memory is read.
pub const END_NOTE_SIZE: u64 = 64 * 1024;

/// Size of a range on disk.
const RANGE_SIZE: usize = 24;
/// Header of a note and our owner, padded.
const NOTE_HEAD: usize = 12 + 8;

/// A range of addresses that is not in the core.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MissingRange {
    /// Addresses.
    pub range: Range<u64>,
    /// Why.
    pub reason: Reason,
}

/// What the note `DUMP` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DumpNote {
    /// Version of the notes.
    pub version: u32,
    /// What it holds; `None`: a kind that this version does not know.
    pub kind: Option<CoreKind>,
    /// Secrets of known shapes were masked.
    pub scrubbed: bool,
    /// Anonymous pages that are not there are zeros.
    pub absent_are_zeros: bool,
    /// How the memory was got.
    pub method: CaptureMethod,
    /// When, nanoseconds since 1970 in UTC.
    pub taken_at_unix_nanos: Option<i64>,
    /// How long the process was stopped, in nanoseconds.
    pub pause_nanos: Option<u64>,
    /// Where the end note is in the (uncompressed) file.
    pub end_note_offset: u64,
    /// Program that wrote it.
    pub writer: String,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Path of the executable.
    pub executable: Option<Vec<u8>>,
}

/// A thread of the note `THREADS`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadNote {
    /// Its id.
    pub tid: Tid,
    /// Whether it has an NT_PRSTATUS.
    pub has_registers: bool,
    /// Its name.
    pub name: Option<Vec<u8>>,
}

/// What the note `END` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndNote {
    /// Ranges that are zeros in the file and mean nothing.
    pub missing: Vec<MissingRange>,
    /// There were more than fit: neighbours were joined.
    pub coarse: bool,
}

impl DumpNote {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let kind = match self.kind {
            Some(CoreKind::Full) => 1,
            Some(CoreKind::Heap) => 2,
            Some(CoreKind::Stacks) => 3,
            None => 0,
        };
        let method = match self.method {
            CaptureMethod::Unknown => 0,
            CaptureMethod::CopyOnWrite => 1,
            CaptureMethod::StopAndCopy => 2,
            CaptureMethod::Held => 3,
        };
        let flags = u32::from(self.scrubbed) | u32::from(self.absent_are_zeros) << 1;
        for word in [self.version, kind, flags, method] {
            put_u32(&mut out, word);
        }
        out.extend_from_slice(&self.taken_at_unix_nanos.unwrap_or(0).to_le_bytes());
        put_u64(&mut out, self.pause_nanos.unwrap_or(u64::MAX));
        put_u64(&mut out, self.end_note_offset);
        put_text(&mut out, self.writer.as_bytes());
        put_text(&mut out, self.kernel.as_deref().unwrap_or_default().as_bytes());
        put_text(&mut out, self.executable.as_deref().unwrap_or_default());
        out
    }

    /// From bytes.
    ///
    /// # Errors
    /// A field is cut off.
    pub fn parse(bytes: &[u8]) -> Result<Self, biopsy_bytes::ReadError> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.u32("version")?;
        let kind = match cursor.u32("kind")? {
            1 => Some(CoreKind::Full),
            2 => Some(CoreKind::Heap),
            3 => Some(CoreKind::Stacks),
            _ => None,
        };
        let flags = cursor.u32("flags")?;
        let method = match cursor.u32("method")? {
            1 => CaptureMethod::CopyOnWrite,
            2 => CaptureMethod::StopAndCopy,
            3 => CaptureMethod::Held,
            _ => CaptureMethod::Unknown,
        };
        let taken_at = cursor.i64("time taken")?;
        let pause = cursor.u64("pause")?;
        let end_note_offset = cursor.u64("end note offset")?;
        let writer = String::from_utf8_lossy(text(&mut cursor, "writer")?).into_owned();
        let kernel = String::from_utf8_lossy(text(&mut cursor, "kernel")?).into_owned();
        let executable = text(&mut cursor, "executable")?;
        Ok(Self {
            version,
            kind,
            scrubbed: flags & 1 != 0,
            absent_are_zeros: flags & 2 != 0,
            method,
            taken_at_unix_nanos: (taken_at != 0).then_some(taken_at),
            pause_nanos: (pause != u64::MAX).then_some(pause),
            end_note_offset,
            writer,
            kernel: (!kernel.is_empty()).then_some(kernel),
            executable: (!executable.is_empty()).then(|| executable.to_vec()),
        })
    }
}

/// Contents of the note `THREADS`.
#[must_use]
pub fn encode_threads(threads: &[ThreadNote]) -> Vec<u8> {
    let mut out = Vec::with_capacity(threads.len().saturating_mul(28));
    for thread in threads {
        put_u32(&mut out, thread.tid.0);
        put_u32(&mut out, u32::from(thread.has_registers) | u32::from(thread.name.is_some()) << 1);
        put_text(&mut out, thread.name.as_deref().unwrap_or_default());
    }
    out
}

/// Threads of a note `THREADS`, those that are whole.
#[must_use]
pub fn parse_threads(bytes: &[u8]) -> Vec<ThreadNote> {
    let mut cursor = Cursor::new(bytes);
    let mut threads = Vec::new();
    let mut one = || {
        let tid = Tid(cursor.u32("tid")?);
        let flags = cursor.u32("flags")?;
        let name = text(&mut cursor, "name")?;
        let name = (flags & 2 != 0).then(|| name.to_vec());
        Ok::<_, biopsy_bytes::ReadError>(ThreadNote { tid, has_registers: flags & 1 != 0, name })
    };
    while let Ok(thread) = one() {
        threads.push(thread);
    }
    threads
}

/// Contents of the note `WARNINGS`.
#[must_use]
pub fn encode_warnings(warnings: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for warning in warnings.iter().take(MOST_WARNINGS) {
        put_text(&mut out, warning.as_bytes());
    }
    out
}

/// Texts of a note `WARNINGS`, those that are whole.
#[must_use]
pub fn parse_warnings(bytes: &[u8]) -> Vec<String> {
    let mut cursor = Cursor::new(bytes);
    let mut warnings = Vec::new();
    while warnings.len() < MOST_WARNINGS
        && cursor.remaining() > 0
        && let Ok(warning) = text(&mut cursor, "warning")
    {
        warnings.push(String::from_utf8_lossy(warning).into_owned());
    }
    warnings
}

/// Contents of the note `MAPPINGS`.
#[must_use]
pub fn encode_mappings(mappings: &[Mapping]) -> Vec<u8> {
    let mut out = Vec::with_capacity(mappings.len().saturating_mul(40));
    for mapping in mappings {
        let Protection { read, write, execute } = mapping.protection;
        let nothing = String::new();
        let (backing, label, deleted, identity) = match &mapping.backing {
            Backing::Unknown => (0, &nothing, false, (0, 0)),
            Backing::Anonymous { label } => (1, label, false, (0, 0)),
            Backing::File { deleted, identity, .. } => (2, &nothing, *deleted, *identity),
            Backing::Kernel { label } => (3, label, false, (0, 0)),
        };
        let flags = u32::from(read)
            | u32::from(write) << 1
            | u32::from(execute) << 2
            | u32::from(mapping.shared) << 3
            | u32::from(mapping.not_frozen) << 4
            | u32::from(deleted) << 5
            | backing << 8;
        for word in [mapping.start, mapping.end, identity.0, identity.1] {
            put_u64(&mut out, word);
        }
        put_u32(&mut out, flags);
        put_text(&mut out, label.as_bytes());
    }
    out
}

/// Mappings of a note `MAPPINGS`, those that are whole. Files have an empty path and offset 0: these are in NT_FILE.
#[must_use]
pub fn parse_mappings(bytes: &[u8]) -> Vec<Mapping> {
    let mut cursor = Cursor::new(bytes);
    let mut mappings = Vec::new();
    let mut one = || {
        let start = cursor.u64("start")?;
        let end = cursor.u64("end")?;
        let identity = (cursor.u64("device")?, cursor.u64("inode")?);
        let flags = cursor.u32("flags")?;
        let label = String::from_utf8_lossy(text(&mut cursor, "label")?).into_owned();
        let backing = match flags >> 8 & 3 {
            1 => Backing::Anonymous { label },
            2 => Backing::File { path: Vec::new(), offset: 0, deleted: flags & 0x20 != 0, identity },
            3 => Backing::Kernel { label },
            _ => Backing::Unknown,
        };
        Ok::<_, biopsy_bytes::ReadError>(Mapping {
            start,
            end,
            protection: Protection { read: flags & 1 != 0, write: flags & 2 != 0, execute: flags & 4 != 0 },
            shared: flags & 8 != 0,
            backing,
            not_frozen: flags & 0x10 != 0,
        })
    };
    while let Ok(mapping) = one() {
        mappings.push(mapping);
    }
    mappings
}

/// Contents of the note `LEFT_OUT`.
#[must_use]
pub fn encode_left_out(ranges: &[MissingRange]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ranges.len().saturating_mul(RANGE_SIZE));
    for one in ranges {
        put_range(&mut out, one);
    }
    out
}

/// Ranges of a note `LEFT_OUT`, those that are whole and not empty; unknown reasons are taken as [`Reason::Kind`].
#[must_use]
pub fn parse_left_out(bytes: &[u8]) -> Vec<MissingRange> {
    bytes.as_chunks::<RANGE_SIZE>().0.iter().filter_map(parse_range).collect()
}

/// The whole end note, header and padding included: [`END_NOTE_SIZE`] bytes. Joins neighbours where there are more ranges
/// than fit.
#[must_use]
pub fn encode_end_note(missing: &[MissingRange]) -> Vec<u8> {
    let size = END_NOTE_SIZE as usize;
    let room = (size - NOTE_HEAD - 16) / RANGE_SIZE;
    let joined = join_to(missing, room);
    let mut out = Vec::with_capacity(size);
    for word in [VERSION, 1, joined.len() as u32, u32::from(joined.len() < missing.len())] {
        put_u32(&mut out, word);
    }
    for one in &joined {
        put_range(&mut out, one);
    }
    out.resize(size - NOTE_HEAD, 0);
    let mut note = Vec::with_capacity(size);
    put_note(&mut note, OWNER, END, &out);
    note
}

/// The note `END` from its contents; `None` when it does not say that the file is complete.
#[must_use]
pub fn parse_end(bytes: &[u8]) -> Option<EndNote> {
    let mut cursor = Cursor::new(bytes);
    let version = cursor.u32("version").ok()?;
    let state = cursor.u32("state").ok()?;
    let count = usize::try_from(cursor.u32("count").ok()?).ok()?;
    let flags = cursor.u32("flags").ok()?;
    if version == 0 || state != 1 {
        return None;
    }
    let ranges = cursor.take("ranges", count.checked_mul(RANGE_SIZE)?).ok()?;
    Some(EndNote { missing: parse_left_out(ranges), coarse: flags & 1 != 0 })
}

/// At most `room` ranges that cover all of `missing` (by address), joined across the smallest gaps.
fn join_to(missing: &[MissingRange], room: usize) -> Vec<MissingRange> {
    if missing.len() <= room {
        return missing.to_vec();
    }
    let mut gaps: Vec<u64> =
        missing.windows(2).map(|two| two[1].range.start.saturating_sub(two[0].range.end)).collect();
    gaps.sort_unstable();
    // Joining across every gap up to this one leaves `room` ranges or fewer.
    let widest = gaps.get(missing.len().saturating_sub(room.max(1) + 1)).copied().unwrap_or(u64::MAX);
    let mut joined: Vec<MissingRange> = Vec::new();
    for one in missing {
        match joined.last_mut() {
            Some(last) if one.range.start.saturating_sub(last.range.end) <= widest => {
                last.range.end = last.range.end.max(one.range.end);
            }
            _ => joined.push(one.clone()),
        }
    }
    joined.truncate(room);
    joined
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_u32(out, u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.extend_from_slice(text);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn put_range(out: &mut Vec<u8>, one: &MissingRange) {
    put_u64(out, one.range.start);
    put_u64(out, one.range.end);
    let number = Reason::ALL.iter().position(|&reason| reason == one.reason).map_or(0, |at| at as u32 + 1);
    put_u32(out, number);
    put_u32(out, 0);
}

fn parse_range(chunk: &[u8; RANGE_SIZE]) -> Option<MissingRange> {
    let mut cursor = Cursor::new(chunk);
    let start = cursor.u64("start").ok()?;
    let end = cursor.u64("end").ok()?;
    let number = usize::try_from(cursor.u32("reason").ok()?).ok()?;
    let reason = number.checked_sub(1).and_then(|at| Reason::ALL.get(at));
    (start < end)
        .then_some(MissingRange { range: start..end, reason: reason.copied().unwrap_or(Reason::Kind) })
}

fn text<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<&'a [u8], biopsy_bytes::ReadError> {
    let length = cursor.u32(field)?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let taken = cursor.take(field, length)?;
    let padding = length.next_multiple_of(4) - length;
    // The last text of a note may lack its padding.
    let _ = cursor.skip(field, padding.min(cursor.remaining()));
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dump_note_reads_back() {
        let note = DumpNote {
            version: VERSION,
            kind: Some(CoreKind::Heap),
            scrubbed: true,
            absent_are_zeros: true,
            method: CaptureMethod::CopyOnWrite,
            taken_at_unix_nanos: Some(1_763_000_000_000_000_123),
            pause_nanos: Some(1_900_000),
            end_note_offset: 0x12_3000,
            writer: "biopsy 0.1.0".into(),
            kernel: Some("6.18.0".into()),
            executable: Some(b"/opt/odd name\n\xff".to_vec()),
        };
        assert_eq!(DumpNote::parse(&note.encode()).unwrap(), note);
        assert!(DumpNote::parse(&note.encode()[..30]).is_err());
    }

    #[test]
    fn threads_mappings_and_ranges_read_back() {
        let threads = vec![
            ThreadNote { tid: Tid(7), has_registers: true, name: Some(b"a".to_vec()) },
            ThreadNote { tid: Tid(8), has_registers: false, name: None },
        ];
        assert_eq!(parse_threads(&encode_threads(&threads)), threads);
        let mappings = vec![
            Mapping {
                start: 0x1000,
                end: 0x3000,
                protection: Protection { read: true, write: true, execute: false },
                shared: false,
                backing: Backing::Anonymous { label: "[heap]".into() },
                not_frozen: true,
            },
            Mapping {
                start: 0x3000,
                end: 0x4000,
                protection: Protection { read: true, write: false, execute: true },
                shared: true,
                backing: Backing::File { path: Vec::new(), offset: 0, deleted: true, identity: (3, 4) },
                not_frozen: false,
            },
        ];
        assert_eq!(parse_mappings(&encode_mappings(&mappings)), mappings);
        let ranges: Vec<_> = Reason::ALL
            .iter()
            .zip(1u64..)
            .map(|(&reason, at)| MissingRange { range: at * 0x1000..at * 0x1000 + 1, reason })
            .collect();
        assert_eq!(parse_left_out(&encode_left_out(&ranges)), ranges);
    }

    #[test]
    fn an_end_note_with_too_many_ranges_covers_all_of_them() {
        let missing: Vec<_> = (0..10_000u64)
            .map(|at| MissingRange {
                range: at * 0x3000..at * 0x3000 + 0x1000 + at % 3 * 0x800,
                reason: Reason::Gone,
            })
            .collect();
        let note = encode_end_note(&missing);
        assert_eq!(note.len() as u64, END_NOTE_SIZE);
        let end = parse_end(&note[NOTE_HEAD..]).unwrap();
        assert!(end.coarse);
        for one in &missing {
            assert!(
                end.missing
                    .iter()
                    .any(|joined| joined.range.start <= one.range.start && one.range.end <= joined.range.end)
            );
        }
    }

    #[test]
    fn zeros_are_not_an_end() {
        assert_eq!(parse_end(&[0; 64]), None);
    }

    /// Cores that were written keep their meaning: numbers of reasons are part of the format.
    #[test]
    fn reasons_keep_their_numbers() {
        let reasons = [
            (1, Reason::Zero),
            (2, Reason::InFile),
            (3, Reason::Kind),
            (4, Reason::Ceiling),
            (5, Reason::Unreadable),
            (6, Reason::Gone),
            (7, Reason::Device),
            (8, Reason::NoTime),
        ];
        assert_eq!(reasons.len(), Reason::ALL.len());
        for (number, reason) in reasons {
            let one = MissingRange { range: 0x1000..0x2000, reason };
            let bytes = encode_left_out(std::slice::from_ref(&one));
            let written = bytes.len() - RANGE_SIZE + 16;
            assert_eq!(bytes[written..written + 4], u32::to_le_bytes(number), "{reason:?}");
            assert_eq!(parse_left_out(&bytes), [one]);
            let mut unknown = bytes;
            unknown[written] = 9;
            assert_eq!(parse_left_out(&unknown)[0].reason, Reason::Kind, "of a newer version");
        }
    }
}
