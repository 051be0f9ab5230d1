//! What a process wrote before it ended itself: the traceback that runtimes print for an exception that nobody caught, or the line of a
//! panic. By then nothing of it is on a stack any more.
//!
//! ```text
//! Python       Traceback (most recent call last): / File "menu.py", line 7, in price / ValueError: text
//! Java         Exception in thread "main" a.b.Error: text / at a.B.c(B.java:7) / Caused by: ...
//! JavaScript   Error: text / at price (/srv/menu.js:7:9)
//! Rust         thread 'main' panicked at src/menu.rs:7:9: / text
//! ```

use super::places::StackPlace;
use crate::whose::{self, Code, Language, Whose};

/// What follows such a text at most, in lines: `Node.js v20.1.0`, a note on backtraces.
const BEHIND: usize = 6;
/// Characters of the text of an exception.
const TEXT: usize = 300;

/// An exception that nobody caught, as its runtime wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastWords {
    /// `ValueError`, `java.lang.IllegalStateException`, `a Rust panic`.
    pub type_name: String,
    /// Its text; empty where it has none. Redacted.
    pub text: String,
    /// Where it was thrown: the innermost function of the program, or the file and line of it.
    pub place: Option<StackPlace>,
}

/// The exception at the end of these lines; `None`: they end with something else.
pub(super) fn parse(lines: &[String]) -> Option<LastWords> {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    let found = [python(&lines), java(&lines), javascript(&lines), rust(&lines)].into_iter().flatten();
    let (end, words) = found.max_by_key(|(end, _)| *end)?;
    let behind = lines.get(end..).unwrap_or_default().iter().filter(|line| !line.is_empty()).count();
    (behind <= BEHIND).then_some(words)
}

/// A frame, as a traceback has it.
struct Frame<'l> {
    function: &'l str,
    file: &'l str,
    line: Option<u32>,
}

/// The place of frames, innermost first.
fn place(language: Language, frames: &[Frame<'_>]) -> Option<StackPlace> {
    let whose = |frame: &Frame<'_>| {
        Code { language, function: Some(frame.function), file: Some(frame.file), ..Code::default() }.whose()
    };
    let frame = frames.get(whose::place(frames.iter().map(whose))?)?;
    let name = frame.file.rsplit('/').next().unwrap_or_default();
    let at = frame.line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
    let shown = match frame.function {
        "" => at,
        function => format!("{function} ({at})"),
    };
    Some(StackPlace {
        function: frame.function.to_owned(),
        source: Some((frame.file.to_owned(), frame.line)),
        own: whose(frame) == Whose::Program,
        shown: Some(shown),
        ..StackPlace::default()
    })
}

/// `ValueError: text`; the name is one word.
fn error(line: &str) -> Option<(String, String)> {
    let (name, text) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
    let is_name = |one: char| one.is_alphanumeric() || matches!(one, '_' | '$' | '.');
    (!name.is_empty() && name.chars().all(is_name)).then(|| (name.to_owned(), short(text)))
}

fn short(text: &str) -> String {
    text.chars().take(TEXT).collect()
}

fn words((type_name, text): (String, String), place: Option<StackPlace>) -> LastWords {
    LastWords { type_name, text, place }
}

/// The last traceback, and the number of the line behind it.
fn python(lines: &[&str]) -> Option<(usize, LastWords)> {
    let start = lines.iter().rposition(|line| *line == "Traceback (most recent call last):")?;
    let mut frames = Vec::new();
    let mut end = start + 1;
    while let Some(line) = lines.get(end).filter(|line| line.starts_with(' ')) {
        let frame = || {
            let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
            let (number, function) = rest.split_once(", in ").unwrap_or((rest, ""));
            Some(Frame { function, file, line: number.parse().ok() })
        };
        frames.extend(frame());
        end += 1;
    }
    let error = error(lines.get(end)?)?;
    frames.reverse();
    Some((end + 1, words(error, place(Language::Python, &frames))))
}

