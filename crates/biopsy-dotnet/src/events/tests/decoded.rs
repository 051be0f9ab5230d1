//! Payloads of the runtime's own events, by version.

use super::super::runtime::*;
use super::*;
use biopsy_model::runtime_trace::AllocationSampling;

/// The bytes of a payload.
fn payload(parts: &[Part<'_>]) -> Vec<u8> {
    let mut stream = Stream::new();
    stream.runtime(1, 0).with(parts);
    stream.last().payload.clone()
}

/// Reads the payload, and says that nothing shorter is read.
fn whole<'a, T: PartialEq + std::fmt::Debug>(bytes: &'a [u8], read: impl Fn(&'a [u8]) -> Option<T>) -> T {
    for cut in 0..bytes.len() {
        assert_eq!(read(&bytes[..cut]), None, "{cut} of {} bytes", bytes.len());
    }
    read(bytes).expect("it is whole")
}

#[test]
fn collections_are_read_in_each_version() {
    let (first, later) = (payload(&[U32(7), U32(4)]), payload(&[U32(7), U32(1), U32(4), U32(2)]));
    let start = |version| move |bytes: &[u8]| GcStart::read(version, bytes);
    assert_eq!(whole(&first, start(0)), GcStart { count: 7, depth: 0, reason: 4, kind: 0 });
    for version in [1, 2, 99] {
        assert_eq!(whole(&later, start(version)), GcStart { count: 7, depth: 1, reason: 4, kind: 2 });
    }
    let (first, later) = (payload(&[U32(7), U16(1)]), payload(&[U32(7), U32(1)]));
    for (version, bytes) in [(0, &first), (1, &later)] {
        assert_eq!(whole(bytes, |bytes| GcEnd::read(version, bytes)), GcEnd { count: 7, depth: 1 });
    }
    for (version, bytes) in [(0, payload(&[U16(6)])), (1, payload(&[U32(6)]))] {
        let begin = whole(&bytes, |bytes| GcSuspendBegin::read(version, bytes));
        assert_eq!(begin, GcSuspendBegin { reason: 6 });
    }
}

#[test]
fn sizes_of_the_heap_have_the_pinned_one_since_version_2() {
    let mut parts: Vec<Part<'_>> = (1..=8).map(U64).collect();
    parts.extend([U64(0), U64(0), U32(3)]);
    let old = payload(&parts);
    parts.extend([U32(0), U32(0), U16(0), U64(9), U64(10)]);
    let new = payload(&parts);
    let found = whole(&old, |bytes| GcHeapStats::read(1, bytes));
    assert_eq!((found.sizes, found.promoted, found.pinned), ([1, 3, 5, 7, 0], [2, 4, 6, 8, 0], 3));
    let found = whole(&new, |bytes| GcHeapStats::read(2, bytes));
    assert_eq!((found.sizes, found.promoted, found.pinned), ([1, 3, 5, 7, 9], [2, 4, 6, 8, 10], 3));
}

#[test]
fn allocations_stand_for_what_they_were_taken_of() {
    let old = payload(&[U32(1000), U32(1)]);
    let found = whole(&old, |bytes| Allocation::read_tick(1, bytes));
    assert_eq!((found.bytes, found.kind, found.type_name.is_empty()), (1000, 1, true));
    let new = payload(&[U32(1), U32(0), U16(0), U64(1 << 40), U64(0), Text("App.Feed")]);
    let found = whole(&new, |bytes| Allocation::read_tick(4, bytes));
    assert_eq!((found.bytes, found.kind), (1 << 40, 0));
    assert!(found.type_name.is("App.Feed"));
    for (size, offset, bytes) in [(100, 40, 102_450), (100, 99, 102_450), (u64::MAX, 0, u64::MAX)] {
        let sample = payload(&[U32(1), U16(0), U64(0), Text("T"), U64(0xdead), U64(size), U64(offset)]);
        let found = whole(&sample, Allocation::read_sample);
        assert_eq!((found.bytes, found.kind), (bytes, 1), "{size} {offset}");
    }
}

#[test]
fn exceptions_locks_and_methods_are_read() {
    let thrown = payload(&[Text("App.Broken"), Text("at 7"), U64(1), U32(0x8013_1500), U16(16)]);
    let found = whole(&thrown, ExceptionThrown::read);
    assert!(found.type_name.is("App.Broken") && found.message.is("at 7"));
    assert_eq!((found.code, found.flags), (0x8013_1500, 16));
    let old = payload(&[U8(1)]);
    let found = whole(&old, |bytes| ContentionStart::read(1, bytes));
    assert_eq!(found, ContentionStart { flags: 1, lock: None, object: None, owner: None });
    let new = payload(&[U8(0), U16(0), U64(5), U64(0), U64(77)]);
    let found = whole(&new, |bytes| ContentionStart::read(2, bytes));
    assert_eq!(found, ContentionStart { flags: 0, lock: Some(5), object: None, owner: Some(77) });
    let stop = payload(&[U8(0), U16(0)]);
    assert_eq!(whole(&stop, |bytes| ContentionStop::read(0, bytes)).nanos, None);
    let stop = payload(&[U8(0), U16(0), F64(2.5)]);
    assert_eq!(whole(&stop, |bytes| ContentionStop::read(1, bytes)).nanos, Some(2.5));
    let method = payload(&[U64(1), U64(2), U64(3), U32(400), U32(5), U32(6)]);
    assert_eq!(whole(&method, MethodLoad::read), MethodLoad { method: 1, size: 400, flags: 6 });
    assert_eq!(MethodLoad::read_jitting(&method), Some(1));
    for (version, bytes) in [
        (0, payload(&[U64(1), U64(2), U32(3), Text("App, Version=1")])),
        (1, payload(&[U64(1), U64(2), U64(4), U32(3), Text("App, Version=1")])),
    ] {
        assert!(whole(&bytes, |bytes| AssemblyLoaded::read(version, bytes)).name.is("App, Version=1"));
    }
}

#[test]
fn types_of_one_event_are_read_as_far_as_they_are_whole() {
    let one = [U64(1), U64(2), U32(3), U32(8), U8(0x1d), Text("A"), U32(1), U64(9)];
    let other = [U64(4), U64(5), U32(6), U32(0), U8(0x12), Text("B"), U32(0)];
    let head = payload(&[U32(2), U16(0)]);
    let (one, other) = (payload(&one), payload(&other));
    let all = [&head[..], &one, &other].concat();
    for cut in 0..=all.len() {
        let names: Vec<_> = BulkType::read_all(&all[..cut]).map(|found| found.name.to_string()).collect();
        let wanted: &[&str] = match cut.saturating_sub(head.len()) {
            whole if whole >= one.len() + other.len() => &["A", "B"],
            whole if whole >= one.len() => &["A"],
            _ => &[],
        };
        assert_eq!(names, wanted, "{cut}");
    }
    let found = BulkType::read_all(&all).next().expect("the first");
    assert_eq!((found.id, found.module, found.token, found.flags), (1, 2, 3, 8));
    // A count of parameters that lies.
    let mut lies = all.clone();
    let at = head.len() + one.len() - 12;
    lies[at..at + 4].fill(0xff);
    assert_eq!(BulkType::read_all(&lies).count(), 0);
}

#[test]
fn a_runtime_says_which_it_is() {
    for (version, wanted) in [
        ([10, 0, 1226, 42308], Some("10.0.12")),
        ([8, 0, 99, 1], Some("8.0.0")),
        ([4, 700, 22, 11601], Some("3.1")),
        ([4, 700, 20, 1], None),
        ([0, 0, 0, 0], None),
    ] {
        let mut stream = Stream::new();
        let vm: Vec<Part<'_>> = version.into_iter().map(U16).collect();
        stream.runtime(187, 0).at(1).with(&[U16(0), U16(1), U16(0), U16(0), U16(0), U16(0)]).with(&vm);
        stream.with(&[U32(0), U8(0), Text("dotnet app.dll")]);
        assert_eq!(stream.collect().runtime.version.as_deref(), wanted, "{version:?}");
    }
    let entry = |command: &str| {
        let mut stream = Stream::new();
        stream.runtime(187, 0).with(&[U64(0), U32(0), U64(0), U32(0), U8(0), Text(command)]);
        stream.collect().runtime.entry
    };
    assert_eq!(entry("dotnet /app/Shop.dll --x").as_deref(), Some("Shop.dll"));
    assert_eq!(entry(r"C:\dotnet\dotnet.exe shop.dll").as_deref(), Some("dotnet.exe"));
    assert_eq!(entry("/app/shop --x"), None);
}

#[test]
fn words_for_numbers_are_those_of_the_runtime() {
    let pool: Vec<_> = (0..10).map(pool_reason).collect();
    assert_eq!(
        (pool[0], pool[6], pool[8], pool[9]),
        ("Warmup", "Starvation", "CooperativeBlocking", "Unknown")
    );
    assert_eq!((gc_reason(1), gc_reason(17), gc_reason(18)), ("Induced", "InducedAggressive", "Unknown"));
    // The tier is in bits 7 to 9; bit 3: compiled at run time.
    for (flags, words) in [
        (0, "ReadyToRun"),
        (8, "Unknown"),
        (8 | 1 << 7, "MinOptJitted"),
        (8 | 3 << 7, "QuickJitted"),
        (8 | 4 << 7, "OptimizedTier1"),
        (8 | 7 << 7, "InstrumentedTierOptimized"),
        (8 | 1 << 10, "Unknown"),
    ] {
        assert_eq!(tier(flags), words, "{flags:#x}");
    }
}

#[test]
fn compiling_is_timed_from_start_to_load_on_one_thread() {
    let mut stream = Stream::new();
    let load = |method: u64, flags: u32| [U64(method), U64(0), U64(0), U32(100), U32(0), U32(flags)];
    const JITTED: u32 = 8 | 3 << 7;
    stream.runtime(145, 1).at(10).by(5).with(&[U64(1)]);
    stream.runtime(145, 1).at(20).by(6).with(&[U64(2)]);
    stream.runtime(143, 1).at(50).by(6).with(&load(2, JITTED));
    stream.runtime(143, 1).at(60).by(5).with(&load(1, JITTED));
    // Of another method, of none that was begun, and compiled ahead.
    stream.runtime(145, 1).at(70).by(5).with(&[U64(3)]);
    stream.runtime(143, 1).at(90).by(5).with(&load(4, JITTED));
    stream.runtime(143, 1).at(91).by(5).with(&load(5, 0));
    let compiled = stream.collect().compiled;
    assert_eq!((compiled.methods, compiled.bytes, compiled.time), (3, 300, Nanos(30 + 50)));
    assert_eq!(compiled.tiers, [("QuickJitted".to_owned(), 3), ("ReadyToRun".to_owned(), 1)]);
    // More threads than are followed at a time: those that are open go on.
    let mut stream = Stream::new();
    for thread in 0..20 {
        stream.runtime(145, 1).at(thread).by(thread).with(&[U64(thread)]);
    }
    for thread in 0..20 {
        stream.runtime(143, 1).at(100).by(thread).with(&load(thread, JITTED));
    }
    let compiled = stream.collect_with(&Limits::small()).compiled;
    assert_eq!((compiled.methods, compiled.time), (20, Nanos(100 + 99 + 98 + 97)));
}

#[test]
fn samples_taken_at_random_replace_ticks() {
    let mut stream = Stream::new();
    let tick = |amount: u64| [U32(1), U32(0), U16(0), U64(amount), U64(0), Text("App.Tick")];
    stream.runtime(10, 4).at(1).with(&tick(500));
    let ticks = stream.collect().allocation_groups;
    assert_eq!((ticks[0].type_name.as_str(), ticks[0].bytes, ticks[0].samples), ("App.Tick", 500, 1));
    stream.runtime(303, 0).at(2).with(&[U32(1), U16(0), U64(0), Text("App.Random"), U64(0), U64(1), U64(0)]);
    stream.runtime(10, 4).at(3).with(&tick(500));
    let trace = stream.collect();
    let random = &trace.allocation_groups;
    assert_eq!(trace.allocation_sampling, AllocationSampling::Random);
    let groups: Vec<_> = random.iter().map(|one| (one.type_name.as_str(), one.bytes, one.large)).collect();
    assert_eq!(groups, [("App.Random", 102_400, true)]);
}

/// The sum over all objects of their chance times what they stand for is the bytes of all, whatever their size.
#[test]
fn a_sampled_object_stands_for_its_size_over_its_chance() {
    for (size, expected) in [
        (0, 0),
        (1, 102_400),
        (24, 102_412),
        (102_400, 161_994),
        (1_024_000, 1_024_046),
        (u64::MAX, u64::MAX),
    ] {
        let mut stream = Stream::new();
        stream.runtime(303, 0).at(1).with(&[
            U32(0),
            U16(0),
            U64(0),
            Text("App.One"),
            U64(0),
            U64(size),
            U64(0),
        ]);
        let groups = stream.collect().allocation_groups;
        assert_eq!(groups[0].bytes, expected, "{size}");
    }
}

#[test]
fn the_pool_tells_of_workers_and_of_its_minimum() {
    let mut stream = Stream::new();
    stream.runtime(50, 0).at(1).with(&[U32(3)]);
    stream.runtime(51, 0).at(2).with(&[U32(2)]);
    stream.runtime(59, 0).at(3).with(&[U16(1)]);
    stream.runtime(55, 0).at(4).with(&[F64(f64::NAN), U32(9), U32(77)]);
    stream.runtime(50, 0).at(5).with(&[U16(3)]);
    let trace = stream.collect();
    let events: Vec<_> = trace.thread_pool.items.iter().map(|one| (one.threads, one.kind.clone())).collect();
    let adjusted = ThreadPoolChange::Adjusted { reason: "Unknown".to_owned(), throughput: None };
    assert_eq!(
        events,
        [
            (Some(3), ThreadPoolChange::Workers),
            (Some(2), ThreadPoolChange::Workers),
            (None, ThreadPoolChange::Minimum),
            (Some(9), adjusted),
        ]
    );
    assert_eq!(trace.unknown, 1, "the last is cut");
}
