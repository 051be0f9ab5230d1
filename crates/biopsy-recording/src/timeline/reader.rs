//! Reading a timeline: chunks, what to do with broken ones, and the limits.

use std::io::{self, Read};

use biopsy_bytes::Cursor;
use biopsy_model::loss::Warning;
use biopsy_model::module::{Module, ModuleKind};
use biopsy_model::stack::{Frame, FrameSpace, StackNode};
use biopsy_model::timeline::{Timeline, TimelineEvent};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Pid};

use super::assemble::Assembler;
use super::chunk::{
    CHUNK_HEADER_LEN, ChunkHeader, Definitions, FILE_HEADER_LEN, FILE_MAGIC, LOST_FRAME, MAX_FILE_HEADER_LEN,
    checksum,
};
use super::decode::{Decoded, Decoder};
use super::tags;
use crate::warn::{plural, warning};
use crate::{FormatVersion, Limits};

/// A file that is no timeline, or one of a newer format. Everything else is a warning.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// The first bytes are not a timeline's.
    #[error("not a timeline: the first bytes are {found:02x?}, expected {FILE_MAGIC:02x?}")]
    NotATimeline {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// A newer major version.
    #[error("the timeline has format {found}, this biopsy reads up to {supported}")]
    NewerFormat {
        /// Its version.
        found: FormatVersion,
        /// Ours.
        supported: FormatVersion,
    },
    /// The file could not be read at all.
    #[error("cannot read the timeline")]
    Io(#[source] io::Error),
}

/// Reads a whole timeline. What is missing, damaged or over the limits is left out and said in the warnings, after
/// the warnings that the recorder itself wrote into the timeline.
pub fn read(reader: impl Read, limits: &Limits) -> Result<(Timeline, Vec<Warning>), TimelineError> {
    let mut assembler = Assembler::default();
    let about_reading = read_events(reader, limits, |event| assembler.push(event))?;
    let (timeline, mut warnings) = assembler.finish();
    warnings.extend(about_reading);
    Ok((timeline, warnings))
}

/// Reads a timeline event by event, in the order of the file, without holding it in memory. Returns what a reader
/// should know about gaps.
///
/// Handles are passed on unchecked. Definitions that were lost with a damaged chunk come as placeholders, so that
/// handles keep their meaning; a placeholder stack has a frame handle that is never defined (`u32::MAX`).
pub fn read_events(
    reader: impl Read,
    limits: &Limits,
    sink: impl FnMut(TimelineEvent),
) -> Result<Vec<Warning>, TimelineError> {
    let mut walk = Walk {
        input: Input { reader, offset: 0 },
        limits,
        sink,
        defined: Definitions::default(),
        events: 0,
        raw_bytes: 0,
        stored_bytes: 0,
        lost: 0,
        gaps: Gaps::default(),
    };
    if walk.file_header()? {
        walk.chunks();
    }
    Ok(walk.gaps.into_warnings())
}

struct Input<R> {
    reader: R,
    offset: u64,
}

impl<R: Read> Input<R> {
    /// Up to `count` bytes; fewer only at the end of the file.
    fn read(&mut self, count: usize, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        let read = (&mut self.reader).take(count as u64).read_to_end(into);
        self.offset += into.len() as u64;
        read.map(|_| ())
    }
}

/// What was not readable, counted, so that a file full of errors gives a handful of warnings.
#[derive(Default, Debug)]
struct Gaps {
    cut_short: Option<String>,
    damaged_chunks: u64,
    first_damage: Option<u64>,
    malformed: u64,
    unknown: u64,
    over_limit: Option<String>,
}

impl Gaps {
    fn into_warnings(self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some(how) = self.cut_short {
            warnings.push(warning(
                "recording.cut-short",
                format!("the timeline is cut short: {how}; everything before is there"),
                None,
            ));
        }
        if self.damaged_chunks > 0 {
            let at = self.first_damage.unwrap_or_default();
            warnings.push(warning(
                "recording.damaged",
                format!(
                    "{} of the timeline left out: damaged, the first at offset {at:#x}",
                    plural(self.damaged_chunks, "chunk")
                ),
                Some("copy the recording again if it came over a network"),
            ));
        }
        if self.malformed > 0 {
            let count = plural(self.malformed, "event");
            warnings.push(warning(
                "recording.malformed",
                format!("{count} of the timeline not readable"),
                None,
            ));
        }
        if self.unknown > 0 {
            warnings.push(warning(
                "recording.unknown-events",
                format!("{} of the timeline not known to this biopsy", plural(self.unknown, "event")),
                Some("a newer biopsy wrote this recording and shows more of it"),
            ));
        }
        if let Some(what) = self.over_limit {
            warnings.push(warning(
                "recording.limit",
                format!("the timeline is not read to its end: {what}"),
                None,
            ));
        }
        warnings
    }

    fn damage(&mut self, offset: u64) {
        self.damaged_chunks += 1;
        self.first_damage.get_or_insert(offset);
    }
}

struct Walk<'l, R, S> {
    input: Input<R>,
    limits: &'l Limits,
    sink: S,
    defined: Definitions,
    events: u64,
    raw_bytes: u64,
    stored_bytes: u64,
    /// Definitions that may have been in what was left out so far.
    lost: u64,
    gaps: Gaps,
}

