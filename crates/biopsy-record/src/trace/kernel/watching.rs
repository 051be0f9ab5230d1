//! Switches watched in turns: the programs come and go.

use std::io;

use biopsy_sys::bpf::btf::Btf;
use biopsy_sys::limits::LockedMemoryRoom;

use super::accounts::Accounts;
use super::error::KernelError;
use super::in_turns::{InTurns, arrivals};
use super::layout::ThreadTimes;
use super::session::KernelSession;

impl KernelSession {
    /// Reads from now on what the scheduler keeps, and returns that besides what the programs know of each thread. Switches are not watched any more.
    ///
    /// # Errors
    /// When this kernel cannot tell. Then all is as before.
    pub(crate) fn begin_turns(
        &mut self,
    ) -> Result<Vec<(u32, ThreadTimes, Option<ThreadTimes>)>, KernelError> {
        // Without CONFIG_SCHEDSTATS it keeps nothing unless it is told to.
        if arrivals("/proc/thread-self").is_none_or(|arrivals| arrivals == 0) {
            return Err(KernelError::MissingType("sched_info.pcount"));
        }
        let btf = Btf::of_kernel().map_err(KernelError::NoTypes)?;
        let _room = LockedMemoryRoom::raise().ok();
        let accounts = Accounts::load(&self.maps, &btf, self.task)?;
        let mut turns = InTurns::new(accounts);
        turns.threads(|_, _| {}).map_err(KernelError::Map)?;
        // The programs know it later than the scheduler was asked: who waits there since before that waits in both.
        let mut threads = Vec::new();
        self.threads(|tid, times| threads.push((tid, times, turns.last(tid)))).map_err(KernelError::Map)?;
        self.switches.clear();
        self.turns = Some(turns);
        Ok(threads)
    }

    /// Watches switches for a moment.
    ///
    /// # Errors
    /// When the kernel refuses. Then they are not watched.
    pub(crate) fn open_turn(&mut self) -> Result<(), KernelError> {
        self.slots().begin_anew();
        self.empty_table(true).map_err(KernelError::Map)?;
        self.switches = self.programs.attach_switches(self.task)?;
        Ok(())
    }

    /// Does not watch them any more.
    pub(crate) fn close_turn(&mut self) {
        self.switches.clear();
    }

    /// Watches all of them again, and returns what the scheduler said then. The programs know nothing of any thread, but for what they are told by
    /// [`Self::add_sleeping_thread`].
    ///
    /// # Errors
    /// When the kernel refuses. Then all is as before.
    pub(crate) fn end_turns(&mut self) -> Result<Vec<(u32, ThreadTimes)>, KernelError> {
        self.slots().clear();
        self.empty_table(false).map_err(KernelError::Map)?;
        self.switches = self.programs.attach_switches(self.task)?;
        let mut threads = Vec::new();
        if let Some(mut turns) = self.turns.take()
            && let Err(failed) = turns.threads(|tid, times| threads.push((tid, times)))
        {
            // They are watched: who waits there is known as soon as it has run.
            tracing::warn!(%failed, "reading what the scheduler keeps of threads");
        }
        Ok(threads)
    }

