//! What libraries tell of requests and commands: their own event sources, and diagnostic sources.

use super::*;
use biopsy_model::runtime_trace::{Sampled, SampledKind};

const HOSTING: &str = "Microsoft.AspNetCore.Hosting";
const IN: &str = "Microsoft.AspNetCore.Hosting.HttpRequestIn";
const OUT: &str = "System.Net.Http.HttpRequestOut";

/// An event of a diagnostic source with these arguments.
fn source<'s>(stream: &'s mut Stream, event: &str, name: &str, arguments: &[(&str, &str)]) -> &'s mut Stream {
    let text = |name: &str| Field { name: name.to_owned(), kind: FieldType::Text16 };
    let pair = FieldType::Object(vec![text("Key"), text("Value")]);
    let fields = [
        ("SourceName", FieldType::Text16),
        ("EventName", FieldType::Text16),
        ("Arguments", FieldType::Array(Box::new(pair))),
    ];
    stream.event("Microsoft-Diagnostics-DiagnosticSource", 2, event, &fields, 0);
    let mut parts = vec![Text("a source"), Text(name), U16(arguments.len() as u16)];
    parts.extend(arguments.iter().flat_map(|(key, value)| [Text(key), Text(value)]));
    stream.with(&parts)
}

#[test]
fn a_request_that_only_a_diagnostic_source_tells_of_has_route_status_and_trace() {
    let mut stream = Stream::new();
    let start = [
        ("Method", "GET"),
        ("Path", "/shop/77?key=hunter2"),
        ("Route", "/shop/{id}"),
        ("ActivityId", "00-aa-01"),
        ("ActivityTraceId", "aa"),
        // A value that is empty takes nothing away, and an unknown one is passed over.
        ("Method", ""),
        ("Colour", "blue"),
    ];
    source(&mut stream, "Event", &format!("{IN}.Start"), &start).at(100).by(5);
    // Ends on another thread: its id tells which it is.
    source(&mut stream, "Event", &format!("{IN}.Stop"), &[("ActivityId", "00-aa-01"), ("StatusCode", "404")]);
    stream.at(700).by(6);
    let trace = stream.collect();
    let [one] = trace.requests.items.as_slice() else { panic!("{:?}", trace.requests) };
    assert_eq!((one.start, one.duration, one.status), (MonoNanos(100), Some(Nanos(600)), Some(404)));
    assert_eq!((one.method.as_str(), one.path.as_str()), ("GET", "/shop/77"));
    assert_eq!((one.route.as_deref(), one.trace_id.as_deref()), (Some("/shop/{id}"), Some("aa")));
    let group = &trace.request_groups[0];
    assert_eq!((group.route.as_str(), group.count, group.failed), ("/shop/{id}", 1, 0));
}

#[test]
fn where_hosting_tells_of_a_request_a_diagnostic_source_only_adds_to_it() {
    let mut stream = Stream::new();
    stream.event(HOSTING, 3, "RequestStart", &texts(&["method", "path"]), 0).at(100).by(5);
    stream.in_activity(&[0x12]).with(&[Text("POST"), Text("/orders/1")]);
    let more = [("ActivityId", "00-bb-01"), ("TraceId", "bb"), ("http.route", "/orders/{n}")];
    source(&mut stream, "Event", &format!("{IN}.Start"), &more).at(105).by(5).in_activity(&[0x12, 0x10]);
    source(&mut stream, "Event", &format!("{IN}.Stop"), &[("Id", "00-bb-01"), ("StatusCode", "BadGateway")]);
    stream.at(300).by(9);
    // Its own stop comes a little later, and ends nothing more.
    stream.event(HOSTING, 4, "RequestStop", &[], 0).at(310).by(9).in_activity(&[0x12]);
    let trace = stream.collect();
    assert_eq!(trace.requests.total, 1);
    let one = &trace.requests.items[0];
    assert_eq!((one.start, one.duration, one.status), (MonoNanos(100), Some(Nanos(200)), Some(502)));
    assert_eq!((one.method.as_str(), one.route.as_deref()), ("POST", Some("/orders/{n}")));
    assert_eq!(one.trace_id.as_deref(), Some("bb"));
    assert_eq!(trace.request_groups[0].failed, 1);
}

