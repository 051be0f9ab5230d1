//! The last minutes of a timeline, in memory: what happened goes when it is too old, what it refers to stays.
//!
//! What happened is kept in segments of some seconds, each a small timeline without definitions; definitions are kept until there are
//! too many of them. Then whoever records begins anew ([`Ring::begin_anew`]): handles start from zero, and what was there is kept, as a
//! whole timeline, until it is too old.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use biopsy_model::MonoNanos;
use biopsy_model::timeline::TimelineEvent;

use super::reader::read_events;
use super::shift::{Part, Shift, part_of};
use super::writer::Writer;
use crate::Limits;

/// A segment is closed when it spans so long ...
const SEGMENT_NANOS: u64 = 5_000_000_000;
/// ... or has so many bytes before compression.
const SEGMENT_BYTES: usize = 128 << 10;

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingLimits {
    /// Nanoseconds.
    pub age_nanos: u64,
    /// Bytes of what happened, compressed.
    pub bytes: usize,
    /// Frames and stacks, after which it is to be begun anew.
    pub definitions: u32,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self { age_nanos: 600_000_000_000, bytes: 16 << 20, definitions: 200_000 }
    }
}

/// The last minutes.
#[derive(Debug)]
pub struct Ring {
    limits: RingLimits,
    definitions: Writer<Vec<u8>>,
    defined: Shift,
    lives: Vec<TimelineEvent>,
    /// Lives are looked through when there are so many.
    most_lives: usize,
    events: Writer<Vec<u8>>,
    /// First and last moment in `events`.
    open: Option<(MonoNanos, MonoNanos)>,
    segments: VecDeque<Segment>,
    /// What was recorded before it was begun anew.
    before: Option<Segment>,
    bytes: usize,
    newest: MonoNanos,
}

#[derive(Clone, Debug)]
struct Segment {
    from: MonoNanos,
    to: MonoNanos,
    timeline: Arc<[u8]>,
}

/// What a ring held at some moment.
#[derive(Debug)]
pub struct Recent {
    before: Option<Segment>,
    definitions: Vec<u8>,
    lives: Vec<TimelineEvent>,
    segments: Vec<Segment>,
}

impl Ring {
    /// An empty one.
    ///
    /// # Errors
    /// There is no memory for compressing.
    pub fn new(limits: RingLimits) -> io::Result<Self> {
        Ok(Self {
            limits,
            definitions: Writer::new(Vec::new())?,
            defined: Shift::default(),
            lives: Vec::new(),
            most_lives: 1024,
            events: Writer::new(Vec::new())?,
            open: None,
            segments: VecDeque::new(),
            before: None,
            bytes: 0,
            newest: MonoNanos(0),
        })
    }

    /// Takes an event.
    ///
    /// # Errors
    /// It cannot be compressed.
    pub fn push(&mut self, event: &TimelineEvent) -> io::Result<()> {
        match part_of(event) {
            Part::Definition => {
                self.defined.count(event);
                self.definitions.push(event)
            }
            Part::Life => {
                self.lives.push(event.clone());
                if self.lives.len() >= self.most_lives {
                    self.forget_the_dead();
                    self.most_lives = (self.lives.len() * 2).max(1024);
                }
                Ok(())
            }
            Part::Moment(time) => {
                self.newest = self.newest.max(time);
                let (from, to) = self.open.get_or_insert((time, time));
                (*from, *to) = ((*from).min(time), (*to).max(time));
                let is_full =
                    to.since(*from).0 >= SEGMENT_NANOS || self.events.bytes_pending() >= SEGMENT_BYTES;
                self.events.push(event)?;
                if is_full { self.close_segment() } else { Ok(()) }
            }
        }
    }

    /// Lets go what is too old or too much.
    pub fn forget(&mut self) {
        let oldest = MonoNanos(self.newest.0.saturating_sub(self.limits.age_nanos));
        let held = |ring: &Self| ring.bytes + ring.before.as_ref().map_or(0, |before| before.timeline.len());
        if self.before.as_ref().is_some_and(|before| before.to < oldest) || held(self) > self.limits.bytes {
            self.before = None;
        }
        while let Some(segment) = self.segments.front()
            && (segment.to < oldest || self.bytes > self.limits.bytes)
        {
            self.bytes -= segment.timeline.len();
            self.segments.pop_front();
        }
    }

