//! Values of the model with every field set, and no two fields of a kind alike: what is exchanged on the way is seen.

use biopsy_model::capture::{Capture, CaptureHeader, EndedBy, HostInfo, RedactionCount};
use biopsy_model::dump::{CaptureMethod, Class, CoreKind, DumpFacts, DumpKind, MissingMemory, Reason};
use biopsy_model::footprint::{
    AllocatorFacts, ArenaFacts, Blocks, Footprint, FootprintPart, KernelSums, MemoryKind, MemoryPool,
    RuntimeMemory, SizeClass,
};
use biopsy_model::heap::{Collector, GenerationFacts, HeapFacts, HeapSource, HeapType, Retries, TypeFamily};
use biopsy_model::log::LogLevel;
use biopsy_model::look::{Look, LookFinding};
use biopsy_model::loss::Warning;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind};
use biopsy_model::runtime_trace::{
    AllocationGroup, AllocationSampling, AssemblyLoad, Collection, CollectionReason, CommandGroup, Compiled,
    Contention, ContentionGroup, DataCommand, Exception, ExceptionGroup, Kept, LogMessage, MessageGroup,
    ProviderCount, Request, RequestGroup, RuntimeStack, RuntimeTrace, Sampled, SampledKind, ThreadPoolChange,
    ThreadPoolEvent,
};
use biopsy_model::symbol::Function;
use biopsy_model::{Avma, BootId, ClockPair, MonoNanos, Nanos, Pid, ProcessKey, Tid};

fn text(text: &str) -> String {
    text.to_owned()
}

fn kept<T>(items: Vec<T>, total: u64) -> Kept<T> {
    Kept { items, total }
}

/// What the documents of a recording say; no tables, logs and timeline.
pub(crate) fn capture() -> Capture {
    let pair = |mono, offset, zone| ClockPair {
        mono: MonoNanos(mono),
        wall_unix_nanos: 1_763_720_628_123_456_789 + i128::from(mono),
        utc_offset_seconds: offset,
        zone: text(zone),
    };
    let key = ProcessKey { boot_id: BootId(text("5f2c-1")), pid: Pid(4711), start_ticks: 99 };
    Capture {
        header: CaptureHeader {
            tool: text("biopsy 0.1.0"),
            command: vec![text("biopsy"), text("capture"), text("--for=5 s")],
            start: pair(81_234_567_890, 3600, "Europe/Berlin"),
            end: Some(pair(91_234_567_890, -1800, "UTC-0:30")),
            target: Some(key.clone()),
            target_name: text("server \u{1b}\"ü\""),
            host: HostInfo {
                hostname: text("host-1"),
                kernel: text("6.12.0"),
                os: text("Debian GNU/Linux 13"),
                architecture: text("x86_64"),
                cpus: 16,
                memory: 68_719_476_736,
                cpu_model: text("EPYC"),
            },
            ended_by: EndedBy::DiskFull,
        },
        processes: vec![process(key), bare_process()],
        timeline: None,
        runtimes: vec![runtime_trace()],
        looks: vec![look()],
        metrics: Vec::new(),
        logs: Vec::new(),
        context: Vec::new(),
        warnings: vec![
            Warning {
                code: text("trace.no-bpf"),
                message: text("it was refused"),
                hint: Some(text("as root")),
                time: Some(MonoNanos(17)),
            },
            Warning { code: text("a.b"), message: String::new(), hint: None, time: None },
        ],
        redactions: vec![
            RedactionCount { member: text("biopsy.json"), rule: text("jwt"), count: 3 },
            RedactionCount { member: text("logs/a.jsonl"), rule: text("key"), count: u64::MAX },
        ],
    }
}

fn process(key: ProcessKey) -> ProcessInfo {
    ProcessInfo {
        key,
        parent: Pid(2),
        name: text("server"),
        exe: text("/opt/server"),
        exe_deleted: true,
        command_line: vec![text("server"), String::new(), text("--port=80")],
        uid: 106,
        runtime: Runtime {
            kind: RuntimeKind::DotNet,
            version: Some(text("10.0.12")),
            entry: Some(text("S.dll")),
        },
        ns_pid: Some(7),
        cgroup: text("/system.slice/server.service"),
        container_id: Some(text("c0ffee")),
        unit: Some(text("server.service")),
    }
}

