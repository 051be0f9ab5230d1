//! Bytes to events.

use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};
use biopsy_model::loss::{Loss, Warning};
use biopsy_model::module::{Module, ModuleHandle};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function};
use biopsy_model::timeline::{
    Allocation, AllocationCount, AllocationWatch, Release, Sample, StateSlice, TimelineEvent, TraceSettings,
    Wait, WaitSample,
};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, Tid};

use super::context::{Context, Thread};
use super::tags::{self, LENGTH_ESCAPE, TAG_ESCAPE, TAG_SHIFT};

/// What one event of a chunk was.
#[derive(Debug)]
pub(super) enum Decoded {
    /// One the model knows.
    Event(TimelineEvent),
    /// One for the reader's own use.
    Internal,
    /// Of a tag that this version does not know.
    Unknown,
    /// Its fields do not fit its length, or a value is not possible.
    Malformed {
        /// It was a definition: its handle is taken although its contents are lost.
        tag: u64,
    },
}

/// Reads the events of one chunk.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    cursor: Cursor<'a>,
    context: Context,
    /// Stacks defined so far in the whole timeline: callers are stored as distances.
    pub(super) stacks: u32,
    string_bytes: usize,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(payload: &'a [u8], stacks: u32, string_bytes: usize) -> Self {
        Self { cursor: Cursor::new(payload), context: Context::default(), stacks, string_bytes }
    }

    /// The next event; `None` at the end; an error where the rest of the chunk cannot be read.
    pub(super) fn next(&mut self) -> Option<Result<Decoded, ReadError>> {
        if self.cursor.is_empty() {
            return None;
        }
        Some(self.event())
    }

    fn event(&mut self) -> Result<Decoded, ReadError> {
        let first = u64::from(self.cursor.u8("event")?);
        let mut tag = first >> TAG_SHIFT;
        if tag == TAG_ESCAPE {
            tag = self.cursor.varint("event tag")?.saturating_add(TAG_ESCAPE);
        }
        let mut length = usize::try_from(first & LENGTH_ESCAPE).unwrap_or_default();
        if length as u64 == LENGTH_ESCAPE {
            length = self.cursor.varint_len("event length", self.cursor.remaining())?;
        }
        let body = Body { cursor: self.cursor.sub("event body", length)?, string_bytes: self.string_bytes };
        Ok(match self.body(tag, body) {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::debug!(tag, %error, "malformed event");
                Decoded::Malformed { tag }
            }
        })
    }

    fn body(&mut self, tag: u64, mut body: Body<'a>) -> Result<Decoded, ReadError> {
        let context = &mut self.context;
        let event = match tag {
            tags::SAMPLE => sample(context, &mut body)?,
            tags::WAIT => wait(context, &mut body)?,
            tags::WAIT_SAMPLE => wait_sample(context, &mut body)?,
            tags::STATES => states(context, &mut body)?,
            tags::THREAD => {
                let tid = body.tid("tid")?;
                context.define_thread(tid);
                return Ok(Decoded::Internal);
            }
            tags::FRAME => TimelineEvent::Frame(Frame {
                space: tags::decode_space(body.cursor.u8("space")?),
                module: body.optional_u32("module")?.map(ModuleHandle),
                address: LookupAddress(body.cursor.varint("address")?),
            }),
            tags::STACK => {
                let own = self.stacks;
                // Whatever is wrong with the contents, the handle is taken.
                self.stacks = self.stacks.saturating_add(1);
                let distance = body.optional_u32("caller")?;
                TimelineEvent::Stack(StackNode {
                    caller: distance.map(|distance| StackHandle(own.wrapping_sub(distance))),
                    frame: FrameHandle(body.cursor.varint_u32("frame")?),
                })
            }
            tags::MODULE => module(context, &mut body)?,
            tags::SYMBOLS => symbols(&mut body)?,
            tags::SETTINGS => settings(&mut body)?,
            tags::THREAD_START => {
                let time = body.time(context)?;
                let tid = body.tid("tid")?;
                let pid = body.pid("pid")?;
                let born = body.cursor.u8("born")? & 1 != 0;
                let by = body.optional_u32("by")?.map(Tid);
                let name = body.text("name")?;
                TimelineEvent::ThreadStart { time, thread: ThreadInfo { tid, pid, name }, born, by }
            }
            tags::THREAD_NAME => {
                let time = body.time(context)?;
                TimelineEvent::ThreadName { time, tid: body.tid("tid")?, name: body.text("name")? }
            }
            tags::THREAD_EXIT => {
                let time = body.time(context)?;
                TimelineEvent::ThreadExit { time, tid: body.tid("tid")?, pid: body.pid("pid")? }
            }
            tags::PROCESS_START => {
                let time = body.time(context)?;
                TimelineEvent::ProcessStart { time, pid: body.pid("pid")?, parent: body.pid("parent")? }
            }
            tags::EXEC => {
                let time = body.time(context)?;
                TimelineEvent::Exec { time, pid: body.pid("pid")?, name: body.text("name")? }
            }
            tags::PROCESS_EXIT => {
                let time = body.time(context)?;
                TimelineEvent::ProcessExit { time, pid: body.pid("pid")? }
            }
            tags::LOSS => {
                let to = body.time(context)?;
                TimelineEvent::Loss(Loss {
                    kind: tags::decode_loss(body.cursor.u8("kind")?),
                    from: body.before(to, "length")?,
                    to,
                    count: body.cursor.varint("count")?,
                    pid: body.optional_u32("pid")?.map(Pid),
                    tid: body.optional_u32("tid")?.map(Tid),
                })
            }
            tags::MARK => {
                let time = body.time(context)?;
                TimelineEvent::Mark { time, label: body.text("label")? }
            }
            tags::WARNING => warning(context, &mut body)?,
            tags::ALLOCATION => allocation(&mut body)?,
            tags::RELEASE => TimelineEvent::Release(Release {
                time: body.whole_time()?,
                pid: body.pid("pid")?,
                address: Avma(body.cursor.varint("address")?),
            }),
            tags::ALLOCATION_WATCH => allocation_watch(&mut body)?,
            tags::ALLOCATION_COUNT => allocation_count(&mut body)?,
            _ => return Ok(Decoded::Unknown),
        };
        Ok(Decoded::Event(event))
    }
}

