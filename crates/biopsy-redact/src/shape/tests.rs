//! What is taken out of a match: values of lists, runs of base64, and where words begin.

use super::*;
use crate::rules;

/// The shape of a rule that is built in.
fn shape(id: &str) -> Shape {
    let rules = rules::load(true, &[]).expect("the built-in packs are right").rules;
    Shape::compile(rules.iter().find(|rule| rule.id == id).expect("there is such a rule"))
        .expect("it compiles")
}

fn split(text: &str, keep: &[&str]) -> Vec<String> {
    let mut shape = shape("jwt");
    shape.keep = keep.iter().map(|name| (*name).to_owned()).collect();
    let mut values = Vec::new();
    shape.split_pairs(text.as_bytes(), 0..text.len(), b';', &mut values);
    values.into_iter().map(|range| text[range].to_owned()).collect()
}

#[test]
fn lists_of_pairs_give_their_values_but_those_of_names_that_stay() {
    for (text, values) in [
        ("a=1; b=2", vec!["1", "2"]),
        ("a=1;b=2;", vec!["1", "2"]),
        ("sid=x=y", vec!["x=y"]),
        ("a= 1 ; path=/; Path=/x", vec!["1"]),
        ("Secure; a=1; HttpOnly", vec!["1", "HttpOnly"]),
        ("bare", vec!["bare"]),
        ("a=;=b; ;", vec!["b"]),
        ("", vec![]),
    ] {
        assert_eq!(split(text, &["path", "secure"]), values, "{text}");
    }
}

#[test]
fn runs_of_base64_are_keys_when_they_are_long_and_mixed() {
    let runs = |text: &str| {
        let mut values = Vec::new();
        base64_runs(text.as_bytes(), 0..text.len(), 8, &mut values);
        values.into_iter().map(|range| text[range].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(runs("aB3dE6gH"), ["aB3dE6gH"]);
    assert_eq!(runs("aB3dE6g"), [""; 0], "one too short");
    assert_eq!(runs("abcdefgh12 ABCDEFGH12 abcdEFGH"), [""; 0], "no capitals, no small letters, no digits");
    assert_eq!(runs("x aB3dE6gH== y aB3d+/gH"), ["aB3dE6gH==", "aB3d+/gH"]);
    assert_eq!(
        runs("aB3dE6gH\\naB3dE6gHn"),
        ["aB3dE6gH", "aB3dE6gHn"],
        "the `n` of an escaped line end is left"
    );
}

#[test]
fn words_begin_behind_escapes_as_behind_blanks() {
    for (before, begins) in [
        ("", true),
        (" ", true),
        ("=", true),
        ("\\n", true),
        ("\\t", true),
        ("%3D", true),
        ("%3d", true),
        ("\\u0022", true),
        ("\u{e4}", true),
        ("a", false),
        ("1", false),
        ("_", false),
        ("n", false),
        ("3D", false),
        ("%zD", false),
        ("u0022", false),
        ("\\u002g", false),
        ("\\x", false),
    ] {
        assert_eq!(begins_word(format!("{before}key").as_bytes(), before.len()), begins, "`{before}`");
    }
}

#[test]
fn a_value_that_the_window_cuts_goes_on_to_its_end() {
    let shape = shape("jwt");
    let long = format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{}", "sig_0123".repeat(shape.after / 8 + 10));
    for end in ["", " more", "\"}", "\n"] {
        let text = format!("token {long}{end}");
        let lists = Lists::new(crate::rules::Words::load().expect("the built-in lists are right"));
        let found = shape.find(text.as_bytes(), 6, 0, &lists, &mut shape.captures());
        let value = 6..6 + long.len();
        assert_eq!(found.expect("a token").values, [value], "{end:?}");
    }
}
