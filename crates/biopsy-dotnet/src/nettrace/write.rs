//! A little writer of nettrace streams, for tests and benches: nobody here writes version 6, or odd streams.
//!
//! It is written from the documents, not from the reader, so that a misunderstanding shows.

use super::metadata::EventMetadata;
use super::types::{Field, FieldType};
use biopsy_bytes::put_varint;

/// An event to write.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventRow {
    /// Number of its description.
    pub metadata: u32,
    /// Number that its thread gave it.
    pub sequence: u32,
    /// Thread it is about: id, in version 6 index.
    pub thread: u64,
    /// Thread that wrote it: id, in version 6 index.
    pub capture_thread: u64,
    /// CPU.
    pub processor: u32,
    /// Number of its stack.
    pub stack: u32,
    /// When.
    pub ticks: u64,
    /// Activity (up to version 5).
    pub activity: [u8; 16],
    /// Related activity (up to version 5).
    pub related_activity: [u8; 16],
    /// Number of its labels (version 6).
    pub labels: u32,
    /// No later event is older.
    pub sorted: bool,
    /// Payload.
    pub payload: Vec<u8>,
}

/// Writes a stream into memory.
#[derive(Clone, Debug)]
pub struct Writer {
    version: u32,
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins a stream of version 4, 5 or 6 of process 4711, on a clock of nanoseconds that began at 1,000.
    #[must_use]
    pub fn new(version: u32) -> Self {
        let mut writer = Self { version, bytes: b"Nettrace".to_vec() };
        let mut trace = Vec::new();
        // 2026-11-21 (a Saturday) 16:40:24.007.
        for part in [2026_u16, 11, 6, 21, 16, 40, 24, 7] {
            trace.extend(part.to_le_bytes());
        }
        trace.extend(1_000_u64.to_le_bytes());
        trace.extend(1_000_000_000_u64.to_le_bytes());
        trace.extend(8_u32.to_le_bytes());
        if version >= 6 {
            for word in [0_u32, 6, 0] {
                writer.bytes.extend(word.to_le_bytes());
            }
            let properties = [("ProcessId", "4711"), ("HardwareThreadCount", "2"), ("Colour", "blue")];
            trace.extend(3_u32.to_le_bytes());
            for (key, value) in properties {
                text8(&mut trace, key);
                text8(&mut trace, value);
            }
            writer.block(1, &trace);
        } else {
            writer.bytes.extend(20_u32.to_le_bytes());
            writer.bytes.extend(b"!FastSerialization.1");
            for word in [4711_u32, 2, 0] {
                trace.extend(word.to_le_bytes());
            }
            writer.object_header("Trace", version);
            writer.bytes.extend(trace);
            writer.bytes.push(6);
        }
        writer
    }

    /// Descriptions, each with its number.
    pub fn metadata(&mut self, all: &[(u32, &EventMetadata)]) {
        let mut body = Vec::new();
        if self.version >= 6 {
            body.extend(0_u16.to_le_bytes());
            for (number, metadata) in all {
                let row = metadata_sixth(*number, metadata);
                body.extend(short(row.len()));
                body.extend(row);
            }
            self.block(3, &body);
            return;
        }
        body.extend(block_header(true));
        let mut before = 0;
        for (number, metadata) in all {
            let row = metadata_first(*number, metadata, self.version);
            // Flags: only the length of the payload is told, where it is another one.
            body.push(if row.len() == before { 0 } else { 0x80 });
            put_varint(&mut body, 0);
            if row.len() != before {
                put_varint(&mut body, row.len() as u64);
            }
            before = row.len();
            body.extend(row);
        }
        self.object("MetadataBlock", &body);
    }

    /// Stacks, numbered from `first`.
    pub fn stacks(&mut self, first: u32, stacks: &[Vec<u64>]) {
        let mut body = first.to_le_bytes().to_vec();
        body.extend(word(stacks.len()));
        for stack in stacks {
            body.extend(word(stack.len() * 8));
            stack.iter().for_each(|address| body.extend(address.to_le_bytes()));
        }
        self.put("StackBlock", 5, &body);
    }

