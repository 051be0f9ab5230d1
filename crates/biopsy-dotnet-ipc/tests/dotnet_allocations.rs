//! What the runtime samples of allocations, beside what the program has allocated.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use biopsy_dotnet::events::{self, Collector};
use biopsy_dotnet::methods::MethodMap;
use biopsy_dotnet::nettrace::{Limits, Reader};
use biopsy_dotnet_ipc::{Client, EventLevel, Provider, Rundown, SessionConfig};
use biopsy_model::Pid;
use biopsy_model::runtime_trace::{AllocationSampling, RuntimeTrace};
use biopsy_testkit::{DOTNET_RUNTIMES, Privilege, dotnet_allocates, require};

const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
const MEBIBYTES: &str = "200";
const PATIENCE: Duration = Duration::from_secs(120);

/// Of each type the size of an object, and bytes: allocated, and as sampled.
fn sampled(
    runtime: &str,
    order: &[&str],
    keywords: u64,
    level: EventLevel,
) -> (RuntimeTrace, BTreeMap<String, (u64, f64, f64)>) {
    let mut target = dotnet_allocates(runtime, &[&[MEBIBYTES], order].concat());
    let client = Client::of(Pid(target.pid())).expect("it listens");
    let providers = vec![Provider::new(RUNTIME, keywords, level)];
    let config = SessionConfig { buffer_mb: 64, rundown: Rundown::None, stacks: true, providers };
    let mut session = client.start_session(&config).expect("a session");
    let control = session.control().expect("a second connection");
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        session.read_to_end(&mut bytes).expect("all of the stream");
        bytes
    });
    target.say("go");
    let mut types = BTreeMap::new();
    while let Some(line) = target.next_line(PATIENCE).filter(|line| !line.starts_with("DONE")) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u32>().expect("a number");
        types.insert(words[0].to_owned(), (u64::from(number(1)), f64::from(number(2)), 0.0));
    }
    control.stop(PATIENCE).expect("it stops");
    let bytes = reading.join().expect("it was read");
    target.stop();
    let mut reader = Reader::new(bytes.as_slice(), &Limits::default()).expect("a stream");
    reader.sort_by_time(true);
    let limits = events::Limits::default();
    let mut collector = Collector::new(Pid(0), "test".to_owned(), &limits, str::to_owned);
    while let Some(event) = reader.next_event().expect("an event") {
        collector.event(&event);
    }
    let trace = collector.finish(&MethodMap::new());
    for group in &trace.allocation_groups {
        if let Some(one) = types.get_mut(&group.type_name) {
            one.2 += f64::from(u32::try_from(group.bytes).expect("not more than was allocated"));
        }
    }
    (trace, types)
}

/// Five standard deviations of the estimate of 200 MiB in small objects; of large ones it is nearer.
const CLOSE: f64 = 0.11;

#[test]
fn samples_at_random_tell_what_each_type_has_allocated() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    for order in [&[][..], &["rounds"]] {
        let (trace, types) = sampled("net10.0", order, 0x800_0000_0000, EventLevel::Informational);
        assert_eq!(trace.allocation_sampling, AllocationSampling::Random);
        assert_eq!(types.len(), 7);
        for (name, (size, truth, estimate)) in &types {
            assert!((estimate / truth - 1.0).abs() < CLOSE, "{name} of {size}: {estimate} of {truth}");
        }
        let groups = trace.allocation_groups.iter();
        let mut large = groups.filter(|group| group.large).map(|group| group.type_name.as_str());
        assert!(large.all(|name| types.get(name).is_none_or(|one| one.0 >= 85_000)));
    }
}

#[test]
fn ticks_are_told_of_each_runtime() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    for runtime in DOTNET_RUNTIMES {
        for order in [&[][..], &["rounds"]] {
            let (trace, types) = sampled(runtime, order, 0x1, EventLevel::Verbose);
            assert_eq!(trace.allocation_sampling, AllocationSampling::Ticks);
            // All of them together are right, whatever is said of single types.
            let sum = |of: fn(&(u64, f64, f64)) -> f64| types.values().map(of).sum::<f64>();
            let share = sum(|one| one.2) / sum(|one| one.1);
            assert!((share - 1.0).abs() < CLOSE, "{runtime}: {types:?}");
        }
    }
}
