//! Samples: which fields they have, whose they are, what they stand for.

use biopsy_import::ImportError;
use biopsy_model::stack::{FrameSpace, StackEnd};
use biopsy_model::timeline::SamplingEvent;
use biopsy_model::{Nanos, Pid};
use proptest::prelude::*;

use crate::build::{
    BY_FREQUENCY, Event, File, ID_IN_ALL, IN_GUEST, IN_KERNEL, IN_USER, KERNEL, Row, Side, bit, clock, codes,
    import, sample, timeline, try_import,
};

const MS: u64 = 1_000_000;

fn row(time: u64, tid: u32) -> Row {
    Row { time, pid: 100, tid, ip: 0x1000, period: MS, chain: vec![0x1000], ..Row::default() }
}

/// Samples of one event at these times, of one thread.
fn samples_of(event: &Event, times: &[u64]) -> Vec<Vec<u8>> {
    times.iter().map(|time| sample(event, &row(*time, 100))).collect()
}

fn weights(event: &Event, times: &[u64]) -> Vec<u64> {
    let capture = import(&File::new(std::slice::from_ref(event), &samples_of(event, times)));
    timeline(&capture).samples.iter().map(|sample| sample.weight.0).collect()
}

#[test]
fn a_sample_stands_for_its_period_or_what_the_frequency_says() {
    const CYCLES: u32 = 0;
    let without_period = bit::USUAL & !bit::PERIOD;
    let of = |kind, period, flags, sample_type| Event { kind, period, flags, sample_type, ..clock() };
    for (what, event, expected) in [
        ("the period it tells", of(1, 7, 0, bit::USUAL), MS),
        ("the fixed period", of(1, 4 * MS, 0, without_period), 4 * MS),
        ("its frequency", of(1, 250, BY_FREQUENCY, without_period), 4 * MS),
        ("the frequency of cycles, not their number", of(CYCLES, 500, BY_FREQUENCY, bit::USUAL), 2 * MS),
        ("the usual gap", of(CYCLES, 1_000_000, 0, bit::USUAL), 3 * MS),
        ("ten seconds at most", of(1, 60_000 * MS, 0, without_period), 10_000 * MS),
    ] {
        assert_eq!(weights(&event, &[MS, 4 * MS, 7 * MS, 90 * MS]), [expected; 4], "{what}");
    }
    let cycles = of(CYCLES, 1_000_000, 0, bit::USUAL);
    assert_eq!(weights(&cycles, &[5]), [1_000_000], "nothing tells");
}

#[test]
fn which_events_sample_cpu_time_is_told_by_number_or_name() {
    for (kind, config, name, is_cpu, called) in [
        (1, 0, "", true, "cpu-clock"),
        (1, 1, "", true, "task-clock"),
        (0, 0, "", true, "cycles"),
        (0, 1, "", true, "instructions"),
        (0, 0x4_0000_0000, "cpu_atom/cycles/", true, "cpu_atom/cycles/"),
        (0, 6, "bus-cycles", true, "bus-cycles"),
        (0, 9, "ref-cycles:u", true, "ref-cycles"),
        (4, 0x3c, "cpu/cpu-cycles/ppp", true, "cpu/cpu-cycles/ppp"),
        (0, 3, "cache-misses", false, ""),
        (1, 2, "page-faults", false, ""),
        (2, 300, "syscalls:sys_enter_read", false, ""),
        (5, 0, "mem:0x1000", false, ""),
        (7, 1, "power/energy-pkg/", false, ""),
    ] {
        let event = Event { kind, config, name, ..clock() };
        let capture = import(&File::new(std::slice::from_ref(&event), &samples_of(&event, &[10, 20])));
        let timeline = timeline(&capture);
        assert_eq!(timeline.samples.len(), if is_cpu { 2 } else { 0 }, "{kind}:{config:#x} {name}");
        assert_eq!(
            timeline.settings.sampling_event,
            SamplingEvent::from(called),
            "{kind}:{config:#x} {name}"
        );
        let expected: &[&str] = if is_cpu { &[] } else { &["import.unused-events", "import.no-cpu-event"] };
        assert_eq!(codes(&capture), expected, "{kind}:{config:#x} {name}");
    }
}

#[test]
fn settings_tell_how_often_and_of_whom() {
    let event = Event { period: 199, flags: BY_FREQUENCY | ID_IN_ALL, ..clock() };
    let capture = import(&File::new(std::slice::from_ref(&event), &samples_of(&event, &[10, 20])));
    let settings = &timeline(&capture).settings;
    assert_eq!((settings.frequency_hz, settings.follows_children), (199, false));
    assert!(!settings.has_states && !settings.has_wakeups && !settings.has_kernel_stacks);
    let capture = import(&File::new(&[clock()], &samples_of(&clock(), &[10, 20])));
    let settings = &timeline(&capture).settings;
    assert_eq!((settings.frequency_hz, settings.follows_children), (1_000, true), "by the period");
}

