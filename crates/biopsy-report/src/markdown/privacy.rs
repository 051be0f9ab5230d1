//! What was masked, and what was not looked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::escape::code;
use super::runtimes::ROWS;
use crate::units::{count, counted};
use biopsy_model::capture::Capture;

/// Most members that are named for a rule.
const MEMBERS: usize = 3;
/// The option that masks personal data.
const ANONYMIZE: &str = "--anonymize";

pub(super) fn write(text: &mut String, capture: &Capture) {
    let mut rules: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
    for row in &capture.redactions {
        let (sum, members) = rules.entry(&row.rule).or_default();
        *sum = sum.saturating_add(row.count);
        if !members.contains(&row.member.as_str()) {
            members.push(&row.member);
        }
    }
    if rules.is_empty() && capture.header.command.is_empty() {
        return;
    }
    text.push_str("\n## Privacy\n\n");
    let all = rules.values().fold(0, |all: u64, (sum, _)| all.saturating_add(*sum));
    let masked = match all {
        0 => "Nothing was found that had to be masked.".to_owned(),
        all => format!("{} masked before anything was written.", counted(all, "value", "values")),
    };
    // What other tools wrote has no command of ours.
    let personal = match &*capture.header.command {
        [] => "",
        command if command.iter().any(|word| word == ANONYMIZE) => " Personal data was masked, too.",
        _ => {
            " Personal data in texts (addresses, e-mail, names) was not looked for: `capture --anonymize` does."
        }
    };
    let _ = writeln!(text, "{masked}{personal}");
    if rules.is_empty() {
        return;
    }
    text.push_str("\n| Rule | values | in |\n| --- | ---: | --- |\n");
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(_, (sum, _))| std::cmp::Reverse(*sum));
    for (rule, (sum, members)) in rules.iter().take(ROWS) {
        let named: Vec<String> = members.iter().take(MEMBERS).map(|member| code(member)).collect();
        let more = match members.len().saturating_sub(MEMBERS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(text, "| {} | {} | {}{more} |", code(rule), count(*sum), named.join(", "));
    }
}