fn bare_process() -> ProcessInfo {
    ProcessInfo {
        key: ProcessKey { boot_id: BootId(String::new()), pid: Pid(0), start_ticks: 0 },
        parent: Pid(0),
        name: String::new(),
        exe: String::new(),
        exe_deleted: false,
        command_line: Vec::new(),
        uid: 0,
        runtime: Runtime { kind: RuntimeKind::OtherInterpreter, version: None, entry: None },
        ns_pid: None,
        cgroup: String::new(),
        container_id: None,
        unit: None,
    }
}

fn look() -> Look {
    let finding = |id: &str, severity: &str, impact| LookFinding {
        id: text(id),
        severity: severity.into(),
        impact,
        title: text("Two threads wait for each other"),
        explanation: text("For ever."),
        evidence: vec![text("thread 7 waits"), text("thread 8 waits")],
        next_steps: vec![text("one order")],
    };
    Look {
        pid: Pid(4711),
        name: text("server"),
        time: MonoNanos(5),
        pause: Nanos(6),
        threads: 12,
        operations: Some(3),
        findings: vec![finding("deadlock", "critical", 0.5), finding("of-tomorrow", "grave", 1e-9)],
        undetermined: vec![text("why")],
    }
}

/// What a runtime said, of everything something.
pub(crate) fn runtime_trace() -> RuntimeTrace {
    let runtime =
        Runtime { kind: RuntimeKind::DotNet, version: Some(text("9.0.1")), entry: Some(text("App.dll")) };
    RuntimeTrace {
        pid: Pid(4711),
        runtime,
        source: text("dotnet/4711.nettrace"),
        span: Some((MonoNanos(1), MonoNanos(9_000))),
        functions: vec![
            Function { name: text("A.B"), file: Some(text("b.cs")), line: Some(3) },
            Function { name: text("A.C<T>"), file: None, line: None },
        ],
        stacks: vec![vec![0, 1], vec![], vec![u32::MAX]],
        providers: vec![ProviderCount { provider: text("Runtime"), event: text("GCStart_V2 (1)"), count: 4 }],
        collections: kept(vec![collection(), bare_collection()], 17),
        exceptions: kept(vec![exception()], 18),
        exception_groups: vec![ExceptionGroup {
            type_name: text("System.IO.IOException"),
            message: text("no space"),
            stack: Some(RuntimeStack(1)),
            count: 19,
            first: MonoNanos(20),
            last: MonoNanos(21),
        }],
        contentions: kept(vec![contention()], 22),
        contention_groups: vec![ContentionGroup {
            stack: Some(RuntimeStack(2)),
            count: 23,
            total: Nanos(24),
            longest: Nanos(25),
        }],
        thread_pool: thread_pool(),
        requests: kept(vec![request("/api", Some(26)), request("", None)], 27),
        request_groups: vec![request_group("/api/{}", 28)],
        outgoing: kept(vec![request("http://other", Some(29))], 30),
        outgoing_groups: vec![request_group("other", 31)],
        commands: kept(vec![command()], 32),
        command_groups: vec![CommandGroup {
            text: text("select ?"),
            source: text("db/main"),
            count: 33,
            failed: 34,
            total: Nanos(35),
            longest: Nanos(36),
            most_in_one_request: 201,
        }],
        messages: kept(messages(), 37),
        message_groups: vec![MessageGroup { category: text("App"), level_name: text("Critical"), count: 38 }],
        allocation_groups: vec![AllocationGroup {
            type_name: text("System.Byte[]"),
            stack: Some(RuntimeStack(0)),
            bytes: 39,
            samples: 40,
            large: true,
        }],
        allocation_sampling: AllocationSampling::Random,
        compiled: Compiled {
            methods: 41,
            time: Nanos(42),
            bytes: 43,
            tiers: vec![(text("Tier1"), 44), (text("QuickJitted"), 45)],
        },
        loads: kept(vec![AssemblyLoad { time: MonoNanos(46), name: text("App, Version=1.0") }], 47),
        counters: vec![counters()],
        sampled: vec![Sampled {
            what: SampledKind::Requests,
            from: MonoNanos(48),
            to: MonoNanos(49),
            share: 0.25,
            why: text("many"),
        }],
        lost: 50,
        unknown: 51,
        cut: true,
    }
}

fn collection() -> Collection {
    Collection {
        number: 52,
        start: MonoNanos(53),
        end: Some(MonoNanos(54)),
        generation: 2,
        reason: CollectionReason::LowMemory,
        background: true,
        pause: Nanos(55),
        longest_pause: Nanos(56),
        promoted: Some(57),
        sizes_after: Some([1, 2, 3, 4, 5]),
        pinned: Some(58),
        tid: Some(Tid(59)),
        stack: Some(RuntimeStack(0)),
    }
}

