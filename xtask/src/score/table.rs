//! Results by class and by language, what failed, and all of it as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::grade::{Finding, Grade};
use super::truth::{Class, Language, Truth};

/// What came of one program.
#[derive(Serialize)]
pub(crate) struct Graded {
    pub(crate) name: String,
    pub(crate) language: Language,
    pub(crate) class: Class,
    pub(crate) grade: Grade,
    /// The finding that was graded.
    pub(crate) first: Option<Finding>,
    /// Why there is none.
    pub(crate) failure: Option<String>,
    pub(crate) expected: Expected,
}

/// What the first finding has to say, as the truth file has it.
#[derive(Serialize)]
pub(crate) struct Expected {
    kind: Vec<String>,
    place: Vec<String>,
    every: Vec<String>,
    reason: Vec<String>,
}

impl From<&Truth> for Expected {
    fn from(truth: &Truth) -> Self {
        let texts = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
        Self {
            kind: truth.kind.clone(),
            place: texts(truth.place.texts()),
            every: texts(truth.every.texts()),
            reason: texts(truth.reason.texts()),
        }
    }
}

/// A row of the table.
#[derive(Serialize, Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    programs: usize,
    kind: usize,
    place: usize,
    reason: usize,
    right: usize,
    wrong_with_confidence: usize,
    not_observed: usize,
}

impl Counts {
    fn add(&mut self, graded: &Graded) {
        let grade = &graded.grade;
        self.programs += 1;
        self.kind += usize::from(grade.kind);
        self.place += usize::from(grade.place);
        self.reason += usize::from(grade.reason);
        self.right += usize::from(grade.right);
        self.wrong_with_confidence += usize::from(grade.wrong_with_confidence);
        self.not_observed += usize::from(graded.failure.is_some());
    }

    fn of<'a>(graded: impl IntoIterator<Item = &'a Graded>) -> Self {
        let mut counts = Self::default();
        graded.into_iter().for_each(|graded| counts.add(graded));
        counts
    }
}

/// The table as Markdown, and below it a line for each program that was not right.
pub(crate) fn render_table(all: &[Graded]) -> String {
    let mut text = String::from(
        "| what | programs | kind | place | reason | right | confident and wrong | not observed |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let is_sick = |graded: &&Graded| graded.class != Class::Healthy;
    for (class, counts) in by(all, |graded| graded.class) {
        row(&mut text, &lower(&class), &counts, class == Class::Healthy);
    }
    let sick: Vec<&Graded> = all.iter().filter(is_sick).collect();
    for (language, counts) in by(sick.iter().copied(), |graded| graded.language) {
        row(&mut text, &lower(&language), &counts, false);
    }
    row(&mut text, "all sick", &Counts::of(sick), false);
    let failed: Vec<&Graded> = all.iter().filter(|graded| !graded.grade.right).collect();
    if !failed.is_empty() {
        text.push('\n');
    }
    for graded in failed {
        failure(&mut text, graded);
    }
    text
}

fn by<'a, K: Ord>(
    graded: impl IntoIterator<Item = &'a Graded>,
    key: impl Fn(&Graded) -> K,
) -> BTreeMap<K, Counts> {
    let mut rows = BTreeMap::<K, Counts>::new();
    for graded in graded {
        rows.entry(key(graded)).or_default().add(graded);
    }
    rows
}

fn lower(word: &impl std::fmt::Debug) -> String {
    format!("{word:?}").to_lowercase()
}

/// Writing to a string cannot fail.
fn row(text: &mut String, what: &str, counts: &Counts, is_healthy: bool) {
    let Counts { programs, kind, place, reason, right, wrong_with_confidence, not_observed } = counts;
    let graded = match is_healthy {
        true => "| | |".to_owned(),
        false => format!("{kind} | {place} | {reason} |"),
    };
    let _ = writeln!(
        text,
        "| {what} | {programs} | {graded} {right} | {wrong_with_confidence} | {not_observed} |"
    );
}