impl<R: Read, S: FnMut(TimelineEvent)> Walk<'_, R, S> {
    /// Whether there is anything behind the header.
    fn file_header(&mut self) -> Result<bool, TimelineError> {
        let mut bytes = Vec::new();
        self.input.read(FILE_HEADER_LEN, &mut bytes).map_err(TimelineError::Io)?;
        let start = bytes.get(..FILE_MAGIC.len()).unwrap_or(&bytes);
        if !FILE_MAGIC.starts_with(start) {
            return Err(TimelineError::NotATimeline { found: start.to_vec() });
        }
        let Ok((found, header_length)) = parse_file_header(&bytes) else {
            self.gaps.cut_short = Some("it ends inside its header".to_owned());
            return Ok(false);
        };
        let supported = FormatVersion::TIMELINE;
        if !supported.reads(found) {
            return Err(TimelineError::NewerFormat { found, supported });
        }
        let more = usize::try_from(header_length).unwrap_or(usize::MAX).saturating_sub(FILE_HEADER_LEN);
        if more > MAX_FILE_HEADER_LEN {
            self.gaps.over_limit = Some(format!("its header claims {header_length} bytes"));
            return Ok(false);
        }
        self.input.read(more, &mut bytes).map_err(TimelineError::Io)?;
        Ok(true)
    }

    fn chunks(&mut self) {
        let mut buffers = Buffers::default();
        loop {
            let offset = self.input.offset;
            match self.chunk(offset, &mut buffers) {
                Ok(Next::Chunk) => {}
                Ok(Next::Stop) => return,
                Err(error) => {
                    self.gaps.cut_short = Some(format!("it cannot be read at offset {offset:#x} ({error})"));
                    return;
                }
            }
        }
    }

    fn chunk(&mut self, offset: u64, buffers: &mut Buffers) -> io::Result<Next> {
        let Buffers { header: header_bytes, stored, raw } = buffers;
        self.input.read(CHUNK_HEADER_LEN, header_bytes)?;
        if header_bytes.is_empty() {
            self.gaps.cut_short = Some("it has no end mark".to_owned());
            return Ok(Next::Stop);
        }
        let Ok(header) = ChunkHeader::parse(header_bytes, offset) else {
            self.gaps.cut_short = Some(format!("no whole chunk begins at offset {offset:#x}"));
            return Ok(Next::Stop);
        };
        for claimed in [header.stored, header.raw] {
            if claimed as usize > self.limits.chunk_bytes {
                let limit = self.limits.chunk_bytes;
                let claim = format!("chunk at {offset:#x} claims {claimed} bytes, the limit is {limit}");
                self.gaps.over_limit = Some(claim);
                return Ok(Next::Stop);
            }
        }
        self.input.read(header.stored as usize, stored)?;
        if stored.len() < header.stored as usize {
            self.gaps.cut_short = Some(format!(
                "chunk at offset {offset:#x} needs {} bytes, {} remain",
                header.stored,
                stored.len()
            ));
            return Ok(Next::Stop);
        }
        self.stored_bytes += u64::from(header.stored);
        if checksum(header_bytes, stored) != header.crc {
            self.leave_out(offset, stored);
            return Ok(Next::Chunk);
        }
        if header.is_end() {
            // What was defined in a chunk left out before it is restored here, too.
            if !self.restore(header.before) {
                self.gaps.damage(offset);
            }
            return Ok(Next::Stop);
        }
        self.raw_bytes += u64::from(header.raw);
        let most = self.limits.timeline_bytes.min(self.limits.unpacked(self.stored_bytes));
        if self.raw_bytes > most {
            self.gaps.over_limit = Some(format!("more than {most} bytes unpacked"));
            return Ok(Next::Stop);
        }
        raw.clear();
        raw.reserve_exact(header.raw as usize);
        let unpacked = zstd::bulk::Decompressor::new()
            .and_then(|mut decompressor| decompressor.decompress_to_buffer(stored.as_slice(), raw));
        if !unpacked.is_ok_and(|length| length == header.raw as usize) || !self.restore(header.before) {
            self.leave_out(offset, stored);
            return Ok(Next::Chunk);
        }
        Ok(self.events(raw))
    }

    /// A chunk is damaged.
    fn leave_out(&mut self, offset: u64, stored: &[u8]) {
        /// A definition has three bytes at least, and a chunk is seldom packed to less than a hundredth.
        const PER_BYTE: u64 = 32;
        self.gaps.damage(offset);
        self.lost = self.lost.saturating_add((stored.len() as u64).saturating_mul(PER_BYTE));
    }

    fn events(&mut self, raw: &[u8]) -> Next {
        let mut decoder = Decoder::new(raw, self.defined.stacks, self.limits.string_bytes);
        while let Some(decoded) = decoder.next() {
            match decoded {
                Ok(Decoded::Event(event)) => {
                    if self.events >= self.limits.events {
                        self.gaps.over_limit = Some(format!("more than {} events", self.limits.events));
                        return Next::Stop;
                    }
                    self.events += 1;
                    if !self.count_definition(&event) {
                        return Next::Stop;
                    }
                    (self.sink)(event);
                }
                Ok(Decoded::Internal) => {}
                Ok(Decoded::Unknown) => self.gaps.unknown += 1,
                Ok(Decoded::Malformed { tag }) => {
                    self.gaps.malformed += 1;
                    if let Some(placeholder) = placeholder(tag) {
                        if !self.count_definition(&placeholder) {
                            return Next::Stop;
                        }
                        (self.sink)(placeholder);
                    }
                }
                Err(error) => {
                    // The rest of the chunk has no boundaries any more; the next chunk has.
                    tracing::debug!(%error, "the events of a chunk break off");
                    self.gaps.malformed += 1;
                    self.lost = self.lost.saturating_add(raw.len() as u64);
                    break;
                }
            }
        }
        Next::Chunk
    }

    /// Counts a definition; false when there are too many.
    fn count_definition(&mut self, event: &TimelineEvent) -> bool {
        let counter = match event {
            TimelineEvent::Module(_) => &mut self.defined.modules,
            TimelineEvent::Frame(_) => &mut self.defined.frames,
            TimelineEvent::Stack(_) => &mut self.defined.stacks,
            _ => return true,
        };
        *counter = counter.saturating_add(1);
        if *counter as usize > self.limits.definitions {
            let limit = self.limits.definitions;
            self.gaps.over_limit = Some(format!("more than {limit} modules, frames or stacks"));
            return false;
        }
        true
    }

    /// Fills in what was defined in chunks that were left out, so that handles mean what they meant. False where
    /// the numbers of the chunk cannot be true.
    fn restore(&mut self, before: Definitions) -> bool {
        let limit = self.limits.definitions;
        let possible = before.modules >= self.defined.modules
            && before.frames >= self.defined.frames
            && before.stacks >= self.defined.stacks
            && [before.modules, before.frames, before.stacks].iter().all(|&count| count as usize <= limit);
        // Without a chunk left out or an event lost there is nothing to restore.
        if !possible || (before != self.defined && self.gaps.damaged_chunks == 0 && self.gaps.malformed == 0)
        {
            return false;
        }
        let missing = [
            (tags::MODULE, before.modules - self.defined.modules),
            (tags::FRAME, before.frames - self.defined.frames),
            (tags::STACK, before.stacks - self.defined.stacks),
        ];
        // Millions of placeholders must not come from a few damaged bytes.
        match self.lost.checked_sub(missing.iter().map(|(_, count)| u64::from(*count)).sum()) {
            Some(left) => self.lost = left,
            None => return false,
        }
        for (tag, missing) in missing {
            for event in (0..missing).filter_map(|_| placeholder(tag)) {
                (self.sink)(event);
            }
        }
        self.defined = before;
        true
    }
}