/// The last exception that ended a thread, and what caused it at the root.
fn java(lines: &[&str]) -> Option<(usize, LastWords)> {
    const BEGINS: &str = "Exception in thread \"";
    let start = lines.iter().rposition(|line| line.starts_with(BEGINS))?;
    let (_, outer) = lines.get(start)?.strip_prefix(BEGINS)?.split_once("\" ")?;
    let mut thrown = error(outer)?;
    let mut frames = Vec::new();
    let mut end = start + 1;
    while let Some(line) = lines.get(end) {
        let text = line.trim_start();
        if let Some(frame) = text.strip_prefix("at ").filter(|_| text.len() < line.len()) {
            let (function, file) = frame.split_once('(').unwrap_or((frame, ""));
            let (file, number) =
                file.trim_end_matches(')').rsplit_once(':').unwrap_or((file.trim_end_matches(')'), ""));
            // `java.base/java.util.ArrayList.get`.
            let function = function.rsplit_once('/').map_or(function, |(_, function)| function);
            frames.push(Frame { function, file, line: number.parse().ok() });
        } else if let Some(inner) = line.strip_prefix("Caused by: ").and_then(error) {
            thrown = inner;
            frames.clear();
        } else if !(text.starts_with("... ") && text.ends_with(" more") || text.starts_with("Suppressed: ")) {
            break;
        }
        end += 1;
    }
    Some((end, words(thrown, place(Language::Java, &frames))))
}

/// The last stack of an error, with the line before it.
fn javascript(lines: &[&str]) -> Option<(usize, LastWords)> {
    let last = lines.iter().rposition(|line| of_javascript(line).is_some())?;
    let first = lines.get(..=last)?.iter().rposition(|line| of_javascript(line).is_none())?;
    let frames: Vec<Frame<'_>> =
        lines.get(first + 1..=last)?.iter().filter_map(|line| of_javascript(line)).collect();
    // A text may have several lines; the name, of a class, stands in the first.
    let named = lines.get(..=first)?.iter().rev().take(20).find_map(|line| {
        let line = line.trim_start_matches("Uncaught ").trim_start_matches("[UnhandledPromiseRejection: ");
        // `Error [ERR_X]: text`, `TypeError: text`.
        let (name, text) = line.split_once(": ").unwrap_or((line, ""));
        let name = name.split_once(" [").map_or(name, |(name, _)| name);
        error(&format!("{name}: {text}")).filter(|_| line.starts_with(|first: char| first.is_uppercase()))
    });
    Some((last + 1, words(named?, place(Language::JavaScript, &frames))))
}

/// A line: `    at price (/srv/menu.js:7:9)`, `async price (...)`, `/srv/menu.js:7:9`.
fn of_javascript(text: &str) -> Option<Frame<'_>> {
    let text = text.strip_prefix("    at ")?.trim_end_matches(" {");
    let (function, place) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((function, place)) => (function, place),
        None => ("", text),
    };
    let (place, column) = place.rsplit_once(':')?;
    let (file, line) = place.rsplit_once(':')?;
    column.parse::<u32>().ok()?;
    let function = function.trim_start_matches("async ").trim_start_matches("new ");
    Some(Frame { function, file: file.trim_start_matches("async "), line: Some(line.parse().ok()?) })
}