    /// Events, with headers compressed or whole.
    pub fn events(&mut self, rows: &[EventRow], compressed: bool) {
        let mut body = block_header(compressed);
        let mut last = EventRow::default();
        for row in rows {
            if compressed {
                self.compressed(&mut body, row, &last);
                last = row.clone();
            } else {
                self.whole(&mut body, row);
            }
        }
        self.put("EventBlock", 2, &body);
    }

    fn compressed(&self, body: &mut Vec<u8>, row: &EventRow, last: &EventRow) {
        let sixth = self.version >= 6;
        let next = last.sequence.wrapping_add(1);
        let capture = row.sequence != next
            || (row.capture_thread, row.processor) != (last.capture_thread, last.processor);
        let mut flags = 0_u8;
        let mut flag = |bit: u8, set: bool| {
            flags |= if set { bit } else { 0 };
            set
        };
        let metadata = flag(1, row.metadata != last.metadata);
        flag(2, capture);
        let thread = flag(4, row.thread != last.thread);
        let stack = flag(8, row.stack != last.stack);
        let activity =
            flag(16, if sixth { row.labels != last.labels } else { row.activity != last.activity });
        let related = flag(32, !sixth && row.related_activity != last.related_activity);
        flag(64, row.sorted);
        let length = flag(128, row.payload.len() != last.payload.len());
        body.push(flags);
        if metadata {
            put_varint(body, row.metadata.into());
        }
        if capture {
            put_varint(body, row.sequence.wrapping_sub(next).into());
            put_varint(body, row.capture_thread);
            put_varint(body, row.processor.into());
        }
        if thread {
            put_varint(body, row.thread);
        }
        if stack {
            put_varint(body, row.stack.into());
        }
        put_varint(body, row.ticks.wrapping_sub(last.ticks));
        if activity && sixth {
            put_varint(body, row.labels.into());
        } else if activity {
            body.extend(row.activity);
        }
        if related {
            body.extend(row.related_activity);
        }
        if length {
            put_varint(body, row.payload.len() as u64);
        }
        body.extend(&row.payload);
    }

    fn whole(&self, body: &mut Vec<u8>, row: &EventRow) {
        let mut rest = Vec::new();
        // The bit is set where the event is not sorted.
        rest.extend((row.metadata | u32::from(!row.sorted) << 31).to_le_bytes());
        rest.extend(row.sequence.to_le_bytes());
        rest.extend(row.thread.to_le_bytes());
        rest.extend(row.capture_thread.to_le_bytes());
        rest.extend(row.processor.to_le_bytes());
        rest.extend(row.stack.to_le_bytes());
        rest.extend(row.ticks.to_le_bytes());
        if self.version >= 6 {
            rest.extend(row.labels.to_le_bytes());
        } else {
            rest.extend(row.activity);
            rest.extend(row.related_activity);
        }
        rest.extend(word(row.payload.len()));
        rest.extend(&row.payload);
        body.extend(word(rest.len()));
        body.extend(rest);
        if self.version < 6 {
            body.resize(body.len().next_multiple_of(4), 0);
        }
    }

    /// A sequence point: threads with the last numbers they gave.
    pub fn sequence_point(&mut self, ticks: u64, threads: &[(u64, u32)]) {
        self.sequence_point_with(ticks, threads, 0);
    }

    /// The same with the flags of version 6: 1 forgets threads, 2 descriptions.
    pub fn sequence_point_with(&mut self, ticks: u64, threads: &[(u64, u32)], flags: u32) {
        let mut body = ticks.to_le_bytes().to_vec();
        if self.version >= 6 {
            body.extend(flags.to_le_bytes());
        }
        body.extend(word(threads.len()));
        for (thread, sequence) in threads {
            if self.version >= 6 {
                put_varint(&mut body, *thread);
                put_varint(&mut body, (*sequence).into());
            } else {
                body.extend(thread.to_le_bytes());
                body.extend(sequence.to_le_bytes());
            }
        }
        self.put("SPBlock", 4, &body);
    }

    /// Threads of version 6: index, process and thread id.
    pub fn threads(&mut self, threads: &[(u64, u32, u32)]) {
        let mut body = Vec::new();
        for (index, pid, tid) in threads {
            let mut row = Vec::new();
            put_varint(&mut row, *index);
            row.push(1);
            text8(&mut row, "worker");
            row.push(2);
            put_varint(&mut row, (*pid).into());
            row.push(3);
            put_varint(&mut row, (*tid).into());
            body.extend(short(row.len()));
            body.extend(row);
        }
        self.block(6, &body);
    }

