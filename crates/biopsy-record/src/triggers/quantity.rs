//! Durations and sizes as people type them.

use std::time::Duration;

/// Longest duration that is taken: a year.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

const DURATIONS: [(&str, f64); 8] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("sec", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("", 1.0),
];

const SIZES: [(&str, f64); 5] = [
    ("", 1.0),
    ("k", 1024.0),
    ("m", 1024.0 * 1024.0),
    ("g", 1024.0 * 1024.0 * 1024.0),
    ("t", 1024.0 * 1024.0 * 1024.0 * 1024.0),
];

/// `30s`, `500ms`, `10m`, `1.5h`, `30` (seconds). `None`: it is none, or longer than a year.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let factor = DURATIONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1;
    let duration = Duration::try_from_secs_f64(number * factor).ok()?;
    (duration <= LONGEST).then_some(duration)
}

/// `2G`, `1.5 GiB`, `512M`, `4096`: bytes; the units are powers of 1024.
pub(super) fn parse_bytes(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit);
    let factor = SIZES.iter().find(|(name, _)| *name == unit)?.1;
    Some((number * factor).round())
}

/// `90%`, `90`.
pub(super) fn parse_percent(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    matches!(unit, "%" | "").then_some(number)
}

/// `500`, `10k`: a whole number.
pub(super) fn parse_count(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    (unit.is_empty() && number.fract() == 0.0).then_some(number)
}

/// A number that is not negative, and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end =
        text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok().filter(|number: &f64| number.is_finite() && *number < 1e18)?;
    Some((number, unit.trim()))
}

/// A duration in the largest unit that gives a whole number.
pub(super) fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if millis >= length && millis.is_multiple_of(length) {
            return format!("{}{unit}", millis / length);
        }
    }
    format!("{millis}ms")
}

/// A size for people: `2.3 GiB`.
pub(super) fn bytes_text(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" { format!("{value:.0} B") } else { format!("{value:.1} {unit}") }
}

/// A size that parses to the same number: `2G`.
pub(super) fn bytes_exactly(bytes: f64) -> String {
    let fitting = SIZES.iter().rev().find(|(_, factor)| bytes >= *factor && (bytes / factor).fract() == 0.0);
    let (unit, factor) = fitting.copied().unwrap_or(("", 1.0));
    format!("{}{}", bytes / factor, unit.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let seconds = |text| parse_duration(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("30s"), Some(30.0));
        assert_eq!(seconds("30"), Some(30.0));
        assert_eq!(seconds("500ms"), Some(0.5));
        assert_eq!(seconds("10 min"), Some(600.0));
        assert_eq!(seconds("1.5h"), Some(5400.0));
        for odd in ["", "s", "-1s", "1x", "1e9s", "inf", "999999999999d", "1s2", "..s"] {
            assert_eq!(seconds(odd), None, "{odd}");
        }
        assert_eq!(duration_text(Duration::from_secs(90)), "90s");
        assert_eq!(duration_text(Duration::from_secs(600)), "10m");
        assert_eq!(duration_text(Duration::from_millis(1500)), "1500ms");
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_bytes("2G"), Some(2_147_483_648.0));
        assert_eq!(parse_bytes("2 GiB"), Some(2_147_483_648.0));
        assert_eq!(parse_bytes("1.5m"), Some(1_572_864.0));
        assert_eq!(parse_bytes("512"), Some(512.0));
        assert_eq!(parse_bytes("2X"), None);
        assert_eq!(bytes_exactly(2_147_483_648.0), "2G");
        assert_eq!(bytes_exactly(1_572_864.0), "1536K");
        assert_eq!(bytes_exactly(7.0), "7");
        assert_eq!(bytes_text(2_469_606_195.0), "2.3 GiB");
        assert_eq!(bytes_text(12.0), "12 B");
    }

    #[test]
    fn counts_and_percents() {
        assert_eq!(parse_count("500"), Some(500.0));
        assert_eq!(parse_count("5.5"), None);
        assert_eq!(parse_percent("90%"), Some(90.0));
        assert_eq!(parse_percent("150"), Some(150.0));
        assert_eq!(parse_percent("90 degrees"), None);
    }
}
