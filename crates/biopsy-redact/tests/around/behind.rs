//! What stands behind a value stays: nothing but the value is masked, whatever goes on behind it on its line or on the next one.

use super::{ENDED, masked, redactor};

/// The same, of which what is in front has a meaning of its own.
const MORE: [&str; 2] = ["\"password\": \"{v}\"", "SELECT 1 WHERE password = @p1 [@p1='{v}']"];

/// What stands behind a line.
const BEHIND: [&str; 16] = [
    "",
    "\n",
    "\r\n",
    " done",
    " (took 12 ms)",
    " -> ok",
    " // of the test",
    "\nuser=ann\n",
    "\n  host: db1\n  port: 5432\n",
    "\n2026-11-29 05:06:07 INFO started 3 workers\n",
    "\n{\"user\":\"ann\",\"n\":1}\n",
    "\nat Shop.Orders.Load(String id) in /src/Orders.cs:line 42\n",
    "\ncommit 7f3c0a1b9d2e4f60718293a4b5c6d7e8f9012345\n",
    "\n<a href=\"x\">y</a>\n",
    "\n1,ann,ok\n2,bob,ok\n",
    "\n\nThe next paragraph says something else.\n",
];

const VALUES: [&str; 3] = ["q7f3kd0a92mx6c1b", "9fKq2LxV7bTn4WsYc8EdPm", "Tree77au4kern"];

/// With the value in the place of each mask.
fn shown(masked: &str, value: &str) -> String {
    let mut parts = masked.split("[redacted:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + value + part.split_once(']').map_or("", |(_, rest)| rest))
}

#[test]
fn nothing_but_the_value_is_masked() {
    let rules = redactor();
    let mut wrong = Vec::new();
    for line in ENDED.into_iter().chain(MORE) {
        for value in VALUES {
            for behind in BEHIND {
                let text = line.replace("{v}", value) + behind;
                let masked = masked(&rules, &text);
                if masked.contains(value) || shown(&masked, value) != text {
                    wrong.push((text, masked));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
}

#[test]
fn what_one_line_taught_is_masked_in_the_next_and_nothing_else_is() {
    let rules = redactor();
    let mut wrong = Vec::new();
    for line in ENDED.into_iter().chain(MORE) {
        for value in VALUES {
            for copy in [
                "retry with {v}",
                "<{v}>",
                "a={v}&b=1",
                "[{v}]",
                "{\"x\":\"{v}\"}",
                "x\t{v}\ty",
                "'{v}'",
                "{v}",
            ] {
                let (line, copy) = (line.replace("{v}", value), copy.replace("{v}", value));
                let text = format!("{line}\n10:11:12 INFO other text\n{copy}\n10:11:13 INFO more of it\n");
                let masked = masked(&rules, &text);
                if masked.contains(value) || shown(&masked, value) != text {
                    wrong.push((text, masked));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
}
