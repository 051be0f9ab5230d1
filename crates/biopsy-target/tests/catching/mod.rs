//! What the tests of catching share.

mod agent;
mod bad_days;
mod burst;
mod closing;
mod crash;
mod endings;
mod stalled;

use std::time::{Duration, Instant};

use biopsy_image::{Image, MemoryExt};
use biopsy_model::{Pid, ProcessKey};
use biopsy_target::ProcRoot;
use biopsy_target::catch::{CatchOn, CatchOptions, Catcher, Caught, Way};
use biopsy_target::identity::key_of;
use biopsy_testkit::{Program, TargetProcess};

/// Long enough for a machine that does other things as well.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) fn key(pid: u32) -> ProcessKey {
    key_of(&ProcRoot::live(), Pid(pid)).expect("the process is there")
}

/// A launcher, and a catcher for what it starts.
pub(crate) fn launcher(way: Way, on: CatchOn) -> (TargetProcess, Catcher) {
    let launcher = TargetProcess::start(Program::Launcher, &[]);
    let mut options = CatchOptions::new("short-lived", on).below(key(launcher.pid()));
    options.way = way;
    let catcher = Catcher::new(&options).unwrap_or_else(|error| panic!("{way:?}: {error}"));
    assert_eq!(catcher.chosen().way, way);
    (launcher, catcher)
}

/// The path of the program that lives for a millisecond.
pub(crate) fn short_lived() -> String {
    Program::ShortLived.path().to_str().expect("a path of ours").to_owned()
}

pub(crate) fn next(catcher: &mut Catcher) -> Caught {
    let caught = catcher.next(LONG).unwrap_or_else(|error| panic!("{error}: {:?}", catcher.statistics()));
    caught.unwrap_or_else(|| panic!("nothing was caught: {:?}", catcher.statistics()))
}

/// Whether the memory has what the program wrote into it.
pub(crate) fn has_mark(caught: &Caught) -> bool {
    let wanted = format!("short-lived {}", caught.key().pid);
    caught.mappings().iter().filter(|mapping| mapping.is_anonymous() && mapping.protection.write).any(
        |mapping| {
            let length = usize::try_from(mapping.size().min(1 << 20)).unwrap_or(0);
            let bytes = caught.read_up_to(mapping.start, length).unwrap_or_default();
            bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes())
        },
    )
}

/// Waits for a line of the launcher.
#[track_caller]
pub(crate) fn said(launcher: &TargetProcess, start: &str) -> String {
    launcher.line_starting_with(start, LONG).unwrap_or_else(|| panic!("the launcher did not say {start}"))
}

/// Waits until something is true.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(2));
    }
}