/// Spaces and addresses of the stack of the only sample, innermost first.
fn stack(ip: u64, chain: &[u64]) -> (Vec<(FrameSpace, u64)>, StackEnd) {
    let event = clock();
    let row = Row { ip, chain: chain.to_vec(), ..row(10, 100) };
    let mapped = Side { event: clock() }.map(0, 100, [0, 0x10_0000, 0], "//anon");
    let capture = import(&File::new(std::slice::from_ref(&event), &[mapped, sample(&event, &row)]));
    let timeline = timeline(&capture);
    let only = timeline.samples[0];
    let frames = timeline.frames_of(only.stack).map(|handle| timeline.frames[handle.0 as usize]);
    (frames.map(|frame| (frame.space, frame.address.0)).collect(), only.end)
}

#[test]
fn call_chains_are_split_by_whose_addresses_they_are() {
    use FrameSpace::{Kernel, User};
    let kernel = KERNEL | 0x10;
    for (what, ip, chain, expected) in [
        ("in the kernel alone", kernel, vec![IN_KERNEL, kernel], vec![(Kernel, kernel)]),
        (
            "a call in the kernel: one before where it returns to",
            kernel,
            vec![IN_KERNEL, kernel, kernel + 0x100],
            vec![(Kernel, kernel), (Kernel, kernel + 0xff)],
        ),
        (
            "a system call",
            kernel,
            vec![IN_KERNEL, kernel, IN_USER, 0x1000],
            vec![(Kernel, kernel), (User, 0x1000)],
        ),
        ("what is a guest's is left out", 0x1000, vec![IN_GUEST, IN_USER, 0x1000], vec![(User, 0x1000)]),
        ("without a marker, by the address itself", kernel, vec![kernel], vec![(Kernel, kernel)]),
        ("no chain but an address", 0x2000, vec![], vec![(User, 0x2000)]),
        ("no chain but an address of the kernel", kernel, vec![], vec![(Kernel, kernel)]),
        ("nothing", 0, vec![], vec![]),
    ] {
        assert_eq!(stack(ip, &chain).0, expected, "{what}");
    }
}

#[test]
fn processes_without_memory_have_no_user_part() {
    let event = clock();
    let kernel = KERNEL | 0x10;
    let row = Row { ip: kernel, chain: vec![IN_KERNEL, kernel], ..row(10, 100) };
    let capture = import(&File::new(std::slice::from_ref(&event), &[sample(&event, &row)]));
    assert_eq!(timeline(&capture).samples[0].end, StackEnd::KernelOnly);
    assert!(timeline(&capture).settings.has_kernel_stacks);
    assert_ne!(stack(0x1000, &[0x1000]).1, StackEnd::KernelOnly);
}

#[test]
fn equal_stacks_are_kept_once() {
    let event = clock();
    let chains = [vec![0x1000, 0x2000], vec![0x1000, 0x2000], vec![0x3000, 0x2000]];
    let mapped = Side { event: clock() }.map(0, 100, [0, 0x10_0000, 0], "//anon");
    let rows =
        chains.iter().enumerate().map(|(at, chain)| Row { chain: chain.clone(), ..row(10 + at as u64, 100) });
    let records: Vec<_> = std::iter::once(mapped).chain(rows.map(|row| sample(&event, &row))).collect();
    let capture = import(&File::new(std::slice::from_ref(&event), &records));
    let timeline = timeline(&capture);
    let stacks: Vec<_> = timeline.samples.iter().map(|sample| sample.stack).collect();
    assert!(stacks[0] == stacks[1] && stacks[1] != stacks[2]);
    assert_eq!(timeline.stacks.len(), timeline.frames.len(), "the caller is one");
}

#[test]
fn idle_cpus_and_other_events_are_no_samples() {
    let other = Event { kind: 0, config: 3, ids: vec![8], name: "cache-misses", ..clock() };
    let second = Event { kind: 0, config: 0, ids: vec![9], name: "cycles", ..clock() };
    let events = [Event { ids: vec![7], name: "cpu-clock", ..clock() }, other, second]
        .map(|event| Event { sample_type: bit::USUAL | bit::ID, ..event });
    let of = |event: &Event, time, tid| sample(event, &Row { id: event.ids[0], ..row(time, tid) });
    let [clock, misses, cycles] = &events;
    let records =
        [of(clock, 10, 0), of(clock, 20, 100), of(misses, 30, 100), of(cycles, 40, 100), of(cycles, 50, 100)];
    let capture = import(&File::new(&events, &records));
    assert_eq!(timeline(&capture).samples.len(), 1);
    assert_eq!(codes(&capture), ["import.unused-events"]);
    let message = "3 samples of other events were not used: cache-misses, cycles";
    assert_eq!(capture.warnings[0].message, message);
}

