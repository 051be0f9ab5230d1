//! Records: a header of 8 bytes and a body whose layout depends on the event it belongs to.

use super::attr::{Attr, flag, sample};
use super::header::{Container, Event, ids, text};
use crate::{ImportError, Limits};
use biopsy_bytes::{Cursor, ReadError};
use rustc_hash::FxHashMap;

/// Record types (`enum perf_event_type`, and perf's own from 64 on).
mod kind {
    pub(super) const MMAP: u32 = 1;
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const THROTTLE: u32 = 5;
    pub(super) const UNTHROTTLE: u32 = 6;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MMAP2: u32 = 10;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const SWITCH: u32 = 14;
    pub(super) const SWITCH_CPU_WIDE: u32 = 15;
    pub(super) const USER: u32 = 64;
    pub(super) const HEADER_ATTR: u32 = 64;
    pub(super) const HEADER_TRACING_DATA: u32 = 66;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const HEADER_FEATURE: u32 = 80;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// Bits of a header's `misc`.
mod misc {
    pub(super) const COMM_EXEC: u16 = 1 << 13;
    pub(super) const MMAP_DATA: u16 = 1 << 13;
    pub(super) const SWITCH_OUT: u16 = 1 << 13;
    pub(super) const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    pub(super) const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// One record, not yet looked into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    kind: u32,
    misc: u16,
    body: &'a [u8],
    /// Index of its event.
    pub(crate) event: usize,
    /// Time on perf's clock; zero: it has none (perf wrote it at the start, from /proc).
    pub(crate) time: u64,
}

/// What was found beside the records themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scan {
    /// The data ends within a record.
    pub(crate) cut_short: bool,
    /// There are more records than the limit.
    pub(crate) over_limit: bool,
}

/// Finds all records and puts them in order of time. Also reads events and features of pipe mode.
pub(crate) fn scan<'a>(
    container: &mut Container<'a>,
    limits: &Limits,
) -> Result<(Vec<Raw<'a>>, Scan), ImportError> {
    let mut scan = Scan::default();
    let mut records = Vec::new();
    let mut cursor = Cursor::at(container.data, container.data_offset);
    let mut layout: Option<Layout> = None;
    while cursor.remaining() >= 8 {
        if records.len() >= limits.records {
            scan.over_limit = true;
            break;
        }
        let Ok((kind, misc, mut body)) = next(&mut cursor) else {
            scan.cut_short = true;
            break;
        };
        match kind {
            kind::HEADER_ATTR => {
                if container.events.len() < limits.events && layout.is_none() {
                    container.events.push(header_attr(&mut body, limits)?);
                }
            }
            kind::HEADER_FEATURE => {
                if let Ok(feature) = body.u64("feature.id") {
                    container
                        .features
                        .entry(u32::try_from(feature).unwrap_or(u32::MAX))
                        .or_insert(body.rest());
                }
            }
            kind::HEADER_TRACING_DATA | kind::AUXTRACE => {
                scan.cut_short |= skip_following(&mut cursor, kind, &mut body).is_err();
            }
            kind if kind >= kind::USER => {}
            _ => {
                if layout.is_none() {
                    layout = Some(Layout::new(&container.events)?);
                }
                let Some(layout) = &layout else { continue };
                let (event, time) = layout.place(kind, body.rest(), &container.events);
                records.push(Raw { kind, misc, body: body.rest(), event, time });
            }
        }
    }
    scan.cut_short |= !cursor.is_empty() && !scan.over_limit;
    container.name_events(limits);
    // Each CPU has a buffer of its own, and perf writes them one after the other. The sort is stable: of records of one
    // moment, the one perf wrote first comes first.
    records.sort_by_key(|record| record.time);
    Ok((records, scan))
}

/// Where a record is, with what belongs to it.
pub(crate) struct Extent<'a> {
    /// Its bytes, and those that follow it and belong to it.
    pub(crate) whole: &'a [u8],
    /// What it holds of the zstd stream, if it is packed.
    pub(crate) packed: Option<&'a [u8]>,
}

/// The next record, without looking into it.
pub(crate) fn extent<'a>(cursor: &mut Cursor<'a>) -> Result<Extent<'a>, ReadError> {
    let rest = cursor.rest();
    let mut behind = *cursor;
    let (kind, _, mut body) = next(&mut behind)?;
    let packed = match kind {
        kind::COMPRESSED => Some(body.rest()),
        kind::COMPRESSED2 => {
            let size = body.u64("compressed2.data_size")?;
            Some(words(&mut body, "compressed2.data", size, 1)?)
        }
        _ => {
            skip_following(&mut behind, kind, &mut body)?;
            None
        }
    };
    let length = rest.len() - behind.remaining();
    *cursor = behind;
    Ok(Extent { whole: rest.get(..length).unwrap_or_default(), packed })
}

