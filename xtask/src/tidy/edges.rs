//! Which crate may depend on which: the architecture as a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata};

use crate::run::{Outcome, root};

/// For each crate, in the order of the flow: which of our crates it may depend on.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("biopsy-preload", &[]),
    ("biopsy-sys", &["biopsy-model"]),
    ("biopsy-bytes", &[]),
    ("biopsy-files", &[]),
    ("biopsy-elf", &[]),
    ("biopsy-model", &[]),
    ("biopsy-image", &["biopsy-bytes", "biopsy-elf", "biopsy-model"]),
    ("biopsy-target", &["biopsy-sys", "biopsy-files", "biopsy-elf", "biopsy-model", "biopsy-image"]),
    ("biopsy-stacks", &["biopsy-files", "biopsy-elf", "biopsy-model", "biopsy-image"]),
    (
        "biopsy-dotnet",
        &["biopsy-bytes", "biopsy-files", "biopsy-elf", "biopsy-model", "biopsy-image", "biopsy-stacks"],
    ),
    ("biopsy-dotnet-ipc", &["biopsy-bytes", "biopsy-files", "biopsy-model"]),
    ("biopsy-runtimes", &["biopsy-elf", "biopsy-model", "biopsy-image"]),
    ("biopsy-allocators", &["biopsy-model", "biopsy-image"]),
    (
        "biopsy-blocks",
        &[
            "biopsy-allocators",
            "biopsy-dotnet",
            "biopsy-image",
            "biopsy-model",
            "biopsy-runtimes",
            "biopsy-stacks",
        ],
    ),
    ("biopsy-redact", &["biopsy-model"]),
    ("biopsy-redact-files", &["biopsy-redact"]),
    ("biopsy-seal", &[]),
    ("biopsy-recording", &["biopsy-bytes", "biopsy-model", "biopsy-seal"]),
    (
        "biopsy-record",
        &[
            "biopsy-preload",
            "biopsy-sys",
            "biopsy-bytes",
            "biopsy-files",
            "biopsy-model",
            "biopsy-image",
            "biopsy-target",
            "biopsy-elf",
            "biopsy-stacks",
            "biopsy-runtimes",
            "biopsy-allocators",
            "biopsy-blocks",
            "biopsy-dotnet",
            "biopsy-dotnet-ipc",
            "biopsy-redact",
            "biopsy-recording",
        ],
    ),
    (
        "biopsy-import",
        &[
            "biopsy-bytes",
            "biopsy-elf",
            "biopsy-model",
            "biopsy-image",
            "biopsy-stacks",
            "biopsy-dotnet",
            "biopsy-allocators",
            "biopsy-blocks",
            "biopsy-redact",
            "biopsy-seal",
            "biopsy-recording",
        ],
    ),
    (
        "biopsy-analyze",
        &[
            "biopsy-model",
            "biopsy-image",
            "biopsy-stacks",
            "biopsy-dotnet",
            "biopsy-runtimes",
            "biopsy-redact",
            "biopsy-import",
        ],
    ),
    ("biopsy-report", &["biopsy-model", "biopsy-analyze"]),
    (
        "biopsy-capture",
        &[
            "biopsy-sys",
            "biopsy-model",
            "biopsy-image",
            "biopsy-target",
            "biopsy-dotnet",
            "biopsy-dotnet-ipc",
            "biopsy-redact",
            "biopsy-recording",
            "biopsy-record",
            "biopsy-import",
            "biopsy-import",
            "biopsy-analyze",
            "biopsy-report",
        ],
    ),
    ("biopsy-watch", &["biopsy-model"]),
    ("biopsy-deliver", &["biopsy-seal"]),
    ("biopsy-debuginfod", &["biopsy-stacks", "biopsy-deliver"]),
    (
        "biopsy-standby",
        &[
            "biopsy-model",
            "biopsy-target",
            "biopsy-recording",
            "biopsy-capture",
            "biopsy-watch",
            "biopsy-deliver",
        ],
    ),
    ("biopsy-terminal", &["biopsy-model"]),
    (
        "biopsy-foreground",
        &[
            "biopsy-sys",
            "biopsy-model",
            "biopsy-image",
            "biopsy-target",
            "biopsy-record",
            "biopsy-capture",
            "biopsy-terminal",
        ],
    ),
    ("biopsy-cases", &["biopsy-model"]),
    (
        "biopsy-lab",
        &[
            "biopsy-cases",
            "biopsy-terminal",
            "biopsy-redact",
            "biopsy-seal",
            "biopsy-import",
            "biopsy-analyze",
            "biopsy-report",
            "biopsy-deliver",
        ],
    ),
    (
        "biopsy-cli",
        &[
            "biopsy-model",
            "biopsy-image",
            "biopsy-seal",
            "biopsy-record",
            "biopsy-analyze",
            "biopsy-report",
            "biopsy-capture",
            "biopsy-watch",
            "biopsy-deliver",
            "biopsy-standby",
            "biopsy-terminal",
        ],
    ),
    (
        "biopsy",
        &[
            "biopsy-capture",
            "biopsy-deliver",
            "biopsy-debuginfod",
            "biopsy-watch",
            "biopsy-standby",
            "biopsy-terminal",
            "biopsy-foreground",
            "biopsy-cli",
            "biopsy-sys",
            "biopsy-model",
            "biopsy-target",
            "biopsy-redact",
            "biopsy-redact-files",
            "biopsy-recording",
            "biopsy-seal",
            "biopsy-record",
            "biopsy-import",
            "biopsy-analyze",
            "biopsy-report",
        ],
    ),
    ("biopsy-testkit", &["biopsy-sys"]),
    ("xtask", &["biopsy-deliver", "biopsy-recording", "biopsy-redact", "biopsy-seal", "biopsy-testkit"]),
];

