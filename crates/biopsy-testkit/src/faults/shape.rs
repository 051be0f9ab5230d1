//! What a result consists of, as far as two results of the same target can be compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// How often each thing is there: keys, names, words without their numbers.
pub(super) type Shape = BTreeMap<String, u64>;

/// Of a report on a dump, frozen memory or a heap of a target that stands still: all of it.
pub(super) fn of_memory(report: &Value) -> Shape {
    let mut shape = Shape::new();
    walk(report, "", &mut shape);
    shape
}

/// Of a report on a recording: what does not depend on when who had a CPU.
pub(super) fn of_recording(report: &Value) -> Shape {
    let mut shape = Shape::new();
    for part in ["processes", "losses", "marks"] {
        walk(&report[part], part, &mut shape);
    }
    walk(&report["recording"], "recording", &mut shape);
    for key in ["has_trace", "has_metrics", "has_logs", "samples", "waits", "off_cpu_samples"] {
        let there = match &report["completeness"][key] {
            Value::Bool(there) => *there,
            Value::Number(number) => number.as_u64() != Some(0),
            _ => false,
        };
        shape.insert(format!("completeness.{key}"), there.into());
    }
    shape.insert("threads".to_owned(), report["threads"]["seen"].as_u64().unwrap_or(0));
    shape.insert("log lines".to_owned(), report["logs"]["lines"].as_u64().unwrap_or(0));
    let rows = report["metrics"]["summary"].as_array().into_iter().flatten();
    // Latencies of disks are there when disks were busy.
    for row in rows.filter(|row| row["table"] != "disks") {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let name = format!("metric {} {} {}", text("table"), text("column"), without_numbers(&text("key")));
        *shape.entry(name).or_default() += 1;
    }
    shape
}

/// What a report leaves out where it is not known, and nobody takes for loss: where a program lies, what it is made of.
const MAY_BE_UNKNOWN: &[&str] = &[
    ".dumps[].identity.executable",
    // What it says is missing: fewer of these are no loss. Without the quicker look at the page map zeros are told as others are.
    ".dumps[].memory.missing",
    // It names a folder, another one in each run.
    "recording.command[]",
    "processes[].cgroup",
    "processes[].exe",
    "processes[].runtime",
    "recording.start.zone",
    "recording.end.zone",
    "recording.host.hostname",
    "recording.host.cpu_model",
];

fn walk(value: &Value, path: &str, shape: &mut Shape) {
    if MAY_BE_UNKNOWN.contains(&path) {
        return;
    }
    // Of our own reports only: their depth is that of the schema.
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                walk(field, &format!("{path}.{key}"), shape);
            }
        }
        Value::Array(items) => {
            for item in items {
                walk(item, &format!("{path}[]"), shape);
            }
        }
        Value::String(text) if text.len() < 80 => {
            *shape.entry(format!("{path}={}", without_numbers(text))).or_default() += 1;
        }
        _ => *shape.entry(path.to_owned()).or_default() += 1,
    }
}

/// All sentences in which a report can say that something is missing.
pub(super) fn confessions(report: &Value) -> BTreeSet<String> {
    const PARTS: &[&str] =
        &["warnings", "losses", "undetermined", "missing", "notes", "not_known", "unreadable"];
    let mut found = BTreeSet::new();
    let mut sections = vec![report, &report["completeness"]];
    for moment in ["dumps", "heaps"].iter().flat_map(|kind| report[kind].as_array().into_iter().flatten()) {
        sections.extend([moment, &moment["identity"], &moment["memory"]]);
    }
    for (section, part) in sections.iter().flat_map(|section| PARTS.iter().map(move |part| (section, part))) {
        collect(&section[part], &mut found);
    }
    if report["completeness"]["partial"] == true {
        found.insert("partial".to_owned());
    }
    for finding in report["findings"].as_array().into_iter().flatten() {
        if matches!(finding["id"].as_str(), Some("recording-incomplete" | "dump-incomplete" | "damaged")) {
            collect(finding, &mut found);
        }
    }
    found
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::String(text) => {
            found.insert(without_numbers(text));
        }
        _ => {}
    }
}

/// Numbers, also hexadecimal ones, are different each time.
pub(super) fn without_numbers(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for word in text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
        match word.bytes().any(|byte| byte.is_ascii_digit()) {
            true if !plain.ends_with('#') => plain.push('#'),
            true => {}
            false => plain.push_str(word),
        }
    }
    plain
}

/// What is in `less` less often than in all of `whole`.
pub(super) fn missing(whole: &Shape, less: &Shape) -> Vec<String> {
    whole
        .iter()
        .filter_map(|(what, count)| {
            let there = less.get(what).copied().unwrap_or(0);
            // A tenth is the same: memory of a process that lives.
            (there * 10 < count * 9).then(|| format!("{what}: {there} of {count}"))
        })
        .collect()
}

/// What is in all of them, as often as in the one that has least.
pub(super) fn common(shapes: &[Shape]) -> Shape {
    let Some((first, others)) = shapes.split_first() else { return Shape::new() };
    first
        .iter()
        .map(|(what, count)| {
            let least = others.iter().map(|shape| shape.get(what).copied().unwrap_or(0)).min();
            (what.clone(), least.unwrap_or(u64::MAX).min(*count))
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}