enum Next {
    Chunk,
    Stop,
}

#[derive(Default)]
struct Buffers {
    header: Vec<u8>,
    stored: Vec<u8>,
    raw: Vec<u8>,
}

fn parse_file_header(bytes: &[u8]) -> Result<(FormatVersion, u32), biopsy_bytes::ReadError> {
    let mut cursor = Cursor::new(bytes);
    cursor.skip("magic", FILE_MAGIC.len())?;
    let version = FormatVersion { major: cursor.u16("major")?, minor: cursor.u16("minor")? };
    Ok((version, cursor.u32("header length")?))
}

/// Stands for a definition that is lost. Other events need no stand-in.
fn placeholder(tag: u64) -> Option<TimelineEvent> {
    match tag {
        tags::MODULE => Some(TimelineEvent::Module(Module {
            pid: Pid(0),
            kind: ModuleKind::OtherFile,
            path: "[lost]".to_owned(),
            build_id: None,
            start: Avma(0),
            end: Avma(0),
            offset: FileOffset(0),
            since: MonoNanos(0),
            deleted: false,
        })),
        tags::FRAME => Some(TimelineEvent::Frame(Frame {
            space: FrameSpace::User,
            module: None,
            address: LookupAddress(0),
        })),
        tags::STACK => Some(TimelineEvent::Stack(StackNode { caller: None, frame: LOST_FRAME })),
        _ => None,
    }
}