    /// Threads of version 6 end: index and last number.
    pub fn remove_threads(&mut self, threads: &[(u64, u32)]) {
        let mut body = Vec::new();
        for (index, sequence) in threads {
            put_varint(&mut body, *index);
            put_varint(&mut body, (*sequence).into());
        }
        self.block(7, &body);
    }

    /// Lists of labels of version 6, numbered from `first`: activity id, trace id, span id.
    pub fn labels(&mut self, first: u32, lists: &[([u8; 16], [u8; 16], u64)]) {
        let mut body = first.to_le_bytes().to_vec();
        body.extend(word(lists.len()));
        for (activity, trace, span) in lists {
            body.push(1);
            body.extend(activity);
            body.push(5);
            text8(&mut body, "user");
            text8(&mut body, "none");
            body.push(3);
            body.extend(trace);
            body.push(4 | 0x80);
            body.extend(span.to_le_bytes());
        }
        self.block(8, &body);
    }

    /// A block of a kind that no document describes.
    pub fn unknown(&mut self, bytes: &[u8]) {
        self.put("ColourBlock", 77, bytes);
    }

    /// What is written so far, without an end.
    #[must_use]
    pub fn unfinished(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what is written so far, where it has been stored elsewhere: a large stream need not be in memory. Blocks stay
    /// aligned.
    pub fn forget(&mut self) {
        let aligned = self.bytes.len() & 3;
        self.bytes.truncate(0);
        self.bytes.resize(aligned, 0);
    }

    /// Ends the stream.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if self.version >= 6 {
            self.block(0, &[]);
        } else {
            self.bytes.push(1);
        }
        self.bytes
    }

    fn put(&mut self, name: &str, kind: u8, body: &[u8]) {
        if self.version >= 6 { self.block(kind, body) } else { self.object(name, body) }
    }

    fn block(&mut self, kind: u8, body: &[u8]) {
        let word = u32::try_from(body.len()).unwrap_or(0) & 0xff_ffff | u32::from(kind) << 24;
        self.bytes.extend(word.to_le_bytes());
        self.bytes.extend(body);
    }

    fn object_header(&mut self, name: &str, version: u32) {
        self.bytes.extend([5, 5, 1]);
        self.bytes.extend(version.to_le_bytes());
        self.bytes.extend(version.to_le_bytes());
        self.bytes.extend(word(name.len()));
        self.bytes.extend(name.as_bytes());
        self.bytes.push(6);
    }

    fn object(&mut self, name: &str, body: &[u8]) {
        self.object_header(name, 2);
        self.bytes.extend(word(body.len()));
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend(body);
        self.bytes.push(6);
    }
}

/// Header of a block of events: its size, flags, least and greatest time, and four bytes that a later version may add.
fn block_header(compressed: bool) -> Vec<u8> {
    let mut header = 24_u16.to_le_bytes().to_vec();
    header.extend(u16::from(compressed).to_le_bytes());
    header.extend([0; 20]);
    header
}

fn metadata_first(number: u32, metadata: &EventMetadata, version: u32) -> Vec<u8> {
    let mut row = number.to_le_bytes().to_vec();
    text16(&mut row, &metadata.provider);
    row.extend(metadata.id.to_le_bytes());
    text16(&mut row, &metadata.name);
    row.extend(metadata.keywords.to_le_bytes());
    row.extend(metadata.version.to_le_bytes());
    row.extend(metadata.level.to_le_bytes());
    if version == 4 {
        fields_first(&mut row, &metadata.fields);
        return row;
    }
    row.extend(0_u32.to_le_bytes());
    let mut tag = Vec::new();
    fields_second(&mut tag, &metadata.fields);
    let opcode = metadata.opcode.map(|opcode| (1, vec![opcode]));
    // A tag nobody knows stands between the two.
    for (kind, bytes) in [opcode, Some((99, vec![1, 2, 3])), Some((2, tag))].into_iter().flatten() {
        row.extend(word(bytes.len()));
        row.push(kind);
        row.extend(bytes);
    }
    row
}

