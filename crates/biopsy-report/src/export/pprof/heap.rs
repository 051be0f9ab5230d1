//! A heap as a profile: of each place in the tree of holders its own objects and bytes, from the root that holds it down to its type.
//!
//! What stands below a frame is what would go with it, so a viewer's cumulative bytes are retained bytes. Of a heap of which nobody knows who
//! holds what there are types alone.

use super::proto::{Function, Line, Location, Profile, Sample, ValueType};
use super::{Strings, signed};
use biopsy_analyze::HeapSummary;
use biopsy_analyze::heap::HolderNode;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// What leads to an element of an array has no name of its own.
const ELEMENT: &str = "[]";

/// Writes `inuse_objects` and `inuse_space` of what is alive.
///
/// # Errors
/// Writing failed.
pub fn write_heap(heap: &HeapSummary, out: impl Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&profile(heap).encode_to_vec())?;
    gzip.finish()?.flush()
}

fn profile(heap: &HeapSummary) -> Profile {
    let mut builder = Builder::default();
    // The format wants the empty string at index 0.
    builder.string("");
    builder.profile.sample_type =
        vec![builder.value_type("inuse_objects", "count"), builder.value_type("inuse_space", "bytes")];
    builder.profile.default_sample_type = builder.string("inuse_space");
    builder.profile.period_type = Some(builder.value_type("space", "bytes"));
    builder.profile.period = 1;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "microseconds are enough, and casts of floats stay within the type"
    )]
    let nanos = (heap.facts.taken_at_unix_seconds * 1e6) as i64;
    builder.profile.time_nanos = nanos.saturating_mul(1000);
    let comment = format!("heap of {} ({})", heap.name, heap.facts.runtime);
    builder.profile.comment = vec![builder.string(&comment)];
    match &heap.held {
        Some(held) => builder.holders(&held.tree.nodes),
        None => builder.types(heap),
    }
    builder.profile
}

#[derive(Default)]
struct Builder {
    profile: Profile,
    strings: Strings,
    /// By name and module.
    locations: FxHashMap<(String, String), u64>,
}

impl Builder {
    fn holders(&mut self, nodes: &[HolderNode]) {
        for (number, node) in nodes.iter().enumerate().skip(1).filter(|(_, node)| node.objects > 0) {
            let mut stack = Vec::new();
            let mut at = number;
            // Those above have lower numbers, so this ends.
            while at != 0
                && let Some(one) = nodes.get(at)
            {
                let above = (one.parent as usize).min(at - 1);
                if above == 0 {
                    stack.push(self.location(&one.of, &one.module));
                    if !one.via.is_empty() {
                        stack.push(self.location(&one.via, ""));
                    }
                } else if one.via.is_empty() || one.via == ELEMENT {
                    stack.push(self.location(&one.of, &one.module));
                } else {
                    stack.push(self.location(&format!("{}: {}", one.via, one.of), &one.module));
                }
                at = above;
            }
            self.sample(stack, node.objects, node.bytes);
        }
    }

    fn types(&mut self, heap: &HeapSummary) {
        for row in &heap.types {
            let alive = row.live.unwrap_or(row.all);
            if alive.objects > 0 {
                let stack = vec![self.location(&row.name, &row.module)];
                self.sample(stack, alive.objects, alive.bytes);
            }
        }
    }

    fn sample(&mut self, location_id: Vec<u64>, objects: u64, bytes: u64) {
        let value = vec![signed(objects), signed(bytes)];
        self.profile.sample.push(Sample { location_id, value, label: Vec::new() });
    }

    fn location(&mut self, name: &str, module: &str) -> u64 {
        let key = (name.to_owned(), module.to_owned());
        if let Some(id) = self.locations.get(&key) {
            return *id;
        }
        let id = self.profile.location.len() as u64 + 1;
        let (text, filename) = (self.string(name), self.string(module));
        let function = Function { id, name: text, system_name: text, filename, start_line: 0 };
        self.profile.function.push(function);
        let line = vec![Line { function_id: id, line: 0, column: 0 }];
        self.profile.location.push(Location { id, mapping_id: 0, address: 0, line, is_folded: false });
        self.locations.insert(key, id);
        id
    }

