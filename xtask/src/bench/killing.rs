//! Workload K: biopsy is killed at a thousand random moments of a dump; the target must not notice.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{Program, Survival, TargetProcess, temp_dir};

use super::options::Options;
use super::table::{Column, Table};
use crate::observe::{children, is_traced, until};
use crate::run::Outcome;

const KILLS: u32 = 1000;
const QUICK_KILLS: u32 = 20;
/// A target ends by itself after ten minutes, which is soon on a busy machine: so many kills for each.
const KILLS_OF_ONE: u32 = 100;
/// The target checks its registers in loops; this often it is asked what it found.
const ASK_EVERY: u32 = 10;
const WITHIN: Duration = Duration::from_secs(20);
/// Dumps that are timed, to know among which moments to choose.
const WHOLE: usize = 5;

/// What came of the kills.
#[derive(Default)]
struct Counts {
    harmed: u32,
    traced: u32,
    copies: u32,
    over: u32,
}

/// Kills them, and counts what came of it.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    let kills = if options.quick { QUICK_KILLS } else { KILLS };
    let mut counts = Counts::default();
    // The same moments in every run, as far as the machine allows.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut done = 0;
    while done < kills {
        let some = KILLS_OF_ONE.min(kills - done);
        kill_some(biopsy, some, &mut state, &mut counts)?;
        done += some;
        println!(
            "K: {done} kills, {} harmed; {} while traced, {} while a copy lived, {} were over",
            counts.harmed, counts.traced, counts.copies, counts.over
        );
    }
    table.judge("D9", Some(f64::from(counts.harmed)));
    let mut column = Column::new("biopsy, killed");
    column.set("kills", Some(f64::from(kills)));
    column.set("while it traced the target", Some(f64::from(counts.traced)));
    column.set("while a copy lived", Some(f64::from(counts.copies)));
    column.set("when it had ended", Some(f64::from(counts.over)));
    column.set("targets harmed", Some(f64::from(counts.harmed)));
    table.add_column("K", column);
    Ok(())
}

/// The same target for all of these.
fn kill_some(biopsy: &Path, kills: u32, state: &mut u64, counts: &mut Counts) -> Outcome {
    let folder = temp_dir("bench-k");
    let output = folder.path().join("dump.core");
    let mut target = TargetProcess::start(Program::Registers, &["2"]);
    let pid = target.pid();
    let dump = || {
        let mut command = Command::new(biopsy);
        command.args(["dump", &pid.to_string(), "--raw", "--quiet", "--max-pause", "5s", "--output"]);
        command.arg(&output).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let clear = || {
        let _ = std::fs::remove_file(&output);
        let _ = std::fs::remove_file(output.with_extension("core.partial"));
    };
    let mut whole = Vec::new();
    for _ in 0..WHOLE {
        let began = Instant::now();
        let status = dump().status().map_err(|error| format!("cannot run biopsy: {error}"))?;
        whole.push(began.elapsed());
        clear();
        if !status.success() {
            return Err(format!("biopsy ended with {status}"));
        }
    }
    // Not the longest: most would be over by then.
    whole.sort();
    let usual = whole[WHOLE / 2];
    let survival = Survival::before(pid);
    for kill in 0..kills {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = dump().spawn().map_err(|error| format!("cannot run biopsy: {error}"))?;
        let share = f64::from(u32::try_from(*state >> 40).unwrap_or(0)) / f64::from(1_u32 << 24);
        std::thread::sleep(usual.mul_f64(share));
        counts.traced += u32::from(is_traced(pid));
        counts.copies += u32::from(!living_children(pid).is_empty());
        counts.over += u32::from(child.try_wait().ok().flatten().is_some());
        let _ = child.kill();
        let _ = child.wait();
        clear();
        let free = until(|| !is_traced(pid) && living_children(pid).is_empty());
        let asked = kill % ASK_EVERY == 0 || kill + 1 == kills;
        let intact = !asked || target.ask("", "INTACT", WITHIN).is_some();
        if !free || !intact {
            counts.harmed += 1;
            println!("K kill {kill} of this target: free {free}, intact {intact}");
        }
        if !intact {
            let status = target.wait_for_exit(Duration::from_secs(1));
            return Err(format!("the target does not say that it is intact: {status:?}"));
        }
    }
    survival.assert_unharmed();
    target.stop();
    Ok(())
}

/// Children that have not ended.
fn living_children(pid: u32) -> Vec<u32> {
    let lives = |child: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    };
    children(pid).into_iter().filter(lives).collect()
}
