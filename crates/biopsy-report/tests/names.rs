//! Names may be anything: a report with names that want to be something else has the same parts as one with plain names, in each form and at
//! each width of a terminal.

mod synthetic;

use std::sync::LazyLock;

use biopsy_analyze::{Analysis, Diagnosis};
use biopsy_model::capture::Capture;
use biopsy_model::printable::is_harmful;
use biopsy_report::schema::Report;
use biopsy_report::{
    StacksOptions, TextOptions, render_html, render_json, render_markdown, render_stacks, render_text,
};
use serde_json::Value;
use synthetic::commonmark::{Block, blocks, outside_code};
use synthetic::named;

/// What becomes of a name: what is before it, and what is behind it.
const HOSTILE: &[(&str, &str)] = &[
    ("", "|b|"),
    ("", "\\"),
    ("", "\\|"),
    ("`", ""),
    ("", "```"),
    ("``", "`"),
    ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>"),
    ("</pre></noscript><b>", "<!--"),
    ("\n# ", "\n\n"),
    ("\n| a | b |\n| --- | --- |\n", "\r\n- x"),
    ("\n```\n", "\n~~~\n"),
    ("    ", "    "),
    ("> ", " 1. "),
    ("- ", "\u{2028}- "),
    ("[", "](javascript:alert(1))"),
    ("![", "](x)"),
    ("~~", "~~"),
    ("**", "** __ _"),
    ("&lt;", "&#60;&amp;"),
    ("\u{1b}[2J\u{1b}]0;", "\u{7}\u{9b}31m"),
    ("\u{202e}", "\u{2066}\u{200b}\u{feff}"),
    ("\0", "\t\r"),
    ("\"},{\"a\":\"", "\\u003c\\n"),
    ("名前", "🦀é"),
];

fn plain(hint: &str) -> String {
    hint.to_owned()
}

/// What was recorded of a database and of a server on .NET, with what that says.
static RECORDED: LazyLock<[(Capture, Analysis); 2]> = LazyLock::new(|| {
    let (database, dotnet) = (synthetic::capture(), synthetic::dotnet());
    let analyses = (synthetic::analysis(&database), biopsy_analyze::analyze(&dotnet));
    [(database, analyses.0), (dotnet, analyses.1)]
});

/// A moment, and both recordings.
fn all(name: named::Names<'_>) -> [Diagnosis; 3] {
    let [database, dotnet] = RECORDED.each_ref().map(|(capture, analysis)| {
        let mut diagnosis = synthetic::diagnose(capture, analysis);
        synthetic::rename(diagnosis.recorded.as_mut().expect("it was recorded"), name);
        diagnosis
    });
    [named::moment(name), database, dotnet]
}

/// One way for each name, another one for the same name in the next `turn`.
fn hostile(turn: usize) -> impl Fn(&str) -> String {
    move |hint| {
        let sum: usize = hint.bytes().map(usize::from).sum();
        let (before, after) = HOSTILE[(sum + turn) % HOSTILE.len()];
        format!("{before}{hint}{after}")
    }
}

/// Checks plain reports beside hostile ones: of a moment with one way for all names.
fn each_way(check: impl Fn(&Diagnosis, &Diagnosis, &str)) {
    let plain = named::moment(&plain);
    for (before, after) in HOSTILE {
        let hostile = named::moment(&|hint| format!("{before}{hint}{after}"));
        check(&plain, &hostile, &format!("{before:?} {after:?}"));
    }
}

/// And of all evidence, with all ways in one report.
fn mixed(check: impl Fn(&Diagnosis, &Diagnosis, &str)) {
    for (plain, hostile) in all(&plain).iter().zip(&all(&hostile(0))) {
        check(plain, hostile, "all ways");
    }
    for turn in 1..3 {
        check(&named::moment(&plain), &named::moment(&hostile(turn)), &format!("turn {turn}"));
    }
}

fn no_command(text: &str, way: &str) {
    let found = text.chars().find(|char| is_harmful(*char) && *char != '\n');
    assert_eq!(found, None, "{way}");
}

#[test]
fn markdown_has_the_same_blocks() {
    let check = |plain: &Diagnosis, hostile: &Diagnosis, way: &str| {
        let (plain, hostile) = (render_markdown(plain, None), render_markdown(hostile, None));
        no_command(&hostile, way);
        let (expected, found) = (blocks(&plain), blocks(&hostile));
        for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let line = |text: &str| text.split('\n').nth(number).unwrap_or_default().to_owned();
            assert_eq!(expected, found, "{way}\n{}\n{}", line(&plain), line(&hostile));
        }
        assert_eq!(expected.len(), found.len(), "{way}");
    };
    each_way(check);
    mixed(check);
}

#[test]
fn markdown_outside_of_code_has_no_markup_of_others() {
    mixed(|_, hostile, way| {
        let markdown = render_markdown(hostile, None);
        for (line, block) in markdown.split('\n').zip(blocks(&markdown)) {
            let outside = outside_code(line);
            let is_markup = block != Block::Code && outside.contains(['<', '[', ']', '&', '~']);
            assert!(!is_markup, "{way}: {line}");
        }
    });
}

