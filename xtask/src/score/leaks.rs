//! `cargo xtask leaks`: whether the first finding names what leaks, what holds it and who allocates it, on the programs of `fixtures/leaks/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use regex::Regex;
use serde::Serialize;

use super::corpus::{Specimen, contradictions, find_leaks, unknown_ids};
use super::grade::{Finding, first, grade};
use super::observe::observe;
use super::running::Stop;
use super::truth::{Class, Truth};
use super::{build_all, program_of};
use crate::run::{Outcome, target_folder};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only programs whose name (`csharp/books@net8.0`) matches
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
    /// Which biopsy [default: the release build]
    #[arg(long)]
    program: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let all = find_leaks()?;
    let mut wrong = contradictions(&all);
    wrong.extend(unknown_ids(&all)?);
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let is_wanted =
        |specimen: &Specimen| options.only.as_ref().is_none_or(|only| only.is_match(&specimen.name));
    let specimens = all.into_iter().filter(is_wanted).collect();
    let folder = target_folder()?.join("leaks");
    let stop = Stop::listen()?;
    let (built, skipped) = build_all(specimens, &folder, &stop)?;
    let program = program_of(options.program.as_deref())?;
    let reports = folder.join("reports");
    std::fs::create_dir_all(&reports)
        .map_err(|error| format!("cannot make `{}`: {error}", reports.display()))?;
    let mut results = Vec::new();
    for (specimen, command) in &built {
        let began = Instant::now();
        let report = reports.join(format!("{}.json", specimen.name.replace('/', "-")));
        let found = observe(&program, specimen, command, &folder.join("run"), &report, &stop);
        if stop.asked() {
            break;
        }
        let graded = Graded::of(specimen, found);
        let word = if graded.right { "right" } else { "WRONG" };
        println!("{word} {:<30} {:.0} s {}", graded.name, began.elapsed().as_secs_f64(), graded.said);
        results.push(graded);
    }
    println!("\n{}", render_table(&results));
    if !skipped.is_empty() {
        println!("skipped: {}", skipped.join(", "));
    }
    let file = folder.join("leaks.json");
    let json = serde_json::json!({ "results": results, "skipped": skipped });
    std::fs::write(&file, format!("{json:#}\n")).map_err(|error| format!("`{}`: {error}", file.display()))?;
    stop.check()
}

/// What the first finding says of one program. `None`: not asked, since there is none (a lost pointer has no holder, C no types).
#[derive(Serialize)]
struct Graded {
    name: String,
    language: String,
    form: String,
    healthy: bool,
    kind: bool,
    holder: Option<bool>,
    of_type: Option<bool>,
    allocator: Option<bool>,
    right: bool,
    /// Severity, id and title of the finding, or why there is none.
    said: String,
}

