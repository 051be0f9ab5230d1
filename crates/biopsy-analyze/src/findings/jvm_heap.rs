//! What a Java virtual machine counted of its own heap, at the start and at the end of a recording.

use crate::findings::scene::Scene;
use std::collections::BTreeMap;

/// Lines that are looked at: some dozens are written.
const LINES: usize = 1_000;

/// What became of the heap between two moments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct JvmHeap {
    /// Collections.
    pub(super) collections: f64,
    /// Bytes that outlived collections, at the start and at the end.
    pub(super) kept: [f64; 2],
}

impl JvmHeap {
    /// By how many bytes what outlived collections grew.
    pub(super) fn grown(&self) -> f64 {
        let [first, last] = self.kept;
        last - first
    }
}

/// Of a process; `None`: it is none, or does not say.
pub(super) fn of(scene: &Scene<'_>, pid: &str) -> Option<JvmHeap> {
    let text = |name: &str| {
        let wanted = format!("target/{pid}/{name}");
        scene.capture.context.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.as_str())
    };
    between(text("jvm.txt")?, text("jvm-end.txt")?)
}

fn between(first: &str, last: &str) -> Option<JvmHeap> {
    let (first, last) = (counters(first), counters(last));
    let collections = |counters: &BTreeMap<&str, f64>| -> f64 {
        let all = counters.iter().filter(|(name, _)| name.ends_with(".invocations"));
        all.map(|(_, value)| value).sum()
    };
    Some(JvmHeap {
        collections: collections(&last) - collections(&first),
        kept: [kept(&first)?, kept(&last)?],
    })
}

fn counters(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().take(LINES).filter_map(|line| line.split_once(' '));
    lines.filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

/// Spaces behind the first one of the young generation: those that survivors are in, and the old generation.
fn kept(counters: &BTreeMap<&str, f64>) -> Option<f64> {
    let is_kept = |name: &str| {
        name.starts_with("sun.gc.generation.")
            && name.ends_with(".used")
            && !name.starts_with("sun.gc.generation.0.space.0.")
    };
    let mut all = counters.iter().filter(|(name, _)| is_kept(name)).map(|(_, value)| value).peekable();
    all.peek().is_some().then(|| all.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_outlives_collections_is_what_is_kept() {
        let first = "sun.gc.collector.0.invocations 2\nsun.gc.collector.1.invocations 0\nsun.gc.generation.0.space.0.used 900\n\
                     sun.gc.generation.0.space.1.used 10\nsun.gc.generation.1.space.0.used 50\nbroken\n";
        let last = "sun.gc.collector.0.invocations 6\nsun.gc.generation.0.space.0.used 100\n\
                    sun.gc.generation.0.space.1.used 20\nsun.gc.generation.1.space.0.used 300\n";
        let heap = between(first, last).unwrap();
        assert_eq!(heap, JvmHeap { collections: 4.0, kept: [60.0, 320.0] });
        assert!((heap.grown() - 260.0).abs() < 1e-9);
        assert_eq!(between("", last), None);
    }
}
