//! biopsy is killed at random moments of all its verbs, beside real servers under load: none may notice, and nothing may
//! be left.
//!
//! The bar is 0 harmed, 0 zombies, 0 files that nobody named in 10,000 kills. Each server has a thread of this program to
//! itself, so that captures, which mostly wait, do so side by side.

mod left;
mod servers;
mod verbs;
mod watching;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use biopsy_testkit::{Survival, temp_dir};

use crate::observe::{is_traced, until};
use crate::run::{Outcome, release_program};
use left::{new_children, strange_files};
use servers::Server;
use verbs::{VERBS, Verb};

/// How often the server's settings, threads and files are compared.
const COMPARE_EVERY: u32 = 10;
/// Whole runs that are timed, to know among which moments to choose.
const WHOLE: usize = 2;
/// Later moments of a run are not tried: a slow program on a busy machine would take days.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many kills, all servers together [default: 10000]
    #[arg(long)]
    count: Option<u32>,
    /// Which program [default: the release build]
    #[arg(long)]
    program: Option<PathBuf>,
    /// Only servers whose name contains this
    #[arg(long)]
    server: Option<String>,
    /// `biopsy watch` is killed, with all that it has begun beside MariaDB and redis: 200 times, if no count is given
    #[arg(long)]
    watch: bool,
}

/// What came of the kills of one server.
#[derive(Clone, Copy, Default)]
struct Counts {
    kills: u32,
    /// At the moment of the kill: it was traced; biopsy had ended.
    traced: u32,
    over: u32,
    harmed: u32,
    zombies: u32,
    files: u32,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let program = match &options.program {
        Some(program) => {
            program.canonicalize().map_err(|error| format!("`{}`: {error}", program.display()))?
        }
        None => release_program()?,
    };
    if options.watch {
        return watching::run(&program, options.count.unwrap_or(200), options.server.as_deref());
    }
    let starts: Vec<_> = servers::ALL
        .iter()
        .filter(|(name, _)| options.server.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())))
        .collect();
    let left = AtomicU32::new(options.count.unwrap_or(10_000));
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = starts
            .iter()
            .map(|(name, start)| {
                let (program, left) = (&program, &left);
                (name, scope.spawn(move || start().and_then(|server| beside(&server, program, left))))
            })
            .collect();
        for (name, thread) in threads {
            all.push((*name, thread.join().unwrap_or_else(|_| Err("it panicked".to_owned()))));
        }
    });
    println!(
        "{:<10} {:>6} {:>7} {:>6} {:>7} {:>8} {:>6}",
        "server", "kills", "traced", "over", "harmed", "zombies", "files"
    );
    let mut sum = Counts::default();
    let mut errors = Vec::new();
    for (name, result) in all {
        match result {
            Ok(counts) => {
                show(name, &counts);
                sum.add(&counts);
            }
            Err(error) => errors.push(format!("{name}: {error}")),
        }
    }
    show("all", &sum);
    errors.iter().for_each(|error| println!("{error}"));
    match errors.is_empty() && sum.harmed + sum.zombies + sum.files == 0 {
        true => Ok(()),
        false => Err("not all went well".to_owned()),
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.traced += other.traced;
        self.over += other.over;
        self.harmed += other.harmed;
        self.zombies += other.zombies;
        self.files += other.files;
    }
}

fn show(name: &str, counts: &Counts) {
    let Counts { kills, traced, over, harmed, zombies, files } = counts;
    println!("{name:<10} {kills:>6} {traced:>7} {over:>6} {harmed:>7} {zombies:>8} {files:>6}");
}

/// The kills beside one server, until all are done.
fn beside(server: &Server, program: &Path, left: &AtomicU32) -> Outcome<Counts> {
    let folder = temp_dir("kills");
    let temporary = temp_dir("kills-tmp");
    let command = |verb: &Verb| {
        let mut command = Command::new(program);
        command.args(verb.arguments(server)).current_dir(folder.path()).env("TMPDIR", temporary.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let verbs: Vec<&Verb> = VERBS.iter().filter(|verb| server.is_dotnet || !verb.dotnet_only).collect();
    let mut usual = Vec::new();
    for verb in &verbs {
        let mut whole = Vec::new();
        for _ in 0..WHOLE {
            let began = Instant::now();
            let mut child = command(verb).spawn().map_err(|error| format!("cannot run biopsy: {error}"))?;
            while child.try_wait().ok().flatten().is_none() && began.elapsed() < LONGEST {
                std::thread::sleep(Duration::from_millis(5));
            }
            whole.push(began.elapsed());
            if began.elapsed() >= LONGEST {
                // One kill more than are counted.
                let _ = child.kill();
                let _ = child.wait();
                verbs::clear(folder.path());
                break;
            }
            let status = child.wait().map_err(|error| format!("cannot wait for biopsy: {error}"))?;
            verbs::clear(folder.path());
            // 2: not all of it could be had, which on a busy machine happens.
            if !matches!(status.code(), Some(0 | 2)) {
                return Err(format!("`{}` ended with {status}", verb.name));
            }
        }
        usual.push(whole.into_iter().min().unwrap_or_default());
    }
    let children = new_children(&server.pids(), &[]);
    let survivals: Vec<Survival> = server.pids().into_iter().map(Survival::before_when_settled).collect();
    let survivals: Vec<Survival> =
        survivals.into_iter().map(|survival| survival.threads_may_change().files_may_change()).collect();
    let mut counts = Counts::default();
    // A well-mixed sequence, another one for each server.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(server.pid);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let which = verbs::choose(&verbs, state);
        let share = f64::from(u32::try_from(state >> 40).unwrap_or(0)) / f64::from(1_u32 << 24);
        let mut child =
            command(verbs[which]).spawn().map_err(|error| format!("cannot run biopsy: {error}"))?;
        std::thread::sleep(usual[which].mul_f64(share));
        counts.traced += u32::from(server.pids().into_iter().any(is_traced));
        counts.over += u32::from(child.try_wait().ok().flatten().is_some());
        // It is ours and has not been waited for, or has ended.
        let _ = child.kill();
        let _ = child.wait();
        counts.kills += 1;
        let told =
            |what: &str| println!("{} kill {} (`{}`): {what}", server.name, counts.kills, verbs[which].name);
        let free = until(|| !server.pids().into_iter().any(is_traced));
        let compared = counts.kills % COMPARE_EVERY == 0;
        let differences: Vec<String> =
            survivals.iter().filter(|_| compared).flat_map(Survival::differences).collect();
        let answer = server.ask();
        if !free || !differences.is_empty() || answer.is_err() {
            told(&format!("untraced: {free}; {differences:?}; {answer:?}"));
            counts.harmed += 1;
        }
        if !until(|| new_children(&server.pids(), &children).is_empty()) {
            told(&format!("children are left: {:?}", new_children(&server.pids(), &children)));
            counts.zombies += 1;
            return Ok(counts);
        }
        verbs::clear(folder.path());
        let strange = strange_files(&[folder.path(), temporary.path()]);
        if !strange.is_empty() {
            told(&format!("files are left: {strange:?}"));
            counts.files += 1;
            strange.iter().for_each(|path| left::remove(path));
        }
        if counts.kills % 50 == 0 {
            println!("{}: {} kills", server.name, counts.kills);
        }
        if answer.is_err() {
            break;
        }
    }
    // Copies that are orphans are for init to remove, which may take its time.
    if !until(|| left::dead_copies().is_empty()) {
        println!("{}: zombies are left: {:?}", server.name, left::dead_copies());
        counts.zombies += 1;
    }
    Ok(counts)
}