fn sample(context: &mut Context, body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let time = body.time(context)?;
    let flags = body.cursor.varint("flags")?;
    let tid = body.thread(context)?;
    let stack = body.optional_u32("stack")?.map(StackHandle);
    if flags & 1 != 0 {
        context.sample_weight = body.cursor.varint("weight")?;
    }
    Ok(TimelineEvent::Sample(Sample {
        time,
        tid,
        cpu: body.fits_u32("cpu", flags >> 4)?,
        stack,
        end: tags::decode_end(low_bits(flags >> 1, 7)),
        weight: Nanos(context.sample_weight),
    }))
}

fn wait(context: &mut Context, body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let end = body.time(context)?;
    let flags = body.cursor.u8("flags")?;
    let number = body.cursor.varint("thread")?;
    let tid = body.numbered(context, number)?.tid;
    let start = body.before(end, "duration")?;
    let ready = if flags & 8 == 0 { None } else { Some(body.before(end, "ready")?) };
    let waker = match (flags >> 4) & 3 {
        0 => None,
        1 => Some(Tid(0)),
        _ => Some(body.thread(context)?),
    };
    let thread = body.numbered(context, number)?;
    let syscall = if flags & 0x40 == 0 {
        None
    } else {
        thread.syscall ^= body.cursor.varint_u32("syscall")?;
        Some(thread.syscall)
    };
    let stack = if flags & 0x80 == 0 {
        None
    } else {
        thread.stack ^= body.cursor.varint_u32("stack")?;
        Some(StackHandle(thread.stack))
    };
    let state = tags::decode_state(flags & 7);
    Ok(TimelineEvent::Wait(Wait { tid, start, end, ready, waker, state, syscall, stack }))
}