    /// Takes all entries out of the table of threads that have no slot, and gives them one.
    fn empty_table(&mut self, gives_slots: bool) -> io::Result<()> {
        let count = self.maps.threads.read_all(&mut self.keys, &mut self.values)?;
        for key in self.keys.chunks_exact(4).take(count) {
            if gives_slots {
                self.slots().give(u32::from_ne_bytes(key.try_into().expect("chunks of 4")));
            }
            self.maps.threads.delete(key)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use biopsy_sys::clock::monotonic_nanos;
    use rustc_hash::FxHashMap;

    use super::*;
    use crate::trace::kernel::{KernelRecord, thread_state};

    /// `clock_nanosleep`.
    const SLEEP: Option<u32> = Some(230);

    fn own_tid() -> u32 {
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        own.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    /// A thread that sleeps so long, again and again, until nobody listens.
    fn sleeper(told: &Sender<u32>, time: Duration) -> std::thread::JoinHandle<()> {
        let told = told.clone();
        std::thread::spawn(move || {
            while told.send(own_tid()).is_ok() {
                std::thread::sleep(time);
            }
        })
    }

    /// Records of waits in a sleep, by their begin.
    fn waits(session: &mut KernelSession) -> Vec<u64> {
        let mut starts = Vec::new();
        session.read(usize::MAX, |record| {
            if let KernelRecord::Wait { start, syscall: SLEEP, .. } = record {
                starts.push(start);
            }
        });
        starts
    }

    #[test]
    fn what_the_scheduler_keeps_stands_for_what_nobody_watched() {
        if !biopsy_testkit::require(biopsy_testkit::Privilege::Bpf) {
            return;
        }
        let mut session = KernelSession::start(2, 10, 8 << 20, false).unwrap();
        session.set_wait_threshold(1_000_000);
        session.add_target(std::process::id(), false).unwrap();
        let pause = || std::thread::sleep(Duration::from_millis(100));
        let ((short, naps), (long, sleeps)) = (channel(), channel());
        let threads = [sleeper(&short, Duration::from_millis(5)), sleeper(&long, Duration::from_secs(4))];
        let (naps_tid, sleeps_tid) = (naps.recv().unwrap(), sleeps.recv().unwrap());
        pause();
        assert!(!waits(&mut session).is_empty());

        let threads_then = session.begin_turns().unwrap();
        let (_, seen, account) = threads_then.iter().find(|(tid, ..)| *tid == sleeps_tid).unwrap();
        assert_eq!((seen.state, account.unwrap().state), (thread_state::WAITING, thread_state::WAITING));
        waits(&mut session);
        pause();
        assert_eq!(waits(&mut session), [0; 0], "nobody watches");

        let mut found = FxHashMap::default();
        session.threads(|tid, times| found.extend([(tid, times)])).unwrap();
        let asleep = found[&sleeps_tid];
        assert_eq!((asleep.state, asleep.syscall_number()), (thread_state::WAITING, SLEEP));
        assert_eq!(asleep.tgid, std::process::id());
        assert!(asleep.ip != 0 && asleep.sp != 0 && asleep.waiting >= 100_000_000, "{asleep:?}");
        // The programs had seen the same of it.
        assert_eq!((asleep.ip, asleep.sp, asleep.bp), (seen.ip, seen.sp, seen.bp));
        let napping = found[&naps_tid];
        assert!(napping.voluntary >= 10 && napping.sequence >= 10, "{napping:?}");
        pause();
        assert_eq!(session.thread(sleeps_tid), Some(asleep));
        assert_ne!(session.thread(naps_tid).unwrap().sequence, napping.sequence, "it has run since");

        let opened = monotonic_nanos();
        session.open_turn().unwrap();
        pause();
        let starts = waits(&mut session);
        assert!(!starts.is_empty() && starts.iter().all(|&start| start >= opened), "{opened}: {starts:?}");
        session.close_turn();
        waits(&mut session);
        pause();
        assert_eq!(waits(&mut session), [0; 0]);

        let ended = monotonic_nanos();
        let threads_now = session.end_turns().unwrap();
        let (_, asleep) = threads_now.into_iter().find(|(tid, _)| *tid == sleeps_tid).unwrap();
        let since = ended - 1_000;
        session
            .add_sleeping_thread(sleeps_tid, &ThreadTimes { since: ended, out_time: since, ..asleep })
            .unwrap();
        assert_eq!(session.thread(sleeps_tid).unwrap().waiting, 0, "programs count from here on");
        drop((naps, sleeps));
        for thread in threads {
            thread.join().unwrap();
        }
        let starts = waits(&mut session);
        assert!(starts.contains(&since), "a wait begins when it was said to: {starts:?}");
        assert!(starts.iter().all(|&start| start >= since), "{starts:?}");
    }
}
