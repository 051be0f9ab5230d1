//! What single parts of the exports say: names, counters, markers, and what there is to refuse.

use super::{export, gunzip, packets, timeline};
use crate::export::stacks::{Threads, base_name, hex, process_name};
use crate::export::waits::{wait_name, wait_state};
use crate::export::{Format, pprof, write};
use crate::synthetic;
use biopsy_model::capture::Capture;
use biopsy_model::log::{LogFile, LogLevel, LogLine};
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{Sample, ThreadLife, Timeline, Wait, WaitState};
use biopsy_model::{Avma, FileOffset, LookupAddress, MonoNanos, Nanos, Pid, Tid};
use prost::Message as _;
use serde_json::Value;

fn module(kind: ModuleKind, path: &str) -> Module {
    Module {
        pid: Pid(1),
        kind,
        path: path.to_owned(),
        build_id: None,
        start: Avma(0),
        end: Avma(u64::MAX),
        offset: FileOffset(0),
        since: MonoNanos(0),
        deleted: false,
    }
}

fn sample(time: u64, stack: u32) -> Sample {
    Sample {
        time: MonoNanos(time),
        tid: Tid(7),
        cpu: 0,
        stack: Some(StackHandle(stack)),
        end: StackEnd::Root,
        weight: Nanos(1_000),
    }
}

fn life(tid: u32, name: &str) -> ThreadLife {
    ThreadLife {
        info: ThreadInfo { tid: Tid(tid), pid: Pid(1), name: name.to_owned() },
        start: MonoNanos(0),
        born: false,
        by: None,
        exit: None,
    }
}

/// A sample of each of these functions, in the module of this kind and path, each the only one of its stack.
fn sampled(kind: ModuleKind, path: &str, names: &[&str]) -> Capture {
    let mut trace = Timeline { modules: vec![module(kind, path)], ..Timeline::default() };
    for (at, name) in (0..).zip(names) {
        let space = if kind == ModuleKind::Kernel { FrameSpace::Kernel } else { FrameSpace::User };
        trace.frames.push(Frame {
            space,
            module: Some(ModuleHandle(0)),
            address: LookupAddress(0x10 + u64::from(at)),
        });
        let function = Function { name: (*name).to_owned(), file: None, line: None };
        let functions = vec![function];
        trace.symbols.push(Some(FrameSymbols {
            frame: FrameHandle(at),
            functions,
            source: SymbolSource::ElfSymbols,
        }));
        trace.stacks.push(StackNode { caller: None, frame: FrameHandle(at) });
        trace.samples.push(sample(u64::from(at), at));
    }
    trace.threads.push(life(7, "worker"));
    Capture { timeline: Some(trace), ..Capture::default() }
}

