//! Log lines of interest: errors and warnings of one shape are one topic with a count.

use crate::limits::{LOG_TEXT, LOG_TOPICS};
use biopsy_model::MonoNanos;
use biopsy_model::capture::Capture;
use biopsy_model::log::{LogLevel, LogLine};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What the logs say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogSummary {
    /// Topics: errors first, then warnings, then the rest of interest; within that by count.
    pub topics: Vec<LogTopic>,
    /// Lines in all logs.
    pub lines: u64,
    /// Error lines.
    pub errors: u64,
    /// Warning lines.
    pub warnings: u64,
    /// Lines whose time could not be read.
    pub without_time: u64,
    /// Moments when lines came at more than 10 times their usual rate: from, to, lines.
    pub bursts: Vec<(MonoNanos, MonoNanos, u64)>,
}

/// Lines of one shape (numbers, ids and quoted values aside).
#[derive(Clone, PartialEq, Debug)]
pub struct LogTopic {
    /// Severity.
    pub level: LogLevel,
    /// The first line, as an example.
    pub example: String,
    /// Index into `Capture::logs`.
    pub log: usize,
    /// Index of the first line in that log.
    pub line: usize,
    /// How many lines.
    pub count: u64,
    /// First time.
    pub first: Option<MonoNanos>,
    /// Last time.
    pub last: Option<MonoNanos>,
}

impl LogSummary {
    pub(crate) fn new(capture: &Capture) -> LogSummary {
        let mut summary = LogSummary::default();
        let mut index: FxHashMap<(usize, LogLevel, String), usize> = FxHashMap::default();
        let mut by_second: BTreeMap<u64, u64> = BTreeMap::new();
        for (log, file) in capture.logs.iter().enumerate() {
            for (number, line) in file.lines.iter().enumerate() {
                summary.lines += 1;
                match line.time {
                    Some(time) => *by_second.entry(time.0 / SECOND).or_default() += 1,
                    None => summary.without_time += 1,
                }
                summary.errors += u64::from(line.level == LogLevel::Error);
                summary.warnings += u64::from(line.level == LogLevel::Warning);
                if is_of_interest(line) {
                    summary.add(&mut index, log, number, line);
                }
            }
        }
        summary
            .topics
            .sort_by_key(|topic| (Reverse(topic.level), Reverse(topic.count), topic.log, topic.line));
        summary.bursts = bursts(&by_second);
        summary
    }

    fn add(
        &mut self,
        index: &mut FxHashMap<(usize, LogLevel, String), usize>,
        log: usize,
        number: usize,
        line: &LogLine,
    ) {
        let key = (log, line.level, shape(&line.text));
        let known = match index.get(&key) {
            Some(&at) => at,
            // Too many shapes: what comes later is in the sums only.
            None if self.topics.len() >= LOG_TOPICS => return,
            None => {
                index.insert(key, self.topics.len());
                self.topics.push(LogTopic {
                    level: line.level,
                    example: start_of(&line.text, LOG_TEXT).to_owned(),
                    log,
                    line: number,
                    count: 0,
                    first: None,
                    last: None,
                });
                self.topics.len() - 1
            }
        };
        if let Some(topic) = self.topics.get_mut(known) {
            topic.count += 1;
            topic.first = topic.first.into_iter().chain(line.time).min();
            topic.last = topic.last.into_iter().chain(line.time).max();
        }
    }
}

const SECOND: u64 = 1_000_000_000;

fn is_of_interest(line: &LogLine) -> bool {
    if matches!(line.level, LogLevel::Error | LogLevel::Warning) {
        return true;
    }
    let text = start_of(&line.text, LOG_TEXT).to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}

/// Words that make a line worth reading whatever its level.
const WORDS: &[&str] = &[
    "exception",
    "fatal",
    "panic",
    "out of memory",
    "oom-kill",
    "deadlock",
    "timed out",
    "timeout",
    "too many open files",
    "too many connections",
    "connection refused",
    "connection reset",
    "segfault",
    "no space left",
    "killed process",
];

/// The start of a text, at most `limit` bytes, cut at a character.
fn start_of(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

/// A line without what differs from one time to the next: numbers, long hexadecimal words, quoted values.
fn shape(text: &str) -> String {
    let mut out = String::new();
    let mut quote: Option<char> = None;
    for word in start_of(text, SHAPE_TEXT).split_inclusive(|c: char| !c.is_alphanumeric()) {
        if quote.is_none() {
            let letters = word.trim_end_matches(|c: char| !c.is_alphanumeric());
            if letters.contains(|c: char| c.is_ascii_digit()) {
                out.push('#');
            } else {
                out.push_str(letters);
            }
        }
        if let Some(end) = word.chars().next_back().filter(|c| !c.is_alphanumeric()) {
            match quote {
                Some(open) if open == end => quote = None,
                None if matches!(end, '"' | '`') => quote = Some(end),
                Some(_) => continue,
                None => {}
            }
            out.push(end);
        }
    }
    out
}

/// Shapes differ early in a line if at all.
const SHAPE_TEXT: usize = 400;

/// Seconds with more than 10 times the usual number of lines, neighbours joined.
fn bursts(by_second: &BTreeMap<u64, u64>) -> Vec<(MonoNanos, MonoNanos, u64)> {
    let (Some((&from, _)), Some((&to, _))) = (by_second.first_key_value(), by_second.last_key_value()) else {
        return Vec::new();
    };
    let lines: u64 = by_second.values().sum();
    let usual = (lines / (to - from + 1)).max(1);
    let mut bursts: Vec<(MonoNanos, MonoNanos, u64)> = Vec::new();
    for (&second, &count) in by_second {
        if count < 20 || count / 10 < usual {
            continue;
        }
        let (start, end) = (MonoNanos(second * SECOND), MonoNanos((second + 1).saturating_mul(SECOND)));
        match bursts.last_mut() {
            Some(last) if last.1 == start => {
                last.1 = end;
                last.2 += count;
            }
            _ => bursts.push((start, end, count)),
        }
    }
    bursts.truncate(20);
    bursts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_ignore_what_differs() {
        let same = |a: &str, b: &str| assert_eq!(shape(a), shape(b));
        same("10:31:02 ERROR order 4711 failed", "11:32:59 ERROR order 9 failed");
        same(r#"bad key "a b" in x"#, r#"bad key "zz" in x"#);
        same("id deadbeef01 gone", "id 0123 gone");
        assert_ne!(shape("disk full"), shape("disk gone"));
        assert_eq!(shape("\"unclosed 7"), "\"");
    }

    #[test]
    fn a_burst_is_found() {
        let mut by_second: BTreeMap<u64, u64> = (0..60).map(|second| (second, 2)).collect();
        by_second.insert(30, 400);
        by_second.insert(31, 300);
        assert_eq!(bursts(&by_second), [(MonoNanos(30 * SECOND), MonoNanos(32 * SECOND), 700)]);
        assert_eq!(bursts(&BTreeMap::new()), []);
    }
}
