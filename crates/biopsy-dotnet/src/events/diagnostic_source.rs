//! `Microsoft-Diagnostics-DiagnosticSource`: what libraries tell in structures, as lists of key and value.
//!
//! Which events and which parts of them is said by the session's argument `FilterAndPayloadSpecs`; the collector takes what it
//! finds under the names that properties have by themselves (`Path`, `StatusCode`) or that other tools give them
//! (`ActivityTraceId`).

use crate::nettrace::{Text, Value, Values};

/// Edge of something that takes time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    Start,
    Stop,
    Failed,
}

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    Incoming(Edge),
    Outgoing(Edge),
    Command(Edge),
}

/// What the collector looks for.
#[derive(Debug, Default)]
pub(super) struct Told<'a> {
    pub(super) method: Option<String>,
    pub(super) path: Option<String>,
    pub(super) url: Option<String>,
    pub(super) host: Option<String>,
    pub(super) route: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) id: Option<String>,
    pub(super) trace: Option<String>,
    pub(super) operation: Option<String>,
    pub(super) text: Text<'a>,
}

/// Most bytes of a value that are looked at.
const LONGEST: usize = 4_096;

/// What an event is about, and what it says; `None`: something else.
pub(super) fn read<'a>(event_name: &str, values: Values<'a>) -> Option<(Subject, Told<'a>)> {
    let (mut name, mut arguments) = (String::new(), None);
    for (field, value) in values {
        match (field, value) {
            ("EventName" | "ActivityName", Value::Text(text)) => name = text.to_string_of(256),
            ("Arguments", Value::Array(found)) => arguments = Some(found),
            _ => (),
        }
    }
    let edge = if name.ends_with(".Start") || event_name == "ActivityStart" {
        Edge::Start
    } else if name.ends_with(".Stop") || event_name == "ActivityStop" {
        Edge::Stop
    } else {
        Edge::Failed
    };
    let subject = if name.contains("HttpRequestIn") && edge != Edge::Failed {
        Subject::Incoming(edge)
    } else if name.contains("HttpRequestOut") && edge != Edge::Failed {
        Subject::Outgoing(edge)
    } else if name.ends_with("WriteCommandBefore") || name.ends_with("Command.CommandExecuting") {
        Subject::Command(Edge::Start)
    } else if name.ends_with("WriteCommandAfter") || name.ends_with("Command.CommandExecuted") {
        Subject::Command(Edge::Stop)
    } else if name.ends_with("WriteCommandError") || name.ends_with("Command.CommandError") {
        Subject::Command(Edge::Failed)
    } else {
        return None;
    };
    let mut told = Told::default();
    for element in arguments? {
        let Value::Object(pair) = element else { continue };
        let (mut key, mut value) = (Text::default(), Text::default());
        for (field, found) in pair {
            match (field, found) {
                ("Key", Value::Text(text)) => key = text,
                ("Value", Value::Text(text)) => value = text,
                _ => (),
            }
        }
        if !value.is_empty() {
            told.take(&key.to_string_of(64), value);
        }
    }
    Some((subject, told))
}

impl<'a> Told<'a> {
    fn take(&mut self, key: &str, value: Text<'a>) {
        let text = || Some(value.to_string_of(LONGEST));
        match key {
            "Method" | "HttpMethod" | "http.request.method" => self.method = text(),
            "Path" | "url.path" => self.path = text(),
            "RequestUri" | "url.full" => self.url = text(),
            "Host" | "server.address" => self.host = text(),
            "Route" | "RoutePattern" | "http.route" => self.route = text(),
            "StatusCode" | "http.response.status_code" => self.status = status(&value.to_string_of(32)),
            "ActivityId" | "Id" => self.id = text(),
            "ActivityTraceId" | "TraceId" => self.trace = text(),
            "OperationId" | "CommandId" => self.operation = text(),
            "CommandText" | "db.statement" | "db.query.text" => self.text = value,
            _ => (),
        }
    }
}

/// `200`, or `OK` where the property is an enumeration.
fn status(text: &str) -> Option<u16> {
    text.parse().ok().or(match text {
        "OK" => Some(200),
        "Created" => Some(201),
        "Accepted" => Some(202),
        "NoContent" => Some(204),
        "MovedPermanently" | "Moved" => Some(301),
        "Found" | "Redirect" => Some(302),
        "NotModified" => Some(304),
        "BadRequest" => Some(400),
        "Unauthorized" => Some(401),
        "Forbidden" => Some(403),
        "NotFound" => Some(404),
        "Conflict" => Some(409),
        "TooManyRequests" => Some(429),
        "InternalServerError" => Some(500),
        "BadGateway" => Some(502),
        "ServiceUnavailable" => Some(503),
        "GatewayTimeout" => Some(504),
        _ => None,
    })
}