fn collapsed(capture: &Capture) -> Vec<String> {
    let text = String::from_utf8(export(Format::Collapsed, capture)).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn names_in_collapsed_stacks_end_neither_frame_nor_line_and_are_no_counts() {
    for (kind, name, line) in [
        (ModuleKind::Elf, "f", "worker;f 1"),
        (ModuleKind::Kernel, "do_sys_poll", "worker;do_sys_poll_[k] 1"),
        (ModuleKind::Jit, "App.Run", "worker;App.Run_[j] 1"),
        (ModuleKind::Vdso, "time", "worker;time 1"),
        (ModuleKind::Elf, "a;b", "worker;a:b 1"),
        (ModuleKind::Elf, "a\nb\r\tc\u{2028}", "worker;a?b??c? 1"),
        (ModuleKind::Elf, "operator new 12", "worker;operator new_12 1"),
        (ModuleKind::Elf, "f 1.5", "worker;f_1.5 1"),
        (ModuleKind::Elf, "f\u{a0}12", "worker;f_12 1"),
        (ModuleKind::Elf, "f 12a", "worker;f 12a 1"),
        (ModuleKind::Elf, "f 12 ", "worker;f 12  1"),
        (ModuleKind::Elf, "12", "worker;12 1"),
        // A mark stands behind it.
        (ModuleKind::Kernel, "f 12", "worker;f_12_[k] 1"),
        (ModuleKind::Elf, "größe 7", "worker;größe_7 1"),
    ] {
        assert_eq!(collapsed(&sampled(kind, "/bin/server", &[name])), [line], "{name:?}");
    }
}

#[test]
fn a_frame_without_a_name_is_called_as_the_report_calls_it() {
    for (path, name) in [
        ("/usr/lib/libc.so.6", "libc.so.6+0x10"),
        ("/opt/app (deleted)", "app+0x10"),
        ("[vdso]", "[vdso]+0x10"),
        ("", "0x10"),
    ] {
        let capture = sampled(ModuleKind::Elf, path, &[""]);
        assert_eq!(collapsed(&capture), [format!("worker;{name} 1")], "{path:?}");
        let analysis = biopsy_analyze::analyze(&capture);
        assert!(analysis.functions.iter().any(|row| row.name == name), "{path:?}");
    }
}

#[test]
fn threads_of_one_name_are_one_in_collapsed_stacks() {
    let mut capture = sampled(ModuleKind::Elf, "/bin/server", &["f", "f"]);
    let trace = capture.timeline.as_mut().expect("a trace");
    trace.threads.push(life(8, "worker"));
    trace.threads.push(life(9, "a;b 3\n"));
    trace.samples[1].tid = Tid(8);
    trace.samples.push(Sample { tid: Tid(9), stack: None, ..trace.samples[0] });
    assert_eq!(collapsed(&capture), ["a:b 3?;[no stack] 1", "worker;f 2"]);
}

#[test]
fn waits_without_a_stack_are_no_stacks() {
    let wait = |stack| Wait {
        tid: Tid(7),
        start: MonoNanos(10),
        end: MonoNanos(90),
        ready: None,
        waker: None,
        state: WaitState::Sleep,
        syscall: None,
        stack,
    };
    let of = |stack| {
        let stacks = vec![StackNode { caller: None, frame: FrameHandle(0) }];
        let trace = Timeline { waits: vec![wait(stack)], stacks, ..Timeline::default() };
        Capture { timeline: Some(trace), ..Capture::default() }
    };
    let refused = |format, capture: &Capture| {
        write(format, capture, std::io::sink()).err().map(|error| error.to_string())
    };
    let bare = of(None);
    for format in [Format::Pprof, Format::Speedscope] {
        let said = format!(
            "cannot export to {}: the recording has no samples and no stacks of waiting threads",
            format.name()
        );
        assert_eq!(refused(format, &bare), Some(said));
        assert_eq!(refused(format, &of(Some(StackHandle(0)))), None);
    }
    assert!(refused(Format::Collapsed, &bare).is_some() && refused(Format::CollapsedWaits, &bare).is_some());
    // They have lines of their own where there is an axis of time.
    assert_eq!((refused(Format::Firefox, &bare), refused(Format::Perfetto, &bare)), (None, None));
}

#[test]
fn a_writer_that_fails_is_an_error_with_its_cause() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let capture = synthetic::capture();
    for format in Format::ALL {
        let error = write(format, &capture, Full).expect_err("nothing can be written");
        assert_eq!(error.to_string(), format!("cannot write the {} export", format.name()));
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause.and_then(std::error::Error::source) {
            cause = Some(next);
        }
        assert!(cause.expect("a cause").to_string().contains("storage"), "{cause:?}");
    }
}

#[test]
fn names_of_files_processes_and_threads() {
    for (path, name) in
        [("/usr/bin/server", "server"), ("server", "server"), ("/opt/app/", "app"), ("/", "/"), ("", "")]
    {
        assert_eq!(base_name(path), name);
    }
    assert_eq!(hex(&[0x00, 0x0f, 0xa0, 0xff]), "000fa0ff");
    let mut capture = synthetic::capture();
    assert_eq!(process_name(&capture, Pid(4802)), "node");
    assert_eq!(process_name(&capture, Pid(9)), "process 9");
    capture.processes.clear();
    assert_eq!(process_name(&capture, Pid(4711)), "mariadbd", "the target's name is in the header");
    capture.header.target_name.clear();
    assert_eq!(process_name(&capture, Pid(4711)), "process 4711");

    let trace =
        Timeline { threads: vec![life(7, "first"), life(7, "second"), life(8, "")], ..Timeline::default() };
    let threads = Threads::new(&Capture::default(), &trace);
    for (tid, name) in
        [(7, "second (7)"), (8, "thread 8 (8)"), (0, "an interrupt"), (9, "thread 9 of another process")]
    {
        assert_eq!(threads.name(Tid(tid)), name);
    }
    assert_eq!(threads.at(Tid(9), MonoNanos(5)), None);
}

