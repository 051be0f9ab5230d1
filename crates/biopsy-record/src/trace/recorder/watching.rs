//! Switches are watched in turns where they are too many: what is done at each turn.

use biopsy_model::loss::LossKind;
use biopsy_sys::clock::monotonic_nanos;

use super::super::kernel::{ThreadTimes, thread_state};
use super::super::long_waits::LongWaits;
use super::super::turns::{Turn, Turns};
use super::Recorder;

impl Recorder {
    /// At the beginning: whether this recorder is one that would.
    pub(super) fn may_take_turns(&mut self, now: u64) {
        self.turns = (self.plan.pace.takes_turns && self.attached.kernel.is_some()).then(|| Turns::new(now));
    }

    /// What is due. What cannot be done is left as it is.
    pub(super) fn take_turn(&mut self, now: u64) {
        let Some(turns) = &mut self.turns else { return };
        match turns.next(now) {
            Turn::Stay => {}
            Turn::Begin => self.begin_turns(now),
            Turn::Open => {
                let Some(kernel) = &mut self.attached.kernel else { return };
                match kernel.open_turn() {
                    Ok(()) => self.note_unwatched(),
                    Err(error) => tracing::debug!(%error, "switches cannot be watched for a moment"),
                }
            }
            Turn::Close => {
                let Some(kernel) = &mut self.attached.kernel else { return };
                kernel.close_turn();
                self.unwatched_since.get_or_insert_with(monotonic_nanos);
            }
            Turn::End => self.end_turns(),
        }
    }

    fn begin_turns(&mut self, now: u64) {
        let Some(kernel) = &mut self.attached.kernel else { return };
        let threads = match kernel.begin_turns() {
            Ok(threads) => threads,
            Err(error) => {
                // As on kernels that do not tell: all switches are watched, whatever it costs.
                tracing::debug!(%error, "switches cannot be watched in turns");
                self.turns = None;
                return;
            }
        };
        let end = monotonic_nanos();
        self.unwatched_since.get_or_insert(end);
        // What the programs have seen, up to the last moment.
        self.read_kernel_records();
        let mut long_waits = LongWaits::default();
        for (tid, seen, account) in threads {
            if !self.state.frames.processes.contains(seen.tgid) {
                continue;
            }
            let result = self.slices.update(tid, &seen, end, true, &mut self.state.sink);
            self.state.keep(result);
            if let Some(account) = account.filter(|account| waits_since_before(&seen, account, now)) {
                long_waits.begin(tid, &account, seen.out_time, end);
            }
        }
        self.state.long_waits = Some(long_waits);
        self.count_from_here(end);
    }

    /// The times of threads are those of the scheduler from here on.
    fn count_from_here(&mut self, now: u64) {
        self.slices.clear();
        let result = self.off_cpu.begin_anew(&mut self.state.sink);
        self.state.keep(result);
        let Self { attached, slices, state, .. } = self;
        let Some(kernel) = &mut attached.kernel else { return };
        let read = kernel.threads(|tid, times| {
            if state.frames.processes.contains(times.tgid) {
                slices.begin_at(tid, &times, now);
            }
        });
        if let Err(failed) = read {
            tracing::warn!(%failed, "reading what the scheduler keeps of threads");
        }
    }

    fn end_turns(&mut self) {
        let Some(kernel) = &mut self.attached.kernel else { return };
        let threads = match kernel.end_turns() {
            Ok(threads) => threads,
            Err(error) => {
                // They stay unwatched, which is told, and it is tried again.
                tracing::debug!(%error, "switches cannot be watched again");
                if let Some(turns) = &mut self.turns {
                    turns.stay_away(monotonic_nanos());
                }
                return;
            }
        };
        self.note_unwatched();
        let now = monotonic_nanos();
        let long_waits = self.state.long_waits.take().unwrap_or_default();
        for (tid, times) in threads {
            if !self.state.frames.processes.contains(times.tgid) {
                continue;
            }
            let result = self.slices.update(tid, &times, now, true, &mut self.state.sink);
            self.state.keep(result);
            if times.state == thread_state::WAITING
                && let Some(kernel) = &self.attached.kernel
            {
                let out_time = long_waits.since(tid, &times).unwrap_or(now);
                let _ = kernel.add_sleeping_thread(tid, &ThreadTimes { since: now, out_time, ..times });
            }
        }
        self.slices.clear();
        let result = self.off_cpu.begin_anew(&mut self.state.sink);
        self.state.keep(result);
    }

    /// The time without up to now goes onto the time axis, because somebody wants to know all up to now.
    pub(super) fn note_unwatched_so_far(&mut self) {
        if self.unwatched_since.is_some() {
            self.note_unwatched();
            self.unwatched_since = Some(monotonic_nanos());
        }
    }

    /// The time without is over, and goes onto the time axis.
    pub(super) fn note_unwatched(&mut self) {
        let Some(since) = self.unwatched_since.take() else { return };
        let result = self.state.sink.lost(LossKind::Switches, since, monotonic_nanos(), 0);
        self.state.keep(result);
    }
}

/// By what the programs know, read after the account: it waits since before that was read, at `now` or later.
fn waits_since_before(seen: &ThreadTimes, account: &ThreadTimes, now: u64) -> bool {
    let both = seen.state == thread_state::WAITING && account.state == thread_state::WAITING;
    both && seen.out_time > 0 && seen.out_time <= seen.since && seen.since < now
}
