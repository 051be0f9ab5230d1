//! The allocator keeps memory that the program has given back.

use biopsy_model::footprint::{AllocatorFacts, MemoryKind};

use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::incident::Incident;
use crate::words::{bytes, percent};

/// Free bytes and their share of the memory of the process, for a warning and for a notice. Some is always free: below these nobody
/// would change anything for it.
const KEPT: [(u64, f64, Severity); 2] =
    [(256 << 20, 0.5, Severity::Warning), (64 << 20, 0.25, Severity::Notice)];
/// The share of the free bytes outside of the main arena from which it is the number of arenas that keeps them.
const BY_ARENAS: f64 = 0.5;
/// Arenas that are many.
const MANY_ARENAS: usize = 8;

/// What returns memory in its own way.
const JEMALLOC: &str = "jemalloc";
const MIMALLOC: &str = "mimalloc";
const TCMALLOC: &str = "tcmalloc";

pub(super) fn find(incident: &Incident<'_>) -> Option<Finding> {
    // The last one shows what is kept now.
    let summary = incident.footprints.last()?;
    let footprint = &summary.facts;
    let free = footprint.resident(&MemoryKind::AllocatorFree);
    let all: u64 = footprint.parts.iter().map(|part| part.resident).fold(0, u64::saturating_add);
    let part = free as f64 / all.max(1) as f64;
    let (.., severity) = KEPT.into_iter().find(|(least, share, _)| free >= *least && part >= *share)?;
    // A process may have several; it is told of the one that keeps the most.
    let allocator = footprint.allocators.iter().max_by_key(|one| free_of(one))?;
    let mut evidence = vec![fact(
        format!(
            "{} of {} in memory are free blocks of {}; the program uses {} of its blocks",
            bytes(free as f64),
            bytes(all as f64),
            allocator.name,
            bytes(footprint.resident(&MemoryKind::Allocated) as f64)
        ),
        Some(Value::Bytes(free as f64)),
    )];
    let where_it_is = Whereabouts::of(allocator);
    evidence.extend(where_it_is.evidence());
    Some(Finding {
        id: FindingId::KeptByAllocator,
        severity,
        impact: part,
        title: format!(
            "{} of the memory, {}, is free and kept by {}{}",
            percent(part),
            bytes(free as f64),
            allocator.name,
            if where_it_is.by_arenas() { format!(" in {} arenas", allocator.arenas.len()) } else { String::new() }
        ),
        explanation: "The program has given these blocks back. The allocator keeps them for later, or cannot return them because blocks in use \
                      lie between them. What the system counts as memory of the process is more than it uses; it is no leak of the program."
            .to_owned(),
        evidence,
        next_steps: if allocator.name == JEMALLOC {
            steps(&[
                "see in a second snapshot after the load has gone whether the free blocks are still there: free pages go back by and by, as operations on memory happen",
                "let it return them earlier and by itself: `background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0` in `MALLOC_CONF` (redis has `MEMORY PURGE`), or purge at quiet moments with `arena.<i>.purge`",
            ])
        } else if allocator.name == MIMALLOC {
            // What threads that have ended left behind is taken over, or given back, when others need more.
            steps(&[
                "see in a second snapshot after the load has gone whether the free blocks are still there: free pages go back a moment later, as operations on memory happen",
                "let it return them at once (`MIMALLOC_PURGE_DELAY=0` in the environment, since 2.1), or call `mi_collect(true)` in threads at quiet moments",
            ])
        } else if allocator.name == TCMALLOC {
            steps(&[
                "see in a second snapshot after the load has gone whether the free blocks are still there: free pages go back slowly, as operations on memory happen",
                "let it return them faster (`TCMALLOC_RELEASE_RATE=10` in the environment) and threads keep less (`TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES`), or call `MallocExtension_ReleaseFreeMemory` at quiet moments",
            ])
        } else if where_it_is.by_arenas() {
            steps(&[
                "try fewer arenas: `MALLOC_ARENA_MAX=2` in the environment of the process; each thread that allocates may otherwise have its own",
                "see in a second snapshot after the load has gone whether the free blocks are still there",
            ])
        } else if allocator.name == "musl" {
            // It has no `malloc_trim`: pages go back when all blocks of a group are free.
            steps(&[
                "see in a second snapshot after the load has gone whether the free blocks are still there",
                "try an allocator that returns memory by itself",
            ])
        } else {
            steps(&[
                "see in a second snapshot after the load has gone whether the free blocks are still there",
                "return them with `malloc_trim(0)` at quiet moments, or try an allocator that returns memory by itself",
            ])
        },
    })
}

/// Bytes in memory that an allocator does not have in use.
fn free_of(allocator: &AllocatorFacts) -> u64 {
    let free = allocator.arenas.iter().map(|arena| arena.resident.saturating_sub(arena.used.bytes));
    free.fold(0, u64::saturating_add)
}

/// Which part of an allocator keeps the free bytes.
struct Whereabouts<'a> {
    allocator: &'a AllocatorFacts,
    /// Free bytes of the main arena, and of all others.
    main: u64,
    others: u64,
}