#[test]
fn a_wait_is_called_by_its_state_and_its_system_call() {
    let wait = |state, syscall| Wait {
        tid: Tid(7),
        start: MonoNanos(0),
        end: MonoNanos(1),
        ready: None,
        waker: None,
        state,
        syscall,
        stack: None,
    };
    for (state, syscall, name) in [
        (WaitState::Preempted, Some(202), "preempted"),
        (WaitState::Stopped, None, "stopped"),
        (WaitState::Disk, Some(74), "disk wait in system call 74"),
        (WaitState::Disk, None, "disk wait"),
        (WaitState::Sleep, Some(0), "wait in system call 0"),
        (WaitState::Sleep, None, "wait"),
        (WaitState::Other, Some(7), "wait in system call 7"),
    ] {
        assert_eq!(wait_name(&wait(state, syscall)), name);
    }
    let states =
        [WaitState::Sleep, WaitState::Disk, WaitState::Stopped, WaitState::Preempted, WaitState::Other];
    let words: std::collections::BTreeSet<_> = states.map(wait_state).into();
    assert_eq!(words.len(), states.len(), "{words:?}");
}

/// A recording with these readings of CPU (user, system, in cores) and memory, a second each.
fn with_readings(rows: &[(u32, [Option<f64>; 3])]) -> Capture {
    let column = |name: &str, unit| Column { name: name.to_owned(), unit };
    let mut capture = sampled(ModuleKind::Elf, "/bin/server", &["f"]);
    capture.metrics = vec![MetricTable {
        name: "processes".to_owned(),
        keys: vec!["pid".to_owned()],
        columns: vec![
            column("cpu.user", Unit::Cores),
            column("cpu.system", Unit::Cores),
            column("memory.rss", Unit::Bytes),
        ],
        rows: (0..)
            .zip(rows)
            .map(|(second, (pid, values))| MetricRow {
                time: MonoNanos(second * 1_000_000_000),
                keys: vec![pid.to_string()],
                values: values.to_vec(),
            })
            .collect(),
    }];
    capture
}

/// The sums of a counter's deltas, by its name.
fn counted(profile: &Value, name: &str) -> Vec<f64> {
    let counters = profile["counters"].as_array().expect("counters");
    let of = counters.iter().filter(|one| one["name"] == name);
    of.map(|one| {
        one["samples"]["count"]
            .as_array()
            .expect("counts")
            .iter()
            .map(|one| one.as_f64().expect("a number"))
            .sum()
    })
    .collect()
}

#[test]
fn counters_of_firefox_add_up_to_what_was_read() {
    let none = [None, None, None];
    let capture = with_readings(&[
        (1, [Some(0.5), Some(0.5), Some(100.0)]),
        (1, [Some(0.25), Some(0.5), Some(300.0)]),
        (1, none),
        // A row without readings is one all the same: rates of the next are over the time since.
        (1, [Some(1.0), Some(0.0), Some(150.0)]),
        (2, [Some(9.0), Some(9.0), Some(f64::NAN)]),
        (2, [Some(2.0), None, Some(50.0)]),
    ]);
    let profile: Value = serde_json::from_slice(&gunzip(&export(Format::Firefox, &capture))).expect("JSON");
    assert_eq!(counted(&profile, "resident memory"), [150.0, 50.0]);
    // The first reading is over a time that is not recorded.
    assert_eq!(counted(&profile, "processCPU"), [0.75e9 + 1.0e9, 0.0]);
}