fn bare_collection() -> Collection {
    Collection {
        number: 0,
        start: MonoNanos(60),
        end: None,
        generation: 0,
        reason: CollectionReason::Other(text("Tuning")),
        background: false,
        pause: Nanos(0),
        longest_pause: Nanos(0),
        promoted: None,
        sizes_after: None,
        pinned: None,
        tid: None,
        stack: None,
    }
}

fn exception() -> Exception {
    Exception {
        time: MonoNanos(61),
        tid: Tid(62),
        type_name: text("System.Exception"),
        message: text("message"),
        code: 0x8013_1500,
        stack: Some(RuntimeStack(1)),
    }
}

fn contention() -> Contention {
    Contention {
        start: MonoNanos(63),
        duration: Nanos(64),
        tid: Tid(65),
        lock: Some(0x7f00_0000_0010),
        owner: Some(Tid(66)),
        stack: Some(RuntimeStack(1)),
    }
}

fn thread_pool() -> Kept<ThreadPoolEvent> {
    let event = |time, threads, kind| ThreadPoolEvent { time: MonoNanos(time), threads, kind };
    let adjusted = |reason, throughput| ThreadPoolChange::Adjusted { reason: text(reason), throughput };
    kept(
        vec![
            event(67, Some(9), adjusted("Starvation", Some(1.5))),
            event(68, None, adjusted("Warmup", None)),
            event(69, Some(10), ThreadPoolChange::Workers),
            event(70, None, ThreadPoolChange::Minimum),
        ],
        71,
    )
}

fn request(path: &str, duration: Option<u64>) -> Request {
    Request {
        start: MonoNanos(72),
        duration: duration.map(Nanos),
        method: text("GET"),
        path: text(path),
        route: duration.map(|_| text("/api/{}")),
        status: duration.map(|_| 503),
        children: 73,
        trace_id: duration.map(|_| text("4bf92f")),
    }
}

fn request_group(route: &str, count: u64) -> RequestGroup {
    RequestGroup {
        method: text("POST"),
        route: text(route),
        count,
        unanswered: 74,
        failed: 75,
        total: Nanos(76),
        longest: Nanos(77),
        durations: std::array::from_fn(|at| at as u32),
        children: (78, 79),
    }
}

fn command() -> DataCommand {
    DataCommand {
        start: MonoNanos(80),
        duration: Some(Nanos(81)),
        text: text("select ? from t"),
        source: text("db/other"),
        failed: true,
        trace_id: Some(text("00f0")),
    }
}

fn messages() -> Vec<LogMessage> {
    let levels = [LogLevel::Unknown, LogLevel::Debug, LogLevel::Info, LogLevel::Warning, LogLevel::Error];
    let message = |(at, level): (usize, LogLevel)| LogMessage {
        time: MonoNanos(82 + at as u64),
        tid: Tid(83),
        level,
        level_name: format!("{level:?}"),
        category: text("App.Orders"),
        event: (at > 0).then(|| text("12 Slow")),
        text: text("slow"),
        exception: (at > 1).then(|| text("System.Exception: no")),
    };
    levels.into_iter().enumerate().map(message).collect()
}

fn counters() -> MetricTable {
    let units = [
        (Unit::Count, "count"),
        (Unit::PerSecond, "rate"),
        (Unit::Cores, "cores"),
        (Unit::Ratio, "ratio"),
        (Unit::Bytes, "bytes"),
        (Unit::BytesPerSecond, "throughput"),
        (Unit::Milliseconds, "time"),
    ];
    MetricTable {
        name: text("counters"),
        keys: vec![text("pid"), text("counter")],
        columns: units.map(|(unit, name)| Column { name: text(name), unit }).into(),
        rows: vec![MetricRow {
            time: MonoNanos(90),
            keys: vec![text("4711"), text("cpu-usage")],
            values: vec![Some(0.1), None, Some(-1e300), Some(4.0), Some(0.0), Some(1e16), Some(1.0 / 3.0)],
        }],
    }
}

