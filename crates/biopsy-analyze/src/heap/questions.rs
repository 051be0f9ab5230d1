//! Questions to a heap: which types, who holds objects of one, on which ways one gets to them, what one object is.

use biopsy_model::order::Order as _;
use std::collections::HashMap;
use std::io;

use biopsy_dotnet::graph::{Graph, ObjectIndex};
use biopsy_model::Avma;
use biopsy_model::heap::HeapFacts;

use super::dominators::Dominators;
use super::holders::HolderTree;
use super::names::{Step, text_of, type_name};
use super::summary::HeapSummary;
use super::ways::Ways;

/// An answer: a table whose last column is a sentence.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// What it is about.
    pub about: String,
    /// Its rows, the most important first.
    pub rows: Vec<AnswerRow>,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

/// One row; what is absent was not asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnswerRow {
    /// Objects.
    pub objects: Option<u64>,
    /// Their own bytes.
    pub bytes: Option<u64>,
    /// Bytes that live because of them.
    pub retained: Option<u64>,
    /// One of them, which can be asked for by its address.
    pub example: Option<Avma>,
    /// A type, a way, a field.
    pub text: String,
}

/// What may be asked.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "one of them is a function")]
pub enum Question<'a> {
    /// The shortest ways to objects of a type.
    PathTo(&'a str),
    /// Who alone holds objects of a type.
    Holders(&'a str),
    /// Types whose names are meant.
    Types(&'a dyn Fn(&str) -> bool),
    /// Known ways in which memory is wasted or kept.
    Inspections,
    /// The object at an address.
    Object(Avma),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    /// References that were spilled cannot be read.
    #[error("the references cannot be read")]
    References(#[from] io::Error),
    /// No type has that name.
    #[error("no type of the heap is called `{0}`")]
    NoType(String),
    /// Nothing is there.
    #[error("there is no object at {0}")]
    NoObject(Avma),
}

impl QuestionError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        let hint =
            "`--type REGEX` lists types by name; a type is meant by its full name, or without its namespace";
        matches!(self, Self::NoType(_)).then_some(hint)
    }
}

/// Answers it, of the heap `name`.
///
/// # Errors
/// [`QuestionError`].
pub fn answer(
    question: Question<'_>,
    name: &str,
    graph: &Graph,
    facts: &HeapFacts,
) -> Result<Answer, QuestionError> {
    let known = |wanted: &str| {
        let is_there = graph.types().iter().any(|of| is_meant(&of.name, wanted));
        is_there.then_some(()).ok_or_else(|| QuestionError::NoType(wanted.to_owned()))
    };
    Ok(match question {
        Question::PathTo(of) => known(of).and_then(|()| Ok(paths_to(graph, of)?))?,
        Question::Holders(of) => known(of).and_then(|()| Ok(holders_of(graph, of)?))?,
        Question::Types(is_wanted) => types(&HeapSummary::new(name, graph, facts), is_wanted),
        Question::Inspections => inspections(&HeapSummary::new(name, graph, facts)),
        Question::Object(address) => object_at(graph, address)?.ok_or(QuestionError::NoObject(address))?,
    })
}

/// Objects whose ways are looked at; more are taken at equal distances.
const SAMPLED: usize = 20_000;
/// References of one object that are listed.
const REFERENCES: usize = 200;

/// Whether a type is meant: by its full name, or by the part behind its namespace or outer type.
#[must_use]
pub fn is_meant(name: &str, wanted: &str) -> bool {
    let rest = name.strip_suffix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', '+']))
}

/// Known ways in which memory is wasted or kept, each with where.
#[must_use]
pub fn inspections(summary: &HeapSummary) -> Answer {
    let about = "known ways in which memory is wasted or kept".to_owned();
    let Some(held) = &summary.held else {
        return Answer { about, rows: Vec::new(), notes: vec!["nobody looked who holds what".to_owned()] };
    };
    let row = |objects, bytes, text| AnswerRow {
        objects: Some(objects),
        bytes: Some(bytes),
        text,
        ..AnswerRow::default()
    };
    let rows = held.inspections.iter().flat_map(|one| {
        let text = format!("{} ({})", one.kind.title(), one.kind.measure().word());
        let places =
            one.rows.iter().map(|place| row(place.objects, place.bytes, format!("  {}", place.what)));
        std::iter::once(row(one.objects, one.bytes, text)).chain(places.collect::<Vec<_>>())
    });
    Answer { about, rows: rows.collect(), notes: Vec::new() }
}

/// Objects of types that are meant, alive or not, and how many of them are alive.
fn objects_of(graph: &Graph, is_wanted: &dyn Fn(&str) -> bool) -> (Vec<ObjectIndex>, u64) {
    let wanted: Vec<bool> = graph.types().iter().map(|of| !of.is_free && is_wanted(&of.name)).collect();
    let mut live = 0;
    let objects = graph.objects().filter(|object| wanted.get(object.of.0 as usize).is_some_and(|is| *is));
    let found = objects.map(|object| {
        live += u64::from(graph.live().is_none_or(|bits| bits.contains(object.index.0 as usize)));
        object.index
    });
    let found = found.collect();
    (found, live)
}

/// The ways to objects of a type, those of most objects first.
///
/// # Errors
/// References that were spilled cannot be read.
pub fn paths_to(graph: &Graph, wanted: &str) -> io::Result<Answer> {
    let (objects, live) = objects_of(graph, &|name| is_meant(name, wanted));
    let ways = Ways::of(graph)?;
    let step = objects.len().div_ceil(SAMPLED).max(1);
    let mut found: HashMap<Vec<Step>, (u64, u64, u32, ObjectIndex)> = HashMap::new();
    let (mut looked, mut unreached) = (0_u64, 0_u64);
    for object in objects.iter().step_by(step) {
        looked += 1;
        let Some(mut way) = ways.to(*object)? else {
            unreached += 1;
            continue;
        };
        // Lists of any length are one way.
        let longest = way.iter().map(|step| step.times).max().unwrap_or(1);
        way.iter_mut().for_each(|step| step.times = step.times.min(2));
        let bytes = graph.object(*object).map_or(0, |object| object.size);
        let (count, sum, times, _) = found.entry(way).or_insert((0, 0, 0, *object));
        *count += 1;
        *sum = sum.saturating_add(bytes);
        *times = (*times).max(longest);
    }
    let mut rows: Vec<AnswerRow> = found
        .into_iter()
        .map(|(mut way, (objects, bytes, times, example))| {
            way.iter_mut().filter(|step| step.times > 1).for_each(|step| step.times = times);
            AnswerRow {
                objects: Some(objects),
                bytes: Some(bytes),
                example: graph.object(example).map(|object| object.address),
                text: text_of(&way),
                ..AnswerRow::default()
            }
        })
        .collect();
    rows.order_by(|a, b| b.objects.cmp(&a.objects).then_with(|| a.text.cmp(&b.text)));
    let mut notes = Vec::new();
    if step > 1 {
        notes.push(format!("{looked} of {} objects were looked at, at equal distances", objects.len()));
    }
    if unreached > 0 {
        notes.push(format!("nothing leads to {unreached} of them: they are garbage"));
    }
    let about = format!("shortest ways to {} objects of `{wanted}`, {live} of them alive", objects.len());
    Ok(Answer { about, rows, notes })
}

/// Who holds objects of a type, by what goes with them.
///
/// # Errors
/// References that were spilled cannot be read.
pub fn holders_of(graph: &Graph, wanted: &str) -> io::Result<Answer> {
    let (objects, live) = objects_of(graph, &|name| is_meant(name, wanted));
    let dominators = Dominators::of(graph)?;
    let tree = HolderTree::of(graph, &dominators)?;
    let nodes = tree.nodes.iter().enumerate().skip(1).filter(|(_, node)| is_meant(&node.of, wanted));
    let mut rows: Vec<AnswerRow> = nodes
        .map(|(number, node)| AnswerRow {
            objects: Some(node.objects),
            retained: Some(node.retained),
            example: node.example.and_then(|object| graph.object(object)).map(|object| object.address),
            text: text_of(&tree.way(number as u32)),
            ..AnswerRow::default()
        })
        .collect();
    rows.order_by(|a, b| b.retained.cmp(&a.retained).then_with(|| a.text.cmp(&b.text)));
    let mut notes = Vec::new();
    if tree.is_cut {
        notes.push("there are more ways than are told apart: deep ones count at what holds them".to_owned());
    }
    let about = format!("who alone holds {} objects of `{wanted}`, {live} of them alive", objects.len());
    Ok(Answer { about, rows, notes })
}

/// What an object is: its references, and the shortest way to it. `None`: there is none at this address.
///
/// # Errors
/// References that were spilled cannot be read.
pub fn object_at(graph: &Graph, address: Avma) -> io::Result<Option<Answer>> {
    let Some((index, is_beginning)) = graph.find_holder(address) else { return Ok(None) };
    let Some(object) = graph.object(index) else { return Ok(None) };
    let mut notes = Vec::new();
    if !is_beginning {
        notes.push(format!("{address} is inside of the object at {}", object.address));
    }
    let dominators = Dominators::of(graph)?;
    match dominators.number(index) {
        None => notes.push("nothing leads to it: it is garbage".to_owned()),
        Some(number) => {
            notes.push(format!("{} bytes live because of it", dominators.retained(number)));
            if let Some(way) = Ways::of(graph)?.to(index)? {
                notes.push(text_of(&way));
            }
        }
    }
    let of = graph.type_of(object.of);
    let mut rows = Vec::new();
    graph.for_each_numbered_reference(index, &mut Vec::new(), |reference, target| {
        if rows.len() >= REFERENCES {
            return;
        }
        let field = of.and_then(|of| of.field_of(reference)).unwrap_or("[]");
        let address = graph.object(target).map_or_else(String::new, |target| format!(" {}", target.address));
        rows.push(AnswerRow {
            retained: dominators.number(target).map(|number| dominators.retained(number)),
            text: format!("{field}: {}{address}", type_name(graph, target)),
            ..AnswerRow::default()
        });
    })?;
    let (name, size, generation) = (type_name(graph, index), object.size, object.generation.name());
    Ok(Some(Answer {
        about: format!("`{name}` at {}: {size} bytes, {generation}", object.address),
        rows,
        notes,
    }))
}

/// Types that are wanted, with what lives because of them.
#[must_use]
pub fn types(summary: &HeapSummary, is_wanted: &dyn Fn(&str) -> bool) -> Answer {
    let rows = summary.types.iter().filter(|row| is_wanted(&row.name)).map(|row| AnswerRow {
        objects: Some(row.live.unwrap_or(row.all).objects),
        bytes: Some(row.live.unwrap_or(row.all).bytes),
        retained: row.retained,
        text: row.name.clone(),
        ..AnswerRow::default()
    });
    let rows: Vec<AnswerRow> = rows.collect();
    Answer { about: format!("{} of {} types", rows.len(), summary.types.len()), rows, notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::made_up;
    use biopsy_dotnet::graph::RootKind;

    fn graph() -> Graph {
        let types: &[(&str, &[&str])] =
            &[("App.Trail", &[]), ("App.Entry[]", &[]), ("App.Entry", &["Text"]), ("System.String", &[])];
        let objects = [
            (1, 64, vec![1, 2, 3]),
            (2, 24, vec![4]),
            (2, 24, vec![4]),
            (2, 24, vec![]),
            (3, 40, vec![]),
            (2, 24, vec![]),
        ];
        made_up::graph(types, &objects, &[(RootKind::Static, 0)])
    }

    #[test]
    fn ways_and_holders_are_put_together_by_type() {
        let answer = paths_to(&graph(), "Entry").expect("in memory");
        assert_eq!(answer.about, "shortest ways to 4 objects of `Entry`, 3 of them alive");
        assert_eq!(answer.notes, ["nothing leads to 1 of them: they are garbage"]);
        let rows: Vec<_> = answer.rows.iter().map(|row| (row.objects, row.text.as_str())).collect();
        assert_eq!(rows, [(Some(3), "static App.Trail.All → App.Entry[] → App.Entry")]);
        // The one that is named can be asked for.
        let example = answer.rows[0].example.expect("one of them");
        let about = object_at(&graph(), example).expect("in memory").expect("an object").about;
        assert!(about.starts_with("`App.Entry` at "), "{about}");
        let answer = holders_of(&graph(), "System.String").expect("in memory");
        // Two entries have it: their array is the nearest that holds it alone.
        let rows: Vec<_> = answer.rows.iter().map(|row| (row.retained, row.text.as_str())).collect();
        assert_eq!(rows, [(Some(40), "static App.Trail.All → App.Entry[] → System.String")]);
        let example = answer.rows[0].example.expect("it");
        let about = object_at(&graph(), example).expect("in memory").expect("an object").about;
        assert!(about.starts_with("`System.String` at "), "{about}");
        assert!(holders_of(&graph(), "tem.String").expect("in memory").rows.is_empty());
    }

    #[test]
    fn an_object_tells_its_fields_and_its_way() {
        let graph = graph();
        let address = graph.object(ObjectIndex(1)).expect("there").address;
        let answer = object_at(&graph, address).expect("in memory").expect("an object");
        assert!(answer.rows[0].text.starts_with("Text: System.String"), "{:?}", answer.rows);
        assert!(
            answer.notes.iter().any(|note| note.ends_with("→ App.Entry[] → App.Entry")),
            "{:?}",
            answer.notes
        );
        assert!(object_at(&graph, Avma(1)).expect("in memory").is_none());
        let summary = HeapSummary::new("x", &graph, &graph.facts());
        let answer = types(&summary, &|name| name.contains("Entry"));
        assert_eq!(answer.rows.len(), 2);
        assert_eq!(answer.rows.iter().map(|row| row.retained).max().flatten(), Some(176));
    }

    #[test]
    fn who_holds_what_is_left_out_where_it_takes_too_much_memory() {
        let graph = graph();
        let little = HeapSummary::within("x", &graph, &graph.facts(), 100);
        let all = HeapSummary::new("x", &graph, &graph.facts());
        assert!(little.held.is_none() && little.types.iter().all(|row| row.retained.is_none()));
        let warned = |summary: &HeapSummary| {
            summary.facts.warnings.iter().any(|told| told.starts_with("who holds what was not worked out"))
        };
        assert!(warned(&little), "{:?}", little.facts.warnings);
        assert!(all.held.is_some() && !warned(&all));
    }
}
