//! The vendor's own sections as rules.
//!
//! | section | rule |
//! | --- | --- |
//! | `profiling.processes.KIND: true` | from the start of each such process: a trace, a capture, or a snapshot, by `profiling.kind` |
//! | `crashDumps.processes.KIND: true` | a dump at its crash; with `exceptionTypes` other than `*`, at those exceptions too |
//! | `logging`, `debugging` | none: they switch on what the vendor's own program does |

use std::time::Duration;

use crate::rules::{Limits, Rule, Source, Verb, What, When, Who};
use crate::text::Node;

/// How old a process is when its heap is looked at.
const SNAPSHOT_AFTER: Duration = Duration::from_secs(30);

/// The rules of both sections, of checked settings.
pub(super) fn rules(root: &Node) -> Vec<Rule> {
    let mut rules = Vec::new();
    let kind =
        root.at(&["profiling", "kind"]).and_then(Node::text).unwrap_or("performance").to_ascii_lowercase();
    // One file for each process: its children have kinds, and switches, of their own.
    let profiled =
        |verb, options: &[&str]| What { verb, options: options.iter().map(|&one| one.to_owned()).collect() };
    let (when, what) = match kind.as_str() {
        "performance-timeline" => (When::Start, profiled(Verb::Capture, &["--no-children"])),
        "memory" => (When::Alive(SNAPSHOT_AFTER), profiled(Verb::Snapshot, &[])),
        "memory-allocation" => (When::Start, profiled(Verb::Capture, &["--allocations", "--no-children"])),
        _ => (When::Start, profiled(Verb::Trace, &["--no-children"])),
    };
    for name in on(root, "profiling") {
        rules.push(rule(
            format!("profiling-{name}"),
            name,
            Source::Profiling,
            vec![when.clone()],
            what.clone(),
        ));
    }
    let types = root.at(&["crashDumps", "exceptionTypes"]).map(Node::texts).unwrap_or_default();
    let mut when = vec![When::Trigger("crash".to_owned())];
    when.extend(
        types.iter().filter(|name| **name != "*").map(|name| When::Trigger(format!("exception:{name}"))),
    );
    for name in on(root, "crashDumps") {
        let what = profiled(Verb::Dump, &[]);
        rules.push(rule(format!("crash-{name}"), name, Source::CrashDumps, when.clone(), what));
    }
    rules
}

fn on<'a>(root: &'a Node, section: &'a str) -> impl Iterator<Item = &'a str> {
    let processes = root.at(&[section, "processes"]);
    let members = processes.map(Node::members).unwrap_or_default();
    members.iter().filter(|member| member.node.is_on()).map(|member| member.key.as_str())
}

fn rule(name: String, kind: &str, source: Source, when: Vec<When>, what: What) -> Rule {
    let limits = Limits { per_day: 50, at_once: 8, ..Limits::default() };
    Rule { name, source, who: Who::kind(kind), who_text: kind.to_owned(), when, what, limits }
}