/// The half that reads recordings on any machine and trusts nothing in them ...
pub(crate) const READ_HALF: &[&str] = &[
    "biopsy-bytes",
    "biopsy-files",
    "biopsy-elf",
    "biopsy-model",
    "biopsy-image",
    "biopsy-stacks",
    "biopsy-dotnet",
    "biopsy-runtimes",
    "biopsy-allocators",
    "biopsy-blocks",
    "biopsy-seal",
    "biopsy-recording",
    "biopsy-redact",
    "biopsy-redact-files",
    "biopsy-import",
    "biopsy-analyze",
    "biopsy-report",
];
/// ... must not reach what touches live processes or opens sockets, not even through a third crate.
const CAPTURE_ONLY: &[&str] = &[
    "biopsy-deliver",
    "biopsy-debuginfod",
    "biopsy-sys",
    "biopsy-target",
    "biopsy-dotnet-ipc",
    "biopsy-record",
    "biopsy-capture",
    "biopsy-standby",
    "biopsy-foreground",
    "biopsy-cli",
];
/// Which crates of others it may use: nothing that opens sockets, starts processes or signals them. Those that touch the machine
/// name the crates that may; the others may be used in all of the half.
const READ_HALF_MAY_USE: &[(&str, &[&str], &str)] = &[
    (
        "rustix",
        &[
            "biopsy-files",
            "biopsy-image",
            "biopsy-import",
            "biopsy-recording",
            "biopsy-redact-files",
            "biopsy-seal",
        ],
        "files by handle, links not followed, holes of files, files that are in memory alone",
    ),
    (
        "tempfile",
        &["biopsy-image", "biopsy-import", "biopsy-redact-files"],
        "a file without a name, for what does not fit memory",
    ),
    (
        "getrandom",
        &["biopsy-recording", "biopsy-redact"],
        "names of recordings and keys of masks that nobody can guess",
    ),
    ("addr2line", &[], "inlined functions and lines, over gimli"),
    ("age", &["biopsy-seal"], "the sealed file"),
    ("aho-corasick", &[], "many words in one pass"),
    ("cpp_demangle", &[], "names of C++"),
    ("crc32fast", &[], "checksums of members and of debug files"),
    ("csv", &[], "tables of a recording"),
    ("fearless_simd", &[], "vector instructions without unsafe"),
    ("flate2", &[], "unpacks sections, cores and bundles"),
    ("fxprof-processed-profile", &[], "the Firefox Profiler's format, by the author of samply"),
    ("gimli", &[], "DWARF"),
    ("hmac", &[], "masks that are equal for equal secrets, and say nothing of them"),
    ("iced-x86", &[], "the instruction a process died at"),
    ("jiff", &[], "time zones and RFC 3339"),
    ("lz4_flex", &[], "unpacks cores of old systemd"),
    ("object", &[], "structures of ELF and PE"),
    ("memchr", &[], "bytes in memory and text"),
    ("minidump", &[], "minidumps, by the authors of Firefox's crash reporting"),
    ("prost", &[], "pprof and Perfetto are protobuf"),
    ("regex-automata", &[], "rules of redaction"),
    ("regex-syntax", &[], "what their matches look like at a glance"),
    ("rustc-demangle", &[], "names of Rust"),
    ("rustc-hash", &[], "quick maps of numbers"),
    ("serde", &[], "members of recordings and schemas of reports"),
    ("serde_json", &[], "the same"),
    ("sha2", &[], "digests in the manifest, and of secrets"),
    ("thiserror", &[], "errors that carry data"),
    ("toml", &[], "rule packs"),
    ("tracing", &[], "what the log says, if the program chose one"),
    ("twox-hash", &[], "checksums in the seek table of seekable zstd"),
    ("xz4rust", &[], "MiniDebugInfo, packed cores"),
    ("zeroize", &[], "keys are wiped"),
    ("zip", &[], "bundles"),
    ("zstd", &[], "chunks, cores and sections"),
];
/// Crates that are for servers: none of them may be below the program that runs beside a customer's server, by whatever way.
const NOT_BELOW_THE_PROGRAM: &[&str] = &[
    "tokio",
    "axum",
    "hyper",
    "sqlx",
    "sqlx-core",
    "libsqlite3-sys",
    "openssl-sys",
    "datafusion",
    "parquet",
    "arrow",
];
/// These depend on nothing at all, not even on crates of others.
const ALONE: &[&str] = &["biopsy-bytes", "biopsy-model"];

