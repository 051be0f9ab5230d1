//! Where secrets stand: logs, configuration, code, documents.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

use super::escape::{Escape, fill};
use super::half::Half;
use super::kinds;
use super::random::Random;
use super::wellformed::Format;
use crate::run::Outcome;

/// Lines in front of what stands far below the beginning of a file.
const FILLER_ROWS: usize = 2500;

/// All places, by what they take.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Places {
    /// Texts around a credential, with nothing that says that it is one.
    pub(super) bare: Vec<String>,
    pub(super) pair: BTreeMap<String, Place>,
    pub(super) text: BTreeMap<String, Place>,
    pub(super) block: BTreeMap<String, Place>,
    /// For values that were seen with their key elsewhere.
    pub(super) echo: BTreeMap<String, Place>,
}

/// Places of halves A and B, and those of each half with tables of its own.
#[derive(Debug)]
pub(super) struct AllPlaces {
    tuned: Places,
    held_out: BTreeMap<Half, Places>,
}

impl AllPlaces {
    /// Reads them.
    pub(super) fn read() -> Outcome<Self> {
        let read = |(half, folder): (Half, &str)| Ok((half, kinds::read(&format!("{folder}/places.toml"))?));
        let held_out = Half::OWN_TABLES.into_iter().map(read).collect::<Outcome<_>>()?;
        Ok(Self { tuned: kinds::read("places.toml")?, held_out })
    }

    /// Where kinds of a half are written.
    pub(super) fn of(&self, half: Half) -> &Places {
        self.held_out.get(&half.tables()).unwrap_or(&self.tuned)
    }
}

/// One place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Place {
    text: String,
    /// How each line of a block is written.
    line: Option<String>,
    #[serde(default)]
    escape: Escape,
    #[serde(default)]
    key: KeyStyle,
    refuses: Option<Pattern>,
    refuses_key: Option<Pattern>,
    #[serde(default)]
    ascii: bool,
    /// Whether records under a header can stand here.
    rows: Option<bool>,
    #[serde(default)]
    pub(super) format: Format,
}

/// How names look at a place.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KeyStyle {
    #[default]
    AsItIs,
    Upper,
    Header,
}

/// Half of a place at which a kind of a half is written: kinds of C stand at places of C only, those of D likewise.
pub(super) fn half_of_place(kind: Half, name: &str) -> Half {
    if kind.has_own_tables() { kind } else { Half::of(&format!("place {name}")) }
}

impl Place {
    /// Whether a name and a value can be written here.
    pub(super) fn takes_pair(&self, key: &str, value: &str) -> bool {
        let needs_ascii = self.ascii || self.key != KeyStyle::AsItIs;
        !(needs_ascii && (!key.is_ascii() || key.contains('\'')))
            && !matches(&self.refuses, value)
            && !matches(&self.refuses_key, key)
    }

    /// Whether a text can be written here.
    pub(super) fn takes_text(&self, text: &str) -> bool {
        !matches(&self.refuses, text)
    }

    /// Whether a block can be written here.
    pub(super) fn takes_block(&self, rows: bool) -> bool {
        !rows || self.rows.unwrap_or(true)
    }

    /// The document with a name and its value.
    pub(super) fn pair(&self, key: &str, value: &str, random: &mut Random) -> String {
        fill(&self.text, random)
            .replace("{key}", &self.key.write(key))
            .replace("{value}", &self.escape.write(value))
    }

    /// The document with a text or value.
    pub(super) fn text(&self, text: &str, random: &mut Random) -> String {
        let text = self.escape.write(text);
        fill(&self.text, random).replace("{text}", &text).replace("{value}", &text)
    }

    /// The document with a document in it.
    pub(super) fn block(&self, block: &str, random: &mut Random) -> String {
        let lines: String = match &self.line {
            None => self.escape.write(block),
            Some(template) => {
                let template = fill(template, random);
                let write = |line: &str| template.replace("{line}", &self.escape.write(line)) + "\n";
                block.lines().map(write).collect()
            }
        };
        let mut text = fill(&self.text, random);
        if text.contains("{filler}") {
            let row = fill("{time} INFO request {n} took {n} us at {host}\n", random);
            let rows = row.repeat(FILLER_ROWS);
            text = text.replace("{filler}", &rows);
        }
        text.replace("{block-trimmed}", lines.trim_end()).replace("{block}", &lines)
    }

    /// Whether the document is the block, in its own format.
    pub(super) fn keeps_blocks(&self) -> bool {
        let is_alone = matches!(self.text.trim_matches(['\u{feff}', '\n']), "{block}" | "{block-trimmed}");
        is_alone
            && self.escape == Escape::None
            && self.line.as_deref().is_none_or(|line| line.trim() == "{line}")
    }

    /// Whether each line of a block is a record of its own here.
    pub(super) fn has_line_records(&self) -> bool {
        self.line.as_deref().is_some_and(|line| line.trim() != "{line}")
    }

    /// How a value looks in this place.
    pub(super) fn written(&self, value: &str) -> String {
        self.escape.write(value)
    }
}

fn matches(pattern: &Option<Pattern>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.0.is_match(text))
}

/// A regular expression, compiled once.
#[derive(Debug)]
struct Pattern(Regex);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl KeyStyle {
    fn write(self, key: &str) -> String {
        match self {
            Self::AsItIs => key.to_owned(),
            Self::Upper => upper(key),
            Self::Header => key.replace(['_', '.', ' ', ':'], "-"),
        }
    }
}

/// `dbPassword` as `DB_PASSWORD`.
pub(super) fn upper(key: &str) -> String {
    words(key).join("_").to_uppercase()
}

/// `dbPassword` as `db-password`.
pub(super) fn kebab(key: &str) -> String {
    words(key).join("-").to_lowercase()
}

fn words(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in key.chars() {
        let is_border = !letter.is_alphanumeric();
        if (is_border || was_lower && letter.is_uppercase())
            && words.last().is_some_and(|word| !word.is_empty())
        {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !is_border) {
            word.push(letter);
        }
        was_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}
