//! The results: a table for people, JSON for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::case::Class;
use super::clean::Damage;
use super::half::Half;
use super::score::{Count, Score};
use super::wellformed::Format;

/// All of one engine.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) name: String,
    pub(super) score: Score,
    pub(super) damage: Damage,
}

/// A row: what, in which half, and the figure of each engine.
struct Row {
    what: String,
    half: Half,
    figures: Vec<Option<Count>>,
    is_damage: bool,
}

fn rows(all: &[Results]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |what: &str, half: Half, is_damage: bool, figure: &dyn Fn(&Results) -> Option<Count>| {
        let figures: Vec<_> = all.iter().map(figure).collect();
        if figures.iter().any(Option::is_some) {
            rows.push(Row { what: what.to_owned(), half, figures, is_damage });
        }
    };
    for class in Class::ALL {
        for half in Half::ALL {
            row(&class.to_string(), half, false, &|results| {
                results.score.recall.get(&(class, half)).copied()
            });
        }
    }
    for half in
        [Half::A, Half::B, Half::C, Half::D, Half::E, Half::F, Half::G, Half::H, Half::I, Half::J, Half::K]
    {
        let damage = |name: &str| format!("clean text: {name}");
        row(&damage("characters changed"), half, true, &|results| {
            results.damage.characters.get(&half).copied()
        });
        row(&damage("lines changed"), half, true, &|results| results.damage.lines.get(&half).copied());
        row("look-alikes kept", half, false, &|results| results.damage.look_alikes.get(&half).copied());
    }
    for format in Format::ALL {
        for half in Half::ALL {
            let what = format!("reads as before: {}", format.name());
            row(&what, half, false, &|results| results.score.formed.get(&(format, half)).copied());
        }
    }
    rows
}

/// As Markdown.
pub(super) fn markdown(all: &[Results]) -> String {
    let heads: Vec<&str> = all.iter().map(|results| results.name.as_str()).collect();
    let mut text = format!(
        "| what | half | of | {} |\n| --- | --- | ---: |{}\n",
        heads.join(" | "),
        " ---: |".repeat(heads.len())
    );
    for row in rows(all) {
        let of = row.figures.iter().flatten().map(|count| count.all).max().unwrap_or(0);
        let cell = |count: &Option<Count>| match count.and_then(Count::share) {
            None => String::new(),
            Some(share) if row.is_damage => format!("{:.3} %", share * 100.0),
            Some(share) => format!("{share:.3}"),
        };
        let cells: Vec<String> = row.figures.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} | {of} | {} |", row.what, row.half, cells.join(" | "));
    }
    for results in all {
        for (half, bytes) in &results.score.memory_damage {
            let _ = writeln!(text, "| memory: other bytes changed ({}) | {half} | | {bytes} |", results.name);
        }
    }
    text
}

/// The same for programs.
pub(super) fn json(all: &[Results], facts: Value) -> Value {
    let rows: Vec<Value> = rows(all)
        .iter()
        .map(|row| {
            let figure =
                |count: &Option<Count>| count.map(|count| json!({ "good": count.good, "all": count.all }));
            let figures: serde_json::Map<String, Value> = all
                .iter()
                .zip(&row.figures)
                .map(|(results, count)| (results.name.clone(), json!(figure(count))))
                .collect();
            json!({ "what": row.what, "half": row.half.to_string(), "figures": figures })
        })
        .collect();
    json!({ "facts": facts, "rows": rows })
}
