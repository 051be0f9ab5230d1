//! What people read is what was meant: numbers come back from their texts, at every size and at the edges of units.

use super::*;
use proptest::prelude::*;

/// The number in a text: `1,234.5` of `1,234.5 MiB`.
fn read(text: &str) -> f64 {
    let number = text.split(' ').next().expect("a number");
    number.replace(',', "").parse().unwrap_or_else(|_| panic!("`{text}` begins with a number"))
}

/// All sizes, both signs.
fn reals() -> impl Strategy<Value = f64> {
    (-18.0..18.0_f64, any::<bool>()).prop_map(|(exponent, negative)| {
        let value = 10f64.powf(exponent);
        if negative { -value } else { value }
    })
}

proptest! {
    #[test]
    fn a_number_is_read_back(value in reals()) {
        let text = number(value);
        // Below a thousandth two digits are enough.
        let tolerance = if value.abs() < 0.0995 { 0.06 } else { 0.0051 };
        let found = read(&text);
        prop_assert!((found - value).abs() <= value.abs() * tolerance + 0.00051, "{} is {}", value, text);
        prop_assert!(!text.contains('.') || !text.ends_with('0') || text.contains('e'), "{}", text);
    }

    #[test]
    fn bytes_are_read_back(value in 0.0..1e18_f64) {
        let text = bytes(value);
        let (_, unit) = text.split_once(' ').expect("a unit");
        let at = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].iter().position(|known| *known == unit).expect("a known unit");
        let factor = 1024f64.powi(i32::try_from(at).expect("few"));
        let found = read(&text) * factor;
        // Up to 1,023 of a unit, in whole ones.
        prop_assert!((found - value).abs() <= (value * 0.0051).max(0.5), "{} is {}", value, text);
        prop_assert!(read(&text) < 1024.0 || unit == "PiB", "{}", text);
    }

    #[test]
    fn times_are_read_back(nanos in prop_oneof![0..10_000_u64, 0..10_000_000_000_u64, 0..1_000_000_000_000_000_u64]) {
        let text = duration(Nanos(nanos));
        let parts: Vec<&str> = text.split(' ').collect();
        let unit = |unit: &str| match unit {
            "ns" => 1.0,
            "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "min" => 60e9,
            "h" => 3600e9,
            other => panic!("`{other}`"),
        };
        let found: f64 = parts.chunks(2).map(|part| read(part[0]) * unit(part[1])).sum();
        let meant = to_f64(nanos);
        let step = match parts.as_slice() {
            [_, "h", ..] => 60e9,
            [_, "min", ..] => 1e9,
            _ => meant * 0.0051,
        };
        prop_assert!((found - meant).abs() <= step, "{} ns is {}", nanos, text);
        // A thousand of one is one of the next.
        prop_assert!(parts.len() == 4 || read(parts[0]) < 1000.0, "{}", text);
        prop_assert!(parts.len() == 2 || read(parts[2]) < 60.0, "{}", text);
    }

    #[test]
    fn longer_is_not_less(a in 0..u64::MAX / 4, b in 0..u64::MAX / 4) {
        let (short, long) = (a.min(b), a.max(b));
        prop_assert!(significant(to_f64(short), 4) <= significant(to_f64(long), 4));
    }

    #[test]
    fn rounding_keeps_its_digits_and_rounds_once(value in reals(), digits in 1..9_i32) {
        let rounded = significant(value, digits);
        let tolerance = value.abs() * 0.5 * 10f64.powi(1 - digits) * 1.000_001;
        prop_assert!((rounded - value).abs() <= tolerance, "{} to {} digits is {}", value, digits, rounded);
        prop_assert_eq!(significant(rounded, digits), rounded);
    }

    #[test]
    fn thousands_are_apart_and_nothing_is_lost(value in any::<u64>()) {
        let text = count(value);
        prop_assert_eq!(text.replace(',', "").parse::<u64>().ok(), Some(value));
        let groups: Vec<&str> = text.split(',').collect();
        prop_assert!(groups[1..].iter().all(|group| group.len() == 3) && (1..=3).contains(&groups[0].len()), "{}", text);
    }

    /// Whatever is there, there is a text, without a sign of nothing.
    #[test]
    fn whatever_a_number_is_it_has_a_text(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        for text in [number(value), share(value), bytes(value), seconds(value)] {
            prop_assert!(!text.is_empty() && !text.contains("NaN") && !text.contains("inf"), "{} is {}", value, text);
            prop_assert!(!text.starts_with("-0 ") && text != "-0" && !text.starts_with("-0.0 "), "{} is {}", value, text);
        }
        prop_assert!(significant(value, 4).is_finite());
    }
}

