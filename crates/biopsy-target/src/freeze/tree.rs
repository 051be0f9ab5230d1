//! One window for several processes: all stop, all fork, all go on.
//!
//! Parents come before children. A child process that a parent starts while it is being stopped is not in the list any more;
//! it is reported, not frozen.

use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_sys::boost::Boost;
use biopsy_sys::schedule::{LockedMemory, RealTime};

use super::child::Child;
use super::inject::{Injection, Progress};
use super::place::Place;
use super::prepared::Prepared;
use super::stop::{Scratch, StoppedThread, Threads};
use super::{FreezeError, FreezeOptions, FreezeWarning, KeptMemory, Pause, Stage};
use crate::process::identity::check_same;

/// Between two looks at threads that are in the injected call.
const NAP: Duration = Duration::from_micros(20);
/// The longest sleep while a fork is under way.
const LONGEST_NAP: Duration = Duration::from_millis(100);
/// How long a fork may take, in pauses as allowed: the prediction is within a factor of 2, and giving up costs the whole
/// pause for nothing.
const FORK_PAUSES: u32 = 4;
/// For the way from the call back to the thread's own registers.
const WAY_BACK: Duration = Duration::from_secs(1);
/// How often it is looked whether a process was killed in the window.
const LOOK_FOR_END: Duration = Duration::from_millis(5);
/// For the process in the middle to be gone, after an error.
const MIDDLE_END: Duration = Duration::from_secs(2);

/// A process that was frozen and runs again.
pub(super) struct Held {
    pub(super) prepared: Prepared,
    pub(super) child: Option<Child>,
    pub(super) kept: Option<Box<dyn KeptMemory>>,
    pub(super) threads: Vec<StoppedThread>,
    pub(super) pause: Pause,
    pub(super) warnings: Vec<FreezeWarning>,
    /// Whether the child shares the table of open files.
    pub(super) shares_files: bool,
    /// Threads that had not stopped, to be let go when they do.
    pub(super) late: Threads,
}

/// A process that was not frozen, and what is to be put right in it.
pub(super) struct Back {
    pub(super) prepared: Prepared,
    /// Threads that had not stopped, to be let go when they do.
    pub(super) late: Option<Threads>,
}

impl Back {
    fn of(prepared: Prepared) -> Self {
        Self { prepared, late: None }
    }
}

/// How long the tracer sleeps between two looks at a fork. Each look takes the CPU, with real-time priority, from whoever has
/// it, and that may be the very thread that forks: on a busy machine it then waits for its next turn. So nobody looks while
/// the fork cannot be over yet, and seldom afterwards.
struct Naps {
    expected: Duration,
    slept: bool,
}

impl Naps {
    fn new(places: &[Place]) -> Self {
        let expected = places.iter().map(|place| place.prepared.plan.predicted_pause).max();
        Self { expected: expected.unwrap_or_default(), slept: false }
    }

    fn next(&mut self, places: &[Place]) -> Duration {
        if !places.iter().filter(|place| place.is_forking()).all(Place::is_copying) {
            return NAP;
        }
        if !self.slept {
            self.slept = true;
            // Predictions are within a factor of 2.
            return (self.expected * 2 / 5).clamp(NAP, LONGEST_NAP);
        }
        (self.expected / 64).clamp(NAP, LONGEST_NAP / 100)
    }
}

/// Freezes all of them. On an error all run again and children that were made before it are ended; the processes are given
/// back, because such children are still to be removed from them.
pub(super) fn freeze_together(
    prepared: Vec<Prepared>,
    options: &FreezeOptions,
) -> Result<Vec<Held>, (FreezeError, Vec<Back>)> {
    let at = |stage| {
        if let Some(hook) = &options.at_stage {
            (hook.0)(stage);
        }
    };
    let mut boosts = boosts(&prepared);
    let mut places = Vec::new();
    let mut rest = prepared.into_iter();
    while let Some(prepared) = rest.next() {
        // The pid could have changed hands before the seizing; afterwards it cannot.
        let threads = Threads::seize(prepared.pid()).and_then(|threads| {
            check_same(&prepared.plan.key).map_err(|_| FreezeError::Ended { pid: prepared.pid() })?;
            Ok(threads)
        });
        match threads {
            Ok(threads) => {
                let boost = prepared.gadgets.is_some().then(|| boosts.pop()).flatten();
                places.push(Place::new(prepared, threads, boost));
            }
            Err(error) => {
                let mut back = vec![Back::of(prepared)];
                back.extend(places.into_iter().map(|place| Back::of(place.prepared)));
                back.extend(rest.map(Back::of));
                return Err((error, back));
            }
        }
    }
    at(Stage::Seized);
    let mut scratch = Scratch::new();
    let outcome = window(&mut places, &mut scratch, options, &at);
    finish(places, outcome)
}