/// Skips what follows a record and belongs to it.
fn skip_following(cursor: &mut Cursor<'_>, kind: u32, body: &mut Cursor<'_>) -> Result<(), ReadError> {
    match kind {
        kind::HEADER_TRACING_DATA => {
            // Padded to 8 bytes.
            let size = body.u32("tracing_data.size").unwrap_or(0) as usize;
            cursor.skip("tracing_data", size.next_multiple_of(8))
        }
        kind::AUXTRACE => {
            let size = body.u64("auxtrace.size").unwrap_or(0);
            cursor.skip("auxtrace", usize::try_from(size).unwrap_or(usize::MAX))
        }
        _ => Ok(()),
    }
}

fn next<'a>(cursor: &mut Cursor<'a>) -> Result<(u32, u16, Cursor<'a>), ReadError> {
    let kind = cursor.u32("record.type")?;
    let misc = cursor.u16("record.misc")?;
    let size = usize::from(cursor.u16("record.size")?);
    if size < 8 {
        return Err(cursor.error(
            "record.size",
            biopsy_bytes::ReadErrorKind::Unexpected { expected: 8, found: size as u64 },
        ));
    }
    Ok((kind, misc, cursor.sub("record", size - 8)?))
}

fn header_attr(body: &mut Cursor<'_>, limits: &Limits) -> Result<Event, ReadError> {
    let whole = body.rest();
    let (attr, size) = Attr::parse(body)?;
    Ok(Event::new(attr, ids(whole.get(size..).unwrap_or(&[]), limits)))
}

/// How to tell the event of a record before its layout is known.
#[derive(Debug)]
struct Layout {
    by_id: FxHashMap<u64, usize>,
    /// All events have the same fields.
    same: bool,
}

impl Layout {
    fn new(events: &[Event]) -> Result<Layout, ImportError> {
        let first = events.first().ok_or(ImportError::NoEvents)?;
        let key = |event: &Event| (event.attr.sample_type, event.attr.flag(flag::SAMPLE_ID_ALL));
        let same = events.iter().all(|event| key(event) == key(first));
        if !same && !events.iter().all(|event| event.attr.has(sample::IDENTIFIER)) {
            return Err(ImportError::Ambiguous);
        }
        let ids = events.iter().enumerate().flat_map(|(at, event)| event.ids.iter().map(move |id| (*id, at)));
        Ok(Layout { by_id: ids.collect(), same })
    }

    /// Event and time of a record.
    fn place(&self, kind: u32, body: &[u8], events: &[Event]) -> (usize, u64) {
        let event = if events.len() == 1 {
            0
        } else {
            let attr = events.first().map(|event| &event.attr).filter(|_| self.same);
            let id = match (attr, kind == kind::SAMPLE) {
                (Some(attr), true) => sample_word(attr, body, sample::ID).or_else(|| identifier(attr, body)),
                (Some(attr), false) => trailer_word(attr, body, sample::ID),
                (None, true) => word(body, Some(0)),
                (None, false) => word(body, body.len().checked_sub(8)),
            };
            id.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0)
        };
        let Some(attr) = events.get(event).map(|event| &event.attr) else { return (0, 0) };
        let time = if kind == kind::SAMPLE {
            sample_word(attr, body, sample::TIME)
        } else {
            trailer_word(attr, body, sample::TIME)
        };
        (event, time.unwrap_or(0))
    }
}

fn word(body: &[u8], at: Option<usize>) -> Option<u64> {
    Some(u64::from_le_bytes(*body.get(at?..)?.first_chunk()?))
}

fn identifier(attr: &Attr, body: &[u8]) -> Option<u64> {
    word(body, attr.has(sample::IDENTIFIER).then_some(0))
}

/// A field near the start of a sample; each is 8 bytes.
fn sample_word(attr: &Attr, body: &[u8], field: u64) -> Option<u64> {
    const ORDER: [u64; 6] =
        [sample::IDENTIFIER, sample::IP, sample::TID, sample::TIME, sample::ADDR, sample::ID];
    let before = ORDER.iter().take_while(|bit| **bit != field).filter(|bit| attr.has(**bit)).count();
    word(body, attr.has(field).then_some(before * 8))
}

