//! Answers those who ask for the last minutes.

use std::io::{self, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use biopsy_model::MonoNanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::{Recent, line};
use super::place::{RecentPlace, may_ask};

/// How long somebody may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most that are answered at once.
const AT_ONCE: usize = 4;

/// Those for whom the recorder is silent: each records the same process in full.
#[derive(Clone, Debug, Default)]
pub(super) struct Others(Arc<AtomicUsize>);

impl Others {
    /// Somebody else listens to runtimes now.
    pub(super) fn listen(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn one_more(&self) -> Slot {
        self.0.fetch_add(1, Ordering::Relaxed);
        Slot(Arc::clone(&self.0))
    }
}

/// Makes an answer of what happened behind the first moment and not behind the second.
pub(super) type Answer = dyn Fn(MonoNanos, MonoNanos) -> io::Result<Recent> + Send + Sync;

/// Listens as long as this lives.
#[derive(Debug)]
pub(super) struct Listener {
    listener: UnixListener,
    place: RecentPlace,
    busy: Arc<AtomicUsize>,
    others: Others,
}

impl Listener {
    pub(super) fn open(place: &RecentPlace, others: Others) -> io::Result<Self> {
        let listener = place.listen()?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, place: place.clone(), busy: Arc::default(), others })
    }

    /// Waits so long for somebody who asks, and answers on a thread of his own.
    pub(super) fn wait(&self, time: Duration, answer: &Arc<Answer>) {
        let timeout = Timespec::try_from(time).unwrap_or_default();
        // A signal ends the wait, too.
        let _ = poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&timeout));
        while let Ok((stream, _)) = self.listener.accept() {
            let Some(slot) = Slot::take(&self.busy) else { continue };
            if !may_ask(&stream) {
                continue;
            }
            let (answer, others) = (Arc::clone(answer), self.others.clone());
            let work = move || {
                if let Err(error) = serve(&stream, answer.as_ref(), slot, &others) {
                    tracing::debug!(%error, "somebody who asked for the last minutes got no answer");
                }
            };
            // Without a thread he sees that nothing comes.
            let _ = std::thread::Builder::new().name("biopsy-recent".to_owned()).spawn(work);
        }
    }
}

/// One of those who are answered.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(busy: &Arc<AtomicUsize>) -> Option<Self> {
        let slot = Self(Arc::clone(busy));
        (busy.fetch_add(1, Ordering::Relaxed) < AT_ONCE).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // What stays is replaced by the next one.
        let _ = std::fs::remove_file(self.place.socket());
    }
}

fn serve(stream: &UnixStream, answer: &Answer, slot: Slot, others: &Others) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let asked = line(&mut BufReader::new(stream))?;
    let numbers: Vec<u64> = asked.split(' ').map_while(|word| word.parse().ok()).collect();
    let &[from, until] = numbers.as_slice() else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "that is no question"));
    };
    answer(MonoNanos(from), MonoNanos(until))?.write(&mut &*stream)?;
    drop(slot);
    // Whoever goes on to record keeps the connection until he has ended, or was killed.
    let _other = others.one_more();
    stream.set_read_timeout(None)?;
    io::copy(&mut &*stream, &mut io::sink()).map(drop)
}
