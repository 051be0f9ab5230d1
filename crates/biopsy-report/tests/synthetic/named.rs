//! Evidence of one moment with something in every section, in which a function makes each name: of two such reports, one with plain names
//! and one with names that want to be something else, all but the names must be the same.

use biopsy_analyze::dump::managed::{
    ExceptionRow, HeapRow, HeapTable, Managed, ManagedLock, ManagedThreadFacts, OperationGroup, Operations,
    PoolSummary, RuntimeRow,
};
use biopsy_analyze::dump::{
    DumpAnalysis, DumpThread, FrameRow, Identity, LockKind, LockOwner, LockWait, Looks, MemoryClass,
    MemoryRow, MemorySplit, Missing, MissingReason, ModuleRow, Movement, StackGroup, SymbolStatus,
};
use biopsy_analyze::heap::holders::{HolderNode, HolderTree};
use biopsy_analyze::heap::inspections::{Inspection, InspectionKind, InspectionRow};
use biopsy_analyze::heap::{Growth, Held, HeldType, Step, Suspect, growth};
use biopsy_analyze::{
    Diagnosis, Evidence, Finding, FindingId, FootprintSummary, HeapSummary, HeapTypeRow, Reference, Severity,
    Value, Whose,
};
use biopsy_model::footprint::{
    AllocatorFacts, ArenaFacts, Blocks, Footprint, FootprintPart, KernelSums, MemoryKind, MemoryPool,
    RuntimeMemory, SizeClass,
};
use biopsy_model::heap::{GenerationFacts, HeapFacts};
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, Nanos, Pid, Svma, Tid};
use biopsy_stacks::unwind::FoundBy;

/// From what something is called to the name it gets.
pub type Names<'a> = &'a dyn Fn(&str) -> String;

/// Everything at one moment: a dump, two heaps, where the memory went.
pub fn moment(name: Names<'_>) -> Diagnosis {
    let mut diagnosis = Diagnosis::new(None, vec![dump(name)], vec![heap(name, 1), heap(name, 2)])
        .with_footprints(vec![footprint(name)]);
    diagnosis.growth = Some(growing(name));
    diagnosis.undetermined.push(format!("{} could not be read", name("swap")));
    diagnosis
}

/// A process of .NET with a deadlock, a crash and a busy pool.
pub fn dump(name: Names<'_>) -> DumpAnalysis {
    let mut threads = vec![
        DumpThread {
            lock: Some(lock(name, 12)),
            movement: Some(Movement::Stuck),
            ..thread(11, &name("deploy"))
        },
        DumpThread {
            lock: Some(lock(name, 11)),
            movement: Some(Movement::Stuck),
            ..thread(12, &name("release"))
        },
        DumpThread { named: false, signal: Some(11), ..thread(13, "") },
    ];
    threads.extend((14..40).map(|tid| thread(tid, &name(&format!("pool-{tid}")))));
    threads[2].managed =
        Some(ManagedThreadFacts { id: 3, exception: Some(exception(name)), ..Default::default() });
    let mut analysis = DumpAnalysis {
        identity: Identity {
            name: name("server"),
            pid: Pid(4711),
            executable: Some(name("/opt/server")),
            command_line: Some(name("server --port 80")),
            taken_at_unix_nanos: Some(1_763_720_823_000_000_000),
            writer: Some(name("gcore")),
            format: "ELF core".to_owned(),
            kind: Some("full".to_owned()),
            file_bytes: Some(12_900_000),
            pause: Some(Nanos(4_200_000)),
            ..Identity::default()
        },
        groups: vec![
            StackGroup { in_cycle: true, ..group(name, &[0, 1], 6) },
            StackGroup { crashed: true, end: StackEnd::NoUnwindInfo, ..group(name, &[2], 40) },
            StackGroup { running: 1, ..group(name, &(3..29).collect::<Vec<_>>(), 3) },
        ],
        threads,
        looks: Some(Looks {
            count: 3,
            span: Some(Nanos(4_000_000_000)),
            pauses: vec![Nanos(4_000_000); 3],
            lasting: vec![0],
        }),
        managed: Some(managed(name)),
        memory: memory(name),
        modules: (0..14).map(|number| module(name, number)).collect(),
        undetermined: (0..5)
            .map(|number| format!("{} is not known", name(&format!("thing {number}"))))
            .collect(),
        ..DumpAnalysis::default()
    };
    analysis.findings = [Severity::Critical, Severity::Warning, Severity::Notice, Severity::Info]
        .map(|severity| finding(name, severity))
        .into();
    analysis
}