/// The last panic; who called is there where backtraces are switched on.
fn rust(lines: &[&str]) -> Option<(usize, LastWords)> {
    let at = lines.iter().rposition(|line| line.starts_with("thread '") && line.contains(" panicked at "))?;
    let (_, rest) = lines.get(at)?.split_once(" panicked at ")?;
    // To 1.72 the text came first: `'text', src/menu.rs:7:9`.
    let (place_of, text, mut end) = match rest.strip_suffix(':') {
        Some(place) => (place, *lines.get(at + 1).unwrap_or(&""), at + 2),
        None => {
            let (text, place) = rest.rsplit_once(", ")?;
            (place, text.trim_matches('\''), at + 1)
        }
    };
    let mut parts = place_of.rsplitn(3, ':');
    let (_, line, file) = (parts.next()?, parts.next()?, parts.next()?);
    let location = Frame { function: "", file, line: line.parse().ok() };
    let mut frames = Vec::new();
    // `  12: menu::price` and `             at ./src/menu.rs:7:9`.
    while let Some(text) =
        lines.get(end).filter(|line| line.starts_with(' ') || line.starts_with("stack backtrace"))
    {
        let function = text.trim_start().split_once(": ").filter(|(number, _)| number.parse::<u32>().is_ok());
        if let Some((_, function)) = function {
            frames.push(Frame { function, file: "", line: None });
        } else if let (Some(frame), Some(at)) = (frames.last_mut(), text.trim_start().strip_prefix("at ")) {
            let mut parts = at.rsplitn(3, ':');
            if let (Some(_), Some(line), Some(file)) = (parts.next(), parts.next(), parts.next()) {
                (frame.file, frame.line) = (file, line.parse().ok());
            }
        }
        end += 1;
    }
    let known = place(Language::Native, &frames).filter(|place| place.own);
    let place = known.or_else(|| place(Language::Native, &[location]));
    Some((end, words(("a Rust panic".to_owned(), short(text)), place)))
}

#[cfg(test)]
mod tests {
    use super::{LastWords, parse};