#[test]
fn edges_of_units() {
    for (nanos, text) in [
        (999, "999 ns"),
        (1_000, "1 µs"),
        (999_400, "999 µs"),
        (999_600, "1 ms"),
        (999_499_999, "999 ms"),
        (999_600_000, "1 s"),
        (59_960_000_000, "60 s"),
        (99_949_999_999, "99.9 s"),
        (99_950_000_000, "1 min 40 s"),
        (119_600_000_000, "2 min 00 s"),
        (3_599_400_000_000, "59 min 59 s"),
        (3_599_500_000_000, "1 h 00 min"),
        (u64::MAX, "5,124,095 h 34 min"),
    ] {
        assert_eq!(duration(Nanos(nanos)).replace(',', ""), text.replace(',', ""), "{nanos}");
    }
    for (value, text) in [
        (1023.4, "1,023 B"),
        (1023.5, "1 KiB"),
        (1023.4 * 1024.0, "1,023 KiB"),
        (1024.0 * 1024.0, "1 MiB"),
        (-1536.0, "-1.5 KiB"),
        (f64::NAN, "?"),
        (f64::INFINITY, "?"),
    ] {
        assert_eq!(bytes(value), text, "{value}");
    }
    for (value, text) in [
        (0.000_499, "<0.1 %"),
        (0.000_5, "0.1 %"),
        (0.999_4, "99.9 %"),
        (0.999_6, "100 %"),
        (12.5, "1250 %"),
        (-0.25, "-25.0 %"),
        (f64::NAN, "?"),
        (f64::NEG_INFINITY, "?"),
    ] {
        assert_eq!(share(value), text, "{value}");
    }
}

#[test]
fn readings_have_their_unit() {
    for (unit, value, text) in [
        (Unit::Count, 1_500.0, "1,500"),
        (Unit::PerSecond, 0.25, "0.25/s"),
        (Unit::Cores, 1.0, "1 core"),
        (Unit::Cores, 0.5, "0.5 cores"),
        (Unit::Ratio, 0.5, "50.0 %"),
        (Unit::Bytes, 2048.0, "2 KiB"),
        (Unit::BytesPerSecond, 2048.0, "2 KiB/s"),
        (Unit::Milliseconds, 1_500.0, "1.5 s"),
    ] {
        assert_eq!(reading(unit, value), text, "{unit:?}");
    }
}

#[test]
fn evidence_says_its_number_once() {
    let evidence = |text: &str, value| biopsy_analyze::Evidence {
        text: text.to_owned(),
        reference: biopsy_analyze::Reference::Recording,
        value,
    };
    assert_eq!(
        evidence_text(&evidence("self time", Some(Value::Time(Nanos(3_000_000_000))))),
        "self time: 3 s"
    );
    assert_eq!(evidence_text(&evidence("busy 97 %", Some(Value::Share(0.97)))), "busy 97 %");
    assert_eq!(evidence_text(&evidence("it ended", None)), "it ended");
}

#[test]
fn three_significant_digits() {
    let cases = [
        (0.0, "0"),
        (-0.0, "0"),
        (0.00012, "1.2e-4"),
        (0.1234, "0.123"),
        (1.2, "1.2"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234.5, "1,235"),
        (-1234.4, "-1,234"),
        (f64::NAN, "?"),
        (1e300, "1.00e300"),
    ];
    for (value, expect) in cases {
        assert_eq!(number(value), expect, "{value}");
    }
}

#[test]
fn significant_digits() {
    assert_eq!(significant(1234.567, 4), 1235.0);
    assert_eq!(significant(0.000_123_456, 4), 0.000_123_5);
    assert_eq!(significant(-99_999.0, 4), -100_000.0);
    assert_eq!(significant(0.120_000_000_000_000_09, 6), 0.12);
    assert_eq!(significant(f64::NAN, 4), 0.0);
    assert!(significant(f64::MIN_POSITIVE, 4) > 0.0);
    assert!(significant(f64::MAX, 4).is_finite());
}

#[test]
fn times() {
    let cases = [
        (0, "0 s"),
        (12, "12 ns"),
        (3_400, "3.4 µs"),
        (56_000_000, "56 ms"),
        (1_230_000_000, "1.23 s"),
        (125_000_000_000, "2 min 05 s"),
        (11_040_000_000_000, "3 h 04 min"),
    ];
    for (value, expect) in cases {
        assert_eq!(duration(Nanos(value)), expect);
    }
}

#[test]
fn bytes_and_shares() {
    assert_eq!(bytes(1000.0), "1,000 B");
    assert_eq!(bytes(-0.4), "0 B");
    assert_eq!(share(-0.0), "0.0 %");
    assert_eq!(bytes(1536.0), "1.5 KiB");
    assert_eq!(bytes(8.0 * 1024.0 * 1024.0 * 1024.0), "8 GiB");
    assert_eq!(share(0.1234), "12.3 %");
    assert_eq!(share(0.0001), "<0.1 %");
    assert_eq!(share(1.0), "100 %");
    assert_eq!(count(1_234_567), "1,234,567");
}
