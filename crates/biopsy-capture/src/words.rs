//! Numbers in sentences.

use std::time::Duration;

/// `12,345`
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes, as `312 MB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let (mut unit, mut rest, mut divisor) = (0, bytes, 1_u64);
    while rest >= 1000 && unit + 1 < units.len() {
        rest /= 1000;
        divisor *= 1000;
        unit += 1;
    }
    if unit == 0 || rest >= 10 {
        format!("{rest} {}", units[unit])
    } else {
        format!("{}.{} {}", rest, bytes % divisor / (divisor / 10), units[unit])
    }
}

/// `820 µs`, `14 ms`, `1.3 s`
#[must_use]
pub fn pause_text(pause: Duration) -> String {
    let micros = pause.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", pause.as_secs_f64() * 1e3),
        10_000..1_000_000 => format!("{:.0} ms", pause.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", pause.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1_540_000), "1.5 MB");
        assert_eq!(size(312_000_000), "312 MB");
        assert_eq!(pause_text(Duration::from_micros(820)), "820 µs");
        assert_eq!(pause_text(Duration::from_micros(1_870)), "1.9 ms");
        assert_eq!(pause_text(Duration::from_millis(14)), "14 ms");
        assert_eq!(pause_text(Duration::from_millis(1300)), "1.3 s");
    }
}
