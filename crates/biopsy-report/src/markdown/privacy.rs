//! What was masked, and what was not gone over for secrets.

use biopsy_model::order::Order as _;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use biopsy_analyze::Diagnosis;

use super::escape::{code, plain};
use super::runtimes::ROWS;
use crate::not_searched::{not_searched, personal_was_masked};
use crate::schema::NotSearched;
use crate::units::{count, counted};

/// Most members that are named for a rule.
const MEMBERS: usize = 3;

pub(super) fn write(text: &mut String, diagnosis: &Diagnosis) {
    let left = not_searched(diagnosis);
    let capture = diagnosis.recorded.as_ref().map(|recorded| &recorded.capture);
    let mut rules: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
    for row in capture.into_iter().flat_map(|capture| &capture.redactions) {
        let (sum, members) = rules.entry(&row.rule).or_default();
        *sum = sum.saturating_add(row.count);
        if !members.contains(&row.member.as_str()) {
            members.push(&row.member);
        }
    }
    if rules.is_empty() && left.is_empty() && capture.is_none_or(|capture| capture.header.command.is_empty())
    {
        return;
    }
    text.push_str("\n## Privacy\n\n");
    if let Some(capture) = capture {
        let all = rules.values().fold(0, |all: u64, (sum, _)| all.saturating_add(*sum));
        let masked = match all {
            0 => "Nothing was found that had to be masked.".to_owned(),
            all => format!("{} masked before anything was written.", counted(all, "value", "values")),
        };
        let personal = if personal_was_masked(capture) { " Personal data was masked, too." } else { "" };
        let _ = writeln!(text, "{masked}{personal}");
    }
    table(text, rules);
    for (number, NotSearched { what, why }) in left.into_iter().enumerate() {
        if number == 0 {
            text.push_str(if capture.is_some() {
                "\nNot gone over, or in part:\n\n"
            } else {
                "Not gone over, or in part:\n\n"
            });
        }
        let _ = writeln!(text, "- {}: {}", plain(&what), plain(&why));
    }
}

fn table(text: &mut String, rules: BTreeMap<&str, (u64, Vec<&str>)>) {
    if rules.is_empty() {
        return;
    }
    text.push_str("\n| Rule | values | in |\n| --- | ---: | --- |\n");
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.order_by_key(|(_, (sum, _))| std::cmp::Reverse(*sum));
    for (rule, (sum, members)) in rules.iter().take(ROWS) {
        let named: Vec<String> = members.iter().take(MEMBERS).map(|member| code(member)).collect();
        let more = match members.len().saturating_sub(MEMBERS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(text, "| {} | {} | {}{more} |", code(rule), count(*sum), named.join(", "));
    }
}
