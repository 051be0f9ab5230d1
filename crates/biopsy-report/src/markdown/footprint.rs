//! Where the memory of a process went.

use std::fmt::Write as _;

use biopsy_analyze::FootprintSummary;

use super::escape::plain;
use crate::assemble;
use crate::schema::footprint::{Allocator, Runtime};
use crate::units::{bytes, count, counted, to_f64};
use crate::words::name_and_pid;

/// Arenas that are listed.
const ARENAS: usize = 16;

fn size(value: u64) -> String {
    bytes(to_f64(value))
}

/// A footprint. `level`: of its heading.
pub(super) fn footprint(text: &mut String, summary: &FootprintSummary, level: &str) {
    let footprint = assemble::footprint(summary, 0);
    let _ = writeln!(text, "{level} Memory of {}\n", plain(&name_and_pid(&summary.name, summary.facts.pid)));
    if let Some(kernel) = &footprint.kernel {
        let [resident, anonymous, files, shared, swapped, tables] = [
            kernel.resident,
            kernel.anonymous,
            kernel.files,
            kernel.shared,
            kernel.swapped,
            kernel.page_tables,
        ]
        .map(size);
        let _ = writeln!(
            text,
            "- {resident} resident: {anonymous} of its own, {files} of files, {shared} shared; {swapped} swapped out, page tables {tables}"
        );
    }
    for warning in &footprint.warnings {
        let _ = writeln!(text, "- {}", plain(warning));
    }
    text.push_str("\n| memory | in memory | addresses |\n| --- | ---: | ---: |\n");
    for part in &footprint.parts {
        let _ =
            writeln!(text, "| {} | {} | {} |", plain(&part.text), size(part.resident), size(part.reserved));
    }
    for allocator in &footprint.allocators {
        arenas(text, allocator);
    }
    for runtime in &footprint.runtimes {
        pools(text, runtime);
    }
}

fn pools(text: &mut String, runtime: &Runtime) {
    let _ = writeln!(
        text,
        "\nMemory of {}{}:\n\n| pool | in use | objects | committed | in memory |\n| --- | ---: | ---: | ---: | ---: |",
        plain(&runtime.name),
        if runtime.whole { "" } else { ", not whole" }
    );
    for pool in &runtime.pools {
        let [used, committed, resident] = [pool.used.bytes, pool.committed, pool.resident].map(size);
        let objects = if pool.used.count > 0 { count(pool.used.count) } else { String::new() };
        let _ = writeln!(text, "| {} | {used} | {objects} | {committed} | {resident} |", plain(&pool.name));
    }
}

fn arenas(text: &mut String, allocator: &Allocator) {
    let _ = writeln!(
        text,
        "\nThe allocator {} has {}:\n\n| arena | from the system | in use | free | at the end |\n| --- | ---: | ---: | ---: | ---: |",
        plain(&allocator.name),
        counted(allocator.arenas.len() as u64, "arena", "arenas")
    );
    for (number, arena) in allocator.arenas.iter().enumerate().take(ARENAS) {
        let name = if number == 0 { "main".to_owned() } else { number.to_string() };
        let [system, used, free, top] =
            [arena.system, arena.used.bytes, arena.free.bytes, arena.top].map(size);
        let _ = writeln!(text, "| {name} | {system} | {used} | {free} | {top} |");
    }
    if let Some(more) = allocator.arenas.len().checked_sub(ARENAS).filter(|more| *more > 0) {
        let _ = writeln!(text, "\n{more} more in the page.");
    }
}
