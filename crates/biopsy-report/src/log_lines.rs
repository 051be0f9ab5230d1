//! Lines of logs: as text and JSON.

use biopsy_analyze::log_lines::FoundLine;
use biopsy_model::MonoNanos;
use biopsy_model::capture::Capture;
use biopsy_model::log::LogLevel;
use biopsy_model::printable::printable_json;
use serde::Serialize;

use crate::text::{Page, TextOptions, clean};
use crate::units::count;
use crate::when;
use crate::words;

/// The document of `biopsy logs --json`.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    /// When the recording began, on the wall clock of its machine.
    start: Option<String>,
    /// All logs there are.
    sources: Vec<&'a str>,
    /// Lines of all logs, those that are not wanted, too.
    total: usize,
    lines: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    /// Since the beginning of the recording; lines before it have less than 0.
    seconds: Option<f64>,
    /// On the wall clock of its machine.
    time: Option<String>,
    source: &'a str,
    level: &'static str,
    text: &'a str,
}

/// For programs.
#[must_use]
pub fn render_log_lines_json(capture: &Capture, lines: &[FoundLine<'_>]) -> String {
    let document = Document {
        schema: "biopsy-log-lines",
        version: 1,
        start: when::rfc3339(&capture.header.start),
        sources: capture.logs.iter().map(|log| &*log.source).collect(),
        total: total(capture),
        lines: lines.iter().map(|found| row(capture, found)).collect(),
    };
    printable_json(serde_json::to_string_pretty(&document).expect("plain data serialises") + "\n")
}

fn row<'a>(capture: &Capture, found: &FoundLine<'a>) -> Row<'a> {
    Row {
        seconds: found.time.map(|time| seconds(capture, time)),
        time: found.time.and_then(|time| when::rfc3339(&when::at(&capture.header, time)?)),
        source: found.source,
        level: words::level(found.line.level),
        text: &found.line.text,
    }
}

/// For the terminal: seconds since the beginning, time of day on the recorded machine, severity, log, text.
#[must_use]
pub fn render_log_lines_text(capture: &Capture, lines: &[FoundLine<'_>], options: TextOptions) -> String {
    let mut page = Page::new(options);
    let name = |source: &str| clean(source.rsplit('/').next().unwrap_or_default());
    let width = lines.iter().map(|found| name(found.source).chars().count()).max().unwrap_or_default();
    let since = |found: &FoundLine<'_>| {
        found.time.map_or_else(|| "–".to_owned(), |time| format!("{:+.3} s", seconds(capture, time)))
    };
    // Of days it takes more columns.
    let longest = lines.iter().map(|found| since(found).chars().count()).max().unwrap_or_default().max(12);
    for found in lines {
        let since = since(found);
        let of_day = found.time.and_then(|time| when::of_day(&when::at(&capture.header, time)?));
        let level = match found.line.level {
            LogLevel::Unknown => "",
            level => words::level(level),
        };
        let paint = match found.line.level {
            LogLevel::Error => "1;31",
            LogLevel::Warning => "33",
            _ => "0",
        };
        let level = page.painted(paint, &format!("{level:7}"));
        let times = page.painted("2", &format!("{since:>longest$}  {:12}", of_day.unwrap_or_default()));
        let source = page.painted("2", &format!("{:width$}", name(found.source)));
        let mut text = found.line.text.lines();
        let first = clean(text.next().unwrap_or_default());
        page.text.push_str(&format!("{times}  {level}  {source}  {first}\n"));
        page.text.extend(text.map(|more| format!("    {}\n", clean(more))));
    }
    let logs = capture.logs.len();
    let of = match (logs, lines.len()) {
        (0, _) => "there are no logs in it; `biopsy capture --logs GLOB` and `--journal UNIT` record them\n"
            .to_owned(),
        (1, shown) => format!("{} of {} lines of 1 log\n", count(shown as u64), count(total(capture) as u64)),
        (logs, shown) => {
            format!("{} of {} lines of {logs} logs\n", count(shown as u64), count(total(capture) as u64))
        }
    };
    if !lines.is_empty() {
        page.text.push('\n');
    }
    page.text + &of
}

fn total(capture: &Capture) -> usize {
    capture.logs.iter().map(|log| log.lines.len()).sum()
}