#[test]
fn markers_of_firefox_say_what_and_how_long() {
    let mut capture = sampled(ModuleKind::Elf, "/bin/server", &["f"]);
    let trace = capture.timeline.as_mut().expect("a trace");
    trace.waits.push(Wait {
        tid: Tid(7),
        start: MonoNanos(2_000_000),
        end: MonoNanos(9_000_000),
        ready: Some(MonoNanos(8_500_000)),
        waker: Some(Tid(0)),
        state: WaitState::Sleep,
        syscall: Some(202),
        stack: Some(StackHandle(0)),
    });
    trace.marks.push((MonoNanos(3_000_000), "deployed".to_owned()));
    let loss = |from, to, count| Loss {
        kind: LossKind::Samples,
        from: MonoNanos(from),
        to: MonoNanos(to),
        count,
        pid: None,
        tid: None,
    };
    // The second one is the wrong way round, and not counted.
    trace.losses = vec![loss(4_000_000, 5_000_000, 12), loss(7_000_000, 6_000_000, 0)];
    let profile: Value = serde_json::from_slice(&gunzip(&export(Format::Firefox, &capture))).expect("JSON");
    let thread = &profile["threads"][0];
    let strings = thread["stringArray"].as_array().expect("strings");
    let markers = &thread["markers"];
    let column = |name: &str| markers[name].as_array().expect("a column").clone();
    let names: Vec<&str> = column("name")
        .iter()
        .map(|name| {
            strings[usize::try_from(name.as_u64().expect("an index")).expect("it is small")]
                .as_str()
                .expect("a name")
        })
        .collect();
    let times = |name: &str| -> Vec<Option<f64>> { column(name).iter().map(Value::as_f64).collect() };
    let text = |at: usize| column("data")[at].to_string();
    let found: Vec<_> = names
        .iter()
        .zip(times("startTime"))
        .zip(times("endTime"))
        .map(|((name, start), end)| (*name, start, end))
        .collect();
    assert_eq!(
        found,
        [
            ("wait in system call 202", Some(2.0), Some(9.0)),
            ("mark", Some(3.0), found[1].2),
            ("lost", Some(4.0), Some(5.0)),
            ("lost", Some(7.0), Some(7.0)),
        ]
    );
    assert_eq!(column("data")[0]["ready"], 0.5);
    let string = |value: &Value| {
        value
            .as_u64()
            .map_or_else(|| value.to_string(), |at| strings[usize::try_from(at).expect("small")].to_string())
    };
    assert_eq!(string(&column("data")[0]["waker"]), "\"an interrupt\"");
    assert!(string(&column("data")[2]["text"]).contains("12 CPU samples"), "{}", text(2));
    assert_eq!(string(&column("data")[3]["text"]), "\"CPU samples\"");
}

#[test]
fn a_wait_in_perfetto_is_cut_where_the_thread_was_ready() {
    let mut capture = sampled(ModuleKind::Elf, "/bin/server", &["f"]);
    let wait = |start, end, ready: Option<u64>| Wait {
        tid: Tid(7),
        start: MonoNanos(start),
        end: MonoNanos(end),
        ready: ready.map(MonoNanos),
        waker: None,
        state: WaitState::Sleep,
        syscall: None,
        stack: Some(StackHandle(0)),
    };
    let trace = capture.timeline.as_mut().expect("a trace");
    trace.waits = vec![
        wait(50, 60, Some(50)),
        wait(10, 40, Some(30)),
        // Inside of another, without a length, and ready when it is over.
        wait(20, 35, None),
        wait(45, 45, None),
        wait(70, 80, Some(80)),
        wait(40, 44, None),
    ];
    let packets = packets(&export(Format::Perfetto, &capture));
    let events: Vec<_> = packets
        .iter()
        .filter_map(|packet| Some((packet.timestamp?, packet.track_event.as_ref()?)))
        .map(|(time, event)| (time, event.name.clone().unwrap_or_default()))
        .collect();
    let expected = [
        (10, "wait"),
        (30, ""),
        (30, "ready, no CPU"),
        (40, ""),
        (40, "wait"),
        (44, ""),
        (50, "wait"),
        (60, ""),
        (70, "wait"),
        (80, ""),
    ];
    assert_eq!(events, expected.map(|(time, name)| (time, name.to_owned())));
}

#[test]
fn pprof_says_when_how_long_and_of_what() {
    let capture = synthetic::capture();
    let profile = pprof::proto::Profile::decode(gunzip(&export(Format::Pprof, &capture)).as_slice())
        .expect("it decodes");
    let string = |index: i64| profile.string_table[usize::try_from(index).expect("an index")].as_str();
    let header = &capture.header;
    assert_eq!(i128::from(profile.time_nanos), header.start.wall_unix_nanos);
    assert_eq!(profile.duration_nanos, 60_000_000_000);
    let hertz = timeline(&capture).settings.frequency_hz;
    assert_eq!(profile.period, 1_000_000_000 / i64::from(hertz));
    assert_eq!(string(profile.default_sample_type), "cpu");
    assert_eq!(
        profile.comment.iter().map(|one| string(*one)).collect::<Vec<_>>(),
        ["biopsy 0.1.0 on mariadbd"]
    );
    // No text twice, and each address lies in its mapping.
    let texts: std::collections::BTreeSet<_> = profile.string_table.iter().collect();
    assert_eq!(texts.len(), profile.string_table.len());
    for location in profile.location.iter().filter(|one| one.mapping_id != 0) {
        let mapping = &profile.mapping[usize::try_from(location.mapping_id - 1).expect("an id")];
        assert!((mapping.memory_start..mapping.memory_limit).contains(&location.address));
    }
    for sample in &profile.sample {
        let number = |key: &str| sample.label.iter().find(|one| string(one.key) == key).map(|one| one.num);
        assert!(number("tid") > Some(0) && number("pid") > Some(0));
    }
}

