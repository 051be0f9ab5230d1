//! Rule packs: data in TOML, embedded in the program, each rule with examples that the tests run.

use std::collections::HashSet;

use rustc_hash::FxBuildHasher;
use serde::Deserialize;

use crate::RedactError;
use crate::check::Check;
use crate::outline::Outline;
use crate::pseudonym::RULE_ID_MAX;

/// The packs that are always in force, with their file names.
const PACKS: [(&str, &str); 6] = [
    ("server-logs", include_str!("../rules/server-logs.toml")),
    ("tokens", include_str!("../rules/tokens.toml")),
    ("issuers", include_str!("../rules/issuers.toml")),
    ("material", include_str!("../rules/material.toml")),
    ("programs", include_str!("../rules/programs.toml")),
    ("keys", include_str!("../rules/keys.toml")),
];

/// The pack for personal data, in force on request.
const PERSONAL: (&str, &str) = ("personal", include_str!("../rules/personal.toml"));

/// Word lists that all rules share.
const WORDS: &str = include_str!("../rules/words.toml");

/// A file of rules.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct PackFile {
    /// What the pack is for; for readers of the file.
    #[serde(rename = "description")]
    _description: String,
    #[serde(default)]
    rule: Vec<Rule>,
    /// Values that are no secrets, whatever stands in front of them.
    #[serde(default)]
    allow: Vec<String>,
}

/// The rules in force, and values that none of them masks.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    pub(crate) rules: Vec<Rule>,
    pub(crate) allowed: HashSet<Vec<u8>>,
}

/// How a rule finds its values.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// By the shape of the text: a regular expression whose group `secret` is masked.
    Shape,
    /// By the name in front of it: `NAME=value`, `"NAME": "value"`, `--NAME value`, `<NAME>value</NAME>` ...
    Key,
    /// By the column of a statement that the value stands in, if that is the name of a secret for a key rule.
    Columns,
}

/// Where the words of a key rule may stand in a name.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Boundary {
    /// As a word of its own (`auth_token`, `authToken`, `token`), not inside one (`tokenizer`).
    #[default]
    Word,
    /// Anywhere (`mypassword`).
    Any,
    /// At the end of the name (`apptoken`).
    End,
}

/// What a value must look like to be taken for a secret.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Strength {
    /// Anything that is not a placeholder, a common word or code.
    #[default]
    Any,
    /// The same, and no short number, no path and no file name.
    Mixed,
    /// Like a token: no plain word, no plain number, no UUID.
    Token,
    /// Like random bytes in hex or base64.
    Random,
    /// Like a code that is typed: one word with a digit.
    Code,
}

