//! From what the user typed to a condition.

use std::time::Duration;

use super::super::comparison::Comparison;
use super::super::parse_error::ParseTriggerError;
use super::super::pieces::{compile, parse_positive};
use super::super::quantity::{parse_bytes, parse_count, parse_duration};
use super::condition::{DotNetCondition, DotNetQuantity};

const QUANTITIES: [(&str, DotNetQuantity); 9] = [
    ("gc-heap", DotNetQuantity::Heap),
    ("gc-gen0", DotNetQuantity::Generation(0)),
    ("gc-gen1", DotNetQuantity::Generation(1)),
    ("gc-gen2", DotNetQuantity::Generation(2)),
    ("gc-loh", DotNetQuantity::Generation(3)),
    ("gc-poh", DotNetQuantity::Generation(4)),
    ("threadpool-queue", DotNetQuantity::PoolQueue),
    ("request-status", DotNetQuantity::Status),
    ("request", DotNetQuantity::Request),
];

/// Longest name of a counter, or of an exception's type.
const LONGEST: usize = 300;

/// Parses a trigger of .NET; `None`: it is one of another kind.
pub(crate) fn parse(text: &str) -> Option<Result<DotNetCondition, ParseTriggerError>> {
    let lower = text.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("exception:").and_then(|rest| text.get(text.len() - rest.len()..))
    {
        return Some(parse_exception(rest));
    }
    if let Some(rest) = lower.strip_prefix("unhandled-exception") {
        return Some(match rest.trim() {
            "" => Ok(DotNetCondition::Unhandled),
            rest => Err(ParseTriggerError::Rest { what: "unhandled-exception", rest: rest.to_owned() }),
        });
    }
    if let Some(rest) = lower.strip_prefix("counter:").and_then(|rest| text.get(text.len() - rest.len()..)) {
        return Some(parse_counter(text, rest));
    }
    QUANTITIES.iter().find_map(|(word, quantity)| {
        let rest = lower.strip_prefix(word)?;
        // `request-status` is no `request`, nor is `gc-heapster` a `gc-heap`.
        (!rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
            .then(|| parse_bound(text, word, quantity.clone(), rest))
    })
}

fn parse_exception(rest: &str) -> Result<DotNetCondition, ParseTriggerError> {
    let (type_name, message) = match rest.split_once('~') {
        Some((type_name, message)) => (type_name, Some(compile(message)?)),
        None => (rest, None),
    };
    let type_name = type_name.trim();
    let is_name =
        !type_name.is_empty() && type_name.len() <= LONGEST && !type_name.contains(char::is_whitespace);
    if !is_name {
        return Err(ParseTriggerError::Value { what: "exception", value: type_name.to_owned() });
    }
    Ok(DotNetCondition::Exception { type_name: type_name.to_owned(), message })
}

fn parse_counter(text: &str, rest: &str) -> Result<DotNetCondition, ParseTriggerError> {
    let Some(at) = rest.find(['<', '>']) else {
        return Err(ParseTriggerError::NoComparison { text: text.to_owned(), what: "counter" });
    };
    let (name, bound) = rest.split_at(at);
    let (source, name) = match name.rsplit_once('/') {
        Some((source, name)) => (Some(source.trim().to_owned()), name.trim()),
        None => (None, name.trim()),
    };
    let is_good = |name: &str| crate::dotnet::is_counter_name(name) && name.len() <= LONGEST;
    if !is_good(name) || source.as_deref().is_some_and(|source| !is_good(source)) {
        return Err(ParseTriggerError::Value { what: "counter", value: name.to_owned() });
    }
    parse_bound(text, "counter", DotNetQuantity::Counter { source, name: name.to_owned() }, bound)
}

fn parse_bound(
    text: &str,
    what: &'static str,
    quantity: DotNetQuantity,
    rest: &str,
) -> Result<DotNetCondition, ParseTriggerError> {
    let rest = rest.trim_start();
    let Some((comparison, rest)) = Comparison::parse_start(rest) else {
        return Err(ParseTriggerError::NoComparison { text: text.to_owned(), what });
    };
    let (value, lasting) = match rest.split_once(':') {
        // What is an event and no state cannot last.
        Some(_) if quantity.is_event() => {
            return Err(ParseTriggerError::Value { what, value: rest.trim().to_owned() });
        }
        Some((value, lasting)) => (value, parse_positive(what, lasting)?),
        None => (rest, Duration::ZERO),
    };
    let bound = match quantity {
        DotNetQuantity::Heap | DotNetQuantity::Generation(_) => parse_bytes(value),
        DotNetQuantity::Request => parse_duration(value).map(|duration| duration.as_secs_f64()),
        DotNetQuantity::PoolQueue | DotNetQuantity::Status => parse_count(value),
        DotNetQuantity::Counter { .. } => {
            value.trim().parse().ok().filter(|value: &f64| value.is_finite()).or_else(|| parse_bytes(value))
        }
    };
    let bound = bound.ok_or_else(|| ParseTriggerError::Value { what, value: value.trim().to_owned() })?;
    Ok(DotNetCondition::Bound { quantity, comparison, bound, lasting })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        parse(text).unwrap_or_else(|| panic!("{text} is of another kind")).unwrap().to_string()
    }

    #[test]
    fn every_form_comes_back() {
        for text in [
            "exception:System.OutOfMemoryException",
            "exception:Octopus.Core.Oops~timed out after [0-9]+",
            "unhandled-exception",
            "gc-heap>2G",
            "gc-gen2>=512M:30s",
            "gc-loh>1G",
            "gc-poh<10M",
            "threadpool-queue>100:5s",
            "request>10s",
            "request-status>=500",
            "counter:threadpool-thread-count>50",
            "counter:My.Meter/queue.length>1.5:10s",
        ] {
            assert_eq!(written(text), text);
        }
        assert_eq!(written("GC-Heap > 1.5 GiB"), "gc-heap>1536M");
        assert_eq!(written("request>1500ms"), "request>1500ms");
    }

    #[test]
    fn refusals() {
        for text in [
            "exception:",
            "exception:a b",
            "exception:X~(",
            "unhandled-exception>1",
            "gc-heap",
            "gc-heap>lots",
            "request>10s:3s",
            "request-status>=5xx",
            "counter:>1",
            "counter:x",
            "counter:a;b>1",
            "threadpool-queue>1:0s",
        ] {
            assert!(parse(text).unwrap_or_else(|| panic!("{text}")).is_err(), "{text}");
        }
        for text in ["gc-heapster>1", "requests>1", "cpu>1%", "gc>1", "log:exception:X", "exceptional"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn exceptions_by_name_and_message() {
        let matches = |trigger: &str, type_name, message| {
            parse(trigger).unwrap().unwrap().is_exception(type_name, message)
        };
        assert!(matches("exception:System.FormatException", "System.FormatException", ""));
        assert!(matches("exception:FormatException", "System.FormatException", "x"));
        assert!(!matches("exception:matException", "System.FormatException", "x"));
        assert!(matches("exception:FormatException~port [0-9]", "System.FormatException", "bad port 7"));
        assert!(!matches("exception:FormatException~port [0-9]", "System.FormatException", "bad port"));
    }

    proptest! {
        #[test]
        fn any_text(text in "\\PC{0,40}") {
            if let Some(Ok(condition)) = parse(&text) {
                prop_assert!(parse(&condition.to_string()).unwrap().is_ok());
            }
        }
    }
}
