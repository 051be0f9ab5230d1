//! Log lines of interest: errors and warnings of one shape are one topic with a count.

use crate::limits::{LOG_TEXT, LOG_TOPICS};
use biopsy_model::MonoNanos;
use biopsy_model::capture::Capture;
use biopsy_model::log::{LogLevel, LogLine};
use biopsy_model::order::Order as _;
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
            .order_by_key(|topic| (Reverse(topic.level), Reverse(topic.count), topic.log, topic.line));
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

    fn line(second: Option<u64>, level: LogLevel, text: &str) -> LogLine {
        LogLine { time: second.map(|second| MonoNanos(second * SECOND)), level, text: text.to_owned() }
    }

    fn summary(logs: Vec<Vec<LogLine>>) -> LogSummary {
        let log = |lines| biopsy_model::log::LogFile {
            source: String::new(),
            member: String::new(),
            assumed_zone: String::new(),
            lines,
        };
        LogSummary::new(&Capture { logs: logs.into_iter().map(log).collect(), ..Capture::default() })
    }

    #[test]
    fn topics_are_of_one_log_level_and_shape_the_gravest_first() {
        use LogLevel::{Debug, Error, Info, Unknown, Warning};
        let found = summary(vec![
            vec![
                line(Some(9), Warning, "slow order 7"),
                line(None, Warning, "slow order 8"),
                line(Some(3), Warning, "slow order 9"),
                line(Some(4), Error, "slow order 9"),
                line(Some(5), Info, "order 9 served"),
                line(Some(6), Debug, "connection 3 Timed Out"),
            ],
            vec![
                line(Some(1), Warning, "slow order 7"),
                line(Some(2), Error, "disk full"),
                line(Some(7), Error, "disk full"),
            ],
            vec![line(None, Unknown, "Exception in thread main")],
        ]);
        let told: Vec<_> = found
            .topics
            .iter()
            .map(|topic| {
                let seconds = [topic.first, topic.last].map(|time| time.map(|time| time.0 / SECOND));
                (topic.level, topic.example.as_str(), topic.log, topic.line, topic.count, seconds)
            })
            .collect();
        assert_eq!(
            told,
            [
                (Error, "disk full", 1, 1, 2, [Some(2), Some(7)]),
                (Error, "slow order 9", 0, 3, 1, [Some(4); 2]),
                (Warning, "slow order 7", 0, 0, 3, [Some(3), Some(9)]),
                (Warning, "slow order 7", 1, 0, 1, [Some(1); 2]),
                (Debug, "connection 3 Timed Out", 0, 5, 1, [Some(6); 2]),
                (Unknown, "Exception in thread main", 2, 0, 1, [None; 2]),
            ]
        );
        assert_eq!((found.lines, found.errors, found.warnings, found.without_time), (10, 3, 4, 2));
    }

    #[test]
    fn shapes_without_end_are_counted_and_not_kept() {
        let letters = |number: usize| -> String {
            [number / 26 / 26, number / 26, number]
                .map(|at| char::from(b'a' + (at % 26) as u8))
                .iter()
                .collect()
        };
        let lines = (0..LOG_TOPICS + 50).map(|number| line(None, LogLevel::Error, &letters(number)));
        let found = summary(vec![lines.chain([line(None, LogLevel::Error, "aaa")]).collect()]);
        assert_eq!((found.topics.len(), found.errors), (LOG_TOPICS, LOG_TOPICS as u64 + 51));
        assert_eq!(
            (found.topics[0].example.as_str(), found.topics[0].count),
            ("aaa", 2),
            "what is known is counted on"
        );
        let long = summary(vec![vec![line(None, LogLevel::Error, &"é".repeat(LOG_TEXT))]]);
        assert_eq!(long.topics[0].example.len(), LOG_TEXT);
        let odd = format!("x{}", "é".repeat(LOG_TEXT));
        assert_eq!(start_of(&odd, LOG_TEXT).len(), LOG_TEXT - 1, "cut at a letter");
        // A word that is behind what is looked at makes no line worth reading.
        let behind = format!("{}panic", " ".repeat(LOG_TEXT));
        assert_eq!(summary(vec![vec![line(None, LogLevel::Info, &behind)]]).topics, []);
    }

    #[test]
    fn a_burst_is_ten_times_as_much_as_usual_and_twenty_lines() {
        let with = |usual: u64, count: u64| {
            let mut by_second: BTreeMap<u64, u64> = (0..1000).map(|second| (second, usual)).collect();
            by_second.insert(500, count);
            bursts(&by_second)
                .into_iter()
                .map(|(from, to, lines)| (from.0 / SECOND, to.0 / SECOND, lines))
                .collect::<Vec<_>>()
        };
        assert_eq!(with(1, 19), []);
        assert_eq!(with(1, 20), [(500, 501, 20)]);
        assert_eq!(with(5, 49), []);
        assert_eq!(with(5, 50), [(500, 501, 50)]);
        // Seconds without a line are seconds too; apart from each other they are bursts of their own.
        let apart = bursts(&BTreeMap::from([(0, 30), (2, 30), (100, 1)]));
        assert_eq!(apart.len(), 2);
        let many: BTreeMap<u64, u64> = (0..100).map(|number| (number * 40, 40)).collect();
        assert_eq!(bursts(&many).len(), 20);
        let last = bursts(&BTreeMap::from([(0, 1), (u64::MAX / SECOND, 50)]));
        assert_eq!(last.len(), 1, "at the end of time");
    }

    #[test]
    fn shapes_keep_the_words_and_lose_the_values() {
        for (text, expected) in [
            ("order 4711 failed", "order # failed"),
            ("GET /cart/7f3a?x=1 200", "GET /cart/#?x=# #"),
            ("key \"a \"b\" c", "key \"\"b\""),
            ("key `a` and `b`", "key `` and ``"),
            ("it's 5 o'clock", "it's # o'clock"),
            ("Größe 7 überschritten", "Größe # überschritten"),
            ("", ""),
            ("   ", "   "),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
        assert_eq!(shape(&"a ".repeat(SHAPE_TEXT)).len(), SHAPE_TEXT);
    }
}