/// One rule, as written in a pack.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// Name in masks and counts.
    pub(crate) id: String,
    /// What it finds, in one sentence.
    pub(crate) description: String,
    /// How it finds it.
    pub(crate) kind: Kind,

    /// Shape rules: literals of which one must be there before the expression is tried (any case).
    #[serde(default)]
    pub(crate) keywords: Vec<String>,
    /// Shape rules: the expression. It must match at the keyword, unless `before` is given.
    #[serde(default)]
    pub(crate) regex: Option<String>,
    /// Shape rules, instead of keywords and an expression: expressions of credentials that begin with a literal of at least two
    /// bytes. They begin where a word does.
    #[serde(default)]
    pub(crate) forms: Vec<String>,
    /// Shape rules, instead of keywords and an expression: what credentials begin with that go on with a run of random letters and
    /// digits, whatever its length and alphabet are. They begin where a word does.
    #[serde(default)]
    pub(crate) prefixes: Vec<String>,
    /// The value has a run of at least so many letters and digits, of which no word is made; 0: it need not.
    #[serde(default)]
    pub(crate) random_run: usize,
    /// Shape rules: the value has a letter, and a digit or a symbol that words have not.
    #[serde(default)]
    pub(crate) mixed: bool,
    /// Shape rules: the value is one that nobody would write by hand.
    #[serde(default)]
    pub(crate) generated: bool,
    /// What else the value must be.
    #[serde(default)]
    pub(crate) check: Option<Check>,
    /// Shape rules: bytes in front of the keyword in which a match may begin; 0: it begins at the keyword.
    #[serde(default)]
    pub(crate) before: usize,
    /// Shape rules: bytes behind the start of the keyword that the match may use.
    #[serde(default = "default_after")]
    pub(crate) after: usize,
    /// Shape rules: the group is a list `name=value; name=value` with this separator; the values are masked.
    #[serde(default)]
    pub(crate) pairs: Option<char>,
    /// Shape rules with `pairs`: names whose values stay.
    #[serde(default)]
    pub(crate) keep: Vec<String>,

    /// Shape rules: the group is a stretch of text, of which runs of base64 of at least this length are masked.
    #[serde(default)]
    pub(crate) runs: Option<usize>,

    /// Shape rules: the group is a stretch of text, of whose lines the pairs of hex at their ends are masked.
    #[serde(default)]
    pub(crate) hex_pairs: bool,

    /// Key rules: words of the name, lower case; a space stands for nothing, `_`, `-`, `.` or a space.
    #[serde(default)]
    pub(crate) words: Vec<String>,
    /// Key rules: where the words may stand.
    #[serde(default)]
    pub(crate) boundary: Boundary,
    /// Key rules: words in front that make the name harmless (`public` key).
    #[serde(default)]
    pub(crate) neutral_before: Vec<String>,
    /// Key rules: words behind that make the name harmless (token `type`), beyond those of `words.toml`.
    #[serde(default)]
    pub(crate) neutral_after: Vec<String>,
    /// Key rules: what the value must look like.
    #[serde(default)]
    pub(crate) strength: Strength,
    /// Key rules: in running text (`name: value more words`) the value must contain a digit or a symbol.
    #[serde(default)]
    pub(crate) strict_prose: bool,
    /// Key rules: `name 'value'` counts, without any separator.
    #[serde(default)]
    pub(crate) beside: bool,
    /// Key rules: the name has further words, in front or behind.
    #[serde(default)]
    pub(crate) compound: bool,
    /// Key rules that ask for tokens: a UUID that is assigned to the name is one.
    #[serde(default)]
    pub(crate) uuid: bool,
    /// Shape rules with the keyword `@`: the run in front of it is led by this sign.
    #[serde(default)]
    pub(crate) led_by: Option<char>,
    /// Shape rules: what matches has an option of a program behind its keyword.
    #[serde(default)]
    pub(crate) has_option: bool,
    /// Values are learned and searched for everywhere else.
    #[serde(default)]
    pub(crate) learn: bool,
    /// A log has as many of them as requests: only half of what text may teach is theirs.
    #[serde(default)]
    pub(crate) many: bool,

    /// Shortest value, in bytes.
    #[serde(default = "default_min_length")]
    pub(crate) min_length: usize,
    /// Least Shannon entropy of the value, in bits per byte.
    #[serde(default)]
    pub(crate) min_entropy: f64,

    /// How the rule is used on the memory of processes; without it, it is not used there.
    #[serde(default)]
    pub(crate) memory: Option<MemoryUse>,

    /// Examples: text, then the values that must be masked. `¦` is dropped; it keeps examples from looking like live
    /// secrets to the scanners of code hosts.
    #[serde(default, rename = "match")]
    pub(crate) matches: Vec<Vec<String>>,
    /// Examples that must stay as they are.
    #[serde(default)]
    pub(crate) no_match: Vec<String>,
}

