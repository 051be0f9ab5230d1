//! Events that the writer of test streams makes, collected.

mod decoded;
mod readings;
mod sources;

use super::{Collector, Limits};
use crate::nettrace::write::{EventRow, Writer, text16};
use crate::nettrace::{self, EventMetadata, Field, FieldType, Reader};
use biopsy_model::runtime_trace::{CollectionReason, RuntimeTrace, ThreadPoolChange};
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};
use proptest::prelude::*;

const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

/// A stream in the making: descriptions as they are needed, one thread.
struct Stream {
    descriptions: Vec<EventMetadata>,
    rows: Vec<EventRow>,
}

/// Parts of a payload.
enum Part<'a> {
    Text(&'a str),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    F64(f64),
}

use Part::{F64, Text, U8, U16, U32, U64};

impl Stream {
    fn new() -> Self {
        Self { descriptions: Vec::new(), rows: Vec::new() }
    }

    fn event(
        &mut self,
        provider: &str,
        id: u32,
        name: &str,
        fields: &[(&str, FieldType)],
        version: u32,
    ) -> &mut Self {
        let description = EventMetadata {
            provider: provider.to_owned(),
            id,
            name: name.to_owned(),
            version,
            fields: fields
                .iter()
                .map(|(name, kind)| Field { name: (*name).to_owned(), kind: kind.clone() })
                .collect(),
            ..EventMetadata::default()
        };
        let known = self.descriptions.iter().position(|known| *known == description);
        let number = known.unwrap_or_else(|| {
            self.descriptions.push(description);
            self.descriptions.len() - 1
        });
        let sequence = self.rows.len() as u32 + 1;
        self.rows.push(EventRow {
            metadata: number as u32 + 1,
            sequence,
            thread: 1,
            capture_thread: 1,
            ..EventRow::default()
        });
        self
    }

    fn runtime(&mut self, id: u32, version: u32) -> &mut Self {
        self.event(RUNTIME, id, "", &[], version)
    }

    fn last(&mut self) -> &mut EventRow {
        self.rows.last_mut().unwrap()
    }

    fn at(&mut self, ticks: u64) -> &mut Self {
        self.last().ticks = ticks;
        self
    }

    fn by(&mut self, thread: u64) -> &mut Self {
        self.last().thread = thread;
        self
    }

    fn in_activity(&mut self, path: &[u8]) -> &mut Self {
        self.last().activity[..path.len()].copy_from_slice(path);
        self
    }

