//! One machine: boots, does what it is told, and ends.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::Outcome;

/// A processor model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Model {
    /// Whatever QEMU can emulate.
    New,
    /// Without XSAVE and AVX.
    Old,
}

impl Model {
    /// As QEMU calls it.
    fn qemu(self) -> &'static str {
        match self {
            // With AVX2. `max` is faulty with five-level page tables, and slow with protection keys. With SMAP, `iretq` in a
            // program reads its stack as if it were the kernel, which ends .NET 8 (and leaves the kernel damaged).
            Self::New => "max,pku=off,la57=off,smap=off",
            // The oldest that boots all three kernels: 6.12 does not boot on `qemu64`.
            Self::Old => "Nehalem",
        }
    }
}

/// A machine.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) kernel: String,
    pub(crate) cpus: u32,
    pub(crate) model: Model,
    /// Version of control groups, 1 or 2.
    pub(crate) groups: u32,
}

impl Cell {
    /// `6.1, 2 new, v2`.
    pub(crate) fn name(&self) -> String {
        let model = match self.model {
            Model::New => "new",
            Model::Old => "old",
        };
        format!("{}, {} {model}, v{}", self.kernel, self.cpus, self.groups)
    }

    /// Megabytes. Each processor has buffers of its own, in the kernel and in ours.
    fn memory(&self) -> u32 {
        3000 + 24 * self.cpus
    }
}

/// What a machine said.
#[derive(Debug)]
pub(crate) struct Result {
    /// All of it, between beginning and end.
    pub(crate) lines: Vec<String>,
}

impl Result {
    /// `ok`, `FAIL` or `skip`; `FAIL` also where nothing was said.
    pub(crate) fn of(&self, check: &str) -> &str {
        let said = self.lines.iter().find_map(|line| {
            let (name, rest) = line.strip_prefix("CELL ")?.split_once(' ')?;
            (name == check).then(|| rest.split(' ').next().unwrap_or_default())
        });
        match said {
            Some("ok") => "ok",
            Some("skip") => "skip",
            Some(_) | None => "FAIL",
        }
    }

    pub(crate) fn failures(&self, checks: &[&str]) -> usize {
        checks.iter().filter(|check| self.of(check) == "FAIL").count()
    }
}

/// Boots it. Its console goes to a file in `folder`.
pub(crate) fn run(cell: &Cell, kernel: &Path, image: &Path, folder: &Path, limit: u64) -> Outcome<Result> {
    let log = folder.join(format!("{}.log", cell.name().replace(", ", "-").replace(' ', "-")));
    let console = File::create(&log).map_err(|error| format!("cannot make `{}`: {error}", log.display()))?;
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-m", &cell.memory().to_string(), "-smp", &cell.cpus.to_string(), "-cpu", cell.model.qemu()]);
    // One thread for all processors: with one for each, a processor may run the old bytes of an instruction that another one has
    // just patched, and 6.12, which patches running code often, ends with "Oops: int3" as soon as a tracepoint is switched on.
    qemu.args(["-accel", "tcg,thread=single"]);
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(image);
    // What an emulated processor does not do in time is no fault of the kernel.
    // Feature 141 is CMPXCHG16B, behind which 6.12's memory allocator now and then finds flags that QEMU 7.2 made up; programs
    // go on to see it.
    let append =
        format!("console=ttyS0 quiet panic=-1 nowatchdog clearcpuid=141 biopsy.groups={}", cell.groups);
    qemu.args(["-append", &append, "-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot"]);
    qemu.stdin(Stdio::null()).stdout(console).stderr(Stdio::inherit());
    let mut child = qemu.spawn().map_err(|error| format!("cannot run `qemu-system-x86_64`: {error}"))?;
    let deadline = Instant::now() + Duration::from_secs(limit);
    let ended = loop {
        match child.try_wait() {
            Ok(Some(_)) => break true,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(200)),
            _ => break false,
        }
    };
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = std::fs::read(&log).map_err(|error| format!("cannot read `{}`: {error}", log.display()))?;
    let text = String::from_utf8_lossy(&text).replace('\r', "");
    let mut lines: Vec<String> = text
        .lines()
        .skip_while(|line| !line.contains("VM-BEGIN"))
        .take_while(|line| !line.starts_with("VM-END"))
        .map(str::to_owned)
        .collect();
    if !text.contains("VM-END") {
        lines.push(format!("no end within {limit} s: see {}", log.display()));
    }
    Ok(Result { lines })
}

#[cfg(test)]
mod tests {
    use super::Result;

    #[test]
    fn what_was_not_said_has_failed() {
        let lines = ["VM-BEGIN", "CELL dump ok 3 ms", "CELL tree FAIL no", "CELL net8.0 skip"];
        let result = Result { lines: lines.map(str::to_owned).to_vec() };
        assert_eq!(
            ["dump", "tree", "net8.0", "kills"].map(|check| result.of(check)),
            ["ok", "FAIL", "skip", "FAIL"]
        );
        assert_eq!(result.failures(&["dump", "tree", "net8.0", "kills"]), 2);
    }
}