fn thread(tid: u32, name: &str) -> DumpThread {
    DumpThread { tid: Tid(tid), name: name.to_owned(), named: true, ..DumpThread::default() }
}

fn lock(name: Names<'_>, owner: u32) -> LockWait {
    LockWait {
        lock: 0x7f00,
        kind: LockKind::Monitor,
        owner: LockOwner::Thread(Tid(owner)),
        object: Some(name("Sick.ReleaseLock")),
        proof: format!("the header of {}", name("the object")),
        ..LockWait::default()
    }
}

fn exception(name: Names<'_>) -> ExceptionRow {
    ExceptionRow {
        type_name: name("System.TimeoutException"),
        message: Some(name("the answer did not come")),
        thrown_in: vec![name("Sick.Client.Ask")],
        ..ExceptionRow::default()
    }
}

fn group(name: Names<'_>, members: &[usize], frames: u32) -> StackGroup {
    StackGroup {
        members: members.to_vec(),
        frames: (0..frames).map(|number| frame(name, number)).collect(),
        depth: frames as usize,
        end: StackEnd::Root,
        cut: false,
        crashed: false,
        in_cycle: false,
        running: 0,
        doing: format!("waits for the monitor of {}", name("a lock")),
    }
}

fn frame(name: Names<'_>, number: u32) -> FrameRow {
    FrameRow {
        function: (number % 5 != 4).then(|| name(&format!("Sick.Locks.Step{number}"))),
        inlined: number == 1,
        managed: number > 1,
        whose: Whose::Program,
        module: name("server.dll"),
        offset: Svma(0x40),
        start: None,
        address: Avma(0x1000 + u64::from(number)),
        source: (number == 2).then(|| (name("/src/Locks.cs"), Some(12))),
        found: FoundBy::UnwindInfo,
        repeats: if number == 3 { (7, 1) } else { (1, 1) },
        skipped: if number == 4 { 90 } else { 0 },
    }
}

fn managed(name: Names<'_>) -> Managed {
    let operation = |number: u64| OperationGroup {
        count: 40 - number,
        methods: (0..7).map(|method| name(&format!("App.Step{number}.{method}"))).collect(),
        awaits: format!("an answer of {}", name("the peer")),
        object: Some((Avma(0x7f10), name("SemaphoreSlim"))),
    };
    Managed {
        runtimes: vec![
            RuntimeRow {
                name: name(".NET 8.0.31"),
                path: name("/usr/lib/libcoreclr.so"),
                single_file: false,
                problem: None,
                failed_checks: Vec::new(),
            },
            RuntimeRow {
                name: name(".NET 3.1"),
                path: name("/opt/old/libcoreclr.so"),
                single_file: false,
                problem: Some(format!("no layout for {}", name("3.1"))),
                failed_checks: Vec::new(),
            },
        ],
        locks: vec![ManagedLock {
            object: 0x7f00,
            type_name: name("Sick.DeployLock"),
            kind: LockKind::Monitor,
            owner: Some(Tid(11)),
            recursion: 1,
            waiters: vec![Tid(12)],
            pulse_waiters: Vec::new(),
        }],
        pool: Some(PoolSummary {
            workers: 26,
            idle: 3,
            blocked: vec![Tid(14), Tid(15)],
            waiting_for_tasks: vec![Tid(15)],
            places: vec![(name("App.Wait"), 2)],
        }),
        operations: Some(Operations {
            groups: (0..14).map(operation).collect(),
            pending: 90,
            ..Operations::default()
        }),
        heap: Some(HeapTable {
            rows: (0..20)
                .map(|number| HeapRow {
                    type_name: name(&format!("App.Type{number}")),
                    module: name("App.dll"),
                    objects: 100,
                    bytes: 4_000,
                })
                .collect(),
            types: 20,
            objects: 2_000,
            bytes: 80_000,
            free_bytes: 0,
            is_server: true,
        }),
        ..Managed::default()
    }
}