/// All rows of a table have as many cells as its heading.
#[test]
fn tables_are_whole() {
    mixed(|plain, hostile, way| {
        for diagnosis in [plain, hostile] {
            let markdown = render_markdown(diagnosis, None);
            let mut heading = None;
            for (line, block) in markdown.split('\n').zip(blocks(&markdown)) {
                heading = match (heading, block) {
                    (Some(expected), Block::Row(cells)) => {
                        assert_eq!(expected, cells, "{way}: {line}");
                        heading
                    }
                    (None, Block::Row(cells)) => Some(cells),
                    (_, _) => None,
                };
            }
        }
    });
}

#[test]
fn the_page_has_the_same_elements() {
    mixed(|plain, hostile, way| {
        let (plain, hostile) = (render_html(plain, None), render_html(hostile, None));
        no_command(&hostile.replace('\t', ""), way);
        for part in ["<", "<script", "</script", "<!--", "</noscript", "</pre", "</title"] {
            assert_eq!(plain.matches(part).count(), hostile.matches(part).count(), "{way}: {part}");
        }
    });
}

/// Where two values differ first.
fn difference(one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) => {
            let missing =
                others.keys().find(|key| !fields.contains_key(*key)).map(|key| format!("{key} is new"));
            let differs = fields.iter().find_map(|(key, value)| match others.get(key) {
                None => Some(format!("{key} is gone")),
                Some(other) => Some(format!("{key}.{}", difference(value, other)?)),
            });
            missing.or(differs)
        }
        (Value::Array(values), Value::Array(others)) if values.len() == others.len() => values
            .iter()
            .zip(others)
            .find_map(|(value, other)| Some(format!("[].{}", difference(value, other)?))),
        _ => (one != other).then(|| format!("{one} is {other}")),
    }
}

/// The value with all its texts left out.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(values) => values.iter().map(shape).collect(),
        Value::String(_) => Value::String(String::new()),
        other => other.clone(),
    }
}

#[test]
fn json_differs_in_texts_alone_and_reads_back() {
    mixed(|plain, hostile, way| {
        let (plain, hostile) = (render_json(plain, None), render_json(hostile, None));
        no_command(&hostile, way);
        let of = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(difference(&shape(&of(&plain)), &shape(&of(&hostile))), None, "{way}");
        let mut report: Report = serde_json::from_str(&hostile).expect("the schema");
        // Fields of a recording that are all absent read as an empty one.
        report.recorded = report.recorded.filter(|_| of(&hostile).get("recording").is_some());
        let again = serde_json::to_value(&report).expect("JSON");
        assert_eq!(difference(&of(&hostile), &again), None, "{way}");
    });
}

/// Lines with something in their first columns: headings, and rows of tables. What goes on below a heading is indented.
fn at_the_edge(text: &str) -> usize {
    text.lines().filter(|line| !line.chars().take(12).all(|char| char == ' ')).count()
}

#[test]
fn text_has_the_same_headings() {
    mixed(|plain, hostile, way| {
        let text = |diagnosis| render_text(diagnosis, 0, TextOptions { width: Some(120), color: false });
        let (plain, hostile) = (text(plain), text(hostile));
        no_command(&hostile, way);
        assert_eq!(at_the_edge(&plain), at_the_edge(&hostile), "{way}\n{hostile}");
    });
}

/// A word is not broken: one that does not fit below a heading is wider than the terminal by itself.
fn fits(line: &str, width: usize) -> bool {
    let word = line.split_whitespace().next_back().unwrap_or_default();
    line.chars().count() <= width || 12 + word.chars().count() > width
}

#[test]
fn no_line_of_text_is_wider_than_the_terminal() {
    for length in [0, 400] {
        let long = |hint: &str| format!("{hint} {}", "and so on ".repeat(length / 10)).trim_end().to_owned();
        for diagnosis in all(&long) {
            for width in [60, 80, 89, 90, 100, 200] {
                let text = render_text(&diagnosis, 0, TextOptions { width: Some(width), color: false });
                for line in text.lines() {
                    assert!(fits(line, width), "{width}: {line}");
                }
            }
        }
    }
}

#[test]
fn no_line_of_the_stacks_is_wider_than_the_terminal() {
    for width in [40, 60, 80, 100, 160] {
        for (before, after) in HOSTILE {
            let analysis = named::dump(&|hint| format!("{before}{hint}{after}"));
            for (all, native) in [(false, false), (true, false), (false, true)] {
                let options = StacksOptions { width: Some(width), color: false, all, native, frames: 30 };
                let text = render_stacks(&analysis, options);
                no_command(&text, before);
                for line in text.lines() {
                    assert!(fits(line, width), "{width}: {line}");
                }
            }
        }
    }
}

#[test]
fn without_a_terminal_nothing_is_cut() {
    let name = |hint: &str| format!("{hint}-{}-the-end", "x".repeat(300));
    let [moment, ..] = all(&name);
    let text = render_text(&moment, 0, TextOptions::default());
    assert!(!text.contains('…') || text.matches("-the-end").count() > 60, "{text}");
    for hint in ["App.Model.Type29", "Sick.Locks.Step3", "server.dll", "glibc"] {
        assert!(text.contains(&name(hint)), "{hint} is cut:\n{text}");
    }
}