/// The facts of a dump.
pub(crate) fn dump_facts() -> DumpFacts {
    DumpFacts {
        pid: Pid(4711),
        member: text("dumps/4711-2.scrubbed.core.zst"),
        format: DumpKind::Core,
        kind: CoreKind::Heap,
        scrubbed: true,
        whole: false,
        reason: text("cpu was above 90% for 30 s"),
        taken_at_unix_seconds: 1_763_720_628.25,
        method: CaptureMethod::CopyOnWrite,
        pause_ms: 1.5,
        predicted_pause_ms: Some(2.5),
        frozen_ms: Some(3.5),
        threads_with_registers: 6,
        threads: 7,
        logical_bytes: Some(8),
        written_bytes: None,
        contents: Class::ALL.into_iter().zip(9..).collect(),
        left_out: Reason::ALL.into_iter().zip(14..).collect(),
        missing: vec![MissingMemory { start: Avma(0x7f00_0000_1000), bytes: 4096, why: Reason::Gone }],
        error: Some(text("the disk is full")),
        warnings: vec![text("one"), text("two")],
    }
}

/// The facts of a heap.
pub(crate) fn heap_facts() -> HeapFacts {
    let generation = |name, objects, bytes| GenerationFacts { name: text(name), objects, bytes };
    HeapFacts {
        pid: Pid(4711),
        runtime: text("8.0.29"),
        source: HeapSource::Memory,
        collector: Collector::Server,
        taken_at_unix_seconds: 1_763_720_628.25,
        pause_ms: 12.5,
        all_pauses_ms: 30.25,
        attempts: 91,
        retries: Retries { collecting: 92, threads: 93, torn: 94 },
        frozen_ms: 812.125,
        objects: 95,
        bytes: 96,
        live_objects: Some(97),
        live_bytes: Some(98),
        free_objects: 99,
        free_bytes: 100,
        references: 101,
        types: 102,
        generations: vec![generation("gen0", 103, 104), generation("large", 105, 106)],
        roots: vec![(text("strong handle"), 107), (text("stack"), 108)],
        segment_bytes: 109,
        whole: true,
        problems: 110,
        skipped_bytes: 111,
        dangling: 112,
        stale: 113,
        warnings: vec![text("one"), text("two")],
    }
}

/// Types of a heap.
pub(crate) fn heap_types() -> Vec<HeapType> {
    let of = |name, module, method_table, is_free| HeapType {
        name: text(name),
        module: text(module),
        method_table: Avma(method_table),
        is_free,
        ..HeapType::default()
    };
    let mut order = of("App.Order<T>", "App.dll", 0x7f08, false);
    order.fields = vec![text("lines"), text("customer")];
    order.repeats = true;
    order.statics = vec![(text("All"), Avma(0x7f10))];
    order.element_bytes = 114;
    order.family = TypeFamily::Value;
    order.noted = vec![text("_size"), text("same text")];
    vec![of("Free", "", 0x7f00, true), order, of("?", "", 0, false)]
}

pub(crate) fn footprint() -> Footprint {
    let blocks = |count| Blocks { count, bytes: count * 100 };
    let part = |kind, resident| FootprintPart { kind, resident, reserved: resident + 1 };
    Footprint {
        pid: Pid(4711),
        taken_at_unix_seconds: 1_763_720_630.5,
        pause_ms: 2.75,
        parts: vec![part(MemoryKind::Allocated, 7_000), part(MemoryKind::Other(text("of-tomorrow")), 6_000)],
        kernel: Some(KernelSums {
            resident: 21,
            anonymous: 22,
            files: 23,
            shared: 24,
            swapped: 25,
            page_tables: 26,
        }),
        allocators: vec![AllocatorFacts {
            name: text("glibc"),
            arenas: vec![ArenaFacts {
                address: Avma(0x7f00_1000),
                heaps: 1,
                system: 31,
                resident: 32,
                used: blocks(33),
                free: blocks(34),
                fast: blocks(35),
                top: 36,
                unknown: 37,
            }],
            mapped: blocks(38),
            cached: blocks(39),
            classes: vec![SizeClass { up_to: 64, used: blocks(40), free: blocks(41) }],
            whole: true,
        }],
        runtimes: vec![RuntimeMemory {
            name: text("Go 1.22.5"),
            pools: vec![MemoryPool {
                name: text("objects"),
                kind: MemoryKind::ManagedHeap,
                reserved: 51,
                committed: 52,
                resident: 53,
                used: blocks(54),
            }],
            classes: vec![SizeClass { up_to: 48, used: blocks(55), free: blocks(56) }],
            whole: true,
        }],
        warnings: vec![text("a \u{1b} note")],
    }
}