/// Our crates with what they depend on, development dependencies left out.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    edges: BTreeMap<String, BTreeSet<String>>,
    foreign: BTreeMap<String, BTreeSet<String>>,
    /// All that its sources mention, of `edges` and `foreign`.
    mentioned: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// From what cargo says, and the sources.
    pub(crate) fn of(metadata: &Metadata, files: &[String]) -> Outcome<Self> {
        let ours: BTreeSet<String> =
            metadata.workspace_packages().iter().map(|package| package.name.to_string()).collect();
        let mut graph = Self::default();
        for package in metadata.workspace_packages() {
            let name = package.name.to_string();
            let needed = package.dependencies.iter().filter(|one| one.kind != DependencyKind::Development);
            let (own, foreign): (BTreeSet<String>, BTreeSet<String>) =
                needed.map(|one| one.name.clone()).partition(|one| ours.contains(one));
            let folder = package.manifest_path.parent().map(|folder| folder.as_std_path().to_owned());
            let sources = sources_below(&folder.unwrap_or_default(), files)?;
            let is_mentioned = |one: &&String| mentions(&sources, &one.replace('-', "_"));
            let mentioned = own.iter().chain(&foreign).filter(is_mentioned).cloned().collect();
            graph.mentioned.insert(name.clone(), mentioned);
            graph.edges.insert(name.clone(), own);
            graph.foreign.insert(name, foreign);
        }
        Ok(graph)
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

/// What the program has below it that it must not have: a web server, a database, an async runtime.
pub(crate) fn servers_below_the_program(metadata: &Metadata) -> Vec<String> {
    let Some(resolve) = &metadata.resolve else {
        return vec!["cargo says nothing of what depends on what".to_owned()];
    };
    let named: BTreeMap<_, String> =
        metadata.packages.iter().map(|package| (&package.id, package.name.to_string())).collect();
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut open: Vec<_> =
        named.iter().filter(|(_, name)| name.as_str() == "biopsy").map(|(id, _)| *id).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let below = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let is_built = |one: &&cargo_metadata::NodeDep| {
            one.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
        };
        open.extend(below.filter(is_built).map(|one| &one.pkg));
    }
    let below = seen.into_iter().filter_map(|id| named.get(id));
    below
        .filter(|name| NOT_BELOW_THE_PROGRAM.contains(&name.as_str()))
        .map(|name| format!("`biopsy` has `{name}` below it, which is for servers"))
        .collect()
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
        for edge in allowed.iter().filter(|edge| !edges.contains(**edge)) {
            found.push(format!("`{name}` may depend on `{edge}` and does not: take it from the table"));
        }
        let mentioned = graph.mentioned.get(name);
        for needless in edges.iter().chain(graph.foreign.get(name).into_iter().flatten()) {
            if !mentioned.is_some_and(|mentioned| mentioned.contains(needless)) {
                found.push(format!("`{name}` depends on `{needless}`, which its sources never mention"));
            }
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
    found.extend(foreign_violations(graph));
    for name in ALONE {
        for foreign in graph.foreign.get(*name).into_iter().flatten() {
            found.push(format!("`{name}` must not depend on anything, but does on `{foreign}`"));
        }
    }
    found
}

/// Crates of others that the read half uses without being allowed to, and those that it is allowed to for nothing.
fn foreign_violations(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    let used: BTreeSet<(&str, &str)> = READ_HALF
        .iter()
        .flat_map(|name| graph.foreign.get(*name).into_iter().flatten().map(|one| (*name, one.as_str())))
        .collect();
    for (name, foreign) in &used {
        match READ_HALF_MAY_USE.iter().find(|(one, ..)| one == foreign) {
            None => found
                .push(format!("`{name}` is of the read half and uses `{foreign}`, which is not in its list")),
            Some((_, users, _)) if !users.is_empty() && !users.contains(name) => {
                found.push(format!(
                    "`{name}` is of the read half and is not among those that may use `{foreign}`"
                ));
            }
            Some(_) => {}
        }
    }
    for (foreign, users, _) in READ_HALF_MAY_USE {
        let needless = users.iter().filter(|user| !used.contains(&(**user, *foreign)));
        found.extend(
            needless.map(|user| format!("`{user}` may use `{foreign}` and does not: take it from the list")),
        );
        if !used.iter().any(|(_, one)| one == foreign) {
            found.push(format!("the read half may use `{foreign}` and does not: take it from the list"));
        }
    }
    found
}

/// All code of a crate but its tests, benches and examples, in one text.
fn sources_below(folder: &Path, files: &[String]) -> Outcome<String> {
    let below = folder.strip_prefix(root()).unwrap_or(folder).join("src");
    let mut all = String::new();
    for file in files.iter().filter(|file| file.ends_with(".rs") && Path::new(file).starts_with(&below)) {
        let text =
            std::fs::read_to_string(root().join(file)).map_err(|error| format!("`{file}`: {error}"))?;
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            all.push_str(line);
            all.push('\n');
        }
    }
    Ok(all)
}