#[test]
fn a_loss_of_unknown_size_has_no_count() {
    let mut capture = sampled(ModuleKind::Elf, "/bin/server", &["f"]);
    let loss = |kind, count| Loss { kind, from: MonoNanos(5), to: MonoNanos(9), count, pid: None, tid: None };
    capture.timeline.as_mut().expect("a trace").losses =
        vec![loss(LossKind::Waits, 0), loss(LossKind::Samples, 3)];
    let packets = packets(&export(Format::Perfetto, &capture));
    let events = packets.iter().filter_map(|packet| packet.track_event.as_ref());
    let notes: Vec<Vec<(String, String)>> = events
        .map(|event| {
            let notes = event.debug_annotations.iter();
            notes.filter_map(|one| Some((one.name.clone()?, one.string_value.clone()?))).collect()
        })
        .collect();
    let of = |notes: &[(&str, &str)]| {
        notes.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(notes, [of(&[("until", "9 ns")]), of(&[("count", "3"), ("until", "9 ns")])]);
}

#[test]
fn counters_of_perfetto_belong_to_their_process() {
    let mut capture = with_readings(&[
        (1, [Some(0.5), None, Some(100.0)]),
        (9, [Some(0.25), None, None]),
        (1, [Some(f64::NAN), None, Some(7.0)]),
    ]);
    let row = |values: Vec<Option<f64>>| MetricRow { time: MonoNanos(1), keys: Vec::new(), values };
    let column = Column { name: "cpu.user".to_owned(), unit: Unit::Cores };
    capture.metrics.push(MetricTable {
        name: "system".to_owned(),
        keys: Vec::new(),
        columns: vec![column],
        rows: vec![row(vec![Some(2.0)]), row(Vec::new())],
    });
    let packets = packets(&export(Format::Perfetto, &capture));
    let described = packets
        .iter()
        .filter_map(|packet| packet.track_descriptor.as_ref())
        .filter(|one| one.counter.is_some());
    let tracks: Vec<_> = described
        .map(|one| {
            (one.uuid, one.name.clone().expect("a name"), one.parent_uuid.map(|uuid| uuid & 0xffff_ffff))
        })
        .collect();
    let named: Vec<_> = tracks.iter().map(|(_, name, parent)| (name.as_str(), *parent)).collect();
    // Of process 9 nothing else is known: it has no track that they could be below.
    assert_eq!(
        named,
        [
            ("cpu.user", Some(1)),
            ("memory.rss", Some(1)),
            ("processes 9 cpu.user", None),
            ("system cpu.user", None)
        ]
    );
    let values = |at: usize| -> Vec<f64> {
        let events = packets
            .iter()
            .filter_map(|packet| packet.track_event.as_ref())
            .filter(|event| event.track_uuid == tracks[at].0);
        events.filter_map(|event| event.double_counter_value).collect()
    };
    assert_eq!([0, 1, 2, 3].map(values), [vec![0.5], vec![100.0, 7.0], vec![0.25], vec![2.0]]);
}

#[test]
fn lines_of_logs_are_in_perfetto_but_for_those_of_debugging() {
    let mut capture = sampled(ModuleKind::Elf, "/bin/server", &["f"]);
    let levels = [LogLevel::Unknown, LogLevel::Debug, LogLevel::Info, LogLevel::Warning, LogLevel::Error];
    let line =
        |(at, level)| LogLine { time: (at < 4).then_some(MonoNanos(at)), level, text: format!("{level:?}") };
    capture.logs.push(LogFile {
        source: "/var/log/app.log".to_owned(),
        member: String::new(),
        assumed_zone: String::new(),
        lines: (0..).zip(levels).map(line).collect(),
    });
    let packets = packets(&export(Format::Perfetto, &capture));
    let events = packets.iter().filter_map(|packet| packet.track_event.as_ref());
    // The last one has no time.
    assert_eq!(
        events.filter_map(|event| event.name.as_deref()).collect::<Vec<_>>(),
        ["Unknown", "Info", "Warning"]
    );
}