/// Seconds since the beginning.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn seconds(capture: &Capture, time: MonoNanos) -> f64 {
    (i128::from(time.0) - i128::from(capture.header.start.mono.0)) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use biopsy_analyze::log_lines::{WantedLines, log_lines};
    use biopsy_model::ClockPair;
    use biopsy_model::log::{LogFile, LogLine};

    use super::*;

    fn capture() -> Capture {
        let mut capture = Capture::default();
        capture.header.start = ClockPair {
            mono: MonoNanos(5_000_000_000),
            wall_unix_nanos: 1_763_720_823_500_000_000,
            utc_offset_seconds: 3600,
            zone: String::new(),
        };
        let line = |time, level, text: &str| LogLine { time, level, text: text.to_owned() };
        capture.logs.push(LogFile {
            source: "/var/log/shop/app.log".to_owned(),
            member: String::new(),
            assumed_zone: String::new(),
            lines: vec![
                line(Some(MonoNanos(4_000_000_000)), LogLevel::Info, "begins"),
                line(Some(MonoNanos(6_250_000_000)), LogLevel::Error, "fails\n  at \u{1b}[2Jpay"),
                line(None, LogLevel::Unknown, "more"),
            ],
        });
        capture
    }

    const ALL: WantedLines<'_> = WantedLines { least: LogLevel::Unknown, within: None, text: &|_| true };

    #[test]
    fn lines_have_both_clocks_and_command_no_terminal() {
        let capture = capture();
        let text = render_log_lines_text(&capture, &log_lines(&capture, &ALL), TextOptions::default());
        assert_eq!(
            text,
            "    -1.000 s  11:27:02.500  info     app.log  begins\n    \
             +1.250 s  11:27:04.750  error    app.log  fails\n      at \\u{1b}[2Jpay\n    \
             +1.250 s  11:27:04.750           app.log  more\n\n3 of 3 lines of 1 log\n"
        );
        let none = render_log_lines_text(&Capture::default(), &[], TextOptions::default());
        assert!(none.starts_with("there are no logs in it"), "{none}");
    }

    #[test]
    fn lines_of_several_logs_stand_below_each_other() {
        let mut capture = capture();
        capture.logs[0].lines.truncate(2);
        let line = |seconds: u64, level| LogLine {
            time: Some(MonoNanos(seconds * 1_000_000_000)),
            level,
            text: "x".to_owned(),
        };
        capture.logs.push(LogFile {
            source: "journal:shop.service".to_owned(),
            member: String::new(),
            assumed_zone: String::new(),
            lines: vec![line(5, LogLevel::Warning), line(1_000_005, LogLevel::Debug)],
        });
        let shown = |wanted: &WantedLines<'_>| {
            let text = render_log_lines_text(&capture, &log_lines(&capture, wanted), TextOptions::default());
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let all = shown(&ALL);
        let columns: Vec<_> = all
            .iter()
            .filter_map(|line| {
                line.find("  info")
                    .or(line.find("  error"))
                    .or(line.find("  warning"))
                    .or(line.find("  debug"))
            })
            .collect();
        assert_eq!(columns, [28; 4], "{all:#?}");
        assert_eq!(all[1], "      +0.000 s  11:27:03.500  warning  journal:shop.service  x");
        assert_eq!(all[4], "+1000000.000 s  01:13:43.500  debug    journal:shop.service  x");
        assert_eq!(all.last().map(String::as_str), Some("4 of 4 lines of 2 logs"));
        let errors = shown(&WantedLines { least: LogLevel::Error, ..ALL });
        assert_eq!(errors.last().map(String::as_str), Some("1 of 4 lines of 2 logs"));
        let none = shown(&WantedLines { text: &|_| false, ..ALL });
        assert_eq!(none, ["0 of 4 lines of 2 logs"]);
    }

    #[test]
    fn programs_get_the_whole_name_and_time() {
        let capture = capture();
        let wanted = WantedLines { least: LogLevel::Error, ..ALL };
        let json = render_log_lines_json(&capture, &log_lines(&capture, &wanted));
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&document["schema"], &document["total"]), (&"biopsy-log-lines".into(), &3.into()));
        assert_eq!(document["lines"].as_array().map(Vec::len), Some(1));
        let line = &document["lines"][0];
        assert_eq!(line["seconds"], 1.25);
        assert_eq!(line["time"], "2025-11-21T11:27:04.75+01:00");
        assert_eq!(line["source"], "/var/log/shop/app.log");
        assert_eq!(line["level"], "error");
    }
}