fn memory(name: Names<'_>) -> MemorySplit {
    let row =
        |class, name: String| MemoryRow { class, name, mappings: 3, mapped: 40 << 20, in_dump: 12 << 20 };
    MemorySplit {
        classes: vec![row(MemoryClass::Heap, String::new()), row(MemoryClass::FileData, String::new())],
        names: vec![row(MemoryClass::FileData, name("/var/lib/shop.db"))],
        missing: vec![Missing { reason: MissingReason::LeftOut, bytes: 28 << 20 }],
        mappings: 6,
        mapped: 80 << 20,
        in_dump: 24 << 20,
        not_frozen: 0,
    }
}

fn module(name: Names<'_>, number: u64) -> ModuleRow {
    ModuleRow {
        path: name(&format!("/usr/lib/lib{number}.so")),
        name: name(&format!("lib{number}.so")),
        kind: ModuleKind::Elf,
        start: Avma(number << 20),
        end: Avma((number + 1) << 20),
        build_id: number.is_multiple_of(2).then(|| "a0b1c2".to_owned()),
        symbols: SymbolStatus::Exported,
        words: format!("exported names only: install symbols of {}", name("the package")),
        frames: 3,
        deleted: false,
    }
}

pub fn finding(name: Names<'_>, severity: Severity) -> Finding {
    let evidence = |number: u32| Evidence {
        text: format!("{} of the threads wait in `{}`", number, name("Sick.Locks.Take")),
        reference: Reference::Thread(Tid(11)),
        value: Some(Value::Share(0.25)),
    };
    Finding {
        id: FindingId::Deadlock,
        severity,
        impact: 0.5,
        title: format!("Deadlock: `{}` and `{}` wait for each other", name("deploy"), name("release")),
        explanation: format!("Neither gets on until {} ends.", name("the other")),
        evidence: (0..7).map(evidence).collect(),
        next_steps: vec![format!("look at who takes `{}` first", name("the lock"))],
    }
}

/// A heap with holders and inspections.
pub fn heap(name: Names<'_>, scale: u64) -> HeapSummary {
    let node = |parent, hint: &str, retained| HolderNode {
        parent,
        via: name(&format!("_{hint}")),
        of: name(hint),
        module: name("App.dll"),
        objects: 3,
        bytes: 300,
        retained: retained * scale,
        ..HolderNode::default()
    };
    HeapSummary {
        name: name("server"),
        facts: HeapFacts {
            pid: Pid(4711),
            runtime: "8.0.31".to_owned(),
            taken_at_unix_seconds: 1_763_720_823.0 + scale as f64,
            pause_ms: 12.0,
            attempts: 2,
            objects: 50_000 * scale,
            bytes: 9_000_000 * scale,
            live_objects: Some(40_000 * scale),
            live_bytes: Some(8_000_000 * scale),
            references: 90_000,
            generations: vec![GenerationFacts { name: "gen2".to_owned(), objects: 9, bytes: 8_000_000 }],
            roots: vec![("handle".to_owned(), 30)],
            whole: false,
            problems: 2,
            warnings: vec![format!("{} was not read", name("a segment"))],
            ..HeapFacts::default()
        },
        types: (0..30).map(|number| heap_type(name, number)).collect(),
        held: Some(Held {
            bytes: 8_000_000 * scale,
            tree: HolderTree {
                nodes: vec![
                    HolderNode { retained: 8_000_000 * scale, ..HolderNode::default() },
                    node(0, "App.Cache", 6_000_000),
                    node(1, "App.Entry[]", 5_000_000),
                    node(0, "App.Log", 40_000),
                ],
                is_cut: false,
            },
            suspects: vec![Suspect {
                way: vec![step(name, "App.Cache"), step(name, "App.Entry[]")],
                holders: 2,
                retained: 6_000_000 * scale,
                objects: 1,
                one_way: vec![step(name, "App.Root")],
                held: Some(HeldType { step: step(name, "App.Entry"), objects: 9_000, retained: 4_000_000 }),
                ..Suspect::default()
            }],
            inspections: vec![Inspection {
                kind: InspectionKind::DuplicateStrings,
                objects: 900,
                bytes: 2_000_000 * scale,
                rows: (0..5)
                    .map(|number| InspectionRow {
                        what: name(&format!("string {number}")),
                        objects: 90,
                        bytes: 9_000,
                    })
                    .collect(),
            }],
        }),
    }
}

