//! What is read, against what V8 says of its own snapshots; and what is none.

use biopsy_dotnet::graph::{ObjectIndex, RootKind};
use proptest::prelude::*;

use super::*;

const PAGES: &[u8] = include_bytes!("../../../../fuzz/seeds/heapsnapshot/pages");

fn pages() -> (Graph, HeapFacts) {
    read_from(PAGES).expect("it is whole")
}

#[test]
fn objects_have_types_fields_and_roots() {
    let (graph, facts) = pages();
    assert_eq!((facts.objects, facts.bytes, facts.references, facts.dangling), (5, 184, 5, 0));
    assert!(facts.whole && facts.live_objects == Some(5));
    let objects: Vec<_> = graph.objects().collect();
    let name = |object: usize| graph.type_of(objects[object].of).expect("a type").name.as_str();
    assert_eq!((0..5).map(name).collect::<Vec<_>>(), ["App", "(array)", "Page", "Page", "(string)"]);
    let root = graph.roots()[0];
    assert_eq!((graph.roots().len(), root.kind, root.object), (1, RootKind::Static, ObjectIndex(0)));
    let (of, field) = graph.static_at(root.address).expect("it has a name");
    assert_eq!((of.name.as_str(), field), ("App", "one"));
    let mut fields = Vec::new();
    for object in &objects {
        let of = graph.type_of(object.of).expect("a type");
        let each = |place, target: ObjectIndex| {
            fields.push((object.index.0, of.field_of(place).unwrap_or("[]").to_owned(), target.0));
        };
        graph.for_each_numbered_reference(object.index, &mut Vec::new(), each).unwrap();
    }
    // The weak edge back is none.
    let expected = [(0, "cache", 1), (1, "[]", 2), (1, "[]", 3), (2, "text", 4), (3, "text", 4)];
    assert_eq!(fields, expected.map(|(from, field, to)| (from, field.to_owned(), to)));
}

#[test]
fn what_strings_say_is_not_kept() {
    let (graph, _) = pages();
    assert!(!format!("{:?}", graph.types()).contains("secret"));
}

#[test]
fn a_name_that_one_object_has_is_a_key_and_no_field() {
    let text = String::from_utf8_lossy(PAGES).replace(
        "[1,0,7,2,5,14,2,6,21,1,0,28,1,1,35,2,7,42,2,7,42",
        "[1,0,7,2,5,14,2,6,21,1,0,28,1,1,35,2,7,42,2,4,42",
    );
    let (graph, facts) = read_from(text.as_bytes()).unwrap();
    assert_eq!(facts.references, 5);
    let page = graph.types().iter().find(|of| of.name == "Page").unwrap();
    assert!(page.fields.is_empty(), "{:?}", page.fields);
}

#[test]
fn damage_is_said() {
    let text = String::from_utf8_lossy(PAGES).into_owned();
    for (from, to, said) in [
        ("\"edges\":[1,0,7,", "\"edges\":[1,0,6,", "row 0 of `edges`"),
        ("\"edges\":[1,0,7,", "\"edges\":[1,0,49,", "leads to no node"),
        ("\"edges\":[1,0,7,", "\"edges\":[200,0,7,", "a kind that `meta` does not name"),
        ("\"nodes\":[9,0,1,0,1,", "\"nodes\":[9,0,1,0,2,", "more edges than there are"),
        ("\"nodes\":[9,0,1,0,1,", "\"nodes\":[9,0,1,0,0,", "an edge that is nobody's"),
        ("\"nodes\":[9,", "\"nodes\":[", "the last row of `nodes` is not whole"),
        ("\"self_size\"", "\"size\"", "no column `self_size`"),
        ("\"nodes\":", "\"knots\":", "missing"),
        ("\"locations\":[]", "\"nodes\":[]", "twice"),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(damaged, text, "{from}");
        let error = read_from(damaged.as_bytes()).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let words = format!("{error}: {cause}");
        assert!(words.contains(said), "{from}: {words}");
    }
    let lies = text.replace("\"node_count\":7", "\"node_count\":8");
    let (_, facts) = read_from(lies.as_bytes()).unwrap();
    assert!(!facts.whole && facts.warnings[1].contains("8 nodes and 8 edges, and has 7 and 8"));
}

#[test]
fn wherever_it_ends_it_is_an_error() {
    for end in 0..PAGES.len() {
        assert!(read_from(&PAGES[..end]).is_err(), "{end}");
    }
    let deep = format!("{{\"snapshot\":{}", "[".repeat(100_000));
    assert!(read_from(deep.as_bytes()).is_err(), "nothing recurses without end");
}

proptest! {
    #[test]
    fn any_mutation_is_read_or_refused(at in 0..PAGES.len(), byte: u8) {
        let mut bytes = PAGES.to_vec();
        bytes[at] = byte;
        fuzz(&bytes);
    }
}
