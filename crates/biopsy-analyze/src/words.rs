//! Numbers and names as people write them.

/// `63 %`; below 10 % with one decimal.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 && percent > 0.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `1.9 cores`.
pub(crate) fn cores(cores: f64) -> String {
    if (cores - 1.0).abs() < 0.05 {
        "1 core".to_owned()
    } else if cores < 0.005 {
        "less than 0.01 cores".to_owned()
    } else if cores < 0.095 {
        format!("{cores:.2} cores")
    } else {
        format!("{cores:.1} cores")
    }
}

/// `12.3 s`, `4.1 ms`.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds >= 120.0 {
        format!("{:.1} min", seconds / 60.0)
    } else if seconds >= 1.0 {
        format!("{seconds:.1} s")
    } else if seconds >= 0.9995e-3 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.0} µs", seconds * 1e6)
    }
}

/// `390 MB`.
pub(crate) fn bytes(bytes: f64) -> String {
    let size = bytes.abs();
    if size >= 1e9 {
        format!("{:.1} GB", bytes / 1e9)
    } else if size >= 1e6 {
        format!("{:.0} MB", bytes / 1e6)
    } else {
        format!("{:.0} kB", bytes / 1e3)
    }
}

/// `45,000`.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{:.0}", value.max(0.0));
    let mut out = String::new();
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 thread`, `7 threads`.
pub(crate) fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

/// A function's name for a sentence: without parameters, template arguments and hash, at most 80 characters.
pub(crate) fn shorten(name: &str) -> String {
    const LONGEST: usize = 80;
    // `Feed.GetAsync (async)`: what a method of .NET is, and no parameter list.
    if let Some((method, mark)) = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("))
        && !method.is_empty()
        && !method.ends_with(')')
        && mark.chars().all(|letter| letter.is_ascii_lowercase() || letter == ' ')
    {
        return format!("{} ({mark})", shorten(method));
    }
    let mut out = String::new();
    let mut depth = 0usize;
    let mut before = ':';
    for letter in name.chars() {
        match letter {
            // `operator<`, `<Type as Trait>::method` and Go's `(*Type)` are part of the name.
            '<' if !out.is_empty() && before != ' ' && !out.ends_with("operator") => depth += 1,
            '>' if depth > 0 => {
                depth -= 1;
                before = letter;
                continue;
            }
            '(' if depth == 0 && !matches!(before, ':' | '.') => break,
            _ => {}
        }
        if depth == 0 {
            out.push(letter);
        }
        before = letter;
    }
    let out = out.trim_end();
    let out = out.strip_suffix("::").unwrap_or(out);
    if out.chars().count() > LONGEST {
        let end: String = out.chars().rev().take(LONGEST - 1).collect::<Vec<_>>().into_iter().rev().collect();
        return format!("…{end}");
    }
    if out.is_empty() { name.chars().take(LONGEST).collect() } else { out.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(percent(0.634), "63 %");
        assert_eq!(percent(0.0432), "4.3 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(cores(1.0), "1 core");
        assert_eq!(cores(0.02), "0.02 cores");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(number(45_000.4), "45,000");
        assert_eq!(number(999.0), "999");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(bytes(390e6), "390 MB");
    }

    #[test]
    fn names() {
        assert_eq!(shorten("Pool<Conn, std::less<int>>::take(int, char*)"), "Pool::take");
        assert_eq!(shorten("sync.(*Mutex).Lock"), "sync.(*Mutex).Lock");
        assert_eq!(shorten("(anonymous namespace)::work(int)"), "(anonymous namespace)::work");
        assert_eq!(shorten("<T as Trait>::call"), "<T as Trait>::call");
        assert_eq!(shorten("compute"), "compute");
        assert_eq!(shorten("Shop.Feed<T>.GetAsync (async)"), "Shop.Feed.GetAsync (async)");
        assert_eq!(shorten("operator<(A, B)"), "operator<");
        assert_eq!(shorten(&"x".repeat(200)).chars().count(), 80);
        assert_eq!(shorten("("), "(");
    }
}
