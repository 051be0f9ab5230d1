//! The severity of a log record, as far as its text tells.

use biopsy_model::log::LogLevel;

use super::stamp::json_value;

/// Words of a line that are looked at in any case; further on only capitals count.
const FIRST_WORDS: usize = 8;
/// Bytes of a line that are looked at.
const SEARCHED: usize = 240;

/// Tells the level of a record from its first line.
pub(crate) fn find_level(line: &[u8]) -> LogLevel {
    if line.first() == Some(&b'{') {
        return json_level(line);
    }
    let searched = line.get(..SEARCHED).unwrap_or(line);
    // glog: `E1121 10:00:00`.
    if let [letter @ (b'I' | b'W' | b'E' | b'F' | b'D'), b'0' | b'1', b'0'..=b'9', ..] = searched {
        return letter_level(*letter);
    }
    let words = searched.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let mut place = 0;
    for word in words.filter(|word| !word.is_empty()) {
        // Numbers and the parts of the stamp do not count.
        if word.first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        place += 1;
        let capitals = word.iter().all(u8::is_ascii_uppercase);
        if place > FIRST_WORDS && !capitals {
            continue;
        }
        let level = word_level(word, capitals);
        if level != LogLevel::Unknown {
            return level;
        }
    }
    LogLevel::Unknown
}

/// The level that a word names. Short forms count in capitals only.
fn word_level(word: &[u8], capitals: bool) -> LogLevel {
    let mut lower = [0_u8; 12];
    let Some(lower) = lower.get_mut(..word.len()) else { return LogLevel::Unknown };
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    match &*lower {
        b"error" | b"fatal" | b"critical" | b"emerg" | b"emergency" | b"alert" | b"panic" | b"severe" => {
            LogLevel::Error
        }
        b"warn" | b"warning" => LogLevel::Warning,
        b"info" | b"information" | b"notice" => LogLevel::Info,
        b"debug" | b"trace" | b"verbose" | b"fine" | b"finer" | b"finest" => LogLevel::Debug,
        b"err" | b"crit" | b"ftl" | b"eror" | b"fail" if capitals => LogLevel::Error,
        b"wrn" if capitals => LogLevel::Warning,
        b"inf" | b"log" | b"statement" if capitals => LogLevel::Info,
        b"dbg" | b"vrb" | b"trc" if capitals => LogLevel::Debug,
        // MySQL: `[Note]`, `[System]`.
        b"note" | b"system" if word.first().is_some_and(u8::is_ascii_uppercase) => LogLevel::Info,
        // .NET console: `fail:`, `crit:`, `info:`, `dbug:`.
        b"dbug" | b"trce" => LogLevel::Debug,
        _ => LogLevel::Unknown,
    }
}

fn letter_level(letter: u8) -> LogLevel {
    match letter.to_ascii_uppercase() {
        b'E' | b'F' | b'C' => LogLevel::Error,
        b'W' => LogLevel::Warning,
        b'I' => LogLevel::Info,
        b'D' | b'T' | b'V' => LogLevel::Debug,
        _ => LogLevel::Unknown,
    }
}

fn json_level(line: &[u8]) -> LogLevel {
    for key in ["level", "severity", "@l", "Level", "levelname", "log.level", "lvl", "s"] {
        let Some(value) = json_value(line, key) else { continue };
        let level = match value.strip_prefix(b"\"") {
            Some(text) => {
                let word = text.split(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
                match word {
                    [letter] => letter_level(*letter),
                    _ => word_level(word, true),
                }
            }
            None => bunyan_level(value),
        };
        if level != LogLevel::Unknown {
            return level;
        }
    }
    // Serilog's compact form leaves the level out when it is Information.
    if json_value(line, "@t").is_some() { LogLevel::Info } else { LogLevel::Unknown }
}

/// Bunyan and pino: 10 trace, 20 debug, 30 info, 40 warn, 50 error, 60 fatal.
fn bunyan_level(value: &[u8]) -> LogLevel {
    let digits: Vec<u8> = value.iter().copied().take_while(u8::is_ascii_digit).take(3).collect();
    match digits.as_slice() {
        b"10" | b"20" => LogLevel::Debug,
        b"30" => LogLevel::Info,
        b"40" => LogLevel::Warning,
        b"50" | b"60" => LogLevel::Error,
        _ => LogLevel::Unknown,
    }
}

/// The level of a journal entry's `PRIORITY` (syslog(3)): 0 emergency to 7 debug.
pub(crate) fn priority_level(priority: Option<u8>) -> LogLevel {
    match priority {
        Some(0..=3) => LogLevel::Error,
        Some(4) => LogLevel::Warning,
        Some(5..=6) => LogLevel::Info,
        Some(7) => LogLevel::Debug,
        _ => LogLevel::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn levels_are_told() {
        for (line, level) in [
            ("2026-11-21 10:00:00 0 [Note] InnoDB: done", LogLevel::Info),
            ("2026-11-21 10:00:00 0 [ERROR] mysqld: Table is full", LogLevel::Error),
            ("2026-11-21 10:00:00.123 UTC [99] LOG:  statement: select 'error'", LogLevel::Info),
            ("2026-11-21 10:00:00.123 UTC [99] FATAL:  no", LogLevel::Error),
            ("2026/11/21 10:00:00 [warn] 1#0: x", LogLevel::Warning),
            ("[10:00:00 WRN] x", LogLevel::Warning),
            ("10:00:00   Verbose  |   x", LogLevel::Debug),
            ("10:00:00   Error    |   x", LogLevel::Error),
            ("E1121 10:00:00.1 1 x.go:1] x", LogLevel::Error),
            ("fail: Microsoft.Hosting[1]", LogLevel::Unknown),
            ("time=x level=debug msg=y", LogLevel::Debug),
            ("10:00:00 all is well, nothing wrong here in the middle: error", LogLevel::Unknown),
            ("Nov 21 10:00:00 host kernel: nothing", LogLevel::Unknown),
            (r#"{"level":50,"msg":"x"}"#, LogLevel::Error),
            (r#"{"level":"warn"}"#, LogLevel::Warning),
            (r#"{"t":{"$date":"x"},"s":"W"}"#, LogLevel::Warning),
            (r#"{"@t":"x","@mt":"y"}"#, LogLevel::Info),
            (r#"{"@t":"x","@l":"Error"}"#, LogLevel::Error),
        ] {
            assert_eq!(find_level(line.as_bytes()), level, "{line}");
        }
        assert_eq!(priority_level(Some(3)), LogLevel::Error);
        assert_eq!(priority_level(None), LogLevel::Unknown);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            find_level(&line);
        }
    }
}