/// A field of the `sample_id` at the end of other records; each is 8 bytes.
fn trailer_word(attr: &Attr, body: &[u8], field: u64) -> Option<u64> {
    const ORDER: [u64; 6] =
        [sample::TID, sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];
    // An id at the very end is the same id.
    let field = if field == sample::ID && attr.has(sample::IDENTIFIER) { sample::IDENTIFIER } else { field };
    if !attr.flag(flag::SAMPLE_ID_ALL) || !attr.has(field) {
        return None;
    }
    let from_it_on = ORDER.iter().skip_while(|bit| **bit != field).filter(|bit| attr.has(**bit)).count();
    word(body, body.len().checked_sub(from_it_on * 8))
}

/// A record, read.
#[derive(Debug)]
pub(crate) enum Record<'a> {
    Sample(Sample<'a>),
    Mapping(Mapping),
    Comm {
        pid: u32,
        tid: u32,
        name: String,
        exec: bool,
    },
    Fork {
        pid: u32,
        parent: u32,
        tid: u32,
        by: u32,
    },
    Exit {
        pid: u32,
        tid: u32,
    },
    Lost {
        count: u64,
    },
    Throttled {
        on: bool,
    },
    /// A thread left a CPU (`out`) or came back.
    Switch {
        pid: u32,
        tid: u32,
        out: bool,
        preempted: bool,
    },
}

/// A mapping that came to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mapping {
    /// `u32::MAX`: the kernel.
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) file_offset: u64,
    pub(crate) path: String,
    pub(crate) executable: bool,
    pub(crate) build_id: Option<Vec<u8>>,
    /// Inode number, where the record has one.
    pub(crate) inode: Option<u64>,
}

/// A sample.
#[derive(Debug, Default)]
pub(crate) struct Sample<'a> {
    pub(crate) ip: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) cpu: u32,
    pub(crate) period: Option<u64>,
    /// Addresses with context markers, 8 bytes each.
    pub(crate) callchain: &'a [u8],
    /// Fields of a tracepoint.
    pub(crate) raw: &'a [u8],
    /// Registers in the order of the mask's bits, 8 bytes each; empty: none.
    pub(crate) registers: &'a [u8],
    pub(crate) stack: &'a [u8],
}