#[test]
fn a_request_that_failed_in_the_application_counts_as_failed_when_it_ends() {
    let mut stream = Stream::new();
    for (number, fails) in [(1_u8, true), (2, false)] {
        let (at, path) = (u64::from(number) * 1000, [number << 4]);
        stream.event(HOSTING, 3, "RequestStart", &texts(&["method", "path"]), 0).at(at).in_activity(&path);
        stream.with(&[Text("GET"), Text("/")]);
        if fails {
            let inner = [number << 4 | 1];
            stream.event(HOSTING, 5, "UnhandledException", &[], 0).at(at + 1).in_activity(&inner);
        }
        stream.event(HOSTING, 4, "RequestStop", &[], 0).at(at + 9).in_activity(&path);
    }
    let trace = stream.collect();
    let statuses: Vec<_> = trace.requests.items.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [Some(500), None]);
    assert_eq!((trace.request_groups[0].count, trace.request_groups[0].failed), (2, 1));
}

#[test]
fn statuses_are_numbers_or_the_names_that_net_gives_them() {
    for (text, status) in [
        ("200", Some(200)),
        ("599", Some(599)),
        ("OK", Some(200)),
        ("Created", Some(201)),
        ("Accepted", Some(202)),
        ("NoContent", Some(204)),
        ("Moved", Some(301)),
        ("MovedPermanently", Some(301)),
        ("Found", Some(302)),
        ("Redirect", Some(302)),
        ("NotModified", Some(304)),
        ("BadRequest", Some(400)),
        ("Unauthorized", Some(401)),
        ("Forbidden", Some(403)),
        ("NotFound", Some(404)),
        ("Conflict", Some(409)),
        ("TooManyRequests", Some(429)),
        ("InternalServerError", Some(500)),
        ("BadGateway", Some(502)),
        ("ServiceUnavailable", Some(503)),
        ("GatewayTimeout", Some(504)),
        ("ok", None),
        ("65536", None),
        ("-1", None),
    ] {
        let mut stream = Stream::new();
        source(&mut stream, "Event", &format!("{IN}.Start"), &[("Path", "/")]).at(1);
        source(&mut stream, "Event", &format!("{IN}.Stop"), &[("StatusCode", text)]).at(2);
        assert_eq!(stream.collect().requests.items[0].status, status, "{text}");
    }
}

/// A request that `System.Net.Http` tells of, up to its stop.
fn sent(stream: &mut Stream, at: u64, path: &[u8]) {
    let mut fields = texts(&["scheme", "host"]);
    fields.push(("port", FieldType::Int(4)));
    fields.extend(texts(&["pathAndQuery"]));
    stream.event("System.Net.Http", 1, "RequestStart", &fields, 1).at(at).in_activity(path);
    stream.with(&[Text("https"), Text("api.test"), U32(8443), Text("/items/77?key=hunter2#x")]);
}

/// An event of it with a status.
fn answered<'s>(stream: &'s mut Stream, id: u32, name: &str, status: i32) -> &'s mut Stream {
    let fields = [("statusCode", FieldType::Int(4))];
    stream.event("System.Net.Http", id, name, &fields, 1).with(&[U32(status.cast_unsigned())])
}

#[test]
fn requests_that_are_sent_have_the_status_of_their_answer_or_none() {
    for (how, status, failed) in
        [("stop", 200, 0), ("headers", 503, 1), ("failed", 0, 1), ("minus one", 0, 1)]
    {
        let mut stream = Stream::new();
        stream.event(HOSTING, 3, "RequestStart", &texts(&["method", "path"]), 0).at(50).in_activity(&[0x12]);
        stream.with(&[Text("GET"), Text("/")]);
        sent(&mut stream, 100, &[0x12, 0x10]);
        match how {
            "stop" => _ = answered(&mut stream, 2, "RequestStop", 200).at(300).in_activity(&[0x12, 0x10]),
            "headers" => {
                // An activity of its own, within that of the request.
                answered(&mut stream, 8, "ResponseHeadersStop", 503).at(200).in_activity(&[0x12, 0x11]);
                let plain = stream.event("System.Net.Http", 2, "RequestStop", &[], 0);
                plain.at(300).in_activity(&[0x12, 0x10]);
            }
            "failed" => {
                stream
                    .event("System.Net.Http", 3, "RequestFailed", &[], 0)
                    .at(299)
                    .in_activity(&[0x12, 0x10]);
                answered(&mut stream, 2, "RequestStop", -1).at(300).in_activity(&[0x12, 0x10]);
            }
            _ => _ = answered(&mut stream, 2, "RequestStop", -1).at(300).in_activity(&[0x12, 0x10]),
        }
        stream.event(HOSTING, 4, "RequestStop", &[], 0).at(400).in_activity(&[0x12]);
        let trace = stream.collect();
        let [one] = trace.outgoing.items.as_slice() else { panic!("{how}: {:?}", trace.outgoing) };
        assert_eq!((one.duration, one.status), (Some(Nanos(200)), Some(status)), "{how}");
        assert_eq!(one.path, "https://api.test:8443/items/77", "{how}");
        let group = &trace.outgoing_groups[0];
        assert_eq!((group.route.as_str(), group.failed), ("api.test:8443/items/{}", failed), "{how}");
        assert_eq!(trace.requests.items[0].children, 1, "{how}");
    }
}

