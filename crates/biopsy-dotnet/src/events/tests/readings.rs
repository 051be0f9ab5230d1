//! Counters, meters, messages, and names of events.

use super::*;
use crate::events::names::event_name;
use biopsy_model::log::LogLevel;
use biopsy_model::runtime_trace::SampledKind;

/// An object of an event counter: texts and numbers, deep inside of so many objects.
fn counter(stream: &mut Stream, at: u64, depth: usize, fields: &[(&str, Part<'_>)]) {
    let field = |name: &str, kind: FieldType| Field { name: name.to_owned(), kind };
    let described = fields.iter().map(|(name, part)| {
        field(name, if matches!(part, Text(_)) { FieldType::Text16 } else { FieldType::Double })
    });
    let mut kind = FieldType::Object(described.collect());
    for _ in 1..depth {
        kind = FieldType::Object(vec![field("Payload", kind)]);
    }
    stream.event("App.Counters", 1, "EventCounters", &[("", kind)], 0).at(at);
    for (_, part) in fields {
        match part {
            Text(text) => stream.with(&[Text(text)]),
            F64(value) => stream.with(&[F64(*value)]),
            _ => panic!("texts and numbers"),
        };
    }
}

/// Key and values of each reading.
fn readings(stream: &Stream) -> Vec<(String, Vec<Option<f64>>)> {
    let tables = stream.collect().counters;
    let rows = tables.into_iter().flat_map(|table| table.rows);
    rows.map(|row| (row.keys[1..].join("|"), row.values)).collect()
}

#[test]
fn readings_of_counters_are_means_with_bounds_or_what_came_in_an_interval() {
    let none: Option<f64> = None;
    for (fields, key, values) in [
        (
            vec![
                ("Name", Text("wait")),
                ("Mean", F64(2.0)),
                ("Min", F64(1.0)),
                ("Max", F64(4.0)),
                ("Count", F64(3.0)),
            ],
            "App.Counters|wait|",
            [Some(2.0), none, Some(1.0), Some(4.0), none, none, none, Some(3.0)],
        ),
        // Nothing was measured: the bounds are those of nothing.
        (
            vec![
                ("Name", Text("wait")),
                ("Mean", F64(0.0)),
                ("Min", F64(f64::INFINITY)),
                ("Count", F64(0.0)),
            ],
            "App.Counters|wait|",
            [none, none, none, none, none, none, none, Some(0.0)],
        ),
        (
            vec![
                ("Name", Text("hits")),
                ("Increment", F64(10.0)),
                ("IntervalSec", F64(4.0)),
                ("Max", F64(9.0)),
            ],
            "App.Counters|hits|",
            [Some(10.0), Some(2.5), none, none, none, none, none, none],
        ),
        // An interval without length tells no rate.
        (
            vec![("Increment", F64(10.0)), ("IntervalSec", F64(0.0)), ("Name", Text("hits"))],
            "App.Counters|hits|",
            [Some(10.0), none, none, none, none, none, none, none],
        ),
        (
            vec![
                ("Name", Text("size")),
                ("DisplayUnits", Text("MB")),
                ("Metadata", Text("disk:a")),
                ("Mean", F64(f64::NAN)),
            ],
            "App.Counters|size{disk:a}|MB",
            [none; 8],
        ),
    ] {
        let mut stream = Stream::new();
        counter(&mut stream, 5, 2, &fields);
        assert_eq!(readings(&stream), [(key.to_owned(), values.to_vec())]);
    }
    let named = |depth| {
        let mut stream = Stream::new();
        counter(&mut stream, 5, depth, &[("Name", Text("deep"))]);
        readings(&stream).len()
    };
    assert_eq!([1, 2, 6, 7].map(named), [1; 4], "as deep as objects are read");
    let mut stream = Stream::new();
    counter(&mut stream, 5, 2, &[("Mean", F64(1.0))]);
    assert!(readings(&stream).is_empty(), "a counter without a name");
}

#[test]
fn readings_of_meters_are_numbers_in_text() {
    let none: Option<f64> = None;
    let read = |event: &str, fields: &[(&'static str, &str)]| {
        let mut stream = Stream::new();
        let names: Vec<&'static str> = fields.iter().map(|(name, _)| *name).collect();
        stream.event("System.Diagnostics.Metrics", 4, event, &texts(&names), 1).at(5);
        fields.iter().for_each(|(_, value)| _ = stream.with(&[Text(value)]));
        readings(&stream)
    };
    let of = |rest: &[(&'static str, &'static str)]| {
        let head = [("meterName", "App"), ("instrumentName", "jobs"), ("unit", "{job}"), ("tags", "")];
        [&head[..], rest].concat()
    };
    for (event, fields, values) in [
        ("CounterRateValuePublished", of(&[("rate", "7"), ("value", "30")]), [Some(30.0), Some(7.0)]),
        ("UpDownCounterRateValuePublished", of(&[("rate", "-2"), ("value", "5")]), [Some(5.0), Some(-2.0)]),
        ("CounterRateValuePublished", of(&[("rate", "")]), [none, none]),
        // A gauge has no rate, whatever it says.
        ("GaugeValuePublished", of(&[("lastValue", "0.25"), ("rate", "9")]), [Some(0.25), none]),
        ("GaugeValuePublished", of(&[("lastValue", "Infinity")]), [none, none]),
        ("GaugeValuePublished", of(&[("lastValue", "1,5")]), [none, none]),
    ] {
        let found = read(event, &fields);
        let wanted = [values.to_vec(), vec![none; 6]].concat();
        assert_eq!(found, [("App|jobs|{job}".to_owned(), wanted)], "{event}");
    }
    let histogram =
        of(&[("quantiles", " 0.5 = 1;0.95=2;0.99= x;0.999=4;;=5"), ("count", "12"), ("sum", "30.5")]);
    let wanted = vec![Some(30.5), none, none, none, Some(1.0), Some(2.0), none, Some(12.0)];
    assert_eq!(read("HistogramValuePublished", &histogram), [("App|jobs|{job}".to_owned(), wanted)]);
    for other in ["BeginInstrumentReporting", "TimeSeriesLimitReached", "Error"] {
        assert!(read(other, &of(&[("value", "1")])).is_empty(), "{other}");
    }
}

#[test]
fn readings_above_the_limit_are_said_to_be_missing() {
    let mut stream = Stream::new();
    (0..20).for_each(|at| counter(&mut stream, at, 2, &[("Name", Text("n")), ("Mean", F64(1.0))]));
    let trace = stream.collect_with(&Limits::small());
    assert_eq!(trace.counters[0].rows.len(), 16);
    let [sampled] = trace.sampled.as_slice() else { panic!("{:?}", trace.sampled) };
    assert_eq!(
        (&sampled.what, sampled.from, sampled.to),
        (&SampledKind::Counters, MonoNanos(0), MonoNanos(19))
    );
    assert_eq!((sampled.share, sampled.why.as_str()), (0.0, "4 readings above the limit of 16"));
    assert!(stream.collect().sampled.is_empty());
}

#[test]
fn methods_that_were_compiled_are_counted_by_a_counter_where_no_event_tells_of_them() {
    let mut stream = Stream::new();
    let field = |name: &str, kind: FieldType| Field { name: name.to_owned(), kind };
    let mut read = |at: u64, name: &str, value: f64| {
        let kind =
            FieldType::Object(vec![field("Name", FieldType::Text16), field("Mean", FieldType::Double)]);
        stream
            .event("System.Runtime", 1, "EventCounters", &[("", kind)], 0)
            .at(at)
            .with(&[Text(name), F64(value)]);
    };
    // One rises from the start of the process on; the other is of an interval.
    for (at, methods, millis) in [(10, 4000.0, 1.5), (20, 4100.0, 0.0), (30, 4250.0, 2.0)] {
        read(at, "methods-jitted-count", methods);
        read(at, "time-in-jit", millis);
        read(at, "other", 99.0);
    }
    let compiled = stream.collect().compiled;
    assert_eq!((compiled.methods, compiled.time), (250, Nanos(3_500_000)));
    let load = [U64(1), U64(0), U64(0), U32(100), U32(0), U32(8)];
    stream.runtime(143, 1).at(40).with(&load);
    assert_eq!(stream.collect().compiled.methods, 1, "what events tell counts");
}

/// A message of these forms, all events on one thread.
fn message(stream: &mut Stream, at: u64, thread: u64, level: u32, category: &str, forms: &[&str]) {
    let head = || {
        vec![("Level", FieldType::Int(4)), ("LoggerName", FieldType::Text16), ("EventId", FieldType::Int(4))]
    };
    for form in forms {
        let mut fields = head();
        match *form {
            "FormattedMessage" => fields.extend(texts(&["EventName", "FormattedMessage"])),
            _ => fields.extend(texts(&["EventName", "ExceptionJson", "ArgumentsJson"])),
        }
        stream.event("Microsoft-Extensions-Logging", 1, form, &fields, 0).at(at).by(thread);
        stream.with(&[U32(level), Text(category), U32(0), Text("")]);
        match *form {
            "FormattedMessage" => stream.with(&[Text("formatted")]),
            _ => stream
                .with(&[Text("{}"), Text(r#"{"{OriginalFormat}":"of {N:x} and {M} {","N":7,"M":null}"#)]),
        };
    }
}

#[test]
fn a_message_is_one_however_many_forms_it_comes_in() {
    const ALL: [&str; 3] = ["FormattedMessage", "Message", "MessageJson"];
    for (forms, count) in [
        (&ALL[..], 1),
        (&ALL[..2], 1),
        (&ALL[1..], 1),
        (&["FormattedMessage", "MessageJson"], 1),
        (&["FormattedMessage", "FormattedMessage"], 2),
        (&["Message", "Message"], 2),
        (&["MessageJson", "MessageJson"], 2),
        (&["MessageJson", "Message"], 2),
        (&["Message", "FormattedMessage"], 2),
    ] {
        let mut stream = Stream::new();
        message(&mut stream, 5, 1, 2, "App", forms);
        assert_eq!(stream.collect().messages.total, count, "{forms:?}");
    }
    // Of another thread, and of another category, it is another one.
    let mut stream = Stream::new();
    message(&mut stream, 5, 1, 2, "App", &["FormattedMessage"]);
    message(&mut stream, 6, 2, 2, "App", &["MessageJson"]);
    message(&mut stream, 7, 1, 2, "Other", &["MessageJson"]);
    let trace = stream.collect();
    assert_eq!(trace.messages.total, 3);
    let said: Vec<&str> = trace.messages.items.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(
        said,
        ["formatted", "of 7 and null {", "of 7 and null {"],
        "the text is made of template and arguments"
    );
    assert!(trace.messages.items.iter().all(|one| one.event.is_none() && one.exception.is_none()));
}

#[test]
fn levels_have_their_names_and_bad_messages_push_out_others() {
    let mut stream = Stream::new();
    for (number, level) in [0, 1, 2, 3, 4, 5, 6, 7, u32::MAX].into_iter().enumerate() {
        message(&mut stream, number as u64, number as u64, level, "App", &["FormattedMessage"]);
    }
    let trace = stream.collect();
    let levels: Vec<_> =
        trace.messages.items.iter().map(|one| (one.level_name.as_str(), one.level)).collect();
    let unknown = ("None", LogLevel::Unknown);
    assert_eq!(
        levels,
        [
            ("Trace", LogLevel::Debug),
            ("Debug", LogLevel::Debug),
            ("Information", LogLevel::Info),
            ("Warning", LogLevel::Warning),
            ("Error", LogLevel::Error),
            ("Critical", LogLevel::Error),
            unknown,
            unknown,
            unknown,
        ]
    );
    // Four are kept: all of the three bad ones, and the last of the others.
    let trace = stream.collect_with(&Limits::small());
    let kept: Vec<_> = trace.messages.items.iter().map(|one| one.time.0).collect();
    assert_eq!((kept, trace.messages.total), (vec![3, 4, 5, 8], 9));
    // Four groups and one for the rest; each message is in one.
    let groups: Vec<_> = trace
        .message_groups
        .iter()
        .map(|one| (one.category.as_str(), one.level_name.as_str(), one.count))
        .collect();
    assert_eq!(
        groups,
        [
            ("(others)", "", 5),
            ("App", "Debug", 1),
            ("App", "Information", 1),
            ("App", "Trace", 1),
            ("App", "Warning", 1),
        ]
    );
}

#[test]
fn events_are_named_by_themselves_or_by_the_manifest_of_their_provider() {
    const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";
    for (provider, id, version, name, shown) in [
        (RUNTIME, 1, 0, "", "GCStart (1)"),
        (RUNTIME, 1, 2, "", "GCStart_V2 (1)"),
        (RUNTIME, 1, 2, "Own", "Own (1)"),
        (RUNTIME, 303, 0, "", "AllocationSampled (303)"),
        (RUNTIME, 9999, 3, "", "(9999)"),
        // One number, another provider, another event.
        (RUNDOWN, 10, 1, "", "GCSettingsRundown_V1 (10)"),
        (RUNDOWN, 144, 2, "", "MethodDCEndVerbose_V2 (144)"),
        (RUNDOWN, 187, 0, "", "RuntimeInformationDCStart (187)"),
        (RUNDOWN, 1, 0, "", "(1)"),
        ("Microsoft-DotNETCore-SampleProfiler", 0, 0, "", "ThreadSample (0)"),
        ("App", 1, 0, "", "(1)"),
    ] {
        let metadata = EventMetadata {
            provider: provider.to_owned(),
            id,
            version,
            name: name.to_owned(),
            ..EventMetadata::default()
        };
        assert_eq!(event_name(&metadata), shown, "{provider} {id}");
    }
}

#[test]
fn a_process_that_only_the_stream_names_is_that_of_its_counters_too() {
    let mut stream = Stream::new();
    counter(&mut stream, 5, 2, &[("Name", Text("n")), ("Mean", F64(1.0))]);
    let fields = texts(&["CommandLine", "OSInformation"]);
    stream.event("Microsoft-DotNETCore-EventPipe", 1, "ProcessInfo", &fields, 1).at(6);
    stream.with(&[Text("dotnet exec /app/Shop.dll --key hunter2"), Text("Linux")]);
    let bytes = stream.bytes();
    let mut reader = Reader::new(&bytes[..], &nettrace::Limits::default()).unwrap();
    let mut collector = Collector::new(Pid(0), "a file".to_owned(), &Limits::default(), str::to_owned);
    while let Some(event) = reader.next_event().unwrap() {
        collector.event(&event);
    }
    let trace = collector.finish(&());
    assert_eq!((trace.pid, trace.counters[0].rows[0].keys[0].as_str()), (Pid(4711), "4711"));
    assert_eq!(trace.runtime.entry.as_deref(), Some("Shop.dll"));
}