    fn with(&mut self, parts: &[Part<'_>]) -> &mut Self {
        let payload = &mut self.last().payload;
        for part in parts {
            match part {
                Text(text) => text16(payload, text),
                U8(value) => payload.push(*value),
                U16(value) => payload.extend(value.to_le_bytes()),
                U32(value) => payload.extend(value.to_le_bytes()),
                U64(value) => payload.extend(value.to_le_bytes()),
                F64(value) => payload.extend(value.to_le_bytes()),
            }
        }
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(5);
        let all: Vec<_> =
            self.descriptions.iter().enumerate().map(|(at, one)| (at as u32 + 1, one)).collect();
        writer.metadata(&all);
        writer.stacks(1, &[vec![0x1000, 0x2001], vec![0x3000]]);
        writer.events(&self.rows, true);
        writer.finish()
    }

    fn collect(&self) -> RuntimeTrace {
        self.collect_with(&Limits::default())
    }

    fn collect_with(&self, limits: &Limits) -> RuntimeTrace {
        let bytes = self.bytes();
        let mut reader = Reader::new(&bytes[..], &nettrace::Limits::default()).unwrap();
        reader.sort_by_time(true);
        let hide = |text: &str| text.replace("hunter2", "[redacted]");
        let mut collector = Collector::new(Pid(4711), "test".to_owned(), limits, hide);
        while let Some(event) = reader.next_event().unwrap() {
            collector.event(&event);
        }
        collector.lost(reader.lost(), reader.unknown(), false);
        collector.finish(&())
    }
}

#[test]
fn a_collection_has_its_pause_reason_and_sizes() {
    let mut stream = Stream::new();
    stream.runtime(9, 1).at(100).with(&[U32(1), U32(7), U16(0)]);
    stream.runtime(1, 2).at(110).with(&[U32(7), U32(1), U32(4), U32(0), U16(0), U64(0)]);
    stream.runtime(2, 1).at(150).with(&[U32(7), U32(1), U16(0)]);
    let stats: Vec<Part<'_>> = (1..=8).map(|number| U64(number * 10)).collect();
    stream.runtime(4, 2).at(151).with(&stats);
    stream.with(&[U64(0), U64(0), U32(3), U32(0), U32(0), U16(0), U64(90), U64(100)]);
    stream.runtime(3, 1).at(160).with(&[U16(0)]);
    // A suspension that is no collection (a debugger, for example).
    stream.runtime(9, 1).at(200).with(&[U32(5), U32(7), U16(0)]);
    stream.runtime(3, 1).at(900).with(&[U16(0)]);
    let trace = stream.collect();
    assert_eq!(trace.collections.total, 1);
    let gc = &trace.collections.items[0];
    assert_eq!((gc.number, gc.generation, &gc.reason), (7, 1, &CollectionReason::LargeObjects));
    assert_eq!((gc.start, gc.end), (MonoNanos(110), Some(MonoNanos(150))));
    assert_eq!((gc.pause, gc.longest_pause), (Nanos(60), Nanos(60)));
    assert_eq!(gc.sizes_after, Some([10, 30, 50, 70, 90]));
    assert_eq!((gc.promoted, gc.pinned), (Some(20 + 40 + 60 + 80 + 100), Some(3)));
}

/// As a stream of .NET Core 3.0 with samples has it: the sampling profiler says that it suspends, and waits for the collection.
#[test]
fn a_suspension_of_another_thread_meanwhile_hides_no_pause() {
    let mut stream = Stream::new();
    stream.runtime(9, 1).at(100).with(&[U32(1), U32(7), U16(0)]);
    stream.runtime(9, 1).at(105).by(77).with(&[U32(0), U32(0), U16(0)]);
    stream.runtime(1, 2).at(110).with(&[U32(7), U32(0), U32(0), U32(0), U16(0), U64(0)]);
    stream.runtime(2, 1).at(150).with(&[U32(7), U32(0), U16(0)]);
    stream.runtime(3, 1).at(160).with(&[U16(0)]);
    stream.runtime(3, 1).at(190).by(77).with(&[U16(0)]);
    let trace = stream.collect();
    let pauses: Vec<_> = trace.collections.items.iter().map(|gc| (gc.number, gc.pause)).collect();
    assert_eq!(pauses, [(7, Nanos(60))]);
}

#[test]
fn pauses_of_a_background_collection_and_of_one_in_between_are_told_apart() {
    let mut stream = Stream::new();
    let suspend = [U32(1), U32(0), U16(0)];
    let start = |number, kind| [U32(number), U32(2), U32(0), U32(kind), U16(0), U64(0)];
    stream.runtime(9, 1).at(10).with(&suspend);
    stream.runtime(1, 2).at(12).with(&start(1, 1));
    stream.runtime(3, 1).at(20).with(&[U16(0)]);
    stream.runtime(9, 1).at(30).with(&suspend);
    stream.runtime(1, 2).at(32).with(&start(2, 2));
    stream.runtime(2, 1).at(36).with(&[U32(2), U32(0), U16(0)]);
    stream.runtime(3, 1).at(40).with(&[U16(0)]);
    stream.runtime(9, 1).at(50).with(&[U32(6), U32(0), U16(0)]);
    stream.runtime(3, 1).at(55).with(&[U16(0)]);
    stream.runtime(2, 1).at(60).with(&[U32(1), U32(2), U16(0)]);
    let trace = stream.collect();
    let pauses: Vec<_> = trace
        .collections
        .items
        .iter()
        .map(|gc| (gc.number, gc.background, gc.pause.0, gc.longest_pause.0))
        .collect();
    assert_eq!(pauses, [(1, true, 10 + 5, 10), (2, false, 10, 10)]);
    assert!(trace.collections.items.iter().all(|gc| gc.end.is_some()));
}

#[test]
fn exceptions_are_grouped_redacted_and_counted_beyond_every_limit() {
    let mut stream = Stream::new();
    for index in 0..50_u64 {
        let message = if index % 2 == 0 { "password=hunter2" } else { "other" };
        stream.runtime(80, 1).at(index).by(9);
        stream.with(&[
            Text("System.FormatException"),
            Text(message),
            U64(0),
            U32(0x8013_1537),
            U16(16),
            U16(0),
        ]);
        stream.last().stack = 1 + (index % 2) as u32;
    }
    for limits in [Limits::default(), Limits::small()] {
        let trace = stream.collect_with(&limits);
        assert_eq!(trace.exceptions.total, 50);
        let groups: Vec<_> =
            trace.exception_groups.iter().map(|group| (group.message.as_str(), group.count)).collect();
        assert_eq!(groups, [("password=[redacted]", 25), ("other", 25)]);
        assert_eq!(
            (trace.exception_groups[0].first, trace.exception_groups[0].last),
            (MonoNanos(0), MonoNanos(48))
        );
        assert_eq!(trace.exceptions.items.len(), limits.items.min(50));
        assert_eq!((trace.exceptions.items[0].tid, trace.exceptions.items[0].code), (Tid(9), 0x8013_1537));
        let stack = &trace.stacks[trace.exception_groups[0].stack.unwrap().0 as usize];
        let names: Vec<_> =
            stack.iter().map(|frame| trace.functions[*frame as usize].name.as_str()).collect();
        assert_eq!(names, ["0x1000", "0x2000"], "callers are where they call from");
    }
}

#[test]
fn more_groups_than_are_kept_are_one_group() {
    let mut stream = Stream::new();
    for index in 0..20_u64 {
        let name = format!("App.Error{index}");
        stream.runtime(80, 1).at(index).with(&[Text(&name), Text(""), U64(0), U32(1), U16(0), U16(0)]);
    }
    let trace = stream.collect_with(&Limits::small());
    assert_eq!(trace.exception_groups.len(), 5);
    assert_eq!(trace.exception_groups.iter().map(|group| group.count).sum::<u64>(), 20);
    assert!(trace.exception_groups.iter().any(|group| group.type_name == "(others)" && group.count == 16));
}

#[test]
fn contention_has_lock_owner_and_time_also_where_an_end_is_missing() {
    let mut stream = Stream::new();
    stream.runtime(81, 2).at(100).by(5).with(&[U8(0), U16(0), U64(0xabc), U64(0xdef), U64(77)]);
    stream.runtime(91, 1).at(400).by(5).with(&[U8(0), U16(0), F64(250.0)]);
    stream.runtime(91, 1).at(500).by(6).with(&[U8(0), U16(0), F64(450.0)]);
    stream.runtime(81, 1).at(600).by(7).with(&[U8(0), U16(0)]);
    stream.runtime(50, 0).at(1000).with(&[U32(3), U32(0), U16(0)]);
    let trace = stream.collect();
    let found: Vec<_> = trace
        .contentions
        .items
        .iter()
        .map(|one| (one.tid.0, one.start.0, one.duration.0, one.lock, one.owner))
        .collect();
    assert_eq!(
        found,
        [(6, 50, 450, None, None), (5, 100, 250, Some(0xabc), Some(Tid(77))), (7, 600, 400, None, None),]
    );
    assert_eq!(trace.contention_groups[0].total, Nanos(1_100));
}

#[test]
fn the_thread_pool_says_why() {
    let mut stream = Stream::new();
    stream.runtime(55, 0).at(5).with(&[F64(12.5), U32(9), U32(6), U16(0)]);
    let trace = stream.collect();
    let event = &trace.thread_pool.items[0];
    assert_eq!(event.threads, Some(9));
    let reason = ThreadPoolChange::Adjusted { reason: "Starvation".to_owned(), throughput: Some(12.5) };
    assert_eq!(event.kind, reason);
}

fn texts(names: &[&'static str]) -> Vec<(&'static str, FieldType)> {
    names.iter().map(|name| (*name, FieldType::Text16)).collect()
}

/// A request with commands, which begins on thread 1, is continued on thread 2 and ends on thread 3.
fn request(stream: &mut Stream, start: u64, root: u8, commands: u32, activities: bool) {
    let hosting = "Microsoft.AspNetCore.Hosting";
    let sql = "Microsoft.Data.SqlClient.EventSource";
    let path: &[u8] = if activities { &[root] } else { &[] };
    let inner: &[u8] = if activities { &[root, 0x10] } else { &[] };
    let ids = [("objectId", FieldType::Int(4))];
    let mut begin = ids.to_vec();
    begin.extend(texts(&["dataSource", "databaseName", "commandText", "message"]));
    let mut end = ids.to_vec();
    end.extend([("compositestate", FieldType::Int(4)), ("sqlExceptionNumber", FieldType::Int(4))]);
    let url = format!("/api/releases/{start}?key=hunter2");
    stream.event(hosting, 3, "RequestStart", &texts(&["method", "path"]), 0).at(start).in_activity(path);
    stream.with(&[Text("GET"), Text(&url)]);
    for number in 0..commands {
        let time = start + 10 + u64::from(number) * 10;
        let id = start as u32 + number;
        let text = format!("SELECT * FROM T WHERE id = {number} AND name = 'hunter2'");
        let thread = if activities { 2 } else { 1 };
        stream.event(sql, 1, "BeginExecute", &begin, 0).at(time).by(thread).in_activity(inner);
        stream.with(&[U32(id), Text("sql.test"), Text("Db"), Text(&text), Text("")]);
        stream.event(sql, 2, "EndExecute", &end, 0).at(time + 4).by(3);
        stream.with(&[U32(id), U32(if number == 0 { 2 } else { 1 }), U32(0)]);
    }
    let thread = if activities { 3 } else { 1 };
    stream.event(hosting, 4, "RequestStop", &[], 0).at(start + 100_000).by(thread).in_activity(path);
}

#[test]
fn commands_of_a_request_are_counted_through_its_activity() {
    let mut stream = Stream::new();
    // Two at the same time: only activities can tell whose command is whose.
    request(&mut stream, 1_000, 0x12, 5, true);
    request(&mut stream, 1_005, 0x13, 2, true);
    let trace = stream.collect();
    assert_eq!(trace.requests.total, 2);
    let children: Vec<_> =
        trace.requests.items.iter().map(|one| (one.start.0, one.children, one.duration)).collect();
    assert_eq!(children, [(1_000, 5, Some(Nanos(100_000))), (1_005, 2, Some(Nanos(100_000)))]);
    assert_eq!(trace.requests.items[0].path, "/api/releases/1000", "without the query");
    let group = &trace.request_groups[0];
    assert_eq!((group.method.as_str(), group.route.as_str(), group.count), ("GET", "/api/releases/{}", 2));
    assert_eq!((group.children, group.total), ((7, 5), Nanos(200_000)));
    assert_eq!(group.durations.iter().sum::<u32>(), 2);
    assert_eq!(group.durations[7], 2, "100 µs are below 128 and not below 64");
    let command = &trace.command_groups[0];
    assert_eq!(command.text, "SELECT * FROM T WHERE id = ? AND name = ?");
    assert_eq!((command.source.as_str(), command.count, command.failed), ("sql.test/Db", 7, 2));
    assert_eq!(command.most_in_one_request, 5);
    assert_eq!(trace.commands.items.iter().filter(|one| one.failed).count(), 2);
}

#[test]
fn without_activities_the_thread_tells_whose_command_it_is() {
    let mut stream = Stream::new();
    request(&mut stream, 1_000, 0, 3, false);
    let trace = stream.collect();
    assert_eq!((trace.requests.items[0].children, trace.command_groups[0].most_in_one_request), (3, 3));
}

#[test]
fn requests_that_never_end_are_told_as_such() {
    let mut stream = Stream::new();
    request(&mut stream, 1_000, 0x12, 1, true);
    stream.rows.pop();
    let trace = stream.collect();
    assert_eq!((trace.requests.total, trace.requests.items[0].duration), (1, None));
    assert_eq!((trace.request_groups[0].count, trace.request_groups[0].unanswered), (0, 1));
}

#[test]
fn one_message_in_two_forms_is_one_and_brings_its_exception() {
    let logging = "Microsoft-Extensions-Logging";
    let mut head = vec![("Level", FieldType::Int(4)), ("FactoryID", FieldType::Int(4))];
    head.extend(texts(&["LoggerName"]));
    head.push(("EventId", FieldType::Int(4)));
    let mut formatted = head.clone();
    formatted.extend(texts(&["EventName", "FormattedMessage"]));
    let mut json = head;
    json.extend(texts(&["EventName", "ExceptionJson", "ArgumentsJson"]));
    let mut stream = Stream::new();
    let exception = r#"{"TypeName":"App.Broken","Message":"at hunter2","HResult":1}"#;
    let arguments = r#"{"Id":"7","{OriginalFormat}":"Lost {Id} of {Total}"}"#;
    for (thread, with_formatted) in [(1, true), (2, false)] {
        if with_formatted {
            stream.event(logging, 1, "FormattedMessage", &formatted, 0).at(10).by(thread);
            stream.with(&[U32(4), U32(1), Text("App.Worker"), U32(5), Text("Lost"), Text("Lost 7 hunter2")]);
        }
        stream.event(logging, 5, "MessageJson", &json, 0).at(11).by(thread);
        stream.with(&[
            U32(4),
            U32(1),
            Text("App.Worker"),
            U32(5),
            Text("Lost"),
            Text(exception),
            Text(arguments),
        ]);
    }
    let trace = stream.collect();
    assert_eq!(trace.messages.total, 2);
    let seen: Vec<_> =
        trace.messages.items.iter().map(|one| (one.text.as_str(), one.exception.as_deref())).collect();
    let exception = Some("App.Broken: at [redacted]");
    assert_eq!(seen, [("Lost 7 [redacted]", exception), ("Lost 7 of {Total}", exception)]);
    assert_eq!(trace.messages.items[0].event.as_deref(), Some("Lost (5)"));
    assert_eq!((trace.message_groups[0].level_name.as_str(), trace.message_groups[0].count), ("Error", 2));
}

#[test]
fn counters_and_meters_are_one_table() {
    let inside = FieldType::Object(
        [("Name", FieldType::Text16), ("Increment", FieldType::Double), ("IntervalSec", FieldType::Single)]
            .map(|(name, kind)| Field { name: name.to_owned(), kind })
            .to_vec(),
    );
    let outer = FieldType::Object(vec![Field { name: "Payload".to_owned(), kind: inside }]);
    let mut stream = Stream::new();
    stream.event("System.Runtime", 1, "EventCounters", &[("", outer)], 0).at(5);
    stream.with(&[Text("alloc-rate"), F64(500.0), U32(2_f32.to_bits())]);
    let fields =
        texts(&["sessionId", "meterName", "meterVersion", "instrumentName", "unit", "tags", "quantiles"]);
    stream.event("System.Diagnostics.Metrics", 6, "HistogramValuePublished", &fields, 1).at(6);
    stream.with(&[Text("1"), Text("App"), Text(""), Text("time"), Text("ms"), Text("kind=hunter2")]);
    stream.with(&[Text("0.5=1.5;0.95=9;0.99=")]);
    let trace = stream.collect();
    let table = &trace.counters[0];
    let row = |at: usize| (table.rows[at].keys.join("|"), table.rows[at].values.clone());
    let none = None;
    assert_eq!(
        row(0),
        (
            "4711|System.Runtime|alloc-rate|".to_owned(),
            vec![Some(500.0), Some(250.0), none, none, none, none, none, none],
        )
    );
    assert_eq!(
        row(1),
        (
            "4711|App|time{kind=[redacted]}|ms".to_owned(),
            vec![none, none, none, none, Some(1.5), Some(9.0), none, none],
        )
    );
}

#[test]
fn payloads_that_are_too_short_or_of_later_versions_are_tolerated() {
    let mut stream = Stream::new();
    stream.runtime(1, 2).at(1).with(&[U32(7)]);
    stream.runtime(80, 1).at(2).with(&[U16(65)]);
    stream.runtime(1, 99).at(3).with(&[U32(8), U32(0), U32(1), U32(0), U16(0), U64(0), U64(1)]);
    let trace = stream.collect();
    assert_eq!(trace.unknown, 2);
    assert_eq!(trace.collections.items[0].number, 8);
    let counts: Vec<_> = trace.providers.iter().map(|one| (one.event.as_str(), one.count)).collect();
    assert_eq!(counts, [("ExceptionThrown_V1 (80)", 1), ("GCStart_V2 (1)", 1), ("GCStart_V99 (1)", 1)]);
}

proptest! {
    #[test]
    fn any_payload_of_any_event_is_survived(events in prop::collection::vec((0_u32..310, 0_u32..5, prop::collection::vec(any::<u8>(), 0..60), any::<u64>()), 0..60)) {
        let mut stream = Stream::new();
        for (id, version, payload, ticks) in &events {
            stream.runtime(*id, *version).at(*ticks);
            stream.last().payload = payload.clone();
        }
        let trace = stream.collect_with(&Limits::small());
        prop_assert_eq!(trace.providers.iter().map(|one| one.count).sum::<u64>(), events.len() as u64);
    }
}
