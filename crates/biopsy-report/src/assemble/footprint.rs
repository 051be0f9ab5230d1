//! Where the memory of a process went, in the types of the output schema.

use biopsy_analyze::FootprintSummary;
use biopsy_model::footprint::{self, MemoryKind};
use biopsy_model::order::Order as _;

use crate::schema::footprint::{Allocator, Arena, Blocks, Class, Footprint, Kernel, Part, Pool, Runtime};
use crate::when;

/// A footprint with the first `classes` of sizes by bytes, ascending; 0: all.
pub(crate) fn footprint(summary: &FootprintSummary, classes: usize) -> Footprint {
    let facts = &summary.facts;
    let has_goroutines = facts.runtimes.iter().any(|one| one.name.starts_with("Go "));
    Footprint {
        name: summary.name.clone(),
        pid: facts.pid.0,
        taken_at: when::utc(facts.taken_at_unix_seconds),
        pause_ms: facts.pause_ms,
        resident: facts.parts.iter().map(|part| part.resident).fold(0, u64::saturating_add),
        parts: facts.parts.iter().map(|one| part(one, has_goroutines)).collect(),
        kernel: facts.kernel.as_ref().map(kernel),
        allocators: facts.allocators.iter().map(|one| allocator(one, classes)).collect(),
        runtimes: facts.runtimes.iter().map(|one| runtime(one, classes)).collect(),
        warnings: facts.warnings.clone(),
    }
}

/// What memory of a kind is, for people.
fn words(kind: &MemoryKind) -> &str {
    match kind {
        MemoryKind::Allocated => "allocated by native code, in use",
        MemoryKind::AllocatorFree => "free, kept by the allocator",
        MemoryKind::Stacks => "stacks of threads",
        MemoryKind::ManagedHeap => "managed heap",
        MemoryKind::ManagedFree => "free, kept by a managed runtime",
        MemoryKind::RuntimeData => "what a managed runtime keeps for itself",
        MemoryKind::CompiledCode => "code compiled at run time",
        MemoryKind::ChangedFiles => "data of programs and libraries",
        MemoryKind::Shared => "shared memory",
        MemoryKind::Unaccounted => "not accounted for: other allocators, own mappings",
        MemoryKind::Unknown => "unknown",
        MemoryKind::Other(word) => word,
    }
}

fn part(part: &footprint::FootprintPart, has_goroutines: bool) -> Part {
    let text = match &part.kind {
        MemoryKind::Stacks if has_goroutines => "stacks of threads and goroutines",
        kind => words(kind),
    };
    let (kind, text) = (part.kind.as_str().to_owned(), text.to_owned());
    Part { kind, text, resident: part.resident, reserved: part.reserved }
}

fn kernel(sums: &footprint::KernelSums) -> Kernel {
    Kernel {
        resident: sums.resident,
        anonymous: sums.anonymous,
        files: sums.files,
        shared: sums.shared,
        swapped: sums.swapped,
        page_tables: sums.page_tables,
    }
}

fn allocator(facts: &footprint::AllocatorFacts, classes: usize) -> Allocator {
    Allocator {
        name: facts.name.clone(),
        whole: facts.whole,
        arenas: facts.arenas.iter().map(arena).collect(),
        mapped: blocks(facts.mapped),
        cached: blocks(facts.cached),
        classes: largest(&facts.classes, classes),
    }
}

fn runtime(facts: &footprint::RuntimeMemory, classes: usize) -> Runtime {
    let pool = |pool: &footprint::MemoryPool| Pool {
        name: pool.name.clone(),
        kind: pool.kind.as_str().to_owned(),
        reserved: pool.reserved,
        committed: pool.committed,
        resident: pool.resident,
        used: blocks(pool.used),
    };
    Runtime {
        name: facts.name.clone(),
        whole: facts.whole,
        pools: facts.pools.iter().map(pool).collect(),
        classes: largest(&facts.classes, classes),
    }
}

fn arena(facts: &footprint::ArenaFacts) -> Arena {
    let free = Blocks {
        count: facts.free.count.saturating_add(facts.fast.count),
        bytes: facts.free.bytes.saturating_add(facts.fast.bytes),
    };
    Arena {
        system: facts.system,
        resident: facts.resident,
        used: blocks(facts.used),
        free,
        top: facts.top,
        unknown: facts.unknown,
    }
}

/// The classes that hold the most, ascending by size.
fn largest(classes: &[footprint::SizeClass], most: usize) -> Vec<Class> {
    let mut chosen: Vec<&footprint::SizeClass> = classes.iter().collect();
    if most > 0 {
        chosen.order_by_key(|class| std::cmp::Reverse(class.used.bytes.saturating_add(class.free.bytes)));
        chosen.truncate(most);
        chosen.order_by_key(|class| class.up_to);
    }
    let class = |class: &footprint::SizeClass| Class {
        up_to: class.up_to,
        used: blocks(class.used),
        free: blocks(class.free),
    };
    chosen.into_iter().map(class).collect()
}

fn blocks(blocks: footprint::Blocks) -> Blocks {
    Blocks { count: blocks.count, bytes: blocks.bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_that_hold_the_most_are_kept_in_order_of_size() {
        let class = |up_to, used, free| footprint::SizeClass {
            up_to,
            used: footprint::Blocks { count: 1, bytes: used },
            free: footprint::Blocks { count: 1, bytes: free },
        };
        let classes = [class(32, 10, 0), class(48, 1, 1), class(64, 0, 90), class(80, 3, 3)];
        let sizes = |most| largest(&classes, most).iter().map(|class| class.up_to).collect::<Vec<_>>();
        assert_eq!(sizes(2), [32, 64]);
        assert_eq!(sizes(0), [32, 48, 64, 80]);
    }
}
