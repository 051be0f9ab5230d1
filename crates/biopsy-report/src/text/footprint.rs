//! Where the memory of a process went: a bar for each kind, then what its allocators hold.

use biopsy_analyze::FootprintSummary;

use super::page::{Page, TextOptions, clean};
use crate::assemble;
use crate::schema::footprint::{Allocator, Arena, Footprint};
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
    let mut classes: Vec<_> = allocator.classes.iter().filter(|class| class.used.bytes > 0).collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.used.bytes));
    for class in classes.iter().take(CLASSES) {
        let body = format!(
            "{} in use in {} of up to {} bytes",
            size(class.used.bytes),
            counted(class.used.count, "block", "blocks"),
            count(class.up_to)
        );
        page.line("", "", &body);
    }
}