fn failure(text: &mut String, graded: &Graded) {
    let Graded { name, class, grade, first, failure, expected, .. } = graded;
    let said = match (first, failure) {
        (_, Some(failure)) => failure.clone(),
        (Some(first), None) => format!("{:?} `{}`: {}", first.severity, first.id, first.title),
        (None, None) => "nothing".to_owned(),
    };
    let _ = writeln!(text, "{name}");
    if *class == Class::Healthy {
        let _ = writeln!(text, "    got      {said}\n    expected silence");
        return;
    }
    let missing: Vec<String> = [
        (grade.kind, "kind", expected.kind.join("|")),
        (
            grade.place,
            "place",
            expected.place.join("|")
                + &expected.every.iter().fold(String::new(), |all, one| all + " and " + one),
        ),
        (grade.reason, "reason", expected.reason.join("|")),
    ]
    .into_iter()
    .filter(|(is_right, ..)| !is_right)
    .map(|(_, what, wanted)| format!("{what} {wanted}"))
    .collect();
    let _ = writeln!(text, "    got      {said}\n    missing  {}", missing.join("; "));
}

/// Everything, for programs that compare two runs.
pub(crate) fn render_json(program: &str, all: &[Graded], skipped: &[String]) -> String {
    let classes: BTreeMap<String, Counts> =
        by(all, |graded| graded.class).into_iter().map(|(class, counts)| (lower(&class), counts)).collect();
    let json =
        serde_json::json!({ "program": program, "classes": classes, "skipped": skipped, "results": all });
    format!("{json:#}\n")
}

#[cfg(test)]
mod tests {
    use super::super::grade::Severity;
    use super::super::truth::parse_truth;
    use super::*;

    fn graded(name: &str, class: Class, right: bool) -> Graded {
        let text = "language = 'go'\nclass = 'hangs'\ncause = ''\nsource = 'a.go'\nobserve = 'stacks'\n\
                    kind = ['deadlock']\nplace = ['take_order']\nreason = ['lock']\n";
        let first = Finding {
            id: "overview".to_owned(),
            severity: Severity::Warning,
            title: "Nothing moves".to_owned(),
            text: String::new(),
        };
        Graded {
            name: name.to_owned(),
            language: Language::Go,
            class,
            grade: Grade { kind: right, place: right, reason: right, right, wrong_with_confidence: !right },
            first: Some(first),
            failure: None,
            expected: Expected::from(&parse_truth(text).unwrap()),
        }
    }

    #[test]
    fn rows_count_by_class_and_language() {
        let all = [
            graded("a", Class::Hangs, true),
            graded("b", Class::Hangs, false),
            graded("c", Class::Healthy, true),
        ];
        let table = render_table(&all);
        assert!(table.contains("| hangs | 2 | 1 | 1 | 1 | 1 | 1 | 0 |"), "{table}");
        assert!(table.contains("| healthy | 1 | | | | 1 | 0 | 0 |"), "{table}");
        assert!(table.contains("| go | 2 |") && table.contains("| all sick | 2 |"), "{table}");
    }

    #[test]
    fn what_failed_says_what_it_got_and_what_was_missing() {
        let table = render_table(&[graded("first/go/b", Class::Hangs, false)]);
        assert!(table.contains("first/go/b\n    got      Warning `overview`: Nothing moves\n"), "{table}");
        assert!(table.contains("missing  kind deadlock; place take_order; reason lock"), "{table}");
        assert!(!render_table(&[graded("first/go/a", Class::Hangs, true)]).contains("got"));
    }

    #[test]
    fn the_json_has_each_result() {
        let json = render_json("biopsy", &[graded("a", Class::Hangs, true)], &["b".to_owned()]);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["results"][0]["name"], "a");
        assert_eq!(value["classes"]["hangs"]["right"], 1);
        assert_eq!(value["skipped"][0], "b");
    }
}