fn heap_type(name: Names<'_>, number: u64) -> HeapTypeRow {
    let mut row = HeapTypeRow {
        name: name(&format!("App.Model.Type{number}")),
        module: name("App.dll"),
        retained: Some(90_000),
        ..HeapTypeRow::default()
    };
    (row.all.objects, row.all.bytes) = (300, 30_000);
    row.live = Some(row.all);
    (row.all.objects, row.all.bytes) = (400 - number, (400 - number) * 100);
    row
}

fn step(name: Names<'_>, of: &str) -> Step {
    Step { via: name("_items"), of: name(of), times: 1 }
}

/// What grew over three moments.
pub fn growing(name: Names<'_>) -> Growth {
    Growth {
        moments: (1..4_u64)
            .map(|at| growth::Moment {
                taken_at_unix_seconds: 1_763_720_000.0 + at as f64 * 60.0,
                objects: 1_000 * at,
                bytes: 1_000_000 * at,
            })
            .collect(),
        is_one_process: false,
        types: (0..40)
            .map(|number| growth::TypeGrowth {
                name: name(&format!("App.Model.Type{number}")),
                module: name("App.dll"),
                objects: vec![10, 20, 40],
                bytes: vec![1_000, 2_000, 4_000],
                always: true,
            })
            .collect(),
        holders: vec![growth::HolderGrowth {
            way: vec![step(name, "App.Cache")],
            held: step(name, "App.Entry"),
            one_way: Vec::new(),
            keeps: Some(name("App.Document")),
            objects: vec![1, 2, 3],
            retained: vec![1_000, 2_000, 3_000],
            always: true,
        }],
    }
}

/// Where the memory of a process went.
pub fn footprint(name: Names<'_>) -> FootprintSummary {
    let blocks = |count, bytes| Blocks { count, bytes };
    let part = |kind, resident: u64| FootprintPart { kind, resident, reserved: resident * 2 };
    let arena = |number: u64| ArenaFacts {
        system: 4 << 20,
        resident: 3 << 20,
        used: blocks(900, 2 << 20),
        free: blocks(90, 500_000 + number),
        top: 4_096,
        ..ArenaFacts::default()
    };
    FootprintSummary {
        name: name("server"),
        facts: Footprint {
            pid: Pid(4711),
            pause_ms: 2.5,
            parts: vec![
                part(MemoryKind::Allocated, 40 << 20),
                part(MemoryKind::AllocatorFree, 20 << 20),
                part(MemoryKind::Other(name("gpu")), 9 << 20),
            ],
            kernel: Some(KernelSums {
                resident: 80 << 20,
                anonymous: 60 << 20,
                files: 20 << 20,
                shared: 1 << 20,
                swapped: 0,
                page_tables: 400 << 10,
            }),
            allocators: vec![AllocatorFacts {
                name: name("glibc"),
                arenas: (0..20).map(arena).collect(),
                mapped: blocks(3, 30 << 20),
                cached: blocks(40, 9_000),
                classes: vec![SizeClass { up_to: 32, used: blocks(900, 28_000), free: blocks(1, 32) }],
                whole: false,
            }],
            runtimes: vec![RuntimeMemory {
                name: name("Go 1.22.5"),
                pools: vec![MemoryPool {
                    name: name("objects"),
                    kind: MemoryKind::ManagedHeap,
                    reserved: 64 << 20,
                    committed: 32 << 20,
                    resident: 30 << 20,
                    used: blocks(1_000, 20 << 20),
                }],
                classes: vec![SizeClass { up_to: 48, used: blocks(900, 43_200), free: blocks(1, 48) }],
                whole: false,
            }],
            warnings: vec![format!("{} was not read", name("an arena"))],
            ..Footprint::default()
        },
    }
}
