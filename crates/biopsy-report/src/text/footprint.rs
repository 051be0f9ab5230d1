//! Where the memory of a process went: a bar for each kind, then what its allocators hold.

use biopsy_analyze::FootprintSummary;
use biopsy_model::order::Order as _;

use super::page::{Page, TextOptions, clean};
use crate::assemble;
use crate::schema::footprint::{Allocator, Arena, Class, Footprint, Pool, Runtime};
use crate::units::{bytes, count, counted, seconds, to_f64};
use crate::words::name_and_pid;

/// Characters of a bar.
const BAR: usize = 20;
/// Narrower terminals show no bars.
const WIDE: usize = 90;
/// Parts below this share of the memory are left to the page.
const SMALLEST: f64 = 0.001;
/// Sizes of blocks that are listed.
const CLASSES: usize = 5;

fn size(value: u64) -> String {
    bytes(to_f64(value))
}

pub(super) fn footprint(page: &mut Page, summary: &FootprintSummary, options: TextOptions) {
    let footprint = assemble::footprint(summary, 0);
    page.line("memory of", "1", &name_and_pid(&summary.name, summary.facts.pid));
    if let Some(kernel) = &footprint.kernel {
        let mut body = format!("{} resident: {} of its own", size(kernel.resident), size(kernel.anonymous));
        body.push_str(&format!(", {} of files", size(kernel.files)));
        for (value, words) in [(kernel.shared, "shared"), (kernel.swapped, "swapped out")] {
            if value > 0 {
                body.push_str(&format!(", {} {words}", size(value)));
            }
        }
        body.push_str(&format!("; page tables {}", size(kernel.page_tables)));
        page.line("kernel", "2", &body);
    }
    if footprint.pause_ms > 0.0 {
        page.line("paused", "2", &seconds(footprint.pause_ms / 1e3));
    }
    for warning in &footprint.warnings {
        page.line("note", "33", warning);
    }
    page.text.push('\n');
    parts(page, &footprint, options);
    for allocator in &footprint.allocators {
        page.text.push('\n');
        blocks(page, allocator);
    }
    for runtime in &footprint.runtimes {
        page.text.push('\n');
        pools(page, runtime);
    }
}

fn parts(page: &mut Page, footprint: &Footprint, options: TextOptions) {
    let wide = options.width.is_none_or(|width| width >= WIDE);
    let all = to_f64(footprint.resident.max(1));
    for part in &footprint.parts {
        let share = to_f64(part.resident) / all;
        if share < SMALLEST {
            continue;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a few characters"
        )]
        let filled = (share * BAR as f64).round() as usize;
        let bar = if wide { format!("{:<BAR$}  ", "█".repeat(filled)) } else { String::new() };
        let front = format!("{:>10}  {:>3.0} %  {bar}", size(part.resident), share * 100.0);
        page.row(&front, front.chars().count(), &part.text);
    }
}

fn blocks(page: &mut Page, allocator: &Allocator) {
    let sum = |of: fn(&Arena) -> u64| allocator.arenas.iter().map(of).fold(0, u64::saturating_add);
    let mut body = format!(
        "{}: {} from the system, {} in use in {}, {} free in {}, {} at the ends",
        counted(allocator.arenas.len() as u64, "arena", "arenas"),
        size(sum(|arena| arena.system)),
        size(sum(|arena| arena.used.bytes).saturating_sub(allocator.cached.bytes)),
        counted(sum(|arena| arena.used.count).saturating_sub(allocator.cached.count), "block", "blocks"),
        size(sum(|arena| arena.free.bytes)),
        counted(sum(|arena| arena.free.count), "block", "blocks"),
        size(sum(|arena| arena.top)),
    );
    if !allocator.whole {
        body.push_str("; not whole");
    }
    page.line(&clean(&allocator.name), "1", &body);
    let extra = [(allocator.cached, "kept by threads"), (allocator.mapped, "with mappings of their own")];
    for (blocks, words) in extra.iter().filter(|(blocks, _)| blocks.count > 0) {
        let body = format!("{} in {} {words}", size(blocks.bytes), counted(blocks.count, "block", "blocks"));
        page.line("", "", &body);
    }
    largest(page, &allocator.classes, ["block", "blocks"]);
}

