//! Pieces that findings are made of: evidence, advice, severity by thresholds.

use super::finding::{Evidence, Reference, Severity, Value};

/// Evidence about the whole recording.
pub(crate) fn fact(text: impl Into<String>, value: Option<Value>) -> Evidence {
    Evidence { text: text.into(), reference: Reference::Recording, value }
}

/// Evidence with a place to look at.
pub(crate) fn at(reference: Reference, text: impl Into<String>, value: Option<Value>) -> Evidence {
    Evidence { text: text.into(), reference, value }
}

/// A metric column as a place to look at.
pub(crate) fn metric(table: &str, column: &str, key: &str) -> Reference {
    Reference::Metric { table: table.to_owned(), column: column.to_owned(), key: key.to_owned() }
}

/// A process by the key of its metrics (`4711 server`), for a sentence.
pub(crate) fn process_of_key(key: &str) -> String {
    with_name("process", key)
}

/// A thread by the key of its metrics (`4711 4712 worker`: process, thread, name), for a sentence.
pub(crate) fn thread_of_key(key: &str) -> String {
    with_name("thread", key.split_once(' ').map_or(key, |(_, rest)| rest))
}

fn with_name(what: &str, key: &str) -> String {
    match key.split_once(' ') {
        Some((number, name)) if !name.is_empty() => format!("{what} {number} (`{name}`)"),
        _ => format!("{what} {}", key.trim_end()),
    }
}

/// Sentences of advice.
pub(crate) fn steps(steps: &[&str]) -> Vec<String> {
    steps.iter().map(|step| (*step).to_owned()).collect()
}

/// Severity by thresholds: `critical` from the first, `warning` from the second, `notice` from the third.
pub(crate) fn grade<N: PartialOrd>(value: N, [critical, warning, notice]: [N; 3]) -> Option<Severity> {
    if value >= critical {
        Some(Severity::Critical)
    } else if value >= warning {
        Some(Severity::Warning)
    } else {
        (value >= notice).then_some(Severity::Notice)
    }
}

#[cfg(test)]
mod tests {
    use super::{process_of_key, thread_of_key};

    #[test]
    fn keys_of_metrics_become_words() {
        assert_eq!(process_of_key("4711 server"), "process 4711 (`server`)");
        assert_eq!(process_of_key("4711 a server"), "process 4711 (`a server`)");
        assert_eq!(process_of_key("4711"), "process 4711");
        assert_eq!(thread_of_key("4711 4712 worker 3"), "thread 4712 (`worker 3`)");
        assert_eq!(thread_of_key("4711 4712 "), "thread 4712");
        assert_eq!(thread_of_key("4712"), "thread 4712");
        assert_eq!(thread_of_key(""), "thread ");
    }
}
