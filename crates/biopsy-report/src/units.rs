//! Numbers with units, as people read them: three significant digits, binary multiples for bytes.

use biopsy_analyze::Value;
use biopsy_model::Nanos;
use biopsy_model::metric::Unit;

/// `17,342`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 thread`, `3 threads`.
#[must_use]
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Three significant digits: `0.123`, `1.23`, `12.3`, `123`, `1,234`.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "?".to_owned();
    }
    // Nothing has no sign.
    let value = if value == 0.0 { 0.0 } else { value };
    let size = value.abs();
    if size >= 1e15 {
        format!("{value:.2e}")
    } else if size >= 99.95 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(to_u64(size.round())))
    } else if size >= 9.995 {
        trim(format!("{value:.1}"))
    } else if size >= 0.9995 || size == 0.0 {
        trim(format!("{value:.2}"))
    } else if size >= 0.0005 {
        trim(format!("{value:.3}"))
    } else {
        format!("{value:.1e}")
    }
}

/// `12.3 %`; `0.123` is twelve point three.
#[must_use]
pub fn share(value: f64) -> String {
    let percent = if value == 0.0 { 0.0 } else { value * 100.0 };
    if !percent.is_finite() {
        "?".to_owned()
    } else if percent.abs() >= 99.95 {
        format!("{percent:.0} %")
    } else if percent != 0.0 && percent.abs() < 0.05 {
        "<0.1 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

/// `1.2 GiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    if !value.is_finite() {
        return "?".to_owned();
    }
    let mut scaled = value;
    let mut unit = 0;
    while scaled.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{} B", number(scaled.round()))
    } else {
        format!("{} {}", number(scaled), UNITS[unit])
    }
}

/// `12 ns`, `3.4 µs`, `56 ms`, `1.23 s`, `2 min 05 s`, `3 h 04 min`.
#[must_use]
pub fn duration(time: Nanos) -> String {
    seconds(time.as_secs_f64())
}

/// As [`duration`], from seconds.
#[must_use]
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return "?".to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        "0 s".to_owned()
    } else if size < 0.999_5e-6 {
        format!("{} ns", number(value * 1e9))
    } else if size < 0.999_5e-3 {
        format!("{} µs", number(value * 1e6))
    } else if size < 0.999_5 {
        format!("{} ms", number(value * 1e3))
    } else if size < 99.95 {
        format!("{} s", number(value))
    } else {
        let whole = to_u64(size.round());
        let sign = if value < 0.0 { "-" } else { "" };
        if whole < 3600 {
            format!("{sign}{} min {:02} s", whole / 60, whole % 60)
        } else {
            format!("{sign}{} h {:02} min", whole / 3600, whole % 3600 / 60)
        }
    }
}

/// A reading in its unit.
#[must_use]
pub fn reading(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Count => number(value),
        Unit::PerSecond => format!("{}/s", number(value)),
        Unit::Cores => cores(value),
        Unit::Ratio => share(value),
        Unit::Bytes => bytes(value),
        Unit::BytesPerSecond => format!("{}/s", bytes(value)),
        Unit::Milliseconds => seconds(value / 1e3),
    }
}

/// `1 core`, `2.5 cores`.
pub(crate) fn cores(value: f64) -> String {
    let number = number(value);
    if number == "1" { "1 core".to_owned() } else { format!("{number} cores") }
}

/// The number of a piece of evidence.
#[must_use]
pub fn value(value: Value) -> String {
    match value {
        Value::Share(share) => self::share(share),
        Value::Time(time) => duration(time),
        Value::Count(count) => number(count),
        Value::Bytes(bytes) => self::bytes(bytes),
        Value::PerSecond(rate) => format!("{}/s", number(rate)),
        Value::Cores(cores) => self::cores(cores),
    }
}

/// The text of a piece of evidence, with its number where the text does not say any.
pub(crate) fn evidence_text(evidence: &biopsy_analyze::Evidence) -> String {
    match evidence.value {
        Some(value) if !evidence.text.contains(|char: char| char.is_ascii_digit()) => {
            format!("{}: {}", evidence.text, self::value(value))
        }
        _ => evidence.text.clone(),
    }
}

/// A value rounded to some decimal digits; zero for what is not a number.
pub(crate) fn significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let exponent = digits - 1 - exponent(value);
    // Dividing by a power of ten gives the nearest number to the decimal; multiplying by 0.001 does not.
    let power = 10f64.powi(exponent.abs());
    let rounded =
        if exponent >= 0 { (value * power).round() / power } else { (value / power).round() * power };
    if rounded.is_finite() { rounded } else { value }
}

#[expect(clippy::cast_possible_truncation, reason = "a decimal exponent is within -324 and 308")]
fn exponent(value: f64) -> i32 {
    value.abs().log10().floor() as i32
}

/// The whole part of a number that is known to be small and not negative; saturates otherwise.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to int `as` saturates")]
pub(crate) fn to_u64(value: f64) -> u64 {
    value as u64
}

/// For display and for means: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "for display")]
pub(crate) fn to_f64(value: u64) -> f64 {
    value as f64
}

/// `part / whole`, zero where there is no whole.
pub(crate) fn ratio(part: Nanos, whole: Nanos) -> f64 {
    if whole.0 == 0 { 0.0 } else { to_f64(part.0) / to_f64(whole.0) }
}

fn trim(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// An address: `0x7f...`.
pub(crate) fn hex(address: u64) -> String {
    format!("{address:#x}")
}

#[cfg(test)]
mod tests;
