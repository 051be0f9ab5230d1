//! Tests of logs.

use biopsy_model::MonoNanos;
use biopsy_model::log::{LogLevel, LogLine};
use proptest::prelude::*;

use super::{LogWriter, read_log};
use crate::Limits;

fn write(lines: &[LogLine]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = LogWriter::new(&mut bytes, "logs/x.jsonl", "/var/log/x", "Europe/Berlin").unwrap();
    lines.iter().for_each(|line| writer.push(line).unwrap());
    writer.finish().unwrap();
    bytes
}

fn read(bytes: &[u8], limits: &Limits) -> (Vec<LogLine>, Vec<String>) {
    let mut left = limits.log_lines;
    let (log, warnings) = read_log("logs/x.jsonl", bytes, limits, &mut left);
    assert_eq!(left, limits.log_lines - log.lines.len());
    (log.lines, warnings.into_iter().map(|warning| warning.message).collect())
}

fn line(text: &str) -> LogLine {
    LogLine { time: None, level: LogLevel::Unknown, text: text.to_owned() }
}

#[test]
fn it_looks_like_the_documented_example() {
    let lines = [
        LogLine {
            time: Some(MonoNanos(81_234_567_890)),
            level: LogLevel::Warning,
            text: "Aborted connection 7".to_owned(),
        },
        line("a line without a time stamp"),
    ];
    let bytes = write(&lines);
    assert_eq!(
        std::str::from_utf8(&bytes).unwrap(),
        "{\"source\":\"/var/log/x\",\"assumed_zone\":\"Europe/Berlin\"}\n\
         {\"time_ns\":81234567890,\"level\":\"warning\",\"text\":\"Aborted connection 7\"}\n\
         {\"text\":\"a line without a time stamp\"}\n"
    );
}

#[test]
fn a_cut_last_line_is_left_out() {
    let bytes = write(&[line("one"), line("two")]);
    let (lines, warnings) = read(&bytes[..bytes.len() - 1], &Limits::default());
    assert_eq!(lines, [line("one")]);
    assert_eq!(warnings, ["the last line of `logs/x.jsonl` is cut short and left out"]);
}

#[test]
fn bad_and_endless_lines_are_left_out_and_the_rest_is_read() {
    let mut bytes = write(&[line("one")]);
    bytes.extend(b"nonsense\n{\"text\":7}\n[]\n");
    bytes.extend(vec![b'x'; 300_000]);
    bytes.extend(b"\n{\"text\":\"two\",\"level\":\"fatal?\",\"later\":{}}\n");
    let limits = Limits { line_bytes: 1000, ..Limits::default() };
    let (lines, warnings) = read(&bytes, &limits);
    assert_eq!(lines, [line("one"), line("two")]);
    assert_eq!(warnings, ["4 lines of `logs/x.jsonl` not readable, left out"]);
}

#[test]
fn a_line_of_a_hundred_megabytes_is_cut() {
    // The worst case of JSON: six bytes for one.
    let bytes = write(&[line(&"\u{1}".repeat(100 << 20)), line("next")]);
    let (lines, warnings) = read(&bytes, &Limits::default());
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(lines[1], line("next"));
    assert!(lines[0].text.ends_with("\u{1} [104726528 bytes cut]"));
}

#[test]
fn the_limit_on_lines_is_for_all_logs_together() {
    let bytes = write(&[line("one"), line("two"), line("three")]);
    let limits = Limits { log_lines: 4, ..Limits::default() };
    let mut left = limits.log_lines;
    let (first, warnings) = read_log("logs/x.jsonl", bytes.as_slice(), &limits, &mut left);
    assert_eq!((first.lines.len(), warnings.len(), left), (3, 0, 1));
    let (second, warnings) = read_log("logs/x.jsonl", bytes.as_slice(), &limits, &mut left);
    assert_eq!((second.lines.len(), left), (1, 0));
    assert_eq!(warnings[0].message, "`logs/x.jsonl` not read to its end: too many lines");
}

proptest! {
    #[test]
    fn lines_round_trip(
        lines in proptest::collection::vec((proptest::option::of(any::<u64>()), 0_usize..5, any::<String>()), 0..20)
    ) {
        let levels =
            [LogLevel::Unknown, LogLevel::Debug, LogLevel::Info, LogLevel::Warning, LogLevel::Error];
        let lines: Vec<_> = lines
            .into_iter()
            .map(|(time, level, text)| LogLine { time: time.map(MonoNanos), level: levels[level], text })
            .collect();
        prop_assert_eq!(read(&write(&lines), &Limits::default()), (lines, vec![]));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes, &Limits::small());
    }
}