/// Two events, told apart by the id in each record, wherever that is.
#[test]
fn samples_belong_to_the_event_whose_id_they_have() {
    let wide = bit::USUAL | bit::IDENTIFIER;
    for (what, first, second) in [
        ("an identifier at the start", wide, wide),
        ("an id among the fields", bit::USUAL | bit::ID, bit::USUAL | bit::ID),
        ("other fields behind the identifier", wide, wide | bit::RAW),
    ] {
        let clock = Event { ids: vec![7, 8], sample_type: first, name: "cpu-clock", ..clock() };
        let faults =
            Event { kind: 1, config: 2, ids: vec![9], sample_type: second, name: "faults", ..clock.clone() };
        let of = |event: &Event, id, time| sample(event, &Row { id, ..row(time, 100) });
        let records = [of(&clock, 7, 10), of(&faults, 9, 20), of(&clock, 8, 30), of(&faults, 9, 40)];
        let capture = import(&File::new(&[clock, faults], &records));
        let times: Vec<u64> = timeline(&capture).samples.iter().map(|sample| sample.time.0).collect();
        assert_eq!(times, [10, 30], "{what}");
    }
}

#[test]
fn events_that_nothing_tells_apart_are_refused() {
    let events = [clock(), Event { sample_type: bit::USUAL | bit::RAW, ..clock() }];
    let error = try_import(&File::new(&events, &samples_of(&events[0], &[10])).bytes()).unwrap_err();
    assert!(matches!(error, ImportError::Ambiguous), "{error}");
    assert!(error.hint().unwrap().contains("perf script"));
}

#[test]
fn the_target_is_the_process_of_most_samples() {
    let target = |pids: &[u32]| {
        let event = clock();
        let row = |at: usize, pid| Row { pid, ..row(10 + at as u64, pid) };
        let records: Vec<_> =
            pids.iter().enumerate().map(|(at, pid)| sample(&event, &row(at, *pid))).collect();
        let header = import(&File::new(&[event], &records)).header;
        (header.target.map(|key| key.pid), header.target_name)
    };
    assert_eq!(target(&[7]), (Some(Pid(7)), "process 7".to_owned()));
    assert_eq!(target(&[7, 8, 7]), (Some(Pid(7)), "process 7".to_owned()));
    assert_eq!(target(&[7, 8]), (None, "2 processes".to_owned()), "none has most");
    assert_eq!(target(&[7, 8, 9, 9]), (None, "3 processes".to_owned()));
    assert_eq!(target(&[]), (None, String::new()));
}

prop_compose! {
    /// An event with any fields, that has what is needed to place its samples.
    fn any_event()(
        fields in 0_u64..1 << 17,
        read_format in 0_u64..32,
        branches in 0_u64..4,
        registers in 0_u64..1 << 24,
    ) -> Event {
        // Fields of other bits stand behind those that are read.
        let known = bit::IDENTIFIER | (bit::STACK << 1).wrapping_sub(1);
        let needed = bit::TID | bit::TIME;
        let branch_type = (branches & 1) << 17 | (branches >> 1) << 19;
        Event { sample_type: fields & known | needed, read_format, branch_type, registers, ..clock() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever else is in a sample, what is needed of it is found.
    #[test]
    fn fields_are_found_among_any_others(
        event in any_event(),
        (pid, tid, cpu) in (1_u32..=u32::MAX, 1_u32..u32::MAX, any::<u32>()),
        time in 1_u64..1 << 60,
        raw in prop::collection::vec(any::<u8>(), 0..50),
        chain in prop::collection::vec(0x1000_u64..1 << 47, 0..6),
    ) {
        let of = |time| Row { pid, tid, cpu, time, period: 5, raw: raw.clone(), chain: chain.clone(), ip: 0x1000, id: 3 };
        let mapped = Side { event: event.clone() }.map(0, pid, [0, 1 << 48, 0], "//anon");
        let records = [mapped, sample(&event, &of(time)), sample(&event, &of(time + 1))];
        let capture = import(&File::new(std::slice::from_ref(&event), &records));
        prop_assert_eq!(&capture.warnings, &[]);
        let timeline = timeline(&capture);
        let found = timeline.samples[0];
        prop_assert_eq!((found.tid.0, found.time.0, timeline.samples.len()), (tid, time, 2));
        prop_assert_eq!(found.cpu, if event.sample_type & bit::CPU != 0 { cpu } else { 0 });
        let weight = if event.sample_type & bit::PERIOD != 0 { 5 } else { event.period };
        prop_assert_eq!(found.weight, Nanos(weight));
        prop_assert_eq!(timeline.threads[0].info.pid, Pid(pid));
        if event.sample_type & (bit::CALLCHAIN | bit::REGISTERS | bit::STACK) == bit::CALLCHAIN {
            let innermost = timeline.frames_of(found.stack).next().map(|frame| timeline.frames[frame.0 as usize].address.0);
            let expected = chain.first().copied().or((event.sample_type & bit::IP != 0).then_some(0x1000));
            prop_assert_eq!(innermost, expected);
        }
    }
}