    fn said(text: &str) -> Option<(String, String, String)> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let LastWords { type_name, text, place } = parse(&lines)?;
        Some((type_name, text, place.and_then(|place| place.shown).unwrap_or_default()))
    }

    fn is(text: &str, expected: (&str, &str, &str)) {
        let (name, message, place) = said(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!((name.as_str(), message.as_str(), place.as_str()), expected);
    }

    #[test]
    fn tracebacks_of_each_language_have_a_type_a_text_and_a_place() {
        is(
            "3 orders\nTraceback (most recent call last):\n  File \"/srv/menu.py\", line 9, in <module>\n    main()\n  \
             File \"/srv/menu.py\", line 7, in price\n    return int(text)\n           ^^^^^^^^^\n  File \
             \"/usr/lib/python3.11/json/decoder.py\", line 355, in raw_decode\nValueError: no number: 'x'\n",
            ("ValueError", "no number: 'x'", "price (menu.py:7)"),
        );
        is(
            "Exception in thread \"main\" java.lang.IllegalStateException: closed\n\tat \
             java.base/java.util.ArrayList.get(ArrayList.java:427)\n\tat shop.Menu.price(Menu.java:7)\nCaused by: \
             shop.NoPrice: soup\n\tat shop.Prices.find(Prices.java:3)\n\t... 2 more\n",
            ("shop.NoPrice", "soup", "shop.Prices.find (Prices.java:3)"),
        );
        is(
            "/srv/menu.js:7\n  throw new NoPrice(`soup`);\n  ^\n\nNoPrice: soup\n    at price (/srv/menu.js:7:9)\n    at \
             async serve (/srv/menu.js:20:3)\n    at node:internal/main:1:1\n\nNode.js v20.20.2\n",
            ("NoPrice", "soup", "price (menu.js:7)"),
        );
        is(
            "node:events:495\n\nError [ERR_X]: two\nlines\n    at node:net:1:2\n    at /srv/menu.js:7:9 {\n  code: 'X'\n}\n\nNode.js v20\n",
            ("Error", "two", "menu.js:7"),
        );
        is(
            "thread 'main' panicked at src/menu.rs:7:9:\nno price\nnote: run with `RUST_BACKTRACE=1`\n",
            ("a Rust panic", "no price", "menu.rs:7"),
        );
        is(
            "thread 'main' panicked at 'no price', src/menu.rs:7:9\nstack backtrace:\n   0: rust_begin_unwind\n             at \
             /rustc/1/library/std/src/panicking.rs:1:5\n   1: menu::price\n             at ./src/menu.rs:7:9\n   2: main\n",
            ("a Rust panic", "no price", "menu::price (menu.rs:7)"),
        );
    }

    #[test]
    fn what_was_written_long_before_is_not_why_it_ended() {
        let old = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: x\n";
        assert!(said(old).is_some());
        assert_eq!(said(&format!("{old}{}", "goes on\n".repeat(7))), None);
        for other in [
            "",
            "3 orders\n4 orders\n",
            "thread 'main' panicked at x",
            "    at nothing\n",
            "Exception in thread \"a\n",
        ] {
            assert_eq!(said(other), None, "{other}");
        }
    }

    #[test]
    fn odd_tracebacks_give_what_they_have() {
        const TRACEBACK: &str = "Traceback (most recent call last):\n";
        let python = |rest: &str| said(&format!("{TRACEBACK}{rest}"));
        let owned =
            |name: &str, text: &str, place: &str| Some((name.to_owned(), text.to_owned(), place.to_owned()));
        assert_eq!(
            python("  File \"<string>\", line 1, in <module>\nKeyError: 'x'\n"),
            owned("KeyError", "'x'", "<module> (<string>:1)")
        );
        // Without a text, of a package, without frames, and with a line that is no number.
        assert_eq!(python("KeyboardInterrupt\n"), owned("KeyboardInterrupt", "", ""));
        assert_eq!(
            python("  File \"/a/b.py\", line x, in f\nshop.errors.NoPrice: 7: soup\n"),
            owned("shop.errors.NoPrice", "7: soup", "f (b.py)")
        );
        assert_eq!(
            python("  File \"/a/b.py\", line 3\n    f(\nSyntaxError: '(' was never closed\n"),
            owned("SyntaxError", "'(' was never closed", "b.py:3")
        );
        // Cut off before its end, and ended by something that is no name.
        assert_eq!(python("  File \"/a/b.py\", line 3, in f\n"), None);
        assert_eq!(python("no exception: at all\n"), None);
        // The last of two, the second one raised while the first was handled.
        let first = "  File \"/a/b.py\", line 3, in f\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n";
        let second = format!("{first}{TRACEBACK}  File \"/a/c.py\", line 4, in g\nValueError: 2\n");
        assert_eq!(python(&second), owned("ValueError", "2", "g (c.py:4)"));
        let long = python(&format!("ValueError: {}\n", "é".repeat(400)));
        assert_eq!(long.map(|(_, text, _)| text.chars().count()), Some(300));
    }

    #[test]
    fn what_is_in_libraries_alone_is_told_by_the_library() {
        is(
            "Exception in thread \"pool-1-thread-2\" java.lang.NullPointerException\n\tat java.base/java.util.HashMap.get(Unknown \
             Source)\n\tSuppressed: java.io.IOException: closed\n\tat java.base/java.io.Reader.read(Reader.java:3)\n",
            ("java.lang.NullPointerException", "", "java.util.HashMap.get (Unknown Source)"),
        );
        is(
            "Uncaught TypeError: x is not a function\n    at Array.map (<anonymous>)\n    at new Menu (file:///srv/menu.mjs:3:4)\n",
            ("TypeError", "x is not a function", "Menu (menu.mjs:3)"),
        );
        is(
            "thread '<unnamed>' panicked at /rustc/1/library/core/src/option.rs:1:2:\ncalled `Option::unwrap()`\n",
            ("a Rust panic", "called `Option::unwrap()`", "option.rs:1"),
        );
        // Of two languages the one that wrote last.
        is(
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: x\nthread 'main' panicked at \
             src/lib.rs:7:9:\nlost\n",
            ("a Rust panic", "lost", "lib.rs:7"),
        );
    }
}