/// Looks into a record; `None`: of no interest.
pub(crate) fn parse<'a>(
    raw: &Raw<'a>,
    events: &[Event],
    limits: &Limits,
) -> Result<Option<Record<'a>>, ReadError> {
    let Some(attr) = events.get(raw.event).map(|event| &event.attr) else { return Ok(None) };
    let mut body = Cursor::new(raw.body);
    let record = match raw.kind {
        kind::SAMPLE => Record::Sample(parse_sample(&mut body, attr)?),
        kind::MMAP | kind::MMAP2 => Record::Mapping(parse_mapping(&mut body, raw, limits)?),
        kind::COMM => Record::Comm {
            pid: body.u32("comm.pid")?,
            tid: body.u32("comm.tid")?,
            name: text(body.rest(), limits),
            exec: raw.misc & misc::COMM_EXEC != 0,
        },
        kind::FORK | kind::EXIT => {
            let (pid, parent) = (body.u32("task.pid")?, body.u32("task.ppid")?);
            let (tid, by) = (body.u32("task.tid")?, body.u32("task.ptid")?);
            if raw.kind == kind::FORK {
                Record::Fork { pid, parent, tid, by }
            } else {
                Record::Exit { pid, tid }
            }
        }
        kind::LOST => {
            body.u64("lost.id")?;
            Record::Lost { count: body.u64("lost.lost")? }
        }
        kind::LOST_SAMPLES => Record::Lost { count: body.u64("lost_samples.lost")? },
        kind::THROTTLE => Record::Throttled { on: true },
        kind::UNTHROTTLE => Record::Throttled { on: false },
        kind::SWITCH | kind::SWITCH_CPU_WIDE => {
            let Some(who) = trailer_word(attr, raw.body, sample::TID) else { return Ok(None) };
            Record::Switch {
                pid: (who & 0xffff_ffff) as u32,
                tid: (who >> 32) as u32,
                out: raw.misc & misc::SWITCH_OUT != 0,
                preempted: raw.misc & misc::SWITCH_OUT_PREEMPT != 0,
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(record))
}

fn parse_mapping(body: &mut Cursor<'_>, raw: &Raw<'_>, limits: &Limits) -> Result<Mapping, ReadError> {
    const EXECUTE: u32 = 4;
    let mut mapping = Mapping { pid: body.u32("mmap.pid")?, ..Mapping::default() };
    body.u32("mmap.tid")?;
    mapping.start = body.u64("mmap.addr")?;
    mapping.size = body.u64("mmap.len")?;
    mapping.file_offset = body.u64("mmap.pgoff")?;
    mapping.executable = raw.misc & misc::MMAP_DATA == 0;
    if raw.kind == kind::MMAP2 {
        if raw.misc & misc::MMAP_BUILD_ID != 0 {
            let length = usize::from(body.u8("mmap2.build_id_size")?);
            body.skip("mmap2.reserved", 3)?;
            let id = body.take("mmap2.build_id", 20)?;
            mapping.build_id = id.get(..length.min(20)).filter(|id| !id.is_empty()).map(<[u8]>::to_vec);
        } else {
            body.u64("mmap2.maj_min")?;
            mapping.inode = Some(body.u64("mmap2.ino")?).filter(|inode| *inode != 0);
            body.u64("mmap2.ino_generation")?;
        }
        mapping.executable = body.u32("mmap2.prot")? & EXECUTE != 0;
        body.u32("mmap2.flags")?;
    }
    mapping.path = text(body.rest(), limits);
    Ok(mapping)
}

fn parse_sample<'a>(body: &mut Cursor<'a>, attr: &Attr) -> Result<Sample<'a>, ReadError> {
    let mut out = Sample::default();
    let has = |bit| attr.has(bit);
    if has(sample::IDENTIFIER) {
        body.u64("sample.identifier")?;
    }
    if has(sample::IP) {
        out.ip = body.u64("sample.ip")?;
    }
    if has(sample::TID) {
        out.pid = body.u32("sample.pid")?;
        out.tid = body.u32("sample.tid")?;
    }
    for bit in [sample::TIME, sample::ADDR, sample::ID, sample::STREAM_ID] {
        if has(bit) {
            body.u64("sample.time")?;
        }
    }
    if has(sample::CPU) {
        out.cpu = body.u32("sample.cpu")?;
        body.u32("sample.res")?;
    }
    if has(sample::PERIOD) {
        out.period = Some(body.u64("sample.period")?);
    }
    if has(sample::READ) {
        skip_read(body, attr.read_format)?;
    }
    if has(sample::CALLCHAIN) {
        let count = body.u64("sample.callchain.nr")?;
        out.callchain = words(body, "sample.callchain", count, 8)?;
    }
    if has(sample::RAW) {
        let size = body.u32("sample.raw.size")? as usize;
        out.raw = body.take("sample.raw", size)?;
    }
    if has(sample::BRANCH_STACK) {
        let count = body.u64("sample.branches.nr")?;
        // PERF_SAMPLE_BRANCH_HW_INDEX and PERF_SAMPLE_BRANCH_COUNTERS
        if attr.branch_sample_type & 1 << 17 != 0 {
            body.u64("sample.branches.hw_idx")?;
        }
        words(body, "sample.branches", count, 24)?;
        if attr.branch_sample_type & 1 << 19 != 0 {
            words(body, "sample.branches.counters", count, 8)?;
        }
    }
    if has(sample::REGS_USER) && body.u64("sample.regs.abi")? != 0 {
        out.registers = words(body, "sample.regs", u64::from(attr.regs_user.count_ones()), 8)?;
    }
    if has(sample::STACK_USER) {
        let size = body.u64("sample.stack.size")?;
        let stack = words(body, "sample.stack", size, 1)?;
        if size > 0 {
            let used = usize::try_from(body.u64("sample.stack.dyn_size")?).unwrap_or(usize::MAX);
            out.stack = stack.get(..used.min(stack.len())).unwrap_or(stack);
        }
    }
    Ok(out)
}

fn words<'a>(
    body: &mut Cursor<'a>,
    field: &'static str,
    count: u64,
    each: u64,
) -> Result<&'a [u8], ReadError> {
    let size = count.checked_mul(each).and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
    body.take(field, size)
}

/// `struct read_format`.
fn skip_read(body: &mut Cursor<'_>, format: u64) -> Result<(), ReadError> {
    const TIMES: u64 = 0b11;
    const ID: u64 = 1 << 2;
    const GROUP: u64 = 1 << 3;
    const LOST: u64 = 1 << 4;
    let times = u64::from((format & TIMES).count_ones());
    let each = 1 + u64::from((format & (ID | LOST)).count_ones());
    let count = if format & GROUP != 0 { body.u64("sample.read.nr")? } else { 1 };
    words(body, "sample.read.times", times, 8)?;
    // Without a group the value comes before the times; all are 8 bytes, so the order does not matter here.
    words(body, "sample.read.values", count, each * 8)?;
    Ok(())
}
