//! The data inside the page. `ui/src/data.ts` mirrors these types; both change together.

use std::collections::BTreeSet;

use super::recorded::{self, Recorded};
use crate::assemble::{Assembly, around, dumps, footprints, heaps};
use crate::schema::{Dump, Report};
use crate::units::counted;
use biopsy_analyze::Diagnosis;
use serde::Serialize;

/// Bytes of the data of dumps in the page; all are in `report.json`.
const DUMPS: usize = 24_000_000;
/// Groups of stacks of one dump: a program with more different stacks than that is read in `report.json`.
const GROUPS: usize = 1_000;
/// Threads of a group that are listed.
const MEMBERS: usize = 200;
/// Locks with waiters, rows of files and labels, modules, types and chains of operations of one dump.
const ROWS: usize = 400;
/// Types of one heap.
const TYPES: usize = 1_000;
/// Sizes of blocks of an allocator.
const CLASSES: usize = 64;

#[derive(Serialize)]
pub(super) struct Page {
    report: Report,
    name: String,
    #[serde(flatten)]
    recorded: Option<Recorded>,
    notes: Vec<String>,
}

pub(super) fn page(diagnosis: &Diagnosis) -> Page {
    let mut notes = Vec::new();
    let mut assembly = diagnosis.recorded.as_ref().map(|one| Assembly::new(&one.capture, &one.analysis));
    let recorded = assembly.as_mut().map(|assembly| recorded::recorded(assembly, &mut notes));
    let (recorded, report) = recorded.unzip();
    let (mut shown, left) = dumps(diagnosis, DUMPS);
    shown.iter_mut().for_each(cut_to_page);
    if left > 0 {
        notes.push(format!(
            "{} are left out of this page; all are in report.json",
            counted(left as u64, "dump", "dumps")
        ));
    }
    Page {
        report: Report {
            dumps: shown,
            heaps: heaps(diagnosis, TYPES),
            footprints: footprints(diagnosis, CLASSES),
            ..around(diagnosis, assembly.as_ref(), report)
        },
        name: diagnosis.name().to_owned(),
        recorded,
        notes,
    }
}

/// What a person reads of a dump. Threads that nothing in the page speaks of are left out.
fn cut_to_page(dump: &mut Dump) {
    dump.groups.truncate(GROUPS);
    dump.waits.queues.truncate(ROWS);
    dump.memory.names.truncate(ROWS / 10);
    dump.modules.truncate(ROWS);
    let listed = dump.groups.iter().flat_map(|group| group.threads.iter().take(MEMBERS));
    let waiting = dump.waits.edges.iter().flatten().take(MEMBERS * 10);
    let kept: BTreeSet<u32> = listed.chain(waiting).copied().collect();
    dump.threads.retain(|thread| kept.contains(&thread.tid));
    if let Some(managed) = &mut dump.managed {
        managed.locks.truncate(ROWS);
        if let Some(heap) = &mut managed.heap {
            heap.types.truncate(ROWS / 2);
        }
        if let Some(operations) = &mut managed.operations {
            operations.groups.truncate(ROWS / 4);
        }
    }
}