fn fields_first(out: &mut Vec<u8>, fields: &[Field]) {
    out.extend(word(fields.len()));
    for field in fields {
        out.extend(u32::from(code(&field.kind)).to_le_bytes());
        if let FieldType::Object(inside) = &field.kind {
            fields_first(out, inside);
        }
        text16(out, &field.name);
    }
}

fn fields_second(out: &mut Vec<u8>, fields: &[Field]) {
    out.extend(word(fields.len()));
    for field in fields {
        let mut bytes = Vec::new();
        text16(&mut bytes, &field.name);
        type_second(&mut bytes, &field.kind);
        bytes.push(0xee);
        out.extend(word(bytes.len() + 4));
        out.extend(bytes);
    }
}

fn type_second(out: &mut Vec<u8>, kind: &FieldType) {
    out.extend(u32::from(code(kind)).to_le_bytes());
    match kind {
        FieldType::Object(inside) => fields_second(out, inside),
        FieldType::Array(element) => type_second(out, element),
        _ => (),
    }
}

fn metadata_sixth(number: u32, metadata: &EventMetadata) -> Vec<u8> {
    let mut row = Vec::new();
    put_varint(&mut row, number.into());
    text8(&mut row, &metadata.provider);
    put_varint(&mut row, metadata.id.into());
    text8(&mut row, &metadata.name);
    fields_sixth(&mut row, &metadata.fields);
    let mut optional = vec![5];
    text8(&mut optional, "described");
    optional.push(3);
    optional.extend(metadata.keywords.to_le_bytes());
    if let Some(opcode) = metadata.opcode {
        optional.extend([1, opcode]);
    }
    optional.extend([8, u8::try_from(metadata.level).unwrap_or(0)]);
    optional.extend([9, u8::try_from(metadata.version).unwrap_or(0)]);
    row.extend(short(optional.len()));
    row.extend(optional);
    row
}

fn fields_sixth(out: &mut Vec<u8>, fields: &[Field]) {
    out.extend(short(fields.len()));
    for field in fields {
        let mut bytes = Vec::new();
        text8(&mut bytes, &field.name);
        type_sixth(&mut bytes, &field.kind);
        out.extend(short(bytes.len()));
        out.extend(bytes);
    }
}

fn type_sixth(out: &mut Vec<u8>, kind: &FieldType) {
    out.push(code(kind));
    match kind {
        FieldType::Object(inside) => fields_sixth(out, inside),
        FieldType::Array(element) | FieldType::RelativeArray(element) | FieldType::AbsoluteArray(element) => {
            type_sixth(out, element);
        }
        FieldType::FixedArray(element, count) => {
            type_sixth(out, element);
            out.extend(count.to_le_bytes());
        }
        _ => (),
    }
}

fn code(kind: &FieldType) -> u8 {
    match kind {
        FieldType::Object(_) => 1,
        FieldType::Boolean32 => 3,
        FieldType::Char16 => 4,
        FieldType::Int(1) => 5,
        FieldType::UInt(1) => 6,
        FieldType::Int(2) => 7,
        FieldType::UInt(2) => 8,
        FieldType::Int(4) => 9,
        FieldType::UInt(4) => 10,
        FieldType::Int(_) => 11,
        FieldType::UInt(_) => 12,
        FieldType::Single => 13,
        FieldType::Double => 14,
        FieldType::Decimal => 15,
        FieldType::FileTime | FieldType::SystemTime => 16,
        FieldType::Guid => 17,
        FieldType::Text16 => 18,
        FieldType::Array(_) => 19,
        FieldType::VarInt => 20,
        FieldType::VarUInt => 21,
        FieldType::FixedArray(..) => 22,
        FieldType::Char8 => 23,
        FieldType::RelativeArray(_) => 24,
        FieldType::AbsoluteArray(_) => 25,
        FieldType::Boolean8 => 26,
    }
}

/// A UTF-16 text with the zero at its end, as payloads have it too.
pub fn text16(out: &mut Vec<u8>, text: &str) {
    text.encode_utf16().chain([0]).for_each(|unit| out.extend(unit.to_le_bytes()));
}

fn text8(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn word(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes()
}
