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

/// `1 CPU`, `4 CPUs`: how many a machine has.
pub(crate) fn cpus(count: f64) -> String {
    if (count - 1.0).abs() < 0.5 { "1 CPU".to_owned() } else { format!("{count:.0} CPUs") }
}

/// `12.3 s`, `4.1 ms`.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds >= 120.0 {
        format!("{:.1} min", seconds / 60.0)
    } else if seconds >= 0.999_95 {
        // Each unit begins where the one below it would be rounded up to it.
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
    if size >= 999.5e6 {
        format!("{:.1} GB", bytes / 1e9)
    } else if size >= 999.5e3 {
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

/// `1 thread waits`, `7 threads wait`.
pub(crate) fn threads_wait(count: usize) -> String {
    if count == 1 { "1 thread waits".to_owned() } else { format!("{count} threads wait") }
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
    if let Some(name) = in_brackets(name) {
        return name;
    }
    let mut out = String::new();
    let mut depth = 0usize;
    let mut before = ':';
    // Braces, and within them the parentheses that are open: `{lambda(int)#1}`.
    let (mut braces, mut parameters) = (0usize, 0usize);
    for letter in name.chars() {
        match letter {
            '(' if parameters > 0 || depth == 0 && braces > 0 => parameters += 1,
            ')' if parameters > 0 => {
                parameters -= 1;
                before = letter;
                continue;
            }
            _ if parameters > 0 => {}
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            // `operator<`, `<Type as Trait>::method` and Go's `(*Type)` are part of the name.
            '<' if !out.is_empty() && before != ' ' && !is_operator(&out) => depth += 1,
            '>' if depth > 0 => {
                depth -= 1;
                before = letter;
                continue;
            }
            '(' if depth == 0 && !matches!(before, ':' | '.') && !is_called_operator(&out) => break,
            _ => {}
        }
        if depth == 0 && parameters == 0 {
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

/// What Python, or Java, calls what has no name of its own, or is inside of a function: these brackets are part of the name. `store.<locals>.one`
/// is `store.one`.
fn in_brackets(name: &str) -> Option<String> {
    const LAST: [&str; 6] = ["<dictcomp>", "<genexpr>", "<lambda>", "<listcomp>", "<module>", "<setcomp>"];
    let last = name.rsplit('.').next().unwrap_or(name);
    let last_of_java = matches!(last, "<init>" | "<clinit>") && last != name;
    (last_of_java || name.contains(".<locals>.") || LAST.contains(&last) && last != name)
        .then(|| name.replace(".<locals>", ""))
}

/// What follows is the operator's own: `operator<`, `operator<<`.
fn is_operator(name: &str) -> bool {
    is_called_operator(name.strip_suffix('<').unwrap_or(name))
}

fn is_called_operator(name: &str) -> bool {
    name.strip_suffix("operator").is_some_and(|rest| rest.is_empty() || rest.ends_with([':', ' ']))
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
        assert_eq!([1.0, 2.0, 128.0].map(cpus), ["1 CPU", "2 CPUs", "128 CPUs"]);
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(number(45_000.4), "45,000");
        assert_eq!(number(999.0), "999");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(bytes(390e6), "390 MB");
        assert_eq!([1, 2].map(threads), ["1 thread", "2 threads"]);
        assert_eq!([0, 1, 2].map(threads_wait), ["0 threads wait", "1 thread waits", "2 threads wait"]);
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
        assert_eq!(shorten("store.<locals>.one"), "store.one");
        assert_eq!(shorten("Wish.__init__.<locals>.<listcomp>"), "Wish.__init__.<listcomp>");
        assert_eq!(shorten("<module>"), "<module>");
        assert_eq!(shorten("shop.Draft$Line.<init>"), "shop.Draft$Line.<init>");
        assert_eq!(shorten(&"x".repeat(200)).chars().count(), 80);
        assert_eq!(shorten("("), "(");
    }

    #[test]
    fn units_begin_where_the_one_below_would_be_rounded_up_to_them() {
        for (value, text) in [
            (0.0, "0 µs"),
            (0.000_999_4, "999 µs"),
            (0.000_999_6, "1.0 ms"),
            (0.999_94, "999.9 ms"),
            (0.999_96, "1.0 s"),
            (1.0, "1.0 s"),
            (119.94, "119.9 s"),
            (119.96, "120.0 s"),
            (120.0, "2.0 min"),
            (3600.0, "60.0 min"),
        ] {
            assert_eq!(seconds(value), text, "{value}");
        }
        for (value, text) in [
            (0.0, "0 kB"),
            (999_400.0, "999 kB"),
            (999_600.0, "1 MB"),
            (999.4e6, "999 MB"),
            (999.6e6, "1.0 GB"),
            (-999.6e6, "-1.0 GB"),
            (-2_400.0, "-2 kB"),
            (12.34e9, "12.3 GB"),
        ] {
            assert_eq!(bytes(value), text, "{value}");
        }
        for (value, text) in [
            (0.0, "less than 0.01 cores"),
            (0.004_9, "less than 0.01 cores"),
            (0.094, "0.09 cores"),
            (0.096, "0.1 cores"),
            (0.94, "0.9 cores"),
            (0.96, "1 core"),
            (1.049, "1 core"),
            (1.06, "1.1 cores"),
            (12.0, "12.0 cores"),
        ] {
            assert_eq!(cores(value), text, "{value}");
        }
        for (value, text) in
            [(0.000_4, "0.0 %"), (0.099_4, "9.9 %"), (0.099_6, "10 %"), (1.0, "100 %"), (2.5, "250 %")]
        {
            assert_eq!(percent(value), text, "{value}");
        }
        for (value, text) in [(-4.0, "0"), (0.4, "0"), (999.5, "1,000"), (100_000.0, "100,000")] {
            assert_eq!(number(value), text, "{value}");
        }
        assert_eq!([threads(0), threads(1), threads(2)], ["0 threads", "1 thread", "2 threads"]);
    }

    #[test]
    fn names_of_every_language_keep_what_tells_them_apart() {
        for (name, short) in [
            ("std::operator<<(std::ostream&, char const*)", "std::operator<<"),
            ("operator<<(A&)", "operator<<"),
            ("my_operator<int>(A&)", "my_operator"),
            ("Shop::Order::operator bool() const", "Shop::Order::operator bool"),
            ("Shop::Map<int>::operator[](int)", "Shop::Map::operator[]"),
            ("Shop::Call::operator()(int) const", "Shop::Call::operator()"),
            ("Shop::Order::operator->()", "Shop::Order::operator->"),
            ("Shop::Order::operator<=>(Order const&)", "Shop::Order::operator<=>"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"),
            ("load(std::vector<int>&)::{lambda()#2}::operator()() const", "load"),
            ("shop::load::{closure#0}", "shop::load::{closure#0}"),
            ("<shop::Order as core::fmt::Display>::fmt", "<shop::Order as core::fmt::Display>::fmt"),
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec::push"),
            ("core::ptr::drop_in_place::<shop::Order>", "core::ptr::drop_in_place"),
            ("main.(*Server).handle.func1", "main.(*Server).handle.func1"),
            ("main.load[...]", "main.load[...]"),
            ("Shop.Cache`1<T>.Get", "Shop.Cache`1.Get"),
            ("Shop.Order..ctor", "Shop.Order..ctor"),
            ("(regular expression)", "(regular expression)"),
            ("Pool<Conn, std::less<int>", "Pool"),
            ("", ""),
        ] {
            assert_eq!(shorten(name), short, "{name}");
        }
        // The end of a long name tells more than its beginning; letters count, not bytes.
        let long = format!("{}::price", "é".repeat(100));
        let short = shorten(&long);
        assert!(short.starts_with("…é") && short.ends_with("::price"), "{short}");
        assert_eq!(short.chars().count(), 80);
        assert_eq!(shorten(&"x".repeat(80)), "x".repeat(80));
    }
}