fn wait_sample(context: &mut Context, body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let time = body.time(context)?;
    let flags = body.cursor.u8("flags")?;
    let tid = body.thread(context)?;
    let stack = body.optional_u32("stack")?.map(StackHandle);
    let syscall = if flags & 0x40 == 0 { None } else { Some(body.cursor.varint_u32("syscall")?) };
    if flags & 0x80 != 0 {
        context.look_weight = body.cursor.varint("weight")?;
    }
    Ok(TimelineEvent::WaitSample(WaitSample {
        time,
        tid,
        stack,
        end: tags::decode_end((flags >> 3) & 7),
        weight: Nanos(context.look_weight),
        syscall,
        state: tags::decode_state(flags & 7),
    }))
}

fn states(context: &mut Context, body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let to = body.time(context)?;
    let tid = body.thread(context)?;
    let length = body.cursor.varint("length")?;
    let running = body.cursor.varint("running")?;
    let ready = body.cursor.varint("ready")?;
    let missing = body.cursor.zigzag("missing")?.cast_unsigned();
    let waiting = length.wrapping_sub(running).wrapping_sub(ready).wrapping_sub(missing);
    Ok(TimelineEvent::States(StateSlice {
        tid,
        from: MonoNanos(to.0.wrapping_sub(length)),
        to,
        running: Nanos(running),
        ready: Nanos(ready),
        waiting: Nanos(waiting),
        voluntary: body.cursor.varint_u32("voluntary")?,
        involuntary: body.cursor.varint_u32("involuntary")?,
        wakeups: body.cursor.varint_u32("wakeups")?,
    }))
}

fn allocation(body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    Ok(TimelineEvent::Allocation(Allocation {
        time: body.whole_time()?,
        pid: body.pid("pid")?,
        tid: body.tid("tid")?,
        end: tags::decode_end(body.cursor.u8("end")?),
        stack: body.optional_u32("stack")?.map(StackHandle),
        address: Avma(body.cursor.varint("address")?),
        size: body.cursor.varint("size")?,
        weight: body.cursor.varint("weight")?,
    }))
}

fn allocation_watch(body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let to = body.whole_time()?;
    Ok(TimelineEvent::AllocationWatch(AllocationWatch {
        from: body.before(to, "length")?,
        to,
        released_to: MonoNanos(to.0.wrapping_add(body.cursor.varint("released")?)),
        calls: body.cursor.varint("calls")?,
        bytes: body.cursor.varint("bytes")?,
        interval: body.cursor.varint("interval")?,
    }))
}

fn allocation_count(body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    Ok(TimelineEvent::AllocationCount(AllocationCount {
        time: body.whole_time()?,
        pid: body.pid("pid")?,
        stack: body.optional_u32("stack")?.map(StackHandle),
        calls: body.cursor.varint("calls")?,
        bytes: body.cursor.varint("bytes")?,
        released: body.cursor.varint("released")?,
        released_bytes: body.cursor.varint("released bytes")?,
        temporary: body.cursor.varint("temporary")?,
        peak: body.cursor.varint("peak")?,
    }))
}

fn module(context: &mut Context, body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let since = body.time(context)?;
    let pid = body.pid("pid")?;
    let kind = tags::decode_module_kind(body.cursor.u8("kind")?);
    let flags = body.cursor.u8("flags")?;
    let start = body.cursor.varint("start")?;
    let end = start.wrapping_add(body.cursor.varint("length")?);
    let offset = FileOffset(body.cursor.varint("offset")?);
    let path = body.text("path")?;
    let build_id = if flags & 2 == 0 { None } else { Some(body.bytes("build id")?.to_vec()) };
    Ok(TimelineEvent::Module(Module {
        pid,
        kind,
        path,
        build_id,
        start: Avma(start),
        end: Avma(end),
        offset,
        since,
        deleted: flags & 1 != 0,
    }))
}

fn symbols(body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let frame = FrameHandle(body.cursor.varint_u32("frame")?);
    let source = tags::decode_source(body.cursor.u8("source")?);
    // Each function takes at least three bytes.
    let count = body.cursor.varint_count("functions", 3)?;
    let mut functions = Vec::with_capacity(count);
    for _ in 0..count {
        let name = body.text("function name")?;
        let flags = body.cursor.u8("function flags")?;
        let file = if flags & 1 == 0 { None } else { Some(body.text("file")?) };
        let line = body.optional_u32("line")?;
        functions.push(Function { name, file, line });
    }
    Ok(TimelineEvent::Symbols(FrameSymbols { frame, functions, source }))
}

