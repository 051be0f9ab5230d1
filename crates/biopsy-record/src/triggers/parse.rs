//! From what the user typed to a trigger.

use std::path::PathBuf;
use std::time::Duration;

use super::comparison::{Comparison, Quantity, Resource};
use super::dotnet;
use super::parse_error::ParseTriggerError;
use super::pieces::{compile, parse_positive};
use super::quantity::{parse_bytes, parse_count, parse_percent};
use super::trigger::Trigger;

/// Longest text that is a trigger.
const LONGEST: usize = 4096;
const QUANTITIES: [(&str, Quantity); 12] = [
    ("cpu", Quantity::Cpu),
    ("memory", Quantity::Memory),
    ("mem", Quantity::Memory),
    ("rss", Quantity::Memory),
    ("growth", Quantity::Growth),
    ("threads", Quantity::Threads),
    ("fds", Quantity::Descriptors),
    ("handles", Quantity::Descriptors),
    ("files", Quantity::Descriptors),
    ("pressure-cpu", Quantity::Pressure(Resource::Cpu)),
    ("pressure-memory", Quantity::Pressure(Resource::Memory)),
    ("pressure-io", Quantity::Pressure(Resource::Io)),
];

impl Trigger {
    /// Parses one trigger: `exit`, `exit!=0`, `crash`, `cpu>90%:30s` (with `>`, `>=`, `<`, `<=`; for memory, growth, threads,
    /// fds and pressure likewise), `hang:10s`, `log:REGEX`, `log:PATH:REGEX` (a path begins with `/`, `./` or `../`; a colon in it is
    /// written `\:`), `after:10m`.
    ///
    /// # Errors
    /// [`ParseTriggerError`], whose hint has an example of the right form.
    pub fn parse(text: &str) -> Result<Self, ParseTriggerError> {
        let text = text.trim();
        let unknown = || ParseTriggerError::Unknown { text: text.chars().take(80).collect() };
        if text.len() > LONGEST {
            return Err(unknown());
        }
        if let Some(condition) = dotnet::parse(text) {
            return condition.map(Self::DotNet);
        }
        let word_end = text.find(|one: char| !one.is_ascii_alphabetic() && one != '-').unwrap_or(text.len());
        let (word, rest) = text.split_at(word_end);
        let word = word.to_ascii_lowercase();
        let rest = rest.trim_start();
        if let Some(&(_, quantity)) = QUANTITIES.iter().find(|(name, _)| *name == word) {
            return parse_bound(text, quantity, rest);
        }
        if word == "pressure" {
            return Err(ParseTriggerError::NoResource { text: text.to_owned() });
        }
        let nothing_more = |what, trigger| match rest {
            "" => Ok(trigger),
            rest => Err(ParseTriggerError::Rest { what, rest: rest.to_owned() }),
        };
        match word.as_str() {
            "exit" => match rest.replace(' ', "").as_str() {
                "!=0" => Ok(Self::Failure),
                _ => nothing_more("exit", Self::Exit),
            },
            "crash" => nothing_more("crash", Self::Crash),
            "hang" => Ok(Self::Hang { lasting: parse_time("hang", rest)? }),
            "after" => Ok(Self::After { duration: parse_time("after", rest)? }),
            "log" => parse_log(rest.strip_prefix(':').ok_or_else(unknown)?),
            _ => Err(unknown()),
        }
    }
}

fn parse_bound(text: &str, quantity: Quantity, rest: &str) -> Result<Trigger, ParseTriggerError> {
    let what = quantity.word();
    let Some((comparison, rest)) = Comparison::parse_start(rest) else {
        return Err(ParseTriggerError::NoComparison { text: text.to_owned(), what });
    };
    let (value, lasting) = match rest.split_once(':') {
        Some((value, lasting)) => (value, parse_positive(what, lasting)?),
        None => (rest, Duration::ZERO),
    };
    let bound = match quantity {
        Quantity::Cpu | Quantity::Pressure(_) => parse_percent(value),
        Quantity::Memory | Quantity::Growth => parse_bytes(value),
        Quantity::Threads | Quantity::Descriptors => parse_count(value),
    };
    let bound = bound.ok_or_else(|| ParseTriggerError::Value { what, value: value.trim().to_owned() })?;
    Ok(Trigger::Bound { quantity, comparison, bound, lasting })
}

fn parse_time(what: &'static str, rest: &str) -> Result<Duration, ParseTriggerError> {
    parse_positive(what, rest.strip_prefix(':').unwrap_or(rest))
}

