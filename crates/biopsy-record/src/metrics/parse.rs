//! Parsers of the small texts of `/proc`, bounded and without panics on any bytes.

/// The decimal number that `bytes` is, or `None`.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    bytes.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(digit.into())
    })
}

/// A decimal number that may be negative; negative ones are `None` as well.
pub(crate) fn float(bytes: &[u8]) -> Option<f64> {
    if bytes.len() > 32 {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
}

/// The words of a text.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// The lines of a text.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Calls `each` with the name and the first number of each line, for `name: 12 kB` and `name 12`.
pub(crate) fn name_values(text: &[u8], mut each: impl FnMut(&[u8], u64)) {
    for line in lines(text) {
        let mut words = words(line);
        let Some(name) = words.next() else { continue };
        let name = name.strip_suffix(b":").unwrap_or(name);
        if let Some(value) = words.next().and_then(number) {
            each(name, value);
        }
    }
}

/// Fields of `/proc/PID/stat` and `/proc/PID/task/TID/stat` (proc_pid_stat(5)).
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stat {
    /// Field 2, the command name, lossily made UTF-8.
    pub(crate) name: String,
    /// Field 3.
    pub(crate) state: u8,
    /// Field 10.
    pub(crate) minor_faults: u64,
    /// Field 12.
    pub(crate) major_faults: u64,
    /// Field 14, clock ticks.
    pub(crate) user: u64,
    /// Field 15, clock ticks.
    pub(crate) system: u64,
    /// Field 20.
    pub(crate) threads: u64,
    /// Field 22, clock ticks since boot.
    pub(crate) start: u64,
    /// Field 23, bytes.
    pub(crate) virtual_size: u64,
    /// Field 24, pages.
    pub(crate) resident_pages: u64,
    /// Field 42, clock ticks.
    pub(crate) disk_delay: Option<u64>,
}

/// Parses `stat`. The command name may hold spaces, parentheses and line ends: what counts is the last `)`,
/// since only numbers and the state letter follow it.
pub(crate) fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let mut fields = words(text.get(close + 1..)?);
    let state = *fields.next()?.first()?;
    // `fields` now yields field 4 first; nth(n) skips n and takes one.
    let minor_faults = number(fields.nth(6)?)?; // 10
    let major_faults = number(fields.nth(1)?)?; // 12
    let user = number(fields.nth(1)?)?; // 14
    let system = number(fields.next()?)?; // 15
    let threads = number(fields.nth(4)?)?; // 20
    let start = number(fields.nth(1)?)?; // 22
    let virtual_size = number(fields.next()?)?; // 23
    let resident_pages = number(fields.next()?)?; // 24
    let disk_delay = fields.nth(17).and_then(number); // 42
    Some(Stat {
        name,
        state,
        minor_faults,
        major_faults,
        user,
        system,
        threads,
        start,
        virtual_size,
        resident_pages,
        disk_delay,
    })
}

/// `/proc/PID/task/TID/schedstat`: nanoseconds on a CPU, nanoseconds ready and waiting for one, turns on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SchedStat {
    pub(crate) run: u64,
    pub(crate) ready: u64,
    pub(crate) turns: u64,
}

/// Parses `schedstat`; all zeros are what a kernel without the accounting prints, and are `None`.
pub(crate) fn parse_schedstat(text: &[u8]) -> Option<SchedStat> {
    let mut fields = words(text).map(number);
    let (run, ready, turns) = (fields.next()??, fields.next()??, fields.next()??);
    (run != 0 || ready != 0 || turns != 0).then_some(SchedStat { run, ready, turns })
}

/// `/proc/PID/io`: storage bytes, calls, and bytes asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Io {
    pub(crate) read_bytes: Option<u64>,
    pub(crate) write_bytes: Option<u64>,
    pub(crate) read_calls: Option<u64>,
    pub(crate) write_calls: Option<u64>,
    pub(crate) read_requested: Option<u64>,
    pub(crate) write_requested: Option<u64>,
}

