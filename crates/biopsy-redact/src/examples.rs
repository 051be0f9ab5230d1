//! The examples of rules, run.

use crate::rules::{self, Rule};
use crate::{Options, RedactError, Redactor};

/// Runs the examples of the last of these packs, with all of them in force; says of each that does not hold what it gives and what it
/// should give.
///
/// # Errors
/// A pack is wrong.
pub fn broken_examples(packs: &[String]) -> Result<Vec<String>, RedactError> {
    // It learns nothing, so that one example does not decide about the next.
    let options = Options { learn_from_text: false, extra_packs: packs.to_vec(), ..Options::default() };
    let redactor = Redactor::new(options)?;
    let before = rules::load(false, &packs[..packs.len().saturating_sub(1)])?.rules.len();
    let rules = rules::load(false, packs)?.rules;
    Ok(rules[before..].iter().flat_map(|rule| broken(&redactor, rule)).collect())
}

/// Which of these packs is the first that cannot be used, with those before it.
#[must_use]
pub fn first_wrong_pack(packs: &[String]) -> Option<usize> {
    (0..packs.len()).find(|last| {
        Redactor::new(Options { extra_packs: packs[..=*last].to_vec(), ..Options::default() }).is_err()
    })
}

/// The same of one rule that is in force.
pub(crate) fn broken(redactor: &Redactor, rule: &Rule) -> Vec<String> {
    let mut wrong = Vec::new();
    for example in &rule.matches {
        let Some((text, values)) = example.split_first() else {
            wrong.push(format!("{}: an example without text", rule.id));
            continue;
        };
        let text = splice(text);
        let Some(want) = expected(redactor, rule, &text, values) else {
            wrong.push(format!("{}: a value is not in its text\n   text {text:?}", rule.id));
            continue;
        };
        let got = redactor.text(&text).text.into_owned();
        if got != want {
            wrong.push(format!("{}\n   text {text:?}\n   got  {got:?}\n   want {want:?}", rule.id));
        }
        let again = redactor.text(&got).text.into_owned();
        if again != got {
            wrong.push(format!("{}: not idempotent\n   once  {got:?}\n   twice {again:?}", rule.id));
        }
    }
    for text in rule.no_match.iter().map(|text| splice(text)) {
        let got = redactor.text(&text).text.into_owned();
        if got != text {
            wrong.push(format!("{}: must stay\n   text {text:?}\n   got  {got:?}", rule.id));
        }
    }
    wrong
}

/// `¦` keeps examples from looking like live secrets to the scanners of code hosts.
pub(crate) fn splice(example: &str) -> String {
    example.replace('¦', "")
}

/// The text with each value replaced by its mask, in order; `None`: one is not there.
fn expected(redactor: &Redactor, rule: &Rule, text: &str, values: &[String]) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    for value in values.iter().map(|value| splice(value)) {
        // The last place where it stands: the name may hold the same letters.
        let at = rest.rfind(&value).filter(|_| values.len() == 1).or_else(|| rest.find(&value))?;
        out.push_str(&rest[..at]);
        // A number in JSON gets quotes, so that it stays JSON.
        let number = rest[..at].ends_with("\": ") && value.bytes().all(|b| b.is_ascii_digit());
        let quote = if number { "\"" } else { "" };
        out.push_str(&format!("{quote}{}{quote}", redactor.pseudonym(&rule.id, &value)));
        rest = &rest[at + value.len()..];
    }
    Some(out + rest)
}