fn parse_log(text: &str) -> Result<Trigger, ParseTriggerError> {
    let is_path = ["/", "./", "../"].iter().any(|start| text.starts_with(start));
    let (path, pattern) = match find_colon(text).filter(|_| is_path) {
        Some(colon) => {
            let (path, pattern) = text.split_at(colon);
            (Some(PathBuf::from(path.replace("\\:", ":"))), pattern.strip_prefix(':').unwrap_or(pattern))
        }
        None => (None, text),
    };
    if pattern.is_empty() {
        let why = "it is empty, and would match every line".to_owned();
        return Err(ParseTriggerError::Pattern { pattern: pattern.to_owned(), why });
    }
    Ok(Trigger::Log { path, pattern: compile(pattern)? })
}

/// The first colon that has no backslash before it.
fn find_colon(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (1..bytes.len()).find(|&at| bytes.get(at) == Some(&b':') && bytes.get(at - 1) != Some(&b'\\'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn same(text: &str, written: &str) {
        let trigger = Trigger::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(trigger.to_string(), written, "{text}");
        assert_eq!(Trigger::parse(written).unwrap(), trigger, "{text}");
    }

    #[test]
    fn every_form() {
        same("exit", "exit");
        same("exit != 0", "exit!=0");
        same("CRASH", "crash");
        same("cpu>90%:30s", "cpu>90%:30s");
        same("cpu > 150", "cpu>150%");
        same("cpu<=5%:1m", "cpu<=5%:1m");
        same("memory>2G", "memory>2G");
        same("mem >= 1.5GiB : 90s", "memory>=1536M:90s");
        same("growth > 200MiB", "growth>200M");
        same("threads>500", "threads>500");
        same("fds>1000:10s", "fds>1000:10s");
        same("Pressure-Memory > 10 : 30s", "pressure-memory>10%:30s");
        same("pressure-io>=25%", "pressure-io>=25%");
        same("pressure-cpu<5%", "pressure-cpu<5%");
        same("hang:10s", "hang:10s");
        same("after:10m", "after:10m");
        same("log:ERROR: .* timed out", "log:ERROR: .* timed out");
        same("log:/var/log/a.log:ERROR: x", "log:/var/log/a.log:ERROR: x");
        same("log:/var/log/a\\:b.log:x", "log:/var/log/a\\:b.log:x");
        same("log:./app.log:x", "log:./app.log:x");
    }

    #[test]
    fn a_pattern_that_begins_with_a_slash_and_has_no_colon_is_no_path() {
        let trigger = Trigger::parse("log:/api/[0-9]+ 500").unwrap();
        assert!(matches!(trigger, Trigger::Log { path: None, .. }));
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        let refused = |text: &str| {
            let error = Trigger::parse(text).unwrap_err();
            (error.to_string(), error.hint())
        };
        assert_eq!(
            refused("cpu>lots"),
            (
                "`lots` is no bound for `cpu`".to_owned(),
                "for example `cpu>90%:30s`: more than 90 % of one core for 30 seconds (`cpu>150%` for several)".to_owned()
            )
        );
        assert_eq!(refused("memory 2G").0, "`memory 2G` does not say what to compare with");
        assert_eq!(refused("cpu>90%:soon").0, "`soon` is no length of time");
        assert_eq!(refused("hang").0, "`` is no length of time");
        assert_eq!(refused("hang:0s").0, "`0s` is no length of time");
        assert_eq!(refused("crash:now").0, "`crash` takes nothing behind it, but `:now` was given");
        assert_eq!(refused("pressure>10%").0, "`pressure>10%` does not say which pressure");
        assert!(refused("pressure-disk>10%").1.contains("`pressure-io>30%:10s`"));
        assert_eq!(refused("pressure-io>lots").0, "`lots` is no bound for `pressure-io`");
        assert_eq!(refused("disk>5").0, "`disk>5` is no trigger");
        assert!(refused("disk>5").1.contains("`hang:10s`"));
        assert!(refused("log:(").0.starts_with("the pattern `(` cannot be used: "));
        assert!(refused("log:/var/log/x:").0.contains("is empty"));
        assert!(refused("log:a{1000}{1000}").0.contains("cannot be used"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,60}") {
            let _ = Trigger::parse(&text);
        }

        #[test]
        fn what_is_written_is_read_again(
            quantity in 0..QUANTITIES.len(), comparison in 0..4_usize, bound in 0..1_000_000_u32, seconds in 0..100_000_u64,
        ) {
            let trigger = Trigger::Bound {
                quantity: QUANTITIES[quantity].1,
                comparison: [Comparison::Above, Comparison::AtLeast, Comparison::Below, Comparison::AtMost][comparison],
                bound: bound.into(),
                lasting: Duration::from_secs(seconds),
            };
            prop_assert_eq!(Trigger::parse(&trigger.to_string()).unwrap(), trigger);
        }
    }
}
