//! How a value is written in the syntax of a place, and what is made up around it.

use serde::Deserialize;

use super::encode::{json, percent};
use super::random::Random;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Escape {
    /// As it is.
    #[default]
    None,
    /// Between the quotes of a JSON string.
    Json,
    /// In a JSON string in a JSON string.
    JsonTwice,
    /// Text or attribute of XML.
    Xml,
    /// A cell of CSV, quoted where it must be.
    Csv,
    /// Between the quotes of a cell of CSV.
    CsvInner,
    /// Between the quotes of SQL and of YAML.
    Sql,
    /// A part of a query string.
    Percent,
    /// Java's properties.
    Backslash,
}

impl Escape {
    /// The value as it is written.
    pub(super) fn write(self, value: &str) -> String {
        match self {
            Self::None => value.to_owned(),
            Self::Json => json(value),
            Self::JsonTwice => json(&json(value)),
            Self::Xml => {
                value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
            }
            Self::Csv if value.contains([',', '"', '\n']) => format!("\"{}\"", value.replace('"', "\"\"")),
            Self::Csv => value.to_owned(),
            Self::CsvInner => value.replace('"', "\"\""),
            Self::Sql => value.replace('\'', "''"),
            Self::Percent => percent(value),
            Self::Backslash => value.replace('\\', "\\\\"),
        }
    }
}

const HOSTS: &[&str] =
    &["db1", "db-2.internal", "shop.example.com", "api.example.org", "10.0.3.17", "node07"];
const USERS: &[&str] = &["app", "svc_shop", "ann", "reporting", "backup", "root"];

/// Puts what is made up into a template: times, hosts, numbers.
pub(super) fn fill(template: &str, random: &mut Random) -> String {
    let mut text = template.to_owned();
    let hex = |random: &mut Random, count: usize| -> String {
        (0..count).map(|_| *random.pick(b"0123456789abcdef") as char).collect()
    };
    let clock = format!("{:02}:{:02}:{:02}", random.below(24), random.below(60), random.below(60));
    let day = format!("2026-11-{:02}", 1 + random.below(28));
    let uuid = [8, 4, 4, 4, 12].map(|count| hex(random, count)).join("-");
    for (name, value) in [
        ("{time}", format!("{day} {clock}")),
        ("{iso}", format!("{day}T{clock}.{:03}Z", random.below(1000))),
        ("{epoch}", (1_790_000_000 + random.below(9_000_000)).to_string()),
        ("{host}", (*random.pick(HOSTS)).to_owned()),
        ("{user}", (*random.pick(USERS)).to_owned()),
        ("{ip}", format!("192.0.2.{}", 1 + random.below(250))),
        ("{n}", (1000 + random.below(60_000)).to_string()),
        ("{uuid}", uuid),
        ("{hex}", hex(random, 32)),
    ] {
        if text.contains(name) {
            text = text.replace(name, &value);
        }
    }
    text
}
