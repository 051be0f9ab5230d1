//! The rules of gitleaks, from a file given by the user, over the same texts. Rules only: gitleaks itself also decodes
//! base64, hex and percent escapes, and looks at paths.

use std::ops::Range;
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

use super::case::{Bundle, Input};
use super::engine::{Engine, Masked};
use super::spans;
use crate::run::Outcome;

/// Room for large repetitions.
const SIZE_MAX: usize = 256 << 20;

/// The rules, compiled.
pub(super) struct Gitleaks {
    rules: Vec<Rule>,
    /// Rules that the engine for regular expressions does not take.
    pub(super) left_out: Vec<String>,
    ignored: Vec<Regex>,
}

struct Rule {
    regex: Regex,
    keywords: Vec<String>,
    group: usize,
    entropy: f64,
    allow: Vec<Allow>,
}

struct Allow {
    regexes: Vec<Regex>,
    stopwords: Vec<String>,
    target: String,
}

#[derive(Deserialize)]
struct File {
    rules: Vec<RuleRow>,
    allowlist: Option<AllowRow>,
    #[serde(default)]
    allowlists: Vec<AllowRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleRow {
    id: String,
    regex: Option<String>,
    path: Option<String>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    secret_group: usize,
    #[serde(default)]
    entropy: f64,
    #[serde(default)]
    allowlists: Vec<AllowRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AllowRow {
    #[serde(default)]
    regexes: Vec<String>,
    #[serde(default)]
    stopwords: Vec<String>,
    #[serde(default)]
    regex_target: String,
    #[serde(default)]
    paths: Vec<String>,
}

impl Gitleaks {
    /// Reads its table.
    pub(super) fn read(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let file: File = toml::from_str(&text).map_err(|error| format!("`{}`: {error}", path.display()))?;
        let mut rules = Vec::new();
        let mut left_out = Vec::new();
        for row in file.rules {
            // Rules for names of files have nothing to look at here.
            let (Some(pattern), None) = (&row.regex, &row.path) else { continue };
            match compile(pattern) {
                Err(_) => left_out.push(row.id),
                Ok(regex) => rules.push(Rule {
                    regex,
                    keywords: row.keywords.iter().map(|word| word.to_lowercase()).collect(),
                    group: row.secret_group,
                    entropy: row.entropy,
                    allow: row.allowlists.iter().filter(|row| row.paths.is_empty()).map(Allow::new).collect(),
                }),
            }
        }
        let ignored = file.allowlist.iter().chain(&file.allowlists).flat_map(|row| &row.regexes);
        Ok(Self { rules, left_out, ignored: ignored.filter_map(|pattern| compile(pattern).ok()).collect() })
    }

    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let folded = String::from_utf8_lossy(text).to_lowercase();
        let mut found = Vec::new();
        for rule in &self.rules {
            if !rule.keywords.is_empty() && !rule.keywords.iter().any(|word| folded.contains(word)) {
                continue;
            }
            for groups in rule.regex.captures_iter(text) {
                let whole = groups.get(0).map(|all| all.range()).unwrap_or_default();
                let secret = match rule.group {
                    // Without a number, the first group that took part.
                    0 => (1..groups.len())
                        .find_map(|index| groups.get(index).filter(|group| !group.is_empty())),
                    index => groups.get(index),
                };
                let secret = secret.map_or(whole.clone(), |group| group.range());
                let is_allowed = |allow: &Allow| allow.allows(text, &whole, &secret);
                let is_ignored = self.ignored.iter().any(|regex| regex.is_match(&text[secret.clone()]));
                if entropy(&text[secret.clone()]) > rule.entropy
                    && !is_ignored
                    && !rule.allow.iter().any(is_allowed)
                {
                    found.push(secret);
                }
            }
        }
        spans::merged(found)
    }
}

impl Engine for Gitleaks {
    fn name(&self) -> &str {
        "gitleaks' rules"
    }

    fn mask(&self, bundles: &[Bundle]) -> Outcome<Vec<Masked>> {
        let mask = |input: &Input| spans::without(input, self.find(&input.as_text()?));
        Ok(bundles.iter().map(|bundle| spans::bundle(bundle, mask)).collect())
    }
}

impl Allow {
    fn new(row: &AllowRow) -> Self {
        Self {
            regexes: row.regexes.iter().filter_map(|pattern| compile(pattern).ok()).collect(),
            stopwords: row.stopwords.iter().map(|word| word.to_lowercase()).collect(),
            target: row.regex_target.clone(),
        }
    }

    fn allows(&self, text: &[u8], whole: &Range<usize>, secret: &Range<usize>) -> bool {
        let line = {
            let start =
                text[..whole.start].iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
            let end = text[whole.end..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(text.len(), |index| whole.end + index);
            start..end
        };
        let target = match self.target.as_str() {
            "match" => whole.clone(),
            "line" => line,
            _ => secret.clone(),
        };
        let folded = String::from_utf8_lossy(&text[secret.clone()]).to_lowercase();
        self.regexes.iter().any(|regex| regex.is_match(&text[target.clone()]))
            || self.stopwords.iter().any(|word| folded.contains(word))
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).size_limit(SIZE_MAX).dfa_size_limit(SIZE_MAX).build()
}

/// Shannon's, in bits a byte.
fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    text.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let share = |count: &u32| f64::from(*count) / text.len().max(1) as f64;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}
