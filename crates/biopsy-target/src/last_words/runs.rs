//! Long stacks, as runtimes write them, made short: the innermost calls say where it was, the outermost who wrote it.

/// Calls of one stack that are kept at its inner end.
pub(super) const INNERMOST: usize = 40;
/// And at its outer end.
const OUTERMOST: usize = 8;

/// What a line is of a stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// A call, and those that follow are further out.
    Call,
    /// A call of Python, where those that follow are further in.
    Inward,
    /// Belongs to the call before.
    Part,
    Other,
}

/// The lines, where of each stack only the ends are left.
pub(super) fn shorten(lines: Vec<String>) -> Vec<String> {
    let mut kinds: Vec<Line> = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let before = kinds.last().copied().unwrap_or(Line::Other);
        let next = lines.get(at + 1).map_or("", String::as_str);
        kinds.push(kind(before, at.checked_sub(1).and_then(|at| lines.get(at)), line, next));
    }
    let mut kept = Vec::with_capacity(lines.len());
    let mut lines = lines.into_iter().enumerate();
    let mut at = 0;
    while at < kinds.len() {
        let run = kinds.iter().skip(at).take_while(|kind| **kind != Line::Other).count();
        let calls: Vec<usize> =
            (at..at + run).filter(|at| kinds.get(*at).is_some_and(|kind| *kind != Line::Part)).collect();
        let left_out = calls.len().saturating_sub(INNERMOST + OUTERMOST);
        let inward = kinds.get(at) == Some(&Line::Inward);
        let first = if inward { OUTERMOST } else { INNERMOST };
        let gap = match (left_out, calls.get(first), calls.get(first + left_out)) {
            (1.., Some(from), Some(to)) => *from..*to,
            _ => 0..0,
        };
        let end = at + run.max(1);
        for (number, line) in lines.by_ref().take(end - at) {
            if !gap.contains(&number) {
                kept.push(line);
            } else if number == gap.start {
                kept.push(format!("    ... {left_out} calls are left out here ..."));
            }
        }
        at = end;
    }
    kept
}

fn kind(before: Line, line_before: Option<&String>, line: &str, next: &str) -> Line {
    let text = line.trim_start();
    let indented = text.len() < line.len();
    let far_in = line.starts_with("    ");
    let is_part = far_in && !text.starts_with("at ") && !is_numbered(line);
    if is_source_of_go(line) || before == Line::Inward && far_in || before == Line::Part && is_part {
        return Line::Part;
    }
    // Go writes where behind whose.
    if is_source_of_go(next) {
        return Line::Call;
    }
    if indented && text.starts_with("File \"") {
        return Line::Inward;
    }
    // Rust: `  12: menu::price`, and below it `at ./src/menu.rs:7:9`.
    if is_numbered(line) {
        return Line::Call;
    }
    if indented && text.starts_with("at ") {
        let of_rust = line_before.is_some_and(|line| is_numbered(line));
        return if of_rust { Line::Part } else { Line::Call };
    }
    Line::Other
}

fn is_numbered(line: &str) -> bool {
    let number = line.trim_start().split_once(": ").map_or("", |(number, _)| number);
    line.starts_with(' ') && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_source_of_go(line: &str) -> bool {
    line.starts_with('\t') && (line.contains(".go:") || line.contains(".s:")) && !line.contains('(')
}

#[cfg(test)]
mod tests {
    use super::shorten;

    fn short(text: &str) -> Vec<String> {
        shorten(text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn of_a_long_stack_the_ends_are_kept() {
        type Stack = (&'static str, fn(usize) -> String, &'static str);
        let stacks: [Stack; 6] = [
            ("java", |at| format!("\tat a.B.c{at}(B.java:{at})\n"), "a.B.c0("),
            ("javascript", |at| format!("    at c{at} (/srv/b.js:{at}:1)\n"), "at c0 "),
            ("dotnet", |at| format!("   at A.B.C{at}(String x) in /srv/b.cs:line {at}\n"), "A.B.C0("),
            ("go", |at| format!("main.c{at}(0x1)\n\t/srv/b.go:{at} +0x1d\n"), "main.c0("),
            ("rust", |at| format!("  {at:>3}: menu::c{at}\n             at ./src/b.rs:{at}:1\n"), "menu::c0"),
            (
                "python",
                |at| format!("  File \"/srv/b.py\", line {at}, in c{at}\n    call()\n    ^^^^\n"),
                "in c299",
            ),
        ];
        for (language, line, innermost) in stacks {
            let all: String = (0..300).map(line).collect();
            let kept = short(&format!("before\n{all}after\n"));
            let calls = kept
                .iter()
                .filter(|line| {
                    line.contains("B.")
                        || line.contains(" at c")
                        || line.contains("main.c")
                        || line.contains("menu::")
                        || line.contains(", in c")
                })
                .count();
            assert_eq!(calls, 48, "{language}");
            assert!(kept.iter().any(|line| line.contains(innermost)), "{language}");
            assert_eq!(
                kept.iter().filter(|line| line.contains("252 calls are left out")).count(),
                1,
                "{language}"
            );
            assert_eq!(
                (kept.first().map(String::as_str), kept.last().map(String::as_str)),
                (Some("before"), Some("after"))
            );
            // The same again: nothing more is lost.
            let few: String = (0..48).map(line).collect();
            assert_eq!(short(&few), few.lines().collect::<Vec<_>>(), "{language}");
        }
    }

    #[test]
    fn what_is_no_stack_stays_as_it_is() {
        let log: String = (0..300).map(|at| format!("order {at}\n  at the counter: {at}\n\n")).collect();
        assert_eq!(short(&log), log.lines().collect::<Vec<_>>());
        assert!(short("").is_empty());
    }
}
