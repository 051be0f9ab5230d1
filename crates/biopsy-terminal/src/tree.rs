//! Rows of a table as a tree: the order of its lines, and what is drawn before each.

use std::collections::{BTreeMap, BTreeSet};

/// A line of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeLine {
    /// Which row.
    pub row: usize,
    /// What is drawn before it.
    pub before: String,
}

/// The rows in the order of the tree. `rows`: of each its own key and that of its parent; one whose parent is none of them is a root, and
/// keys that go in a circle without a root come last, without lines.
#[must_use]
pub fn tree_lines<K: Ord + Copy>(rows: &[(K, K)], unicode: bool) -> Vec<TreeLine> {
    let [branch, end, past, blank] =
        if unicode { ["├─ ", "└─ ", "│  ", "   "] } else { ["|- ", "`- ", "|  ", "   "] };
    let known: BTreeSet<K> = rows.iter().map(|(key, _)| *key).collect();
    let mut children: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    let mut roots = Vec::new();
    for (at, (key, parent)) in rows.iter().enumerate() {
        if key != parent && known.contains(parent) {
            children.entry(*parent).or_default().push(at);
        } else {
            roots.push(at);
        }
    }
    let mut lines = Vec::with_capacity(rows.len());
    let mut seen = vec![false; rows.len()];
    // What is still to be written, the next one last: row, lines before it, lines before its children.
    let mut open: Vec<(usize, String, String)> =
        roots.into_iter().rev().map(|at| (at, String::new(), String::new())).collect();
    while let Some((row, before, below)) = open.pop() {
        if std::mem::replace(&mut seen[row], true) {
            continue;
        }
        lines.push(TreeLine { row, before });
        let of_row = children.get(&rows[row].0).map_or(&[][..], Vec::as_slice);
        for (index, &child) in of_row.iter().enumerate().rev() {
            let is_last = index + 1 == of_row.len();
            let (own, rest) = if is_last { (end, blank) } else { (branch, past) };
            open.push((child, format!("{below}{own}"), format!("{below}{rest}")));
        }
    }
    let in_circles = (0..rows.len()).filter(|at| !seen[*at]);
    lines.extend(in_circles.map(|row| TreeLine { row, before: String::new() }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rows: &[(u32, u32)]) -> Vec<String> {
        tree_lines(rows, false).iter().map(|line| format!("{}{}", line.before, rows[line.row].0)).collect()
    }

    #[test]
    fn children_follow_their_parents() {
        let rows = [(1, 0), (5, 1), (2, 1), (3, 2), (4, 2), (9, 7)];
        assert_eq!(drawn(&rows), ["1", "|- 5", "`- 2", "   |- 3", "   `- 4", "9"]);
        assert_eq!(tree_lines(&rows, true)[3].before, "   ├─ ");
    }

    #[test]
    fn every_row_is_there_once_whatever_the_keys() {
        assert_eq!(
            drawn(&[(1, 2), (2, 1), (3, 3)]),
            ["3", "1", "2"],
            "a circle, and one that is its own parent"
        );
        assert_eq!(drawn(&[(1, 0), (1, 0), (2, 1)]), ["1", "`- 2", "1"], "a key twice");
        let deep: Vec<(u32, u32)> = (1..=2_000).map(|key| (key, key - 1)).collect();
        assert_eq!(tree_lines(&deep, false).len(), deep.len());
        let wide: Vec<(u32, u32)> = (1..=32_768).map(|key| (key, 1)).collect();
        assert_eq!(tree_lines(&wide, false).len(), wide.len());
    }
}