/// One for each process that is to fork, as far as there are CPUs for it.
fn boosts(prepared: &[Prepared]) -> Vec<Boost> {
    let forks = prepared.iter().filter(|one| one.gadgets.is_some()).count();
    (0..forks.min(Boost::most())).map_while(|_| Boost::prepare().ok()).collect()
}

/// From the first stop to the last release.
fn window(
    places: &mut [Place],
    scratch: &mut Scratch,
    options: &FreezeOptions,
    at: &dyn Fn(Stage),
) -> Result<(), FreezeError> {
    let _locked = LockedMemory::begin();
    // So that no other process holds the window open (P9 of the measured pitfalls: up to 90 ms on a busy machine).
    let real_time = RealTime::begin();
    if let (Err(error), Some(first)) = (&real_time, places.first_mut()) {
        first.warnings.push(FreezeWarning::NoRealTime { errno: error.raw_os_error().unwrap_or(0) });
    }
    let begin = Instant::now();
    let deadline = begin + options.max_pause;
    // One lender serves all: whoever is late is helped, and then the thread that forks.
    let mut boost = places.iter_mut().find_map(|place| place.boost.take());
    for place in places.iter_mut() {
        place.threads.stop(deadline, options.max_pause, boost.as_ref())?;
    }
    if let Some(boost) = &boost {
        boost.lower();
    }
    if let Some(place) =
        places.iter_mut().find(|place| place.prepared.gadgets.is_some() && place.boost.is_none())
    {
        place.boost = boost.take();
    }
    at(Stage::Stopped);
    let stopped = begin.elapsed();
    for place in places.iter_mut() {
        place.warnings.extend(place.threads.read_registers(scratch));
    }
    at(Stage::RegistersRead);
    let registers = begin.elapsed();

    // All are asked to fork before any is waited for: on several CPUs they fork at the same time. If one cannot, those that
    // are on their way are led to the end all the same.
    for place in places.iter_mut() {
        place.error = place.begin_fork(at).err();
        if place.error.is_some() {
            break;
        }
    }
    if places.iter().all(|place| place.error.is_none()) {
        for place in places.iter_mut() {
            place.error = place.copy().err();
        }
    }
    let limit = options.max_pause * FORK_PAUSES;
    let fork_deadline = begin + limit;
    let mut look_for_end = begin + LOOK_FOR_END;
    let mut naps = Naps::new(places);
    while places.iter().any(Place::is_forking) {
        let look = Instant::now() > look_for_end;
        for place in places.iter_mut().filter(|place| place.is_forking()) {
            place.look_at_fork(at);
            if look && place.is_forking() && place.has_ended() {
                place.error = Some(FreezeError::Ended { pid: place.pid() });
            }
        }
        if look {
            look_for_end = Instant::now() + LOOK_FOR_END;
        }
        if Instant::now() > fork_deadline {
            let pid = places.iter().find(|place| place.is_forking()).map_or(Pid(0), Place::pid);
            return Err(FreezeError::TookTooLong { pid, stage: Stage::CallEntered, limit });
        }
        if places.iter().any(Place::is_forking) {
            std::thread::sleep(naps.next(places));
        }
    }
    let forked = begin.elapsed();
    for place in places.iter_mut() {
        let except = place.injection.as_ref().filter(|one| !one.is_done()).map(Injection::tid);
        place.warnings.extend(place.threads.release(except));
    }
    at(Stage::OthersReleased);
    way_back(places, at)?;
    for boost in places.iter().filter_map(|place| place.boost.as_ref()) {
        boost.lower();
    }
    let all = begin.elapsed();
    for place in places.iter_mut() {
        place.pause = Pause {
            stopped: all,
            stop: stopped,
            registers: registers.saturating_sub(stopped),
            fork: forked.saturating_sub(registers),
            resume: all.saturating_sub(forked),
            threads: u32::try_from(place.threads.list.len()).unwrap_or(u32::MAX),
        };
    }
    at(Stage::Released);
    Ok(())
}