/// Whether the word is there, on its own.
fn mentions(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use super::{Graph, MAY_DEPEND_ON, READ_HALF, READ_HALF_MAY_USE, mentions, violations};

    /// Everything that is allowed is there, and used.
    fn allowed_graph() -> Graph {
        let mut graph = Graph::default();
        for (name, edges) in MAY_DEPEND_ON {
            graph.edges.insert((*name).to_owned(), edges.iter().map(|edge| (*edge).to_owned()).collect());
        }
        for (foreign, users, _) in READ_HALF_MAY_USE {
            let anybody = READ_HALF.iter().filter(|name| **name == "biopsy-report");
            for user in users.iter().chain(anybody.filter(|_| users.is_empty())) {
                graph.foreign.entry((*user).to_owned()).or_default().insert((*foreign).to_owned());
            }
        }
        all_mentioned(graph)
    }

    fn all_mentioned(mut graph: Graph) -> Graph {
        for (name, edges) in graph.edges.iter().chain(&graph.foreign) {
            graph.mentioned.entry(name.clone()).or_default().extend(edges.iter().cloned());
        }
        graph
    }

    fn with_edge(from: &str, to: &str) -> Vec<String> {
        let mut graph = allowed_graph();
        graph.edges.get_mut(from).unwrap().insert(to.to_owned());
        violations(&all_mentioned(graph))
    }

    fn with_foreign(from: &str, to: &str) -> Vec<String> {
        let mut graph = allowed_graph();
        graph.foreign.entry(from.to_owned()).or_default().insert(to.to_owned());
        violations(&all_mentioned(graph))
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
        let found = with_foreign("biopsy-model", "serde");
        assert_eq!(found, ["`biopsy-model` must not depend on anything, but does on `serde`"]);
    }

    #[test]
    fn a_permitted_edge_is_there_and_used() {
        let mut graph = allowed_graph();
        graph.edges.get_mut("biopsy-import").unwrap().remove("biopsy-redact");
        let not_there = "`biopsy-import` may depend on `biopsy-redact` and does not: take it from the table";
        assert_eq!(violations(&graph), [not_there]);
        let mut graph = allowed_graph();
        graph.mentioned.get_mut("biopsy-import").unwrap().remove("biopsy-redact");
        let not_used = "`biopsy-import` depends on `biopsy-redact`, which its sources never mention";
        assert_eq!(violations(&graph), [not_used]);
    }

    #[test]
    fn the_read_half_uses_what_its_list_names() {
        let refused = "`biopsy-analyze` is of the read half and uses `nix`, which is not in its list";
        assert_eq!(with_foreign("biopsy-analyze", "nix"), [refused]);
        assert_eq!(with_foreign("biopsy-record", "nix"), Vec::<String>::new());
        let refused = "`biopsy-stacks` is of the read half and is not among those that may use `rustix`";
        assert_eq!(with_foreign("biopsy-stacks", "rustix"), [refused]);
        let mut graph = allowed_graph();
        for user in ["biopsy-image", "biopsy-import", "biopsy-redact-files"] {
            graph.foreign.get_mut(user).unwrap().remove("tempfile");
        }
        let found = violations(&graph);
        assert!(found.iter().any(|line| line.starts_with("`biopsy-image` may use `tempfile` and does not")));
        assert!(found.iter().any(|line| line.starts_with("the read half may use `tempfile` and does not")));
    }

    #[test]
    fn a_word_is_not_part_of_another() {
        assert!(mentions("use biopsy_dotnet::nettrace;", "biopsy_dotnet"));
        assert!(!mentions("use biopsy_dotnet_ipc::Client;", "biopsy_dotnet"));
    }
}
