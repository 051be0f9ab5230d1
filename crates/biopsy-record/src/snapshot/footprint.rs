//! Where the memory of a living process went.

use std::ops::Range;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use biopsy_allocators::Managed;
use biopsy_dotnet::graph::Graph;
use biopsy_model::footprint::{Footprint, KernelSums};
use biopsy_model::heap::HeapFacts;
use biopsy_model::{Pid, ProcessKey};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{self, FreezeError, FreezeOptions, FrozenProcess};

use super::SnapshotError;

/// Bytes of ours for each block while its graph is made: 165 to 195 were seen, of 1 to 7.5 million blocks.
const BYTES_OF_BLOCK: u64 = 200;
/// Bytes of `/proc/PID/status`.
const STATUS: usize = 64 << 10;

/// Freezes the process, looks where its memory went, lets it go. With `wants_blocks` also: what the blocks of native code are, and who
/// holds them.
///
/// # Errors
/// [`SnapshotError::Freeze`].
pub fn take_footprint(
    key: &ProcessKey,
    options: &FreezeOptions,
    wants_blocks: bool,
) -> Result<(Option<(Graph, HeapFacts)>, Footprint), SnapshotError> {
    let plan = freeze::plan(std::slice::from_ref(key), options)?;
    let when = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let pid = key.pid;
    let started = Instant::now();
    let process = freeze::freeze(plan, options)?.pop().ok_or(FreezeError::Ended { pid })?;
    let pause = process.pause();
    let (mut footprint, mut heap) =
        if wants_blocks { with_blocks(&process) } else { (of_runtimes(&process), None) };
    if process.ended_with_process() {
        return Err(FreezeError::Ended { pid }.into());
    }
    if process.ended_early().is_some() {
        return Err(SnapshotError::MemoryShort { pid });
    }
    footprint.warnings.extend(process.warnings().iter().map(ToString::to_string));
    footprint.warnings.extend(process.release().warnings.iter().map(ToString::to_string));
    footprint.taken_at_unix_seconds = when.as_secs_f64();
    footprint.pause_ms = pause.stopped.as_secs_f64() * 1e3;
    if let Some((_, facts)) = &mut heap {
        facts.taken_at_unix_seconds = footprint.taken_at_unix_seconds;
        facts.pause_ms = footprint.pause_ms;
        facts.all_pauses_ms = footprint.pause_ms;
        facts.attempts = 1;
        facts.frozen_ms = started.elapsed().as_secs_f64() * 1e3;
    }
    Ok((heap, footprint))
}

/// The same with what the blocks of native code are and who holds them, where their allocator is understood.
fn with_blocks(process: &FrozenProcess) -> (Footprint, Option<(Graph, HeapFacts)>) {
    let pid = process.key().pid;
    let most = most_blocks(freeze::own_headroom().map(|headroom| headroom.to_spare(0)));
    let memory = biopsy_allocators::with_runtimes(process, runtimes(process), most);
    let mut footprint = Footprint { pid, kernel: kernel_sums(pid), ..memory.footprint };
    let Some(blocks) = memory.blocks else {
        if footprint.allocators.iter().any(|allocator| !allocator.arenas.is_empty()) {
            let why = if most < biopsy_blocks::MOST_BLOCKS {
                ", as many as half of the spare memory has room for"
            } else {
                ""
            };
            footprint
                .warnings
                .push(format!("native blocks were not read one by one: there are more than {most}{why}"));
        }
        return (footprint, None);
    };
    if blocks.is_empty() {
        return (footprint, None);
    }
    let folders = vec![PathBuf::from(format!("/proc/{pid}/root")), PathBuf::from("/")];
    match biopsy_blocks::read(process, blocks, &memory.areas, &folders.into(), most) {
        Ok(heap) => (footprint, Some((heap.graph, HeapFacts { pid, ..heap.facts }))),
        Err(error) => {
            footprint.warnings.push(format!("what the blocks are could not be told: {error}"));
            (footprint, None)
        }
    }
}

/// How many blocks are told at most where so many bytes are to be had, which the target may need as well: a half of them is ours.
fn most_blocks(to_spare: Option<u64>) -> usize {
    let room = to_spare.map_or(u64::MAX, |bytes| bytes / 2 / BYTES_OF_BLOCK);
    usize::try_from(room).unwrap_or(usize::MAX).min(biopsy_blocks::MOST_BLOCKS)
}

/// Of a frozen process, of whose memory these parts are heaps of a managed runtime.
pub(super) fn of(process: &FrozenProcess, managed: &[Range<u64>]) -> Footprint {
    let pid = process.key().pid;
    Footprint { pid, kernel: kernel_sums(pid), ..biopsy_allocators::footprint(process, managed) }
}

/// Of a frozen process, with what its runtimes have.
fn of_runtimes(process: &FrozenProcess) -> Footprint {
    let pid = process.key().pid;
    let memory = biopsy_allocators::with_runtimes(process, runtimes(process), 0);
    Footprint { pid, kernel: kernel_sums(pid), ..memory.footprint }
}

/// The runtimes of the process whose memory is told by pools.
fn runtimes(process: &FrozenProcess) -> Managed<'static> {
    let runtimes = biopsy_runtimes::read_heaps(process, None, &biopsy_runtimes::Limits::default());
    Managed { heaps: &[], runtimes }
}

/// What the kernel accounts to the process now; `None`: it has ended.
fn kernel_sums(pid: Pid) -> Option<KernelSums> {
    let status = ProcRoot::live().process(pid).and_then(|process| process.read("status", STATUS)).ok()?;
    Some(parse(&String::from_utf8_lossy(&status)))
}

/// The lines of `/proc/PID/status` that are amounts of memory (proc_pid_status(5)).
fn parse(status: &str) -> KernelSums {
    let bytes = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes: Option<u64> = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok());
        kilobytes.unwrap_or_default().saturating_mul(1024)
    };
    KernelSums {
        resident: bytes("VmRSS"),
        anonymous: bytes("RssAnon"),
        files: bytes("RssFile"),
        shared: bytes("RssShmem"),
        swapped: bytes("VmSwap"),
        page_tables: bytes("VmPTE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_of_blocks_takes_half_of_the_spare_memory_at_most() {
        assert_eq!(most_blocks(Some(0)), 0);
        assert_eq!(most_blocks(Some(400_000_000)), 1_000_000);
        for much in [Some(1 << 40), None] {
            assert_eq!(most_blocks(much), biopsy_blocks::MOST_BLOCKS);
        }
    }

    #[test]
    fn amounts_are_read_from_their_lines() {
        let status = "Name:\tVmRSS: 3 kB\nVmRSS:\t    5124 kB\nRssAnon:\t    1024 kB\nRssFile:\t4100 kB\nVmPTE:\t 44 kB\n";
        let sums = parse(status);
        assert_eq!([sums.resident, sums.anonymous, sums.files], [5124, 1024, 4100].map(|kilo| kilo * 1024));
        assert_eq!([sums.shared, sums.swapped, sums.page_tables], [0, 0, 44 * 1024]);
    }
}