fn settings(body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let frequency_hz = body.cursor.varint_u32("frequency")?;
    let wait_threshold = Nanos(body.cursor.varint("wait threshold")?);
    let wait_sample_period = Nanos(body.cursor.varint("wait sample period")?);
    let flags = body.cursor.varint("flags")?;
    Ok(TimelineEvent::Settings(TraceSettings {
        frequency_hz,
        sampling_event: body.text("sampling event")?.as_str().into(),
        method: body.text("method")?.as_str().into(),
        wait_threshold,
        wait_sample_period,
        has_states: flags & 1 != 0,
        has_wakeups: flags & 2 != 0,
        has_kernel_stacks: flags & 4 != 0,
        follows_children: flags & 8 != 0,
    }))
}

fn warning(context: &mut Context, body: &mut Body<'_>) -> Result<TimelineEvent, ReadError> {
    let flags = body.cursor.u8("flags")?;
    let time = if flags & 1 == 0 { None } else { Some(body.time(context)?) };
    let code = body.text("code")?;
    let message = body.text("message")?;
    let hint = if flags & 2 == 0 { None } else { Some(body.text("hint")?) };
    Ok(TimelineEvent::Warning(Warning { code, message, hint, time }))
}

/// The fields of one event; what is left of it at the end comes from a newer version.
struct Body<'a> {
    cursor: Cursor<'a>,
    string_bytes: usize,
}

impl<'a> Body<'a> {
    fn time(&mut self, context: &mut Context) -> Result<MonoNanos, ReadError> {
        Ok(MonoNanos(context.time_after(self.cursor.zigzag("time")?)))
    }

    fn whole_time(&mut self) -> Result<MonoNanos, ReadError> {
        self.cursor.varint("time").map(MonoNanos)
    }

    /// A moment stored as its distance to a later one.
    fn before(&mut self, later: MonoNanos, field: &'static str) -> Result<MonoNanos, ReadError> {
        Ok(MonoNanos(later.0.wrapping_sub(self.cursor.varint(field)?)))
    }

    fn thread(&mut self, context: &mut Context) -> Result<Tid, ReadError> {
        let number = self.cursor.varint("thread")?;
        Ok(self.numbered(context, number)?.tid)
    }

    /// A thread by its number in the chunk, which was just read.
    fn numbered<'c>(&self, context: &'c mut Context, number: u64) -> Result<&'c mut Thread, ReadError> {
        let unknown = ReadErrorKind::OverLimit { claimed: number, limit: 0 };
        context.thread(number).ok_or_else(|| self.cursor.error("thread", unknown))
    }

    fn tid(&mut self, field: &'static str) -> Result<Tid, ReadError> {
        self.cursor.varint_u32(field).map(Tid)
    }

    fn pid(&mut self, field: &'static str) -> Result<Pid, ReadError> {
        self.cursor.varint_u32(field).map(Pid)
    }

    fn fits_u32(&self, field: &'static str, value: u64) -> Result<u32, ReadError> {
        let kind = ReadErrorKind::OverLimit { claimed: value, limit: u32::MAX.into() };
        u32::try_from(value).map_err(|_| self.cursor.error(field, kind))
    }

    fn optional_u32(&mut self, field: &'static str) -> Result<Option<u32>, ReadError> {
        match self.cursor.varint(field)? {
            0 => Ok(None),
            value => self.fits_u32(field, value - 1).map(Some),
        }
    }

    fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], ReadError> {
        let length = self.cursor.varint_len(field, self.string_bytes)?;
        self.cursor.take(field, length)
    }

    fn text(&mut self, field: &'static str) -> Result<String, ReadError> {
        Ok(String::from_utf8_lossy(self.bytes(field)?).into_owned())
    }
}

/// The low bits of a number, as a code.
fn low_bits(value: u64, mask: u64) -> u8 {
    u8::try_from(value & mask).unwrap_or_default()
}
