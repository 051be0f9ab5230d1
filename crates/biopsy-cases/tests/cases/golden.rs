//! The published tables: what a report leaves in them, and what the description says of them.

use std::path::Path;

use biopsy_cases::{Table, VERSION};

use crate::support::{Lab, report};

/// What the report of `support` leaves.
const ROWS: &[(Table, &[&str])] = &[
    (
        Table::Cases,
        &[
            "4711|u-4711|2027-01-15T08:00:00Z|shop|native|1.2|c0ffee|Debian 12|6.1|x86_64|8|biopsy 0.1|60.5|5000000000|false|1|0",
        ],
    ),
    (
        Table::Findings,
        &[
            "4711|u-4711|2027-01-15T08:00:00Z|crash|critical|1.0|shop died of SIGABRT|dump|settle|shop",
            "4711|u-4711|2027-01-15T08:00:00Z|memory-short|notice||memory is short|recorded||",
        ],
    ),
    (
        Table::Signatures,
        &[
            "4711|u-4711|2027-01-15T08:00:00Z|cause|crash | settle | shop|||shop",
            "4711|u-4711|2027-01-15T08:00:00Z|crash|raise | settle|3|stack|shop",
        ],
    ),
    (Table::Metrics, &["4711|u-4711|2027-01-15T08:00:00Z|host.cpu_busy||cores|60|1|1.5|0.5|4.0|2.0"]),
    (
        Table::Functions,
        &[
            "4711|u-4711|2027-01-15T08:00:00Z|2|main|shop|native|10|50||",
            "4711|u-4711|2027-01-15T08:00:00Z|1|settle|shop|native|30|40|1|2",
        ],
    ),
];

#[test]
fn a_report_leaves_these_rows() {
    let mut lab = Lab::default();
    lab.add(&[("4711", report("raise | settle", "settle"))]);
    for (table, rows) in ROWS {
        assert_eq!(lab.ask(&format!("SELECT * FROM {}", table.name())), *rows, "{}", table.name());
    }
}

/// The tables of the description, line by line. What is published does not change by accident: when this fails, think of the version.
#[test]
fn the_description_says_what_the_tables_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/cases.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(&format!("biopsy.cases.version` | `{VERSION}`")), "the version");
    for table in Table::ALL {
        let start = text.find(&format!("\n## `{}`\n", table.name())).unwrap();
        let section = &text[start + 4..];
        let section = &section[..section.find("\n## ").unwrap_or(section.len())];
        let described: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
        let common = 3;
        let wanted: Vec<String> = table
            .columns()
            .skip(common)
            .map(|column| {
                let optional = if column.is_optional { "yes" } else { "" };
                format!("| `{}` | {} | {optional} | {} |", column.name, column.kind.name(), column.means)
            })
            .collect();
        assert_eq!(described, wanted, "{}", table.name());
        let sorted = format!(
            "Sorted by {}.",
            table.sorted_by().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        );
        assert!(section.contains(&sorted), "{sorted}");
    }
}
