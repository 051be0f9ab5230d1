//! The names a process answers to, and names that are nearly right.

use std::collections::BTreeSet;

use crate::process::command;
use crate::process::seen::Seen;

/// Longest `comm` of a process; longer names are cut by the kernel.
const COMM: usize = 15;
/// Names longer than this are not compared letter by letter.
const MAX_COMPARED: usize = 64;

/// All names of a process, in the order of how likely they are meant.
pub(super) fn of(seen: &Seen) -> Vec<String> {
    of_parts(seen.name(), seen.exe_name().unwrap_or_default(), &seen.arguments)
}

/// The names of a process called `name` that runs a program whose file is called `exe`.
fn of_parts(name: String, exe: &str, arguments: &[String]) -> Vec<String> {
    let mut names = vec![name];
    let mut add = |name: &str| {
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    add(exe);
    // A login shell has `-` before its name; `nginx: master process` and the like have it before a colon.
    let first = arguments.first().map_or("", String::as_str);
    let first = first.strip_prefix('-').unwrap_or(first);
    add(command::base_name(first));
    if let Some((title, _)) = first.split_once(": ") {
        add(command::base_name(title));
    }
    let kind = command::kind_by_name(exe).or_else(|| command::kind_by_name(command::base_name(first)));
    if let Some(entry) = kind.and_then(|kind| command::entry(kind, arguments)) {
        add(&entry);
        if let Some((stem, _extension)) = entry.rsplit_once('.') {
            add(stem);
        }
        // `com.example.Main`, `module/com.example.Main`.
        if let Some(class) = entry.rsplit(['.', '/']).next() {
            add(class);
        }
    }
    names
}

/// Whether a process that is about to execute a program will answer to `wanted`, as [`is_loosely`] would find it then.
pub(super) fn will_be(name: &str, exe: &str, arguments: &[String], wanted: &str) -> bool {
    of_parts(name.to_owned(), exe, arguments).iter().any(|name| is_same_but_for_case(name, wanted))
        || is_assembly(exe, wanted)
}

/// Exactly one of its names.
pub(super) fn is_exactly(seen: &Seen, wanted: &str) -> bool {
    of(seen).iter().any(|name| name == wanted) || is_assembly_of(seen, wanted)
}

/// One of its names but for case, or a `comm` that the kernel cut.
pub(super) fn is_loosely(seen: &Seen, wanted: &str) -> bool {
    of(seen).iter().any(|name| is_same_but_for_case(name, wanted)) || is_assembly_of(seen, wanted)
}

/// An application host of .NET has the name of its assembly without `.dll`.
fn is_assembly_of(seen: &Seen, wanted: &str) -> bool {
    seen.exe_name().is_some_and(|exe| is_assembly(exe, wanted))
}

fn is_assembly(exe: &str, wanted: &str) -> bool {
    let host = wanted.len().checked_sub(4).and_then(|at| wanted.split_at_checked(at));
    command::kind_by_name(exe).is_none()
        && host.is_some_and(|(name, end)| end.eq_ignore_ascii_case(".dll") && name.eq_ignore_ascii_case(exe))
}

fn is_same_but_for_case(name: &str, wanted: &str) -> bool {
    let (name, wanted) = (name.to_lowercase(), wanted.to_lowercase());
    name == wanted || (name.len() == COMM && wanted.len() > COMM && wanted.starts_with(&name))
}

/// Names that are similar to `wanted`, the most similar first, each with a process that has it.
pub(super) fn suggestions<'a>(all: &'a [Seen], wanted: &str, limit: usize) -> Vec<(String, &'a Seen)> {
    let wanted = wanted.to_lowercase();
    let mut known = BTreeSet::new();
    let mut near: Vec<(usize, String, &Seen)> = Vec::new();
    for seen in all.iter().filter(|seen| seen.is_living() && seen.pid.0 != std::process::id()) {
        for name in of(seen) {
            if let Some(distance) = distance(&name.to_lowercase(), &wanted)
                && known.insert(name.clone())
            {
                near.push((distance, name, seen));
            }
        }
    }
    near.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let mut pids = BTreeSet::new();
    near.into_iter()
        .filter(|(_, _, seen)| pids.insert(seen.pid))
        .map(|(_, name, seen)| (name, seen))
        .take(limit)
        .collect()
}

/// How far two names are apart, where they are near at all: up to two letters wrong, or one inside the other.
fn distance(name: &str, wanted: &str) -> Option<usize> {
    let (short, long) = if name.len() < wanted.len() { (name, wanted) } else { (wanted, name) };
    if long.len() > MAX_COMPARED {
        return None;
    }
    let edits = if short.len() >= 4 { edits(name, wanted) } else { usize::MAX };
    if edits <= 2 {
        Some(edits)
    } else if short.len() >= 3 && long.contains(short) {
        Some(3 + long.len() - short.len())
    } else {
        None
    }
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let width = b.len() + 1;
    let mut rows: Vec<Vec<usize>> = vec![(0..width).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        assert_eq!(distance("nginx", "ngnix"), Some(1));
        assert_eq!(distance("mariadbd", "mariadb"), Some(1));
        assert_eq!(distance("octopus.server", "octopus"), Some(10));
        assert_eq!(distance("sh", "ssh"), None);
        assert_eq!(distance("postgres", "nginx"), None);
    }

    #[test]
    fn loose_names() {
        assert!(is_same_but_for_case("Octopus.Server", "octopus.server"));
        assert!(is_same_but_for_case("averyveryverylo", "AVeryVeryVeryLongName"));
        assert!(!is_same_but_for_case("averyvery", "AVeryVeryVeryLongName"));
    }
}