#[test]
fn who_a_request_is_sent_to_is_told_without_user_and_query() {
    for (url, host, path, route) in [
        ("http://api.test/items/9?x=1", "", "http://api.test/items/9", "api.test/items/{}"),
        ("https://me:hunter2@api.test:81/a", "", "https://api.test:81/a", "api.test:81/a"),
        ("https://api.test?token=1/2", "", "https://api.test", "api.test"),
        ("https://api.test#part/9", "", "https://api.test", "api.test"),
        ("https://10.0.0.1/v1/9", "api.test", "https://10.0.0.1/v1/9", "api.test/v1/{}"),
        ("/items/9", "", "/items/9", "/items/{}"),
    ] {
        let mut stream = Stream::new();
        let arguments = [("RequestUri", url), ("Host", host), ("http.request.method", "PUT")];
        source(&mut stream, "Event", &format!("{OUT}.Start"), &arguments).at(10);
        source(&mut stream, "Event", &format!("{OUT}.Stop"), &[("StatusCode", "OK")]).at(60);
        let mut plain = Collector::new(Pid(1), "test".to_owned(), &Limits::default(), str::to_owned);
        let bytes = stream.bytes();
        let mut reader = Reader::new(&bytes[..], &nettrace::Limits::default()).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            plain.event(&event);
        }
        let trace = plain.finish(&());
        let [one] = trace.outgoing.items.as_slice() else { panic!("{url}: {:?}", trace.outgoing) };
        assert_eq!((one.path.as_str(), one.route.as_deref()), (path, Some(route)), "{url}");
        assert_eq!((one.method.as_str(), one.status, one.duration), ("PUT", Some(200), Some(Nanos(50))));
        assert_eq!(trace.outgoing_groups[0].route, route);
    }
}

#[test]
fn where_the_client_tells_of_a_request_a_diagnostic_source_only_adds_to_it() {
    let mut stream = Stream::new();
    sent(&mut stream, 100, &[0x12]);
    let more = [("RequestUri", "https://other.test/"), ("ActivityId", "00-cc-01"), ("TraceId", "cc")];
    source(&mut stream, "ActivityStart", OUT, &more).at(101).in_activity(&[0x12, 0x10]);
    source(&mut stream, "ActivityStop", OUT, &[("ActivityId", "00-cc-01")]).at(400).by(7);
    let trace = stream.collect();
    let [one] = trace.outgoing.items.as_slice() else { panic!("{:?}", trace.outgoing) };
    assert_eq!((one.duration, one.trace_id.as_deref()), (Some(Nanos(300)), Some("cc")));
    assert_eq!(one.path, "https://api.test:8443/items/77");
}

#[test]
fn commands_are_told_by_diagnostic_sources_where_no_event_source_does() {
    const BEFORE: &str = "Microsoft.Data.SqlClient.WriteCommandBefore";
    let mut stream = Stream::new();
    let text = ("CommandText", "DELETE FROM T WHERE id = 7");
    for (id, at, end, how) in [
        ("one", 100, 130, "Microsoft.Data.SqlClient.WriteCommandAfter"),
        ("two", 105, 125, "Microsoft.Data.SqlClient.WriteCommandError"),
        ("three", 110, 190, "Microsoft.EntityFrameworkCore.Database.Command.CommandExecuted"),
        ("four", 115, 116, "Microsoft.EntityFrameworkCore.Database.Command.CommandError"),
    ] {
        let before = if id.len() > 3 { "X.Database.Command.CommandExecuting" } else { BEFORE };
        source(&mut stream, "Event", before, &[("OperationId", id), text]).at(at);
        source(&mut stream, "Event", how, &[("CommandId", id)]).at(end);
    }
    // Without an id nobody knows when it ends; others are none of these.
    source(&mut stream, "Event", BEFORE, &[text]).at(200);
    source(&mut stream, "Event", "Microsoft.Data.SqlClient.WriteConnectionOpenBefore", &[text]).at(201);
    source(&mut stream, "Event", &format!("{IN}.Failed"), &[]).at(202);
    let trace = stream.collect();
    let [group] = trace.command_groups.as_slice() else { panic!("{:?}", trace.command_groups) };
    assert_eq!((group.text.as_str(), group.source.as_str()), ("DELETE FROM T WHERE id = ?", ""));
    assert_eq!((group.count, group.failed, group.total, group.longest), (4, 2, Nanos(131), Nanos(80)));
    let durations: Vec<_> =
        trace.commands.items.iter().map(|one| (one.start.0, one.duration, one.failed)).collect();
    let took = |nanos| Some(Nanos(nanos));
    let wanted =
        [(100, took(30), false), (105, took(20), true), (110, took(80), false), (115, took(1), true)];
    assert_eq!(durations, wanted);
    assert_eq!(trace.requests.total + trace.outgoing.total, 0);
    // The event source tells the same commands, and more of them: only what it says counts.
    request(&mut stream, 1_000, 0x12, 2, true);
    source(&mut stream, "Event", BEFORE, &[("OperationId", "five"), text]).at(1_200);
    let trace = stream.collect();
    let [group] = trace.command_groups.as_slice() else { panic!("{:?}", trace.command_groups) };
    assert_eq!((group.source.as_str(), group.count), ("sql.test/Db", 2));
}

