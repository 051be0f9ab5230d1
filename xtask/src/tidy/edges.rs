//! Which crate may depend on which: the architecture as a test.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata};

/// For each crate, in the order of the flow: which of our crates it may depend on.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("biopsy-sys", &[]),
    ("biopsy-bytes", &[]),
    ("biopsy-files", &[]),
    ("biopsy-elf", &[]),
    ("biopsy-model", &[]),
    ("biopsy-image", &["biopsy-bytes", "biopsy-elf", "biopsy-model"]),
    ("biopsy-target", &["biopsy-sys", "biopsy-files", "biopsy-elf", "biopsy-model", "biopsy-image"]),
    ("biopsy-stacks", &["biopsy-bytes", "biopsy-files", "biopsy-elf", "biopsy-model", "biopsy-image"]),
    (
        "biopsy-dotnet",
        &["biopsy-bytes", "biopsy-files", "biopsy-elf", "biopsy-model", "biopsy-image", "biopsy-stacks"],
    ),
    ("biopsy-redact", &["biopsy-bytes", "biopsy-model"]),
    ("biopsy-recording", &["biopsy-bytes", "biopsy-model"]),
    (
        "biopsy-record",
        &[
            "biopsy-sys",
            "biopsy-bytes",
            "biopsy-files",
            "biopsy-model",
            "biopsy-image",
            "biopsy-target",
            "biopsy-stacks",
            "biopsy-dotnet",
            "biopsy-redact",
            "biopsy-recording",
        ],
    ),
    (
        "biopsy-import",
        &[
            "biopsy-bytes",
            "biopsy-files",
            "biopsy-elf",
            "biopsy-model",
            "biopsy-stacks",
            "biopsy-dotnet",
            "biopsy-redact",
        ],
    ),
    ("biopsy-analyze", &["biopsy-model", "biopsy-image", "biopsy-stacks", "biopsy-dotnet"]),
    ("biopsy-report", &["biopsy-model", "biopsy-analyze", "biopsy-recording"]),
    (
        "biopsy",
        &[
            "biopsy-sys",
            "biopsy-bytes",
            "biopsy-model",
            "biopsy-image",
            "biopsy-target",
            "biopsy-stacks",
            "biopsy-dotnet",
            "biopsy-redact",
            "biopsy-recording",
            "biopsy-record",
            "biopsy-import",
            "biopsy-analyze",
            "biopsy-report",
        ],
    ),
    ("biopsy-testkit", &["biopsy-sys"]),
    ("xtask", &["biopsy-testkit"]),
];

/// The half that reads recordings on any machine and trusts nothing in them ...
const READ_HALF: &[&str] = &[
    "biopsy-bytes",
    "biopsy-files",
    "biopsy-elf",
    "biopsy-model",
    "biopsy-image",
    "biopsy-stacks",
    "biopsy-dotnet",
    "biopsy-recording",
    "biopsy-redact",
    "biopsy-import",
    "biopsy-analyze",
    "biopsy-report",
];
/// ... must not reach what touches live processes, not even through a third crate.
const CAPTURE_ONLY: &[&str] = &["biopsy-sys", "biopsy-target", "biopsy-record"];
/// These depend on nothing at all, not even on crates of others.
const ALONE: &[&str] = &["biopsy-bytes", "biopsy-model"];

