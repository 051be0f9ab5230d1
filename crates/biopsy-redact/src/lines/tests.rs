//! Private keys that come line by line.

use super::*;
use crate::{BundleKey, Options};

fn redactor() -> Redactor {
    let key = Some(BundleKey::from_bytes([5; 32]));
    Redactor::new(Options { key, ..Options::default() }).expect("the built-in packs are right")
}

/// A line of base64, another one for each number.
fn body(number: usize) -> String {
    format!("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ{number:014}")
}

const BEGIN: &str = "-----BEGIN RSA PRIVATE KEY-----";
const END: &str = "-----END RSA PRIVATE KEY-----";

#[test]
fn what_a_logger_puts_around_a_line_of_a_key_stays() {
    let redactor = redactor();
    let mut lines = redactor.lines();
    assert_eq!(lines.line(BEGIN).text, BEGIN);
    let line = lines.line(&format!("12:00:01 INFO {} |", body(1))).text.into_owned();
    assert!(line.starts_with("12:00:01 INFO [redacted:private-key:") && line.ends_with("] |"), "{line}");
    let short = lines.line("  QAB=").text.into_owned();
    assert!(short.trim_start().starts_with("[redacted:private-key:"), "the last line is short: {short}");
    assert_eq!(lines.line("read 2 lines").text, "read 2 lines", "no base64");
    assert_eq!(lines.line(END).text, END);
    assert_eq!(lines.line(&body(2)).text, body(2), "behind its end");
}

#[test]
fn equal_lines_have_equal_masks_and_each_counts_once() {
    let redactor = redactor();
    let mut lines = redactor.lines();
    let _ = lines.line(BEGIN);
    let masks = [1, 2, 1].map(|number| {
        let line = body(number);
        let redacted = lines.line(&line);
        assert_eq!(
            redacted.hits.iter().map(|hit| (hit.rule.as_str(), hit.count)).collect::<Vec<_>>(),
            [(KEY_RULE, 1)]
        );
        redacted.text.into_owned()
    });
    assert!(masks[0] == masks[2] && masks[0] != masks[1], "{masks:?}");
}

#[test]
fn a_key_without_end_is_over_after_lines_that_are_not_its_own_or_after_too_many() {
    let redactor = redactor();
    for (foreign, is_key) in [(FOREIGN_LINES_MAX, true), (FOREIGN_LINES_MAX + 1, false)] {
        let mut lines = redactor.lines();
        let _ = lines.line(BEGIN);
        (0..foreign).for_each(|_| drop(lines.line("a plain line")));
        let line = body(1);
        assert_eq!(lines.line(&line).text != line, is_key, "{foreign} lines of others");
    }
    let mut lines = redactor.lines();
    let _ = lines.line(BEGIN);
    let masked =
        (0..KEY_LINES_MAX as usize + 10).filter(|number| lines.line(&body(*number)).text != body(*number));
    assert_eq!(masked.count(), KEY_LINES_MAX as usize + 1);
}

#[test]
fn edges_of_keys_are_told_from_words_about_them() {
    for (line, start) in [
        (BEGIN, Some(true)),
        (END, Some(false)),
        ("key=\"-----BEGIN PRIVATE KEY-----", Some(true)),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\\n-----END ENCRYPTED PRIVATE KEY-----", Some(false)),
        ("-----BEGIN CERTIFICATE-----", None),
        ("the PRIVATE KEY begins", None),
        ("----- PRIVATE KEY -----", None),
        ("", None),
    ] {
        assert_eq!(is_start(line), start, "{line}");
    }
}

#[test]
fn the_longest_run_is_taken_and_of_equal_ones_the_first() {
    for (line, run) in [("ab cde fgh", 3..6), ("", 0..0), ("  ", 0..0), ("=+/", 0..3), ("x\u{e4}yz", 3..5)] {
        assert_eq!(longest_run(line.as_bytes()), run, "{line}");
    }
}