#[test]
fn commands_without_an_end_are_kept_and_more_than_can_be_followed_are_counted() {
    let sql = "Microsoft-AdoNet-SystemData";
    let fields = || {
        let mut fields = vec![("objectId", FieldType::Int(4))];
        fields.extend(texts(&["dataSource", "databaseName", "commandText", "message"]));
        fields
    };
    let mut stream = Stream::new();
    // The second with the number of the first: the end of the first was lost.
    for (at, id, server, database) in [
        (10, 1, "sql", "A"),
        (50, 1, "sql", ""),
        (60, 2, "", "B"),
        (70, 3, "", ""),
        (80, 4, "", ""),
        (90, 5, "", ""),
    ] {
        stream.event(sql, 1, "BeginExecute", &fields(), 0).at(at);
        stream.with(&[U32(id), Text(server), Text(database), Text("SELECT 1"), Text("")]);
    }
    // Nobody knows of that one.
    let end = [("objectId", FieldType::Int(4)), ("compositeState", FieldType::Int(4))];
    stream.event(sql, 2, "EndExecute", &end, 0).at(100).with(&[U32(77), U32(1)]);
    let trace = stream.collect_with(&Limits::small());
    assert_eq!((trace.commands.total, trace.commands.items.len()), (6, 4));
    let kept: Vec<_> = trace.commands.items.iter().map(|one| (one.start.0, one.source.as_str())).collect();
    // Of all that are open at the end, and the one that was replaced, those that took longest; the sixth was not followed.
    assert_eq!(kept, [(10, "sql/A"), (50, "sql"), (60, "B"), (70, "")]);
    assert!(trace.commands.items.iter().all(|one| one.duration.is_none() && !one.failed));
    let mut sources: Vec<_> =
        trace.command_groups.iter().map(|one| (one.source.as_str(), one.count)).collect();
    sources.sort_unstable();
    assert_eq!(sources, [("", 0), ("B", 0), ("sql", 0), ("sql/A", 0)], "none has ended");
}

#[test]
fn more_requests_at_a_time_than_are_followed_are_counted_and_open_ones_before_a_gap_are_forgotten() {
    let mut stream = Stream::new();
    for number in 0..7_u64 {
        let path = [0x10 + number as u8];
        stream.event(HOSTING, 3, "RequestStart", &texts(&["method", "path"]), 0).at(number * 10);
        stream.in_activity(&path).with(&[Text("GET"), Text("/")]);
    }
    let trace = stream.collect_with(&Limits::small());
    assert_eq!((trace.requests.total, trace.request_groups[0].unanswered), (7, 4));
    let bytes = stream.bytes();
    let mut reader = Reader::new(&bytes[..], &nettrace::Limits::default()).unwrap();
    let mut collector = Collector::new(Pid(1), "test".to_owned(), &Limits::default(), str::to_owned);
    assert_eq!(collector.span(), None);
    while let Some(event) = reader.next_event().unwrap() {
        collector.event(&event);
    }
    assert_eq!(collector.span(), Some((MonoNanos(0), MonoNanos(60))));
    let sampled = |what, to| Sampled {
        what,
        from: MonoNanos(0),
        to: MonoNanos(to),
        share: 0.5,
        why: "in turns".to_owned(),
    };
    collector.note_sampled(sampled(SampledKind::Requests, 20));
    collector.note_sampled(sampled(SampledKind::Requests, 30));
    collector.note_sampled(sampled(SampledKind::Counters, 60));
    collector.lost(3, 1, false);
    collector.lost(u64::MAX, 2, true);
    let trace = collector.finish(&());
    let starts: Vec<u64> = trace.requests.items.iter().map(|one| one.start.0).collect();
    assert_eq!(starts, [40, 50, 60], "of those before, the end may have been told while nobody listened");
    assert_eq!((trace.lost, trace.unknown, trace.cut, trace.sampled.len()), (u64::MAX, 3, true, 3));
}
