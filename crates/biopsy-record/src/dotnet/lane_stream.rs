//! One session being read: its events go to whoever asks, its bytes masked into the recording.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_dotnet::nettrace::{End, Event, Limits, NettraceError, Reader};
use biopsy_dotnet_ipc::{IpcError, Session, SessionControl};
use biopsy_recording::MemberFile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::masked::MaskedWriter;
use super::plan::{Group, Lane};
use super::providers::is_at_once;

/// Events that are taken of one session before the others have their turn.
const TURN: usize = 20_000;
/// The head of a stream comes at once when the runtime runs.
const HEAD_WITHIN: Duration = Duration::from_secs(2);
/// The longest that ending a session is waited for; the stream is cut then. The runtime tells all EventSources first, on
/// one thread for all sessions.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// The same where the runtime has to tell all of its methods at the end: .NET 3.1 was seen to need 23 s for 100,000 on a machine
/// with nothing to spare.
const RUNDOWN_WITHIN: Duration = Duration::from_secs(45);

/// The raw stream in the recording, and how many bytes came.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) writer: Option<MaskedWriter<MemberFile>>,
    pub(crate) bytes: u64,
    /// Why it is not whole.
    pub(crate) error: Option<io::Error>,
}

/// A session whose bytes are also written down.
#[derive(Debug)]
struct Tee {
    session: Session,
    raw: Arc<Mutex<Raw>>,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.session.read(buffer)?;
        let mut raw = self.raw.lock().unwrap_or_else(PoisonError::into_inner);
        raw.bytes += count as u64;
        if let Some(writer) = &mut raw.writer
            && let Err(error) = writer.push(buffer.get(..count).unwrap_or_default())
        {
            raw.error = Some(error);
            raw.writer = None;
        }
        Ok(count)
    }
}

#[derive(Debug)]
enum State {
    /// Nothing has come yet: a runtime that is suspended sends nothing before it goes on.
    Silent(Tee),
    Events(Box<Reader<Tee>>),
    Ended,
}

/// What is known of a stream that has ended.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Ended {
    pub(crate) lost: u64,
    pub(crate) unknown: u64,
    pub(crate) cut: bool,
}

/// One session.
#[derive(Debug)]
pub(crate) struct LaneStream {
    pub(crate) group: Group,
    control: Arc<SessionControl>,
    state: State,
    raw: Arc<Mutex<Raw>>,
    /// Told to end at this moment.
    stopping: Option<Instant>,
    /// How long its end may take.
    patience: Duration,
    pub(crate) events: u64,
    /// Starts and ends are on different threads, and a stream has them thread by thread.
    sorted: bool,
    ended: Ended,
    pub(crate) warning: Option<String>,
}

impl LaneStream {
    pub(crate) fn new(
        group: Group,
        session: Session,
        writer: Option<MaskedWriter<MemberFile>>,
    ) -> io::Result<Self> {
        let control = Arc::new(session.control()?);
        let raw = Arc::new(Mutex::new(Raw { writer, bytes: 0, error: None }));
        let state = State::Silent(Tee { session, raw: Arc::clone(&raw) });
        Ok(Self {
            group,
            control,
            state,
            raw,
            stopping: None,
            patience: STOP_WITHIN,
            events: 0,
            sorted: true,
            ended: Ended::default(),
            warning: None,
        })
    }

    /// Events come at once and in no order: for triggers.
    pub(crate) fn unsorted(mut self) -> Self {
        self.sorted = false;
        self
    }

