//! Threads: how many of which name in which state, and what each waits in.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use biopsy_recording::WriteError;

use super::members::{Members, count_lines, one_line};
use crate::metrics::parse::parse_stat;

/// Threads that are looked at, and that are listed one by one.
const MOST_COUNTED: usize = 10_000;
const MOST_LISTED: usize = 2_000;

pub(super) fn write(members: &mut Members<'_>) -> Result<(), WriteError> {
    let listed = members.dir.tids(MOST_COUNTED);
    let Some(tids) = members.note("task", listed) else { return Ok(()) };
    let mut groups = BTreeMap::<String, u64>::new();
    let mut lines = String::new();
    for (index, tid) in tids.iter().enumerate() {
        let Ok(stat) = members.dir.read(&format!("task/{tid}/stat"), 4_096) else { continue };
        let Some(stat) = parse_stat(&stat) else { continue };
        let name = one_line(stat.name.as_bytes());
        let wait = members.dir.read(&format!("task/{tid}/wchan"), 256).unwrap_or_default();
        // `0`: it runs, or we are not allowed to know.
        let wait = if wait == b"0" { String::new() } else { one_line(&wait) };
        let state = char::from(stat.state);
        *groups
            .entry(format!("{state}  {}  {wait}", without_numbers(&name)).trim_end().to_owned())
            .or_default() += 1;
        if index < MOST_LISTED {
            let line = format!("{tid:>8}  {state}  {name:<15}  {wait}");
            let _ = writeln!(lines, "{}", line.trim_end());
        }
    }
    let more = if tids.len() >= MOST_COUNTED { " or more" } else { "" };
    let mut text = format!("{}{more} threads\n\n", tids.len());
    text.push_str(&count_lines(groups, 100));
    text.push('\n');
    text.push_str(&lines);
    if tids.len() > MOST_LISTED {
        let _ = writeln!(text, "[... {} more]", tids.len() - MOST_LISTED);
    }
    members.write("threads.txt", &text)
}

/// `worker-12` and `worker-13` are two of a kind: `worker-#`.
fn without_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_kind() {
        assert_eq!(without_numbers("worker-12"), "worker-#");
        assert_eq!(without_numbers("io 1/20"), "io #/#");
        assert_eq!(without_numbers("mariadbd"), "mariadbd");
    }
}