impl<'a> Whereabouts<'a> {
    fn of(allocator: &'a AllocatorFacts) -> Self {
        let free = allocator.arenas.iter().map(|arena| arena.resident.saturating_sub(arena.used.bytes));
        let mut free = free.collect::<Vec<_>>().into_iter();
        let main = free.next().unwrap_or_default();
        Self { allocator, main, others: free.fold(0, u64::saturating_add) }
    }

    fn by_arenas(&self) -> bool {
        let all = self.main.saturating_add(self.others).max(1);
        self.allocator.arenas.len() >= MANY_ARENAS && self.others as f64 / all as f64 >= BY_ARENAS
    }

    fn evidence(&self) -> Vec<crate::findings::finding::Evidence> {
        let mut evidence = Vec::new();
        if self.others > 0 {
            let text = format!(
                "{} of it in the main arena, {} in {} others",
                bytes(self.main as f64),
                bytes(self.others as f64),
                self.allocator.arenas.len() - 1
            );
            evidence.push(fact(text, None));
        }
        let cached = self.allocator.cached;
        if cached.bytes > 0 {
            let text =
                format!("{} more in {} blocks are kept by threads", bytes(cached.bytes as f64), cached.count);
            evidence.push(fact(text, None));
        }
        evidence
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::footprint::{ArenaFacts, Blocks, Footprint, FootprintPart};

    use super::*;
    use crate::footprint::FootprintSummary;

    /// A process with arenas of this much free memory each, in MB, and this much in use.
    fn found(free: &[u64], used: u64) -> Option<Finding> {
        let part = |kind, mb: u64| FootprintPart { kind, resident: mb << 20, reserved: mb << 20 };
        let arena = |mb: &u64| ArenaFacts {
            resident: (mb << 20) + 1000,
            used: Blocks { count: 1, bytes: 1000 },
            ..ArenaFacts::default()
        };
        let facts = Footprint {
            parts: vec![
                part(MemoryKind::Allocated, used),
                part(MemoryKind::AllocatorFree, free.iter().sum()),
            ],
            allocators: vec![AllocatorFacts {
                name: "glibc".to_owned(),
                arenas: free.iter().map(arena).collect(),
                ..AllocatorFacts::default()
            }],
            ..Footprint::default()
        };
        let footprints = [FootprintSummary { name: "server".to_owned(), facts }];
        find(&Incident { recorded: None, heaps: &[], growth: None, footprints: &footprints })
    }

    #[test]
    fn how_much_is_kept_decides() {
        for (free, used, severity) in [
            (10, 10, None),
            (100, 900, None),
            (70, 100, Some(Severity::Notice)),
            (300, 700, Some(Severity::Notice)),
            (300, 200, Some(Severity::Warning)),
        ] {
            assert_eq!(found(&[free], used).map(|finding| finding.severity), severity, "{free} of {used}");
        }
    }

    #[test]
    fn what_to_do_is_told_of_the_allocator_that_keeps_it() {
        let of = |name: &str, mb: u64| AllocatorFacts {
            name: name.to_owned(),
            arenas: vec![ArenaFacts { resident: mb << 20, ..ArenaFacts::default() }],
            ..AllocatorFacts::default()
        };
        let part = |kind, mb: u64| FootprintPart { kind, resident: mb << 20, reserved: mb << 20 };
        for (name, told) in [
            ("jemalloc", "MALLOC_CONF"),
            ("mimalloc", "MIMALLOC_PURGE_DELAY"),
            ("tcmalloc", "TCMALLOC_RELEASE_RATE"),
        ] {
            let facts = Footprint {
                parts: vec![part(MemoryKind::AllocatorFree, 400), part(MemoryKind::Allocated, 100)],
                allocators: vec![of("glibc", 1), of(name, 399)],
                ..Footprint::default()
            };
            let footprints = [FootprintSummary { name: "server".to_owned(), facts }];
            let incident = Incident { recorded: None, heaps: &[], growth: None, footprints: &footprints };
            let finding = find(&incident).expect("it is much");
            assert!(finding.title.contains(&format!("kept by {name}")), "{}", finding.title);
            let has = |text: &str| finding.next_steps.iter().any(|step| step.contains(text));
            assert!(
                has(told) && !has("malloc_trim") && !has("ARENA_MAX"),
                "{name}: {:?}",
                finding.next_steps
            );
        }
    }

    #[test]
    fn many_arenas_are_named_where_they_keep_it() {
        let of_arenas = found(&[1, 50, 50, 50, 50, 50, 50, 50, 50], 100).expect("it is much");
        assert!(
            of_arenas.title.contains("in 9 arenas") && of_arenas.next_steps[0].contains("MALLOC_ARENA_MAX")
        );
        let of_main = found(&[400, 1, 1, 1, 1, 1, 1, 1, 1], 100).expect("it is much");
        assert!(!of_main.title.contains("arenas"), "{}", of_main.title);
        assert!(found(&[], 0).is_none());
    }
}
