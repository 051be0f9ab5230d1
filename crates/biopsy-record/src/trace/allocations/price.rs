//! What a probe costs who runs into it, on this machine: a breakpoint costs a third of a microsecond on bare metal, and ten times as much
//! in some virtual machines. Measured at best, with everything in the caches; in a program that works it is several times as much.

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_sys::bpf::At;

use super::super::kernel::allocations::{AllocationPrograms, Kind};
use super::super::maps;

/// Calls that are timed, and how often: the least of several is what it costs where nobody came in between.
const CALLS: u32 = 64;
const ROUNDS: u32 = 16;
/// How many times as much a probe costs in a program that works.
const DEARER: u32 = 8;
/// What is assumed where it cannot be measured.
const USUAL: Duration = Duration::from_micros(8);
/// Less than this is not believed.
const LEAST: Duration = Duration::from_nanos(200);

/// A function of ours that is called by its address.
#[inline(never)]
extern "C" fn probed(value: u64) -> u64 {
    black_box(value)
}

/// Time that one probe takes from the thread that runs into it.
pub(super) fn of_a_probe(programs: &AllocationPrograms) -> Duration {
    match measure(programs) {
        Ok(price) => price.max(LEAST),
        Err(error) => {
            tracing::debug!(%error, "what a probe costs cannot be measured");
            USUAL
        }
    }
}

fn measure(programs: &AllocationPrograms) -> io::Result<Duration> {
    let pid = Pid(std::process::id());
    let function: extern "C" fn(u64) -> u64 = black_box(probed);
    let address = function as usize as u64;
    let entry = maps::read(pid.0)?.into_iter().find(|entry| (entry.start..entry.end).contains(&address));
    let entry = entry.ok_or(io::ErrorKind::NotFound)?;
    let offset = address - entry.start + entry.offset;
    let least = || {
        let rounds = (0..ROUNDS).map(|_| {
            let begun = Instant::now();
            for _ in 0..CALLS {
                black_box(function)(0);
            }
            begun.elapsed()
        });
        rounds.min().unwrap_or_default()
    };
    let without = least();
    // Those of an allocation of no bytes that hands out nothing.
    let path = Path::new("/proc/self/exe");
    let leave = programs.leave().attach_functions(path, &[offset], At::Return, pid)?;
    let enter = programs.enter(Kind::Malloc).attach_functions(path, &[offset], At::Entry, pid)?;
    let with = least();
    drop((enter, leave));
    // Of two probes. Redis at work paid 6 to 8 microseconds for each where this was 0.7: so many times as much is taken.
    Ok(with.saturating_sub(without) * DEARER / (2 * CALLS))
}
