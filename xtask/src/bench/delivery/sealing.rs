//! A dump of 1 GiB of a quiet process (as for D4 and D5) into a sealed file, and into one that is not, in alternating rounds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_seal::Identity;
use biopsy_testkit::{Program, TargetProcess, proc_usage, temp_dir};

use crate::bench::options::Options;
use crate::bench::statistics::{median, paired_ratio};
use crate::bench::table::{Column, Table};
use crate::run::Outcome;

const ROUNDS: usize = 7;
/// What a file system takes for a file beside its bytes: the rest of its last block, and where its blocks are.
const ROUNDED_UP: u64 = 32 << 10;
/// Threads of the target besides its main one.
const THREADS: &str = "4";

/// What one dump took: seconds, the most bytes that were on the disk meanwhile, and those of the result.
struct Run {
    seconds: f64,
    most_bytes: u64,
    bytes: u64,
}

/// Dumps in turn.
pub(super) fn measure(biopsy: &Path, options: &Options, table: &mut Table, column: &mut Column) -> Outcome {
    let megabytes = if options.quick { "128" } else { "1024" };
    let mut target = TargetProcess::start(Program::PauseProbe, &[megabytes, THREADS, "small", "quiet"]);
    let key = Identity::generate().recipient().to_string();
    for (way, rows) in [(None, ["V1a", "V1b"]), (Some("--raw"), ["V1c", "V1d"])] {
        let (mut plain, mut sealed, mut share) = (Vec::new(), Vec::new(), 0.0_f64);
        for round in 0..options.rounds.unwrap_or(if options.quick { 2 } else { ROUNDS }) {
            let mut runs = [None, None];
            for number in [round % 2, (round + 1) % 2] {
                let to = (number == 1).then_some(key.as_str());
                runs[number] = Some(one_run(biopsy, target.pid(), way, to)?);
            }
            let [Some(one), Some(other)] = runs else { continue };
            plain.push(one.seconds);
            sealed.push(other.seconds);
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let most = other.most_bytes.saturating_sub(ROUNDED_UP) as f64 / other.bytes as f64;
            share = share.max(most);
        }
        let ratio = paired_ratio(&sealed, &plain);
        let name = way.unwrap_or("compressed");
        println!(
            "V sealing, {name}: {sealed:.2?} s, unsealed {plain:.2?} s: {ratio:.3?}; most on disk {share:.3} of the sealed file"
        );
        table.judge(rows[0], ratio);
        table.judge(rows[1], Some(share));
        let names: [&'static str; 2] = match way {
            None => ["dump of 1 GiB, s", "the same, sealed, s"],
            Some(_) => ["raw dump of 1 GiB, s", "the same raw, sealed, s"],
        };
        column.set(names[0], median(&plain));
        column.set(names[1], median(&sealed));
    }
    target.stop();
    Ok(())
}

fn one_run(biopsy: &Path, pid: u32, way: Option<&str>, key: Option<&str>) -> Outcome<Run> {
    let folder = temp_dir("bench-v");
    let ending = if key.is_some() { "core.age" } else { "core" };
    let out = folder.path().join(format!("dump.{ending}"));
    let mut command = Command::new(biopsy);
    command.args(["dump", &pid.to_string(), "--quiet", "--max-pause", "5s", "--output"]).arg(&out).args(way);
    if let Some(key) = key {
        command.args(["--to-key", key]);
    }
    let began = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("cannot run biopsy: {error}"))?;
    let (mut seconds, mut most_bytes) = (0.0, 0);
    while !proc_usage::is_zombie(child.id()) {
        most_bytes = most_bytes.max(allocated(child.id(), folder.path()));
        std::thread::sleep(Duration::from_millis(2));
        seconds = began.elapsed().as_secs_f64();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("biopsy ended with {status}"));
    }
    if key.is_none() {
        // A sealed file has its name once it is on the disk; the same is asked of the other.
        let synced = std::fs::File::open(&out).and_then(|file| file.sync_all());
        synced.map_err(|error| format!("no dump: {error}"))?;
        seconds = began.elapsed().as_secs_f64();
    }
    let bytes = std::fs::metadata(&out).map_err(|error| format!("no dump: {error}"))?.len();
    std::thread::sleep(Duration::from_millis(500));
    Ok(Run { seconds, most_bytes: most_bytes.max(bytes), bytes })
}

/// Bytes of files below the folder that it has open, those without a name, too.
fn allocated(pid: u32, folder: &Path) -> u64 {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let is_below = |link: &Path| std::fs::read_link(link).is_ok_and(|to| to.starts_with(folder));
    let paths = open.flatten().map(|entry| entry.path()).filter(|link| is_below(link));
    let mut files: Vec<(u64, u64)> = paths
        .filter_map(|link| {
            use std::os::unix::fs::MetadataExt as _;
            let meta = std::fs::metadata(link).ok()?;
            Some((meta.ino(), meta.blocks() * 512))
        })
        .collect();
    files.sort_unstable();
    // One file may be open twice, and has grown between two looks.
    files.dedup_by_key(|(file, _)| *file);
    files.iter().map(|(_, bytes)| bytes).sum()
}
