//! Sizes and times as they are written in settings: `2GB`, `500 MB`, `24h`, `1h30m`.

use std::time::Duration;

const UNITS: [(&str, u32); 10] = [
    ("", 0),
    ("b", 0),
    ("k", 10),
    ("kb", 10),
    ("m", 20),
    ("mb", 20),
    ("g", 30),
    ("gb", 30),
    ("t", 40),
    ("tb", 40),
];

/// `2GB`, `500 MB`, `1.5G`, a number of bytes. Units are of 1024, as the rest of biopsy has them.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end =
        text.find(|character: char| !(character.is_ascii_digit() || character == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok().filter(|number: &f64| number.is_finite())?;
    let unit = unit.trim().to_ascii_lowercase().replace("ib", "b");
    let &(_, bits) = UNITS.iter().find(|(name, _)| *name == unit)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    let bytes = (number * f64::from(bits).exp2()).min(1e18) as u64;
    Some(bytes)
}

/// `90s`, `3m`, `1h30m`, `2d`; never zero.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    // Days and weeks are no units of a signed duration: a day may have 23 hours. Here it has 24.
    let days = |unit: &str, seconds: f64| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(number * seconds).ok()
    };
    let exact = || Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok();
    days("d", 86_400.0).or_else(|| days("w", 604_800.0)).or_else(exact).filter(|duration| !duration.is_zero())
}

/// A size for people: `2.0 GB`.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    let units = ["bytes", "KB", "MB", "GB", "TB"];
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", units[unit]) }
}

/// A time for people, short: `24h`, `1h 30m`, `90s`.
#[must_use]
pub fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut rest = seconds;
    let mut out = Vec::new();
    for (length, unit) in parts {
        let count = rest / length;
        rest %= length;
        if count > 0 && out.len() < 2 {
            out.push(format!("{count}{unit}"));
        }
    }
    if out.is_empty() { format!("{}ms", duration.as_millis()) } else { out.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("2GB", Some(2 << 30)),
            ("1.5 g", Some(3 << 29)),
            ("500MiB", Some(500 << 20)),
            ("9999999999T", Some(1_000_000_000_000_000_000)),
            ("GB", None),
            ("2 parsecs", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
        assert_eq!(size_text(3 << 29), "1.5 GB");
    }

    #[test]
    fn times() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (text, expected) in [
            ("24h", seconds(86_400)),
            ("1h30m", seconds(5400)),
            ("2d", seconds(172_800)),
            ("1w", seconds(604_800)),
            ("250ms", Some(Duration::from_millis(250))),
            ("0s", None),
            ("-1h", None),
            ("-1d", None),
            ("1e300d", None),
            ("10", None),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
        assert_eq!(duration_text(Duration::from_secs(5400)), "1h 30m");
        assert_eq!(duration_text(Duration::from_secs(86_400)), "1d");
        assert_eq!(duration_text(Duration::from_millis(20)), "20ms");
    }
}