/// Parses `io`.
pub(crate) fn parse_io(text: &[u8]) -> Io {
    let mut io = Io::default();
    name_values(text, |name, value| match name {
        b"read_bytes" => io.read_bytes = Some(value),
        b"write_bytes" => io.write_bytes = Some(value),
        b"syscr" => io.read_calls = Some(value),
        b"syscw" => io.write_calls = Some(value),
        b"rchar" => io.read_requested = Some(value),
        b"wchar" => io.write_requested = Some(value),
        _ => {}
    });
    io
}

/// One line of a pressure file (PSI): the share of the last 10 seconds, and the total in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Pressure {
    pub(crate) avg10: Option<f64>,
    pub(crate) total: Option<u64>,
}

/// Parses a pressure file into its lines `some` and `full`.
pub(crate) fn parse_pressure(text: &[u8]) -> (Pressure, Pressure) {
    let (mut some, mut full) = (Pressure::default(), Pressure::default());
    for line in lines(text) {
        let mut words = words(line);
        let target = match words.next() {
            Some(b"some") => &mut some,
            Some(b"full") => &mut full,
            _ => continue,
        };
        for word in words {
            if let Some(value) = word.strip_prefix(b"avg10=") {
                target.avg10 = float(value).map(|percent| percent / 100.0);
            } else if let Some(value) = word.strip_prefix(b"total=") {
                target.total = number(value);
            }
        }
    }
    (some, full)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_exact_or_nothing() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b"18446744073709551616"[..], b"", b"-1", b"1x", b"999999999999999999999"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn stat_with_an_odd_name() {
        let text = b"42 (a) R 1 (b\n\xff) S 1 2 3 4 5 6 70 8 90 10 110 120 13 14 15 16 17 18 190 2000 2100 \
                     22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 3900 40\n";
        let stat = parse_stat(text).expect("well formed");
        assert_eq!(stat.name, "a) R 1 (b\n\u{fffd}");
        assert_eq!(stat.state, b'S');
        assert_eq!((stat.minor_faults, stat.major_faults), (70, 90));
        assert_eq!((stat.user, stat.system), (110, 120));
        assert_eq!((stat.threads, stat.start), (17, 190));
        assert_eq!((stat.virtual_size, stat.resident_pages), (2000, 2100));
        assert_eq!(stat.disk_delay, Some(3900));
    }

    #[test]
    fn pressure_lines() {
        let text = b"some avg10=12.50 avg60=0.22 avg300=0.30 total=7691474\nfull avg10=0.00 total=1\n";
        let (some, full) = parse_pressure(text);
        assert_eq!(some, Pressure { avg10: Some(0.125), total: Some(7_691_474) });
        assert_eq!(full, Pressure { avg10: Some(0.0), total: Some(1) });
    }

    #[test]
    fn a_kernel_without_accounting_gives_no_schedstat() {
        assert_eq!(parse_schedstat(b"0 0 0\n"), None);
        assert_eq!(parse_schedstat(b"5 0 1\n"), Some(SchedStat { run: 5, ready: 0, turns: 1 }));
    }

    #[test]
    fn our_own_stat() {
        let text = std::fs::read("/proc/self/stat").expect("proc is mounted");
        let stat = parse_stat(&text).expect("the kernel's own text");
        assert!(stat.threads >= 1 && stat.start > 0 && stat.resident_pages > 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse_stat(&text);
            let _ = parse_schedstat(&text);
            let _ = parse_io(&text);
            let _ = parse_pressure(&text);
            name_values(&text, |_, _| {});
        }

        #[test]
        fn any_name_leaves_the_numbers(name in proptest::collection::vec(any::<u8>(), 0..32), user: u64) {
            let mut text = b"1 (".to_vec();
            text.extend(&name);
            text.extend(format!(") R 1 1 1 0 -1 4 10 0 0 0 {user} 7 0 0 20 0 3 0 55 4096 2\n").bytes());
            let stat = parse_stat(&text).expect("well formed whatever the name");
            prop_assert_eq!((stat.user, stat.system, stat.threads, stat.start), (user, 7, 3, 55));
            prop_assert_eq!(stat.name, String::from_utf8_lossy(&name));
        }
    }
}