/// Our crates with what they depend on, development dependencies left out.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    edges: BTreeMap<String, BTreeSet<String>>,
    foreign: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// From what cargo says.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let ours: BTreeSet<String> =
            metadata.workspace_packages().iter().map(|package| package.name.to_string()).collect();
        let mut graph = Self::default();
        for package in metadata.workspace_packages() {
            let name = package.name.to_string();
            let needed = package.dependencies.iter().filter(|one| one.kind != DependencyKind::Development);
            let (own, foreign): (BTreeSet<String>, BTreeSet<String>) =
                needed.map(|one| one.name.clone()).partition(|one| ours.contains(one));
            graph.edges.insert(name.clone(), own);
            graph.foreign.insert(name, foreign);
        }
        graph
    }

    fn reachable(&self, from: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(name) = open.pop() {
            for next in self.edges.get(name).into_iter().flatten() {
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        seen
    }
}

/// Every forbidden edge, and every disagreement between the table above and the workspace: a mistyped name in the
/// table would otherwise forbid nothing.
pub(crate) fn violations(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    let table: BTreeMap<&str, &[&str]> = MAY_DEPEND_ON.iter().copied().collect();
    for (name, edges) in &graph.edges {
        let Some(allowed) = table.get(name.as_str()) else {
            found.push(format!("crate `{name}` is not in the table of xtask/src/tidy/edges.rs"));
            continue;
        };
        for edge in edges.iter().filter(|edge| !allowed.contains(&edge.as_str())) {
            found.push(format!("`{name}` must not depend on `{edge}`"));
        }
    }
    let named = table.iter().flat_map(|(name, allowed)| std::iter::once(name).chain(allowed.iter()));
    let named: BTreeSet<&str> = named.chain(READ_HALF).chain(CAPTURE_ONLY).chain(ALONE).copied().collect();
    for name in named.iter().filter(|name| !graph.edges.contains_key(**name)) {
        found.push(format!("the table of xtask/src/tidy/edges.rs names `{name}`, which does not exist"));
    }
    for name in READ_HALF {
        for reached in graph.reachable(name).into_iter().filter(|reached| CAPTURE_ONLY.contains(reached)) {
            found.push(format!("`{name}` is of the read half and reaches `{reached}`"));
        }
    }
    for name in ALONE {
        for foreign in graph.foreign.get(*name).into_iter().flatten() {
            found.push(format!("`{name}` must not depend on anything, but does on `{foreign}`"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Graph, MAY_DEPEND_ON, violations};

    fn allowed_graph() -> Graph {
        let mut graph = Graph::default();
        for (name, edges) in MAY_DEPEND_ON {
            graph.edges.insert((*name).to_owned(), edges.iter().map(|edge| (*edge).to_owned()).collect());
        }
        graph
    }

    fn with_edge(from: &str, to: &str) -> Vec<String> {
        let mut graph = allowed_graph();
        graph.edges.get_mut(from).unwrap().insert(to.to_owned());
        violations(&graph)
    }

    #[test]
    fn everything_allowed_at_once_is_fine() {
        assert_eq!(violations(&allowed_graph()), Vec::<String>::new());
    }

    #[test]
    fn the_read_half_does_not_reach_the_capture_half() {
        let found = with_edge("biopsy-analyze", "biopsy-record");
        assert!(
            found.contains(&"`biopsy-analyze` must not depend on `biopsy-record`".to_owned()),
            "{found:?}"
        );
        let through_another = "`biopsy-report` is of the read half and reaches `biopsy-sys`".to_owned();
        assert!(found.contains(&through_another), "{found:?}");
    }

    #[test]
    fn nothing_depends_on_the_program() {
        assert_eq!(with_edge("xtask", "biopsy"), ["`xtask` must not depend on `biopsy`"]);
    }

    #[test]
    fn a_crate_that_is_missing_on_either_side_is_said() {
        let mut graph = allowed_graph();
        let edges = graph.edges.remove("biopsy-redact").unwrap();
        graph.edges.insert("biopsy-redcat".to_owned(), edges);
        let found = violations(&graph);
        assert!(found.iter().any(|line| line.contains("`biopsy-redcat` is not in the table")), "{found:?}");
        assert!(found.iter().any(|line| line.contains("`biopsy-redact`, which does not exist")), "{found:?}");
    }

    #[test]
    fn the_model_depends_on_nothing() {
        let mut graph = allowed_graph();
        graph.foreign.entry("biopsy-model".to_owned()).or_default().insert("serde".to_owned());
        assert_eq!(violations(&graph), ["`biopsy-model` must not depend on anything, but does on `serde`"]);
    }
}