    /// Whether it is to be begun anew, because there are too many definitions.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.defined.frames.saturating_add(self.defined.stacks) >= self.limits.definitions
    }

    /// Bytes that are held, all in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let before = self.before.as_ref().map_or(0, |before| before.timeline.len());
        self.bytes + before + self.definitions.get_ref().len() + self.definitions.bytes_pending()
    }

    /// Frames and stacks that are defined.
    #[must_use]
    pub fn defined(&self) -> u32 {
        self.defined.frames.saturating_add(self.defined.stacks)
    }

    /// The moment from which on everything is there; `None`: nothing is.
    #[must_use]
    pub fn begins(&self) -> Option<MonoNanos> {
        let first = self.before.as_ref().or_else(|| self.segments.front()).map(|segment| segment.from);
        first.or(self.open.map(|(from, _)| from))
    }

    /// What there is from a moment on. Cheap: it is put together by [`Recent::write`].
    ///
    /// # Errors
    /// It cannot be compressed.
    pub fn recent(&mut self, from: MonoNanos) -> io::Result<Recent> {
        self.close_segment()?;
        self.definitions.flush_chunk()?;
        let mut definitions = self.definitions.get_ref().clone();
        definitions.extend(self.definitions.end_mark());
        Ok(Recent {
            before: self.before.clone().filter(|before| before.to >= from),
            definitions,
            lives: self.lives.clone(),
            segments: self.segments.iter().filter(|segment| segment.to >= from).cloned().collect(),
        })
    }

    /// From here on, handles start from zero again.
    ///
    /// # Errors
    /// It cannot be compressed.
    pub fn begin_anew(&mut self) -> io::Result<()> {
        let from = MonoNanos(self.newest.0.saturating_sub(self.limits.age_nanos));
        let to = self.newest;
        let timeline = self.recent(from)?.write(from, to)?;
        let begins = self.begins().unwrap_or(to).max(from);
        *self = Self { newest: to, ..Self::new(self.limits)? };
        self.before = Some(Segment { from: begins, to, timeline: timeline.into() });
        Ok(())
    }

    fn close_segment(&mut self) -> io::Result<()> {
        let Some((from, to)) = self.open.take() else { return Ok(()) };
        let timeline = self.events.split_off()?;
        self.bytes += timeline.len();
        self.segments.push_back(Segment { from, to, timeline: timeline.into() });
        Ok(())
    }

    /// Threads and processes that ended before anything that is kept.
    fn forget_the_dead(&mut self) {
        let oldest = self.newest.0.saturating_sub(self.limits.age_nanos);
        let mut ended: HashMap<(bool, u32), u64> = HashMap::new();
        for event in &self.lives {
            let (key, time) = match event {
                TimelineEvent::ThreadExit { time, tid, .. } => ((true, tid.0), time.0),
                TimelineEvent::ProcessExit { time, pid } => ((false, pid.0), time.0),
                _ => continue,
            };
            if time < oldest {
                let last = ended.entry(key).or_default();
                *last = time.max(*last);
            }
        }
        self.lives.retain(|event| {
            let (key, time) = match event {
                TimelineEvent::ThreadStart { time, thread, .. } => ((true, thread.tid.0), time.0),
                TimelineEvent::ThreadName { time, tid, .. } | TimelineEvent::ThreadExit { time, tid, .. } => {
                    ((true, tid.0), time.0)
                }
                TimelineEvent::ProcessStart { time, pid, .. }
                | TimelineEvent::Exec { time, pid, .. }
                | TimelineEvent::ProcessExit { time, pid } => ((false, pid.0), time.0),
                _ => return true,
            };
            ended.get(&key).is_none_or(|&end| time > end)
        });
    }
}

impl Recent {
    /// A whole timeline of what happened behind `from` and not behind `until`.
    ///
    /// # Errors
    /// It cannot be compressed, or what was kept cannot be read, which would be a mistake of ours.
    pub fn write(self, from: MonoNanos, until: MonoNanos) -> io::Result<Vec<u8>> {
        let mut writer = Writer::new(Vec::new())?;
        let mut shift = Shift::default();
        if let Some(before) = &self.before {
            shift = append(&mut writer, &before.timeline, shift, from, until)?;
        }
        append(&mut writer, &self.definitions, shift, from, until)?;
        for life in self.lives.iter().filter(|life| begins_by(life, until)) {
            writer.push(life)?;
        }
        for segment in &self.segments {
            append(&mut writer, &segment.timeline, shift, from, until)?;
        }
        writer.finish()
    }
}

fn begins_by(life: &TimelineEvent, until: MonoNanos) -> bool {
    super::assemble::time_of(life).is_none_or(|(first, _)| first <= until)
}

/// Appends the events of a timeline that are in this time. Returns where the handles of the next one begin.
fn append(
    writer: &mut Writer<Vec<u8>>,
    timeline: &[u8],
    shift: Shift,
    from: MonoNanos,
    until: MonoNanos,
) -> io::Result<Shift> {
    let mut next = shift;
    let mut result = Ok(());
    read_events(timeline, &Limits::default(), |mut event| {
        let is_wanted = match part_of(&event) {
            Part::Definition => true,
            Part::Life => begins_by(&event, until),
            Part::Moment(time) => time > from && time <= until,
        };
        if is_wanted && result.is_ok() {
            next.count(&event);
            shift.event(&mut event);
            result = writer.push(&event);
        }
    })
    .map_err(io::Error::other)?;
    result.map(|()| next)
}