/// The sizes that have the most.
fn largest(page: &mut Page, classes: &[Class], words: [&str; 2]) {
    let mut classes: Vec<_> = classes.iter().filter(|class| class.used.bytes > 0).collect();
    classes.order_by_key(|class| std::cmp::Reverse(class.used.bytes));
    for class in classes.iter().take(CLASSES) {
        let body = format!(
            "{} in use in {} of up to {} bytes",
            size(class.used.bytes),
            counted(class.used.count, words[0], words[1]),
            count(class.up_to)
        );
        page.line("", "", &body);
    }
}

/// A line for each pool, the first behind the name.
fn pools(page: &mut Page, runtime: &Runtime) {
    let mut name = clean(&runtime.name);
    for pool in &runtime.pools {
        page.line(&name, "1", &clean(&pool_in_words(pool)));
        name.clear();
    }
    if !runtime.whole {
        page.line(&name, "1", "not whole");
    }
    largest(page, &runtime.classes, ["object", "objects"]);
}

/// `objects: 12 MiB in use in 3,000, of 16 MiB`.
fn pool_in_words(pool: &Pool) -> String {
    let objects = if pool.used.count > 0 { format!(" in {}", count(pool.used.count)) } else { String::new() };
    let used = if pool.used.bytes > 0 {
        format!("{} in use{objects}, of ", size(pool.used.bytes))
    } else {
        String::new()
    };
    format!("{}: {used}{}, {} in memory", pool.name, size(pool.committed), size(pool.resident))
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::footprint::{self, MemoryKind};

    fn part(kind: MemoryKind, resident: u64) -> footprint::FootprintPart {
        footprint::FootprintPart { kind, resident, reserved: resident }
    }

    fn shown(facts: footprint::Footprint, width: Option<usize>) -> String {
        let options = TextOptions { width, color: false };
        let mut page = Page::new(options);
        footprint(&mut page, &FootprintSummary { name: "server".to_owned(), facts }, options);
        page.text
    }

    #[test]
    fn a_bar_is_as_long_as_its_share_and_goes_where_there_is_no_room() {
        let facts = || footprint::Footprint {
            parts: vec![
                part(MemoryKind::Allocated, 500 << 20),
                part(MemoryKind::Stacks, 248 << 20),
                part(MemoryKind::Shared, 250 << 20),
                // More than a thousandth is shown, less is not.
                part(MemoryKind::CompiledCode, 2 << 20),
                part(MemoryKind::ChangedFiles, 900 << 10),
            ],
            ..footprint::Footprint::default()
        };
        let bars = |width| -> Vec<usize> {
            let text = shown(facts(), width);
            let rows = text.lines().filter(|line| line.contains(" %  "));
            rows.map(|row| row.chars().filter(|char| *char == '█').count()).collect()
        };
        assert_eq!(bars(None), [10, 5, 5, 0]);
        assert_eq!(bars(Some(WIDE)), [10, 5, 5, 0]);
        assert_eq!(bars(Some(WIDE - 1)), [0; 4]);
        let narrow = shown(facts(), Some(WIDE - 1));
        assert!(narrow.contains("   500 MiB   50 %  allocated by native code, in use\n"), "{narrow}");
    }

    #[test]
    fn of_no_memory_there_is_no_share() {
        let text = shown(
            footprint::Footprint {
                parts: vec![part(MemoryKind::Stacks, 0)],
                ..footprint::Footprint::default()
            },
            None,
        );
        assert!(!text.contains('%') && text.starts_with("memory of   server\n"), "{text}");
    }

    #[test]
    fn what_the_kernel_says_is_told_as_far_as_there_is_any() {
        let kernel = |shared, swapped| {
            let sums = footprint::KernelSums {
                resident: 80 << 20,
                anonymous: 60 << 20,
                files: 20 << 20,
                shared,
                swapped,
                page_tables: 400 << 10,
            };
            let text = shown(
                footprint::Footprint { kernel: Some(sums), pause_ms: 2.5, ..footprint::Footprint::default() },
                Some(160),
            );
            text.lines().skip(1).take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            kernel(0, 0),
            [
                "kernel      80 MiB resident: 60 MiB of its own, 20 MiB of files; page tables 400 KiB",
                "paused      2.5 ms"
            ]
        );
        assert!(kernel(1 << 20, 0)[0].contains("of files, 1 MiB shared; page"), "{:?}", kernel(1 << 20, 0));
        assert!(
            kernel(1, 2)[0].contains("of files, 1 B shared, 2 B swapped out; page"),
            "{:?}",
            kernel(1, 2)
        );
    }

    #[test]
    fn blocks_that_threads_keep_are_not_in_use() {
        let blocks = |count, bytes| footprint::Blocks { count, bytes };
        let arena = |used, free, fast| footprint::ArenaFacts {
            system: 4 << 20,
            used,
            free,
            fast,
            top: 4_096,
            ..footprint::ArenaFacts::default()
        };
        let class = |up_to, bytes| footprint::SizeClass { up_to, used: blocks(1, bytes), free: blocks(0, 0) };
        let allocator = footprint::AllocatorFacts {
            name: "glibc\u{1b}".to_owned(),
            arenas: vec![
                arena(blocks(9, 3_072), blocks(1, 512), blocks(0, 0)),
                arena(blocks(2, 2_048), blocks(1, 512), blocks(1, 1_024)),
            ],
            cached: blocks(10, 1_024),
            mapped: blocks(0, 0),
            classes: (1..8).map(|number| class(number * 16, 10 * number)).chain([class(4_096, 0)]).collect(),
            whole: false,
        };
        let text = shown(
            footprint::Footprint { allocators: vec![allocator], ..footprint::Footprint::default() },
            Some(160),
        );
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "glibc\\u{1b} 2 arenas: 8 MiB from the system, 4 KiB in use in 1 block, 2 KiB free in 3 blocks, 8 KiB at the ends; not whole",
                "            1 KiB in 10 blocks kept by threads",
                "            70 B in use in 1 block of up to 112 bytes",
                "            60 B in use in 1 block of up to 96 bytes",
                "            50 B in use in 1 block of up to 80 bytes",
                "            40 B in use in 1 block of up to 64 bytes",
                "            30 B in use in 1 block of up to 48 bytes",
            ]
        );
    }

    #[test]
    fn each_pool_of_a_runtime_has_a_line() {
        let pool = |name: &str, used, committed, resident| footprint::MemoryPool {
            name: name.to_owned(),
            kind: MemoryKind::ManagedHeap,
            reserved: committed,
            committed,
            resident,
            used,
        };
        let blocks = |count, bytes| footprint::Blocks { count, bytes };
        let runtime = footprint::RuntimeMemory {
            name: "Go 1.22.5".to_owned(),
            pools: vec![
                pool("objects", blocks(3_000, 2 << 20), 4 << 20, 3 << 20),
                pool("stacks\u{1b}", blocks(0, 1 << 20), 1 << 20, 1 << 20),
                pool("free pages", blocks(0, 0), 8 << 20, 0),
            ],
            classes: vec![footprint::SizeClass { up_to: 48, used: blocks(7, 336), free: blocks(1, 48) }],
            whole: false,
        };
        let parts = vec![part(MemoryKind::Stacks, 1 << 20)];
        let facts =
            footprint::Footprint { parts, runtimes: vec![runtime], ..footprint::Footprint::default() };
        let text = shown(facts, Some(160));
        assert!(text.contains("stacks of threads and goroutines\n"), "{text}");
        let lines: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(
            lines,
            [
                "Go 1.22.5   objects: 2 MiB in use in 3,000, of 4 MiB, 3 MiB in memory",
                "            stacks\\u{1b}: 1 MiB in use, of 1 MiB, 1 MiB in memory",
                "            free pages: 8 MiB, 0 B in memory",
                "            not whole",
                "            336 B in use in 7 objects of up to 48 bytes",
            ]
        );
    }
}
