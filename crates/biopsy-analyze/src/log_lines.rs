//! Lines of all logs of a recording as one, in the order of time.

use biopsy_model::capture::{Capture, CaptureHeader};
use biopsy_model::log::{LogLevel, LogLine};
use biopsy_model::order::Order as _;
use biopsy_model::{MonoNanos, Nanos};

use crate::findings::finding::{Finding, Reference};

/// A stretch of time, ends included.
pub type Stretch = (MonoNanos, MonoNanos);

/// Which lines are wanted.
pub struct WantedLines<'a> {
    /// At least as severe; `Unknown`: all.
    pub least: LogLevel,
    /// In one of these stretches of time; `None`: whenever.
    pub within: Option<&'a [Stretch]>,
    /// Whether a line with this text is wanted.
    pub text: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for WantedLines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WantedLines")
            .field("least", &self.least)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

/// A line that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundLine<'a> {
    /// The log that it is of.
    pub source: &'a str,
    /// When it was written: its own time, or that of the last line before it that has one.
    pub time: Option<MonoNanos>,
    /// The line.
    pub line: &'a LogLine,
}

/// Lines that are wanted, in the order of time; those before any time of their log come first. Of one moment, and of one log, they stay in
/// their order.
#[must_use]
pub fn log_lines<'a>(capture: &'a Capture, wanted: &WantedLines<'_>) -> Vec<FoundLine<'a>> {
    let mut found = Vec::new();
    for log in &capture.logs {
        let mut time = None;
        for line in &log.lines {
            time = line.time.or(time);
            let is_then = wanted.within.is_none_or(|within| {
                time.is_some_and(|time| within.iter().any(|(from, to)| (*from..=*to).contains(&time)))
            });
            if is_then && line.level >= wanted.least && (wanted.text)(&line.text) {
                found.push(FoundLine { source: &log.source, time, line });
            }
        }
    }
    found.order_by_key(|found| found.time);
    found
}

/// When the evidence of a finding is: the stretches of time and the lines of logs that it refers to.
#[must_use]
pub fn moments(capture: &Capture, finding: &Finding) -> Vec<Stretch> {
    let of = |reference: &Reference| match reference {
        Reference::Time { from, to } => Some((*from, *to)),
        Reference::Log { log, line } => {
            let time = capture.logs.get(*log)?.lines.get(*line)?.time?;
            Some((time, time))
        }
        _ => None,
    };
    finding.evidence.iter().filter_map(|evidence| of(&evidence.reference)).collect()
}

/// A stretch with so much before and after it.
#[must_use]
pub fn widened((from, to): Stretch, by: Nanos) -> Stretch {
    (MonoNanos(from.0.saturating_sub(by.0)), MonoNanos(to.0.saturating_add(by.0)))
}

/// The moment at which clocks of the recorded machine showed this time of day, of all days the one nearest to the beginning; `None`: the
/// recording says nothing of its wall clock.
#[must_use]
pub fn at_time_of_day(header: &CaptureHeader, since_midnight: Nanos) -> Option<MonoNanos> {
    const DAY: i128 = 24 * 3600 * 1_000_000_000;
    let start = &header.start;
    if start.wall_unix_nanos == 0 {
        return None;
    }
    let local = start.wall_unix_nanos.checked_add(i128::from(start.utc_offset_seconds) * 1_000_000_000)?;
    let later = (i128::from(since_midnight.0) - local.rem_euclid(DAY)).rem_euclid(DAY);
    let away = if later > DAY / 2 { later - DAY } else { later };
    u64::try_from((i128::from(start.mono.0) + away).max(0)).ok().map(MonoNanos)
}

#[cfg(test)]
mod tests {
    use biopsy_model::ClockPair;
    use biopsy_model::log::LogFile;

    use super::*;
    use crate::{Evidence, FindingId, Severity};

    const SECOND: u64 = 1_000_000_000;

    fn line(second: Option<u64>, level: LogLevel, text: &str) -> LogLine {
        LogLine { time: second.map(|second| MonoNanos(second * SECOND)), level, text: text.to_owned() }
    }

    fn log(source: &str, lines: Vec<LogLine>) -> LogFile {
        LogFile { source: source.to_owned(), member: String::new(), assumed_zone: String::new(), lines }
    }