    /// The runtime tells all of its methods when this session ends.
    pub(crate) fn with_rundown(mut self) -> Self {
        self.patience = RUNDOWN_WITHIN;
        self
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Reading takes what is there, or its end, and does not wait for more.
    pub(crate) fn reads_without_waiting(&self) -> bool {
        matches!(self.state, State::Events(_)) || self.is_stopping()
    }

    /// Bytes that have come.
    pub(crate) fn bytes(&self) -> u64 {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Waits until something is there, or the time is over.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let longest = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&longest)).is_ok_and(|ready| ready > 0)
    }

    /// Takes what is there. Returns whether there is likely more.
    pub(crate) fn pump(&mut self, each: &mut dyn FnMut(&Group, &Event<'_>)) -> bool {
        if let State::Silent(_) = self.state {
            self.begin();
        }
        let State::Events(reader) = &mut self.state else { return false };
        for _ in 0..TURN {
            match reader.next_event() {
                Ok(Some(event)) => {
                    self.events += 1;
                    each(&self.group, &event);
                }
                Ok(None) => {
                    self.end();
                    return false;
                }
                Err(error) if error.is_not_ready() => return false,
                Err(error) => {
                    self.warning = Some(error.to_string());
                    self.end();
                    return false;
                }
            }
        }
        true
    }

    /// What is held back to be put in order comes next.
    pub(crate) fn release(&mut self) {
        if let State::Events(reader) = &mut self.state {
            reader.release();
        }
    }

    /// Reads the head of the stream, which waits for it: something has come already.
    fn begin(&mut self) {
        let State::Silent(tee) = std::mem::replace(&mut self.state, State::Ended) else { return };
        let limited = self.control.set_read_timeout(Some(HEAD_WITHIN));
        let read = limited.map_err(NettraceError::Io).and_then(|()| Reader::new(tee, &Limits::default()));
        match read {
            Ok(mut reader) => match self.control.set_nonblocking(true) {
                Ok(()) => {
                    if self.sorted {
                        reader.sort_by_time_but(is_at_once);
                    }
                    self.state = State::Events(Box::new(reader));
                }
                Err(error) => self.give_up(error.to_string()),
            },
            // It ended before it began: the process has, usually.
            Err(NettraceError::TooShort { .. }) => self.give_up(String::new()),
            Err(error) => self.give_up(error.to_string()),
        }
    }

    fn give_up(&mut self, why: String) {
        self.ended.cut = true;
        self.warning = Some(why).filter(|why| !why.is_empty());
        self.state = State::Ended;
        self.control.cut();
        self.finish_raw();
    }

    fn end(&mut self) {
        if let State::Events(reader) = std::mem::replace(&mut self.state, State::Ended) {
            let cut = !matches!(reader.end(), Some(End::Complete));
            self.ended = Ended { lost: reader.lost(), unknown: reader.unknown(), cut };
        }
        self.finish_raw();
    }

    fn finish_raw(&mut self) {
        let mut raw = self.raw.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut writer) = raw.writer.take() else { return };
        if let Err(error) = writer.finish() {
            raw.error = Some(error);
        }
        let is_full = writer.is_full();
        drop(raw);
        if is_full {
            self.warning =
                Some("its stream is kept in part only: it has reached the limit of its size".to_owned());
        }
    }

    /// Asks the runtime to end the session.
    pub(crate) fn stop(&mut self) {
        let patience = self.patience;
        let controls = self.begin_stop();
        end_all(controls.into_iter().collect(), patience);
    }

    /// It will be told to end by whoever gets this.
    fn begin_stop(&mut self) -> Option<Arc<SessionControl>> {
        if self.stopping.is_some() || self.has_ended() {
            return None;
        }
        self.stopping = Some(Instant::now());
        Some(Arc::clone(&self.control))
    }

    /// Cuts it when ending it has taken too long.
    pub(crate) fn cut_if_late(&self) {
        if self.stopping.is_some_and(|since| since.elapsed() > self.patience + Duration::from_secs(5)) {
            self.control.cut();
        }
    }

    /// What has come of a kind that has a budget, also what waits to be put in order: events and bytes.
    pub(crate) fn arrived(&self, lane: Lane) -> (u64, u64) {
        let State::Events(reader) = &self.state else { return (0, 0) };
        let its = reader.arrived().filter(|(metadata, ..)| Lane::of(metadata) == Some(lane));
        its.fold((0, 0), |sum, (_, events, bytes)| (sum.0 + events, sum.1 + bytes))
    }

    /// It was told to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// What is known of it: final when it has ended.
    pub(crate) fn result(&self) -> Ended {
        match &self.state {
            State::Events(reader) => Ended { lost: reader.lost(), unknown: reader.unknown(), cut: true },
            State::Silent(_) => Ended { cut: true, ..Ended::default() },
            State::Ended => self.ended,
        }
    }

    /// Why the stream in the recording is not whole.
    pub(crate) fn raw_error(&self) -> Option<String> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner).error.as_ref().map(ToString::to_string)
    }
}

/// Asks the runtime to end sessions.
pub(crate) fn stop_all(streams: &mut [LaneStream]) {
    // They end one after the other: all wait for the one that takes longest.
    let patience = streams.iter().map(|stream| stream.patience).max().unwrap_or(STOP_WITHIN);
    streams.iter_mut().for_each(|stream| stream.patience = patience);
    end_all(streams.iter_mut().filter_map(LaneStream::begin_stop).collect(), patience);
}

/// One after the other, as the runtime does it anyway, and on a thread of its own: what the sessions still hold has to be read
/// meanwhile.
fn end_all(controls: Vec<Arc<SessionControl>>, patience: Duration) {
    if controls.is_empty() {
        return;
    }
    let all = controls.clone();
    let stop = move || {
        let deadline = Instant::now() + patience;
        for control in controls {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
            if let Err(error) = control.stop(left) {
                tracing::debug!(%error, "the session is cut");
                control.cut();
            }
        }
    };
    if std::thread::Builder::new().name("biopsy-net-stop".to_owned()).spawn(stop).is_err() {
        all.iter().for_each(|control| control.cut());
    }
}

impl AsFd for LaneStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

/// Whether an error means that this runtime will never give this session.
pub(crate) fn is_final(error: &IpcError) -> bool {
    error.is_end() || error.is_unknown_command() || matches!(error, IpcError::WrongOwner { .. })
}