/// The threads that forked get their registers back and go on.
fn way_back(places: &mut [Place], at: &dyn Fn(Stage)) -> Result<(), FreezeError> {
    for place in places.iter_mut() {
        let pid = place.pid();
        if let Some(injection) = &mut place.injection {
            // One in whose name a process in the middle was made waits in the kernel until that is gone.
            injection.leave().map_err(FreezeError::step(pid, "letting a thread run"))?;
        }
    }
    let begin = Instant::now();
    let deadline = begin + WAY_BACK;
    loop {
        let mut pending = None;
        for place in places.iter_mut().filter(|place| place.error.is_none()) {
            let pid = place.pid();
            place.threads.release_late();
            if !place.is_middle_gone(at) {
                pending = Some(pid);
                continue;
            }
            let Some(injection) = place.injection.as_mut().filter(|one| !one.is_done()) else { continue };
            match injection.poll(at) {
                Ok(Progress::Done(_)) => place.warnings.extend(place.threads.release(None)),
                Ok(Progress::Pending | Progress::Copy(_) | Progress::Middle(_)) => pending = Some(pid),
                // It was frozen, and was killed afterwards: the image is whole.
                Err(FreezeError::Ended { .. }) => place.give_up_way_back(),
                Err(other) => return Err(other),
            }
            if pending == Some(pid) && begin.elapsed() > LOOK_FOR_END && place.has_ended() {
                place.give_up_way_back();
                pending = None;
            }
        }
        let Some(pid) = pending else { return Ok(()) };
        if Instant::now() > deadline {
            return Err(FreezeError::TookTooLong { pid, stage: Stage::OthersReleased, limit: WAY_BACK });
        }
        std::thread::sleep(NAP);
    }
}

/// Holds the children, or, after an error, lets everything go and ends them.
fn finish(
    mut places: Vec<Place>,
    outcome: Result<(), FreezeError>,
) -> Result<Vec<Held>, (FreezeError, Vec<Back>)> {
    let mut error = outcome.err();
    for place in &mut places {
        if let Some(boost) = &place.boost {
            boost.lower();
        }
        // First: the thread that made it stands still until it is gone.
        place.end_middle();
        place.abandon();
        drop(place.threads.release(None));
        error = error.or(place.error.take());
    }
    let mut children = Vec::new();
    for index in 0..places.len() {
        let Some(place) = places.get_mut(index) else { break };
        place.see_middle_off(MIDDLE_END);
        let (pid, made) = (place.pid(), place.child);
        let mut idle = || let_late_go(&mut places);
        let child = made.map(|child| Child::hold(child, pid, &mut idle)).transpose();
        children.push(child.unwrap_or_else(|source| {
            if let Some(child) = made {
                Child::end_unheld(child);
            }
            let held = FreezeError::step(pid, "holding the frozen child")(source);
            error = error.take().or(Some(held));
            None
        }));
    }
    let Some(error) = error else {
        let held = places.into_iter().zip(children).map(|(place, child)| Held {
            prepared: place.prepared,
            child,
            kept: place.kept,
            threads: place.threads.list.iter().map(StoppedThread::seen).collect(),
            pause: place.pause,
            warnings: place.warnings,
            shares_files: place.shares_files,
            late: place.threads,
        });
        return Ok(held.collect());
    };
    // One could not be held: none is.
    for child in children.into_iter().flatten() {
        // It is killed; should it take long, the end of this thread takes care of it.
        let _ = child.end(&mut || let_late_go(&mut places));
    }
    let back = places.into_iter().map(|place| Back { prepared: place.prepared, late: Some(place.threads) });
    Err((error, back.collect()))
}

fn let_late_go(places: &mut [Place]) {
    for place in places {
        place.threads.release_late();
    }
}
