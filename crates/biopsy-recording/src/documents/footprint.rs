//! `footprints/NUMBER.json`: where the memory of a process went.

use biopsy_model::footprint::{self, KernelSums, MemoryKind};
use biopsy_model::{Avma, Pid};
use serde::{Deserialize, Serialize};

use super::List;

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Footprint {
    pid: u32,
    taken_at_unix_seconds: f64,
    pause_ms: f64,
    parts: List<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<Kernel>,
    allocators: List<Allocator>,
    #[serde(skip_serializing_if = "List::is_empty")]
    runtimes: List<Runtime>,
    warnings: List<String>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Part {
    kind: String,
    resident: u64,
    reserved: u64,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Kernel {
    resident: u64,
    anonymous: u64,
    files: u64,
    shared: u64,
    swapped: u64,
    page_tables: u64,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Allocator {
    name: String,
    arenas: List<Arena>,
    mapped: Blocks,
    cached: Blocks,
    classes: List<Class>,
    whole: bool,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Arena {
    address: u64,
    heaps: u64,
    system: u64,
    resident: u64,
    used: Blocks,
    free: Blocks,
    fast: Blocks,
    top: u64,
    unknown: u64,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Runtime {
    name: String,
    pools: List<Pool>,
    classes: List<Class>,
    whole: bool,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Pool {
    name: String,
    kind: String,
    reserved: u64,
    committed: u64,
    resident: u64,
    used: Blocks,
}

#[derive(Serialize, Deserialize, Clone, Copy, Default, Debug)]
#[serde(default)]
struct Blocks {
    count: u64,
    bytes: u64,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Class {
    up_to: u64,
    used: Blocks,
    free: Blocks,
}

/// The two directions of a conversion between types that have the same fields.
macro_rules! same_fields {
    ($wire:ident, $model:ty, { $($field:ident),+ $(,)? }) => {
        impl From<$model> for $wire {
            fn from(model: $model) -> Self {
                Self { $($field: model.$field.into()),+ }
            }
        }

        impl From<$wire> for $model {
            fn from(wire: $wire) -> Self {
                Self { $($field: wire.$field.into()),+ }
            }
        }
    };
}

same_fields!(Blocks, footprint::Blocks, { count, bytes });
same_fields!(Class, footprint::SizeClass, { up_to, used, free });
same_fields!(Kernel, KernelSums, { resident, anonymous, files, shared, swapped, page_tables });
same_fields!(Allocator, footprint::AllocatorFacts, { name, arenas, mapped, cached, classes, whole });

same_fields!(Runtime, footprint::RuntimeMemory, { name, pools, classes, whole });

impl From<footprint::MemoryPool> for Pool {
    fn from(pool: footprint::MemoryPool) -> Self {
        Self {
            name: pool.name,
            kind: pool.kind.as_str().to_owned(),
            reserved: pool.reserved,
            committed: pool.committed,
            resident: pool.resident,
            used: pool.used.into(),
        }
    }
}

impl From<Pool> for footprint::MemoryPool {
    fn from(pool: Pool) -> Self {
        Self {
            name: pool.name,
            kind: MemoryKind::from(pool.kind.as_str()),
            reserved: pool.reserved,
            committed: pool.committed,
            resident: pool.resident,
            used: pool.used.into(),
        }
    }
}

impl From<footprint::FootprintPart> for Part {
    fn from(part: footprint::FootprintPart) -> Self {
        Self { kind: part.kind.as_str().to_owned(), resident: part.resident, reserved: part.reserved }
    }
}

impl From<Part> for footprint::FootprintPart {
    fn from(part: Part) -> Self {
        let kind = MemoryKind::from(part.kind.as_str());
        Self { kind, resident: part.resident, reserved: part.reserved }
    }
}

impl From<footprint::ArenaFacts> for Arena {
    fn from(arena: footprint::ArenaFacts) -> Self {
        Self {
            address: arena.address.0,
            heaps: arena.heaps,
            system: arena.system,
            resident: arena.resident,
            used: arena.used.into(),
            free: arena.free.into(),
            fast: arena.fast.into(),
            top: arena.top,
            unknown: arena.unknown,
        }
    }
}

impl From<Arena> for footprint::ArenaFacts {
    fn from(arena: Arena) -> Self {
        Self {
            address: Avma(arena.address),
            heaps: arena.heaps,
            system: arena.system,
            resident: arena.resident,
            used: arena.used.into(),
            free: arena.free.into(),
            fast: arena.fast.into(),
            top: arena.top,
            unknown: arena.unknown,
        }
    }
}

impl From<&footprint::Footprint> for Footprint {
    fn from(footprint: &footprint::Footprint) -> Self {
        Self {
            pid: footprint.pid.0,
            taken_at_unix_seconds: footprint.taken_at_unix_seconds,
            pause_ms: footprint.pause_ms,
            parts: footprint.parts.clone().into(),
            kernel: footprint.kernel.map(Kernel::from),
            allocators: footprint.allocators.clone().into(),
            runtimes: footprint.runtimes.clone().into(),
            warnings: footprint.warnings.clone().into(),
        }
    }
}

impl From<Footprint> for footprint::Footprint {
    fn from(document: Footprint) -> Self {
        Self {
            pid: Pid(document.pid),
            taken_at_unix_seconds: document.taken_at_unix_seconds,
            pause_ms: document.pause_ms,
            parts: document.parts.into(),
            kernel: document.kernel.map(KernelSums::from),
            allocators: document.allocators.into(),
            runtimes: document.runtimes.into(),
            warnings: document.warnings.into(),
        }
    }
}