    fn capture() -> Capture {
        let app = log(
            "app",
            vec![
                line(None, LogLevel::Unknown, "before any time"),
                line(Some(10), LogLevel::Info, "begins"),
                line(Some(20), LogLevel::Error, "fails"),
                line(None, LogLevel::Unknown, "its continuation"),
            ],
        );
        let proxy = log(
            "proxy",
            vec![line(Some(15), LogLevel::Warning, "slow"), line(Some(20), LogLevel::Info, "502")],
        );
        Capture { logs: vec![app, proxy], ..Capture::default() }
    }

    fn texts(capture: &Capture, wanted: &WantedLines<'_>) -> Vec<String> {
        log_lines(capture, wanted).iter().map(|found| found.line.text.clone()).collect()
    }

    const ALL: WantedLines<'_> = WantedLines { least: LogLevel::Unknown, within: None, text: &|_| true };

    #[test]
    fn lines_of_all_logs_are_in_the_order_of_time() {
        let expected = ["before any time", "begins", "slow", "fails", "its continuation", "502"];
        assert_eq!(texts(&capture(), &ALL), expected);
    }

    #[test]
    fn severity_text_and_time_narrow_it() {
        let capture = capture();
        let least = |least| texts(&capture, &WantedLines { least, ..ALL });
        assert_eq!(least(LogLevel::Warning), ["slow", "fails"]);
        assert_eq!(least(LogLevel::Error), ["fails"]);
        assert_eq!(texts(&capture, &WantedLines { text: &|text| text.contains("50"), ..ALL }), ["502"]);
        let within = |from: u64, to: u64| {
            let within = [(MonoNanos(from), MonoNanos(to))];
            texts(&capture, &WantedLines { within: Some(&within), ..ALL })
        };
        // Both sides of each end; a line without a time goes with the one before it, and nothing is known of those before.
        assert_eq!(within(15 * SECOND, 15 * SECOND), ["slow"]);
        assert_eq!(within(15 * SECOND + 1, 20 * SECOND - 1), Vec::<String>::new());
        assert_eq!(within(20 * SECOND, 21 * SECOND), ["fails", "its continuation", "502"]);
        assert_eq!(within(0, 10 * SECOND), ["begins"]);
        assert_eq!(texts(&capture, &WantedLines { within: Some(&[]), ..ALL }), Vec::<String>::new());
    }

    #[test]
    fn moments_of_a_finding_are_those_of_its_evidence() {
        let at = |reference| Evidence { text: String::new(), reference, value: None };
        let finding = Finding {
            id: FindingId::ALL[0],
            severity: Severity::Warning,
            impact: 0.0,
            title: String::new(),
            explanation: String::new(),
            evidence: vec![
                at(Reference::Recording),
                at(Reference::Log { log: 0, line: 2 }),
                at(Reference::Log { log: 0, line: 3 }),
                at(Reference::Log { log: 7, line: 0 }),
                at(Reference::Time { from: MonoNanos(3), to: MonoNanos(9) }),
            ],
            next_steps: Vec::new(),
        };
        let fails = MonoNanos(20 * SECOND);
        assert_eq!(moments(&capture(), &finding), [(fails, fails), (MonoNanos(3), MonoNanos(9))]);
    }

    #[test]
    fn a_time_of_day_is_on_the_nearest_day() {
        // Begun at 23:59:50 local time, two hours east of Greenwich.
        let local = i128::from(23 * 3600 + 59 * 60 + 50_u64) * 1_000_000_000;
        let start = ClockPair {
            mono: MonoNanos(1000 * SECOND),
            wall_unix_nanos: local + 20_000 * 24 * 3600 * 1_000_000_000 - 7200 * 1_000_000_000,
            utc_offset_seconds: 7200,
            zone: String::new(),
        };
        let header = CaptureHeader { start, ..CaptureHeader::default() };
        let at = |hour: u64, minute: u64, second: u64| {
            at_time_of_day(&header, Nanos((hour * 3600 + minute * 60 + second) * SECOND))
                .map(|time| time.0 / SECOND)
        };
        assert_eq!(at(23, 59, 50), Some(1000));
        assert_eq!(at(23, 59, 45), Some(995));
        assert_eq!(at(0, 0, 5), Some(1015), "the day after");
        assert_eq!(at(12, 0, 0), Some(0), "before the machine was started");
        assert_eq!(at_time_of_day(&CaptureHeader::default(), Nanos(5)), None);
        assert_eq!(
            widened((MonoNanos(5), MonoNanos(u64::MAX)), Nanos(9)),
            (MonoNanos(0), MonoNanos(u64::MAX))
        );
    }
}