/// How a rule is used on memory, where text stands between everything else: only what is a secret beyond doubt is
/// masked, and what is searched for first must be rare.
#[derive(Deserialize, Clone, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryUse {
    /// What is searched for instead of the keywords or words of the rule: at least three bytes of ASCII, any case. The
    /// rule begins at the start, or behind a `^` in it. For key rules they begin with the word that the value hangs on.
    #[serde(default)]
    pub(crate) anchors: Vec<String>,
    /// The anchors are searched for as they are written, and not in any case.
    #[serde(default)]
    pub(crate) exact: bool,
    /// The anchors stand inside of what the rule matches: it is looked for in front of them, too.
    #[serde(default)]
    pub(crate) around: bool,
    /// Shortest value, in bytes, where it is more than that of the rule.
    #[serde(default)]
    pub(crate) min_length: usize,
    /// Key rules: so many letters and digits stand in a row where the value may be. Names that are in every text are asked
    /// for that before anything else.
    #[serde(default)]
    pub(crate) run: usize,
    /// Further examples: text, then the values that must be masked.
    #[serde(default, rename = "match")]
    #[cfg_attr(not(test), expect(dead_code, reason = "examples are run by the tests"))]
    pub(crate) matches: Vec<Vec<String>>,
    /// Examples that must stay as they are in memory, though in text they may not.
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "examples are run by the tests"))]
    pub(crate) no_match: Vec<String>,
}

fn default_after() -> usize {
    1024
}

fn default_min_length() -> usize {
    1
}

/// Words that every value is looked up among.
pub(crate) type WordSet = HashSet<String, FxBuildHasher>;

/// Word lists, as written in `words.toml`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    /// Values that are no secrets: `true`, `null`, `required` ...
    pub(crate) trivial_values: WordSet,
    /// Values that are no secrets in running text only.
    pub(crate) prose_words: WordSet,
    /// Words behind a key that make it the name of something else: password `length`.
    pub(crate) neutral_after: WordSet,
    /// What user interfaces call secrets.
    pub(crate) labels: WordSet,
    /// Words that make a sentence of what is in quotes.
    pub(crate) sentence_words: WordSet,
    /// What an expression in source code begins with: `process.env`, `System.`.
    pub(crate) code_roots: Vec<String>,
    /// Values too common to be searched for everywhere, even when found by key.
    pub(crate) never_learn: WordSet,
    /// Words in names of what identifies, counts or checks something, and opens nothing.
    pub(crate) names_of_ids: WordSet,
    /// What such values begin with, in front of `_` or `-`.
    pub(crate) beginnings_of_ids: WordSet,
    /// Environment variables whose values are shown, `*` at the end stands for any rest.
    pub(crate) environment: Vec<String>,
}

impl Words {
    /// The built-in lists.
    pub(crate) fn load() -> Result<Self, RedactError> {
        toml::from_str(WORDS)
            .map_err(|source| RedactError::Pack { pack: "words".to_owned(), source: Box::new(source) })
    }
}

/// All rules in force, in the order of the packs.
pub(crate) fn load(personal: bool, extra: &[String]) -> Result<RuleSet, RedactError> {
    let mut set = RuleSet::default();
    for (name, text) in PACKS {
        read_pack(name, text, &mut set)?;
    }
    if personal {
        read_pack(PERSONAL.0, PERSONAL.1, &mut set)?;
    }
    for (index, text) in extra.iter().enumerate() {
        read_pack(&format!("extra {}", index + 1), text, &mut set)?;
    }
    Ok(set)
}

fn read_pack(name: &str, text: &str, set: &mut RuleSet) -> Result<(), RedactError> {
    let file: PackFile = toml::from_str(text)
        .map_err(|source| RedactError::Pack { pack: name.to_owned(), source: Box::new(source) })?;
    for mut rule in file.rule {
        if !rule.forms.is_empty() {
            rule.keywords.extend(rule.forms.iter().map(|form| literal_start(form)));
            rule.regex = Some(format!("\\b(?P<secret>{})", rule.forms.join("|")));
        }
        if !rule.prefixes.is_empty() {
            rule.keywords.extend(rule.prefixes.iter().cloned());
            let prefixes: Vec<String> = rule.prefixes.iter().map(|prefix| escaped(prefix)).collect();
            rule.regex = Some(format!("\\b(?P<secret>(?:{}){RUN})", prefixes.join("|")));
        }
        if let Some(problem) = problem_of(&rule, &set.rules) {
            return Err(RedactError::Rule { pack: name.to_owned(), rule: rule.id, problem });
        }
        set.rules.push(rule);
    }
    set.allowed.extend(file.allow.into_iter().map(String::into_bytes));
    Ok(())
}