impl Graded {
    fn of(specimen: &Specimen, found: Outcome<Vec<Finding>>) -> Self {
        let truth = &specimen.truth;
        let (findings, failure) = match found {
            Ok(findings) => (findings, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let first = first(&findings);
        let said = match (first, failure) {
            (_, Some(failure)) => failure,
            (Some(first), None) => format!("{:?} `{}`: {}", first.severity, first.id, first.title),
            (None, None) => "nothing".to_owned(),
        };
        let is_sick = truth.class != Class::Healthy;
        let text = first.map_or("", |first| &first.text);
        let kind = is_sick && first.is_some_and(|first| truth.kind.contains(&first.id));
        let names = |asked: &super::truth::Patterns| {
            (is_sick && !asked.is_empty()).then(|| kind && asked.any_in(text))
        };
        let (holder, of_type, allocator) =
            (names(&truth.place), names(&truth.reason), names(&truth.allocator));
        let right = match is_sick {
            true => kind && [holder, of_type].iter().all(|asked| *asked != Some(false)),
            // Of half a recording nobody can say that it is silent.
            false => {
                grade(truth, &findings).right
                    && findings.iter().all(|finding| finding.id != "recording-incomplete")
            }
        };
        Self {
            name: specimen.name.clone(),
            language: language(truth, specimen.framework.as_deref()),
            form: truth.form.clone().unwrap_or_default(),
            healthy: !is_sick,
            kind,
            holder,
            of_type,
            allocator,
            right,
            said,
        }
    }
}

fn language(truth: &Truth, framework: Option<&str>) -> String {
    let name = format!("{:?}", truth.language);
    framework.map_or(name.clone(), |framework| format!("{name} {framework}"))
}

/// By form and by language; then a line for each that was not all right.
fn render_table(all: &[Graded]) -> String {
    let mut text = String::from(
        "| what | programs | kind | holder | type | allocating function | kind, holder, type |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let (healthy, sick): (Vec<&Graded>, Vec<&Graded>) = all.iter().partition(|graded| graded.healthy);
    for key in [|graded: &Graded| graded.form.clone(), |graded: &Graded| graded.language.clone()] {
        let mut rows = BTreeMap::<String, Vec<&Graded>>::new();
        for graded in &sick {
            rows.entry(key(graded)).or_default().push(graded);
        }
        rows.iter().for_each(|(what, graded)| row(&mut text, what, graded));
    }
    row(&mut text, "all", &sick);
    let silent = healthy.iter().filter(|graded| graded.right).count();
    let _ = writeln!(text, "\nhealthy growers: {silent} of {} with nothing above a notice", healthy.len());
    for graded in all.iter().filter(|graded| !graded.right || graded.allocator == Some(false)) {
        let missing: Vec<&str> = [
            (Some(graded.kind || graded.healthy), "kind"),
            (graded.holder, "holder"),
            (graded.of_type, "type"),
            (graded.allocator, "allocating function"),
        ]
        .into_iter()
        .filter_map(|(is_right, what)| (is_right == Some(false)).then_some(what))
        .collect();
        let missing = if graded.healthy { "silence".to_owned() } else { missing.join(", ") };
        let _ = writeln!(text, "{}: missing {missing}\n    {}", graded.name, graded.said);
    }
    text
}

/// Writing to a string cannot fail.
fn row(text: &mut String, what: &str, graded: &[&Graded]) {
    let of = |column: fn(&Graded) -> Option<bool>| {
        let asked: Vec<bool> = graded.iter().filter_map(|graded| column(graded)).collect();
        match asked.len() {
            0 => String::new(),
            count => format!("{}/{count}", asked.iter().filter(|is_right| **is_right).count()),
        }
    };
    let _ = writeln!(
        text,
        "| {what} | {} | {} | {} | {} | {} | {} |",
        graded.len(),
        of(|graded| Some(graded.kind)),
        of(|graded| graded.holder),
        of(|graded| graded.of_type),
        of(|graded| graded.allocator),
        of(|graded| Some(graded.right))
    );
}

#[cfg(test)]
mod tests {
    use super::super::grade::parse_findings;
    use super::super::truth::parse_truth;
    use super::*;

    fn graded(class: &str, id: &str, title: &str) -> Graded {
        let expected = match class {
            "healthy" => "",
            _ => "kind = ['leak']\nplace = ['Journal']\nreason = ['Booking']\nallocator = ['Book\\b']\n",
        };
        let text = format!(
            "language = 'csharp'\nclass = '{class}'\ncause = ''\nform = 'list'\nsource = 'a.cs'\nobserve = 'stacks'\n{expected}"
        );
        let specimen = Specimen {
            name: "csharp/a".to_owned(),
            folder: PathBuf::new(),
            truth: parse_truth(&text).unwrap(),
            framework: Some("net8.0".to_owned()),
        };
        let said = serde_json::json!({ "findings": [{ "id": id, "severity": "warning", "title": title }] });
        Graded::of(&specimen, parse_findings(&said.to_string()))
    }

    #[test]
    fn holder_type_and_function_are_graded_apart() {
        let all = graded("grows", "leak", "`Booking` held by `Journal`, allocated in `Books.Book`");
        assert!(all.right && all.allocator == Some(true));
        let some = graded("grows", "leak", "`Booking` held by `Journal`");
        assert!(some.right && some.allocator == Some(false));
        let other = graded("grows", "memory-growth", "`Booking` held by `Journal`");
        assert!(!other.right && other.holder == Some(false));
        let table = render_table(&[all, some, other]);
        assert!(table.contains("| list | 3 | 2/3 | 2/3 | 2/3 | 1/3 | 2/3 |"), "{table}");
        assert!(table.contains("| CSharp net8.0 | 3 |"), "{table}");
    }

    #[test]
    fn half_a_recording_of_a_healthy_grower_is_no_silence() {
        assert!(graded("healthy", "idle", "").said.contains("idle"));
        assert!(!graded("healthy", "recording-incomplete", "not whole").right);
    }

    #[test]
    fn a_warning_about_a_healthy_grower_is_wrong() {
        let table = render_table(&[graded("healthy", "leak", "grows")]);
        assert!(table.contains("0 of 1 with nothing above a notice\ncsharp/a: missing silence"), "{table}");
    }
}