    fn string(&mut self, text: &str) -> i64 {
        self.strings.number(&mut self.profile, text)
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        self.strings.value_type(&mut self.profile, kind, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_analyze::heap::{Held, HolderTree};
    use biopsy_analyze::{HeapSummary, HeapTypeRow};
    use biopsy_model::heap::HeapFacts;
    use flate2::read::GzDecoder;
    use std::io::Read as _;

    /// Each sample: its frames, the outermost first, and its values.
    fn samples(heap: &HeapSummary) -> Vec<(Vec<String>, Vec<i64>)> {
        let (mut packed, mut bytes) = (Vec::new(), Vec::new());
        write_heap(heap, &mut packed).expect("it is written");
        GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("it is gzip");
        let profile = Profile::decode(bytes.as_slice()).expect("a profile");
        let text = |index: i64| profile.string_table[index as usize].clone();
        assert_eq!(text(0), "");
        let kinds: Vec<String> = profile.sample_type.iter().map(|one| text(one.kind)).collect();
        assert_eq!(kinds, ["inuse_objects", "inuse_space"]);
        assert_eq!(profile.time_nanos, 1_700_000_000_500_000_000);
        let name = |id: &u64| {
            let line = &profile.location.iter().find(|one| one.id == *id).expect("a location").line[0];
            text(profile.function.iter().find(|one| one.id == line.function_id).expect("a function").name)
        };
        let of =
            |sample: &Sample| (sample.location_id.iter().rev().map(name).collect(), sample.value.clone());
        profile.sample.iter().map(of).collect()
    }

    fn heap() -> HeapSummary {
        let facts = HeapFacts { taken_at_unix_seconds: 1_700_000_000.5, ..HeapFacts::default() };
        HeapSummary { facts, ..HeapSummary::default() }
    }

    #[test]
    fn frames_are_the_way_from_the_root_and_values_are_each_nodes_own() {
        let node = |parent, via: &str, of: &str, objects, bytes| HolderNode {
            parent,
            via: via.to_owned(),
            of: of.to_owned(),
            objects,
            bytes,
            retained: 999_999,
            ..HolderNode::default()
        };
        let nodes = vec![
            HolderNode::default(),
            node(0, "static App.Trail.All", "List<App.Entry>", 1, 32),
            node(1, "_items", "App.Entry[]", 1, 8_024),
            node(2, ELEMENT, "App.Entry", 1_000, 40_000),
            node(3, "Text", "System.String", 1_000, 60_000),
            // A file may say anything.
            node(9, "", "App.Odd", 1, 24),
        ];
        let tree = HolderTree { nodes, is_cut: false };
        let held = Held { tree, ..Held::default() };
        let found = samples(&HeapSummary { held: Some(held), ..heap() });
        let way = [
            "static App.Trail.All",
            "List<App.Entry>",
            "_items: App.Entry[]",
            "App.Entry",
            "Text: System.String",
        ];
        for (number, values) in
            [[1, 32], [1, 8_024], [1_000, 40_000], [1_000, 60_000]].into_iter().enumerate()
        {
            assert_eq!(
                found[number],
                (way[..number + 2].iter().map(ToString::to_string).collect(), values.to_vec())
            );
        }
        assert_eq!(found[4].0.last().map(String::as_str), Some("App.Odd"));
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn without_holders_there_are_types_with_what_is_alive() {
        let row = |name: &str, live: Option<u64>| {
            let mut row = HeapTypeRow { name: name.to_owned(), ..HeapTypeRow::default() };
            (row.all.objects, row.all.bytes) = (9, 900);
            row.live = live.map(|objects| {
                let mut live = row.all;
                (live.objects, live.bytes) = (objects, objects * 100);
                live
            });
            row
        };
        let types = vec![row("App.Entry", Some(4)), row("App.Gone", Some(0)), row("App.All", None)];
        let found = samples(&HeapSummary { types, ..heap() });
        let expected = [("App.Entry", [4, 400]), ("App.All", [9, 900])];
        assert_eq!(found, expected.map(|(name, values)| (vec![name.to_owned()], values.to_vec())));
    }
}
