//! Workload Z: zstd on one file, bound by the CPU.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::proc_usage;

use super::options::{Options, kinds};
use super::recorder::{self, Kind, Record, Tools};
use super::statistics::{median, paired_ratio};
use super::table::{Column, Table};
use crate::run::Outcome;

/// Megabytes that take zstd -13 some seconds on two CPUs.
const MEGABYTES: usize = 20;
/// The same for `--quick`.
const QUICK_MEGABYTES: usize = 8;

struct Run {
    kind: Kind,
    /// CPU seconds of the compression: the work is the same each time.
    cpu: f64,
    recorder_cores: f64,
    record: Option<Record>,
}

/// All recorders in rounds of alternating order.
pub(crate) fn measure(tools: &Tools, options: &Options, table: &mut Table) -> Outcome {
    let kinds = kinds(tools, options);
    let folder = biopsy_testkit::temp_dir("bench-z");
    let input = folder.path().join("input");
    let megabytes = if options.quick { QUICK_MEGABYTES } else { MEGABYTES };
    std::fs::write(&input, text(megabytes * 1_000_000))
        .map_err(|error| format!("cannot write the input: {error}"))?;
    let mut runs = Vec::new();
    for round in 0..options.rounds() {
        let mut order = kinds.clone();
        if round % 2 == 1 {
            order.reverse();
        }
        for kind in order {
            let run = one_run(tools, kind, &input)?;
            println!("Z round {round}: {:<24} {:>9.2} CPU-s", kind.name(), run.cpu);
            runs.push(run);
        }
    }
    for kind in &kinds {
        table.add_column("Z", column(*kind, &runs));
    }
    table.judge("4", table.value("Z", Kind::WaitStacks.name(), "work per CPU-s, paired"));
    table.judge("7", table.value("Z", Kind::WaitStacks.name(), "output, KB/s"));
    Ok(())
}

fn one_run(tools: &Tools, kind: Kind, input: &Path) -> Outcome<Run> {
    let folder = biopsy_testkit::temp_dir("bench");
    let mut zstd = Command::new("zstd");
    zstd.args(["-T2", "-13", "-q", "-f", "-o", "/dev/null"]).arg(input);
    let mut child = zstd
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run {zstd:?}: {error}"))?;
    let began = Instant::now();
    let recorder = recorder::start(tools, kind, child.id(), folder.path())?;
    let mut own = 0.0;
    // Its times stay readable until it is waited for. Recorders end by themselves a moment after their target has, so theirs are
    // read before.
    while !proc_usage::is_zombie(child.id()) {
        own = recorder.as_ref().map_or(0.0, recorder::Running::cpu_seconds);
        std::thread::sleep(Duration::from_millis(50));
    }
    let elapsed = began.elapsed().as_secs_f64();
    let cpu = proc_usage::cpu_seconds(child.id());
    let record = recorder.map(recorder::Running::stop).transpose()?;
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(Run { kind, cpu, recorder_cores: own / elapsed, record }),
        false => Err(format!("zstd ended with {status}")),
    }
}

fn column(kind: Kind, runs: &[Run]) -> Column {
    let of = |kind: Kind, value: &dyn Fn(&Run) -> Option<f64>| -> Vec<f64> {
        runs.iter().filter(|run| run.kind == kind).filter_map(value).collect()
    };
    let mut column = Column::new(kind.name());
    column.set("CPU-s", median(&of(kind, &|run| Some(run.cpu))));
    // Less CPU for the same work is more work per CPU second: the ratio is turned round.
    let (own, base) = (of(kind, &|run| Some(run.cpu)), of(Kind::None, &|run| Some(run.cpu)));
    column.set("work per CPU-s, paired", paired_ratio(&base, &own));
    if kind != Kind::None {
        column.set("recorder CPU, cores", median(&of(kind, &|run| Some(run.recorder_cores))));
        #[expect(clippy::cast_precision_loss, reason = "sizes of files")]
        let output =
            |run: &Run| run.record.as_ref().map(|record| record.bytes as f64 / 1000.0 / record.seconds);
        column.set("output, KB/s", median(&of(kind, &output)));
        column
            .set("memory, MB", median(&of(kind, &|run| run.record.as_ref().map(|record| record.memory_mb))));
    }
    column
}

/// Text that compresses about as well as logs do, the same on each machine.
fn text(bytes: usize) -> Vec<u8> {
    let words: Vec<String> = (0_u32..4000).map(|i| format!("{:x}", i.wrapping_mul(2_654_435_761))).collect();
    let mut state = 1_u64;
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The square of a uniform number prefers small ones, as words of a language do.
        let uniform = usize::try_from(state >> 44).unwrap_or(0);
        let index = (((uniform * uniform) >> 20) * words.len()) >> 20;
        text.extend_from_slice(words[index.min(words.len() - 1)].as_bytes());
        text.push(if state >> 40 & 15 == 0 { b'\n' } else { b' ' });
    }
    text.truncate(bytes);
    text
}