/// What follows one of [`Rule::prefixes`].
const RUN: &str = "[A-Za-z0-9_.~+/=-]{11,1000}[A-Za-z0-9_=]";

impl Rule {
    /// What every match looks like, whatever its keyword is.
    pub(crate) fn outline(&self) -> Option<Outline> {
        let is_one = self.kind == Kind::Shape && self.before == 0;
        Outline::of(
            self.regex.as_deref().filter(|_| is_one && self.forms.is_empty() && self.prefixes.is_empty())?,
        )
    }

    /// What every match looks like that begins at this keyword, given what all of them look like.
    pub(crate) fn outline_at(&self, keyword: &str, all: Option<&Outline>) -> Option<Outline> {
        let of_prefixes = self.prefixes.iter().filter(|prefix| *prefix == keyword);
        let of_prefixes = of_prefixes.map(|prefix| Outline::of(&format!("{}{RUN}", escaped(prefix))));
        let of_forms =
            self.forms.iter().filter(|form| may_start(form, keyword) && literal_start(form) == keyword);
        let mut outlines = of_prefixes.chain(of_forms.map(|form| Outline::of(form))).peekable();
        if outlines.peek().is_none() {
            return all.cloned();
        }
        let first = outlines.next()??;
        outlines.try_fold(first, |one, other| one.or(&other?))
    }
}

/// Whether an expression may begin with this text, by its first byte: most do not.
fn may_start(form: &str, text: &str) -> bool {
    let (first, wanted) = (form.as_bytes().first(), text.as_bytes().first());
    wanted.is_none() || first == wanted || first == Some(&b'\\')
}

/// A text as an expression that matches it alone.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| (!c.is_ascii_alphanumeric()).then_some('\\').into_iter().chain([c])).collect()
}

/// The text that all matches of an expression begin with.
fn literal_start(form: &str) -> String {
    let mut start = String::new();
    let mut characters = form.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped) if !escaped.is_ascii_alphanumeric() => start.push(escaped),
                _ => break,
            },
            // What may be absent is no part of it.
            '*' | '?' | '{' => {
                start.pop();
                break;
            }
            '[' | '(' | '.' | '+' | '|' | '^' | '$' => break,
            other => start.push(other),
        }
    }
    start
}

/// What is wrong with a rule, before its expression is compiled.
fn problem_of(rule: &Rule, known: &[Rule]) -> Option<String> {
    let id_fits = !rule.id.is_empty()
        && rule.id.len() <= RULE_ID_MAX
        && rule.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !id_fits {
        return Some(format!("ids are 1 to {RULE_ID_MAX} of `a-z0-9-`"));
    }
    if known.iter().any(|other| other.id == rule.id) {
        return Some("the id is taken".to_owned());
    }
    if rule.description.is_empty() {
        return Some("`description` is missing".to_owned());
    }
    let (needed, name) = match rule.kind {
        Kind::Shape | Kind::Columns => (&rule.keywords, "keywords"),
        Kind::Key => (&rule.words, "words"),
    };
    if needed.is_empty() || needed.iter().any(String::is_empty) {
        return Some(format!("`{name}` needs entries"));
    }
    if let Some(form) = rule.forms.iter().find(|form| literal_start(form).len() < 2) {
        return Some(format!("`{form}` begins with less than two bytes that are always there"));
    }
    if rule.kind == Kind::Shape && rule.regex.is_none() {
        return Some("`regex` is missing".to_owned());
    }
    None
}

/// SHA-256 of the built-in packs in hex: names the rules a bundle was redacted with.
#[must_use]
pub fn rule_pack_digest() -> String {
    use sha2::Digest;
    let mut hasher = sha2::Sha256::new();
    for (name, text) in PACKS.iter().chain([&PERSONAL, &("words", WORDS)]) {
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hasher.update(text.as_bytes());
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
