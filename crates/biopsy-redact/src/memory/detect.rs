//! The second stage: is what an anchor announces a secret, and where does it end?

use std::ops::Range;

use super::apart::Units;
use super::counted;
use super::private_key;
use super::window::{BACKWARD, Encoding, FORWARD, Windows};
use crate::RedactError;
use crate::key::KeyRule;
use crate::outline::Outline;
use crate::place::LastPlace;
use crate::plausible::Lists;
use crate::rules::{Kind, Rule};
use crate::shape::Shape;

/// Rule whose code is here and not in its expression: keys may be longer than what an expression should look at.
const PRIVATE_KEY: &str = "private-key";
/// Characters behind a key that may belong to its value.
const KEY_AFTER: usize = 4096;
/// Characters in front of a key that are looked at: its name, and brackets that are open.
const KEY_BEFORE: usize = BACKWARD / 2;
/// Characters in front of a shape: escapes in front of a word.
const SHAPE_BEFORE: usize = 8;

/// A rule, ready to be asked about a place in memory.
#[derive(Debug)]
pub(super) struct Detector {
    how: How,
    min_length: usize,
    run: usize,
    anchors: Vec<DetectorAnchor>,
}

/// A text whose presence a rule is asked about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DetectorAnchor {
    /// In lower case, unless it is searched for as it is.
    pub(super) text: String,
    /// It is searched for as it is.
    pub(super) exact: bool,
    /// Where in the text the rule begins.
    pub(super) offset: usize,
    /// Length of the word of a key rule, from there on.
    pub(super) length: usize,
    /// What a match looks like that begins there.
    pub(super) outline: Option<Outline>,
}

impl DetectorAnchor {
    /// From `TEXT`, or `BEFORE^TEXT` where the rule begins behind what comes before.
    fn parse(text: &str, exact: bool) -> Self {
        let text = if exact { text.to_owned() } else { text.to_ascii_lowercase() };
        let (offset, text) = match text.split_once('^') {
            Some((before, rest)) => (before.len(), format!("{before}{rest}")),
            None => (0, text),
        };
        let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b' ');
        let length = text.as_bytes()[offset..].iter().take_while(|byte| in_name(byte)).count();
        Self { text, exact, offset, length, outline: None }
    }
}

#[derive(Debug)]
enum How {
    Key(KeyRule),
    /// With the characters in front of and behind the anchor that it looks at.
    Shape(Box<Shape>, usize, usize),
    PrivateKey,
}

impl Detector {
    /// From a rule that is used on memory.
    pub(super) fn new(rule: &Rule) -> Result<Self, RedactError> {
        let wrong =
            |problem: String| RedactError::Rule { pack: "memory".to_owned(), rule: rule.id.clone(), problem };
        let memory = rule.memory.clone().unwrap_or_default();
        let exact = memory.exact || rule.id == PRIVATE_KEY;
        let mut anchors = match rule.kind {
            _ if !memory.anchors.is_empty() => memory.anchors,
            // Names that are not ASCII are left to the text rules.
            Kind::Key => KeyRule::keywords(rule).into_iter().filter(|word| word.is_ascii()).collect(),
            // Their beginnings are as their issuers write them, and some are too short.
            Kind::Shape if exact && has_starts(rule) => Vec::new(),
            Kind::Shape | Kind::Columns => rule.keywords.clone(),
        };
        anchors.extend(anchors_of(rule, exact));
        anchors.sort_unstable();
        anchors.dedup();
        let how = match rule.kind {
            _ if rule.id == PRIVATE_KEY => {
                anchors = [private_key::BEGIN, private_key::END]
                    .iter()
                    .map(|line| String::from_utf8_lossy(line).into_owned())
                    .collect();
                How::PrivateKey
            }
            Kind::Key => How::Key(KeyRule::new(rule)),
            Kind::Columns => return Err(wrong("statements are not read in memory".to_owned())),
            Kind::Shape => {
                // Matches begin at the anchor. That it begins a word is not asked: in memory anything may stand in front,
                // such as the end of another text or of a number.
                let regex =
                    rule.regex.as_deref().map(|regex| regex.strip_prefix("\\b").unwrap_or(regex).to_owned());
                let before = if memory.around { rule.before } else { 0 };
                let rule = Rule { before, regex, ..rule.clone() };
                How::Shape(Box::new(Shape::new(&rule).map_err(wrong)?), before.max(SHAPE_BEFORE), rule.after)
            }
        };
        if let Some(anchor) = anchors.iter().find(|anchor| anchor.len() < 3 || !anchor.is_ascii()) {
            return Err(wrong(format!("anchor `{anchor}` is not ASCII of at least three bytes")));
        }
        let all = rule.outline().filter(|_| rule.id != PRIVATE_KEY);
        let outline = |anchor: &str| match rule.kind {
            Kind::Shape if exact && has_starts(rule) => rule.outline_at(anchor, all.as_ref()),
            Kind::Shape => all.clone(),
            Kind::Key | Kind::Columns => None,
        };
        let anchors = anchors
            .iter()
            .map(|anchor| DetectorAnchor { outline: outline(anchor), ..DetectorAnchor::parse(anchor, exact) })
            .collect();
        Ok(Self { how, min_length: memory.min_length, run: memory.run, anchors })
    }

    /// What is searched for.
    pub(super) fn anchors(&self) -> &[DetectorAnchor] {
        &self.anchors
    }

    /// Calls `found` with each stretch of memory that is secret, given that an anchor of `length` characters is at `at`.
    pub(super) fn find(
        &self,
        windows: &mut Windows<'_>,
        at: usize,
        length: usize,
        encoding: Encoding,
        lists: &Lists,
        mut found: impl FnMut(Range<usize>),
    ) {
        match &self.how {
            How::Key(rule) => {
                let stride = if encoding == Encoding::Bytes { 1 } else { 2 };
                if self.run > 0
                    && !has_run(windows.raw(at + length * stride, RUN_REACH * stride), stride, self.run)
                {
                    return;
                }
                if let Some(units) = Units::new(windows.all(), encoding) {
                    let secret = |(name, word): (Vec<u8>, usize), value: Range<usize>| {
                        let is_secret = rule.names_a_secret(&name, word..word + length, lists)
                            && rule.accepts_value(&units.characters(&value), lists)
                            && value.len() / stride >= self.min_length;
                        is_secret.then_some(value)
                    };
                    let counted = counted::pair(units, at, length)
                        .and_then(|pair| secret(units.name_between(at, pair.name)?, pair.value));
                    if let Some(value) = counted {
                        found(value);
                        return;
                    }
                    let mut ends = units.ends_of_name(at, length).peekable();
                    if ends.peek().is_some() {
                        let value = ends.find_map(|end| {
                            let value = units.value_behind(end)?;
                            secret(units.name(at, end)?, value)
                        });
                        value.into_iter().for_each(found);
                        return;
                    }
                }
                if encoding == Encoding::Bytes && !may_have_value(windows.raw(at + length, 160)) {
                    return;
                }
                let window = windows.around(at, encoding, KEY_BEFORE, KEY_AFTER);
                let word = window.at..window.at + length;
                if word.end > window.text.len() || !may_have_value(&window.text[word.end..]) {
                    return;
                }
                for value in rule.find(window.text, word, lists, &mut LastPlace::default()) {
                    if value.range.len() >= self.min_length && !belongs_to_code(window.text, &value.range) {
                        found(window.place(value.range));
                    }
                }
            }
            How::Shape(shape, before, after) => {
                let window = windows.around(at, encoding, *before, *after);
                let mut captures = shape.captures();
                let Some(matched) = shape.find(window.text, window.at, 0, lists, &mut captures) else {
                    return;
                };
                for value in matched.values.into_iter().filter(|value| value.len() >= self.min_length) {
                    found(window.place(value));
                }
            }
            How::PrivateKey => {
                let is_end = windows.is(at, b'E', 5, encoding);
                if is_end {
                    let window = windows.around(at, encoding, FORWARD, private_key::END.len() + 80);
                    for range in private_key::in_front(window.text, window.at) {
                        found(window.place(range));
                    }
                } else {
                    let window = windows.around(at, encoding, 0, FORWARD);
                    for range in private_key::behind(&window.text[window.at..]) {
                        found(window.place(window.at + range.start..window.at + range.end));
                    }
                }
            }
        }
    }
}

/// Characters behind a name in which the run of its value begins: quotes, signs and `value=` stand between.
const RUN_REACH: usize = 64;

/// Do so many letters and digits stand in a row, a digit among them? Characters are `stride` bytes apart.
fn has_run(bytes: &[u8], stride: usize, least: usize) -> bool {
    let (mut length, mut has_digit) = (0, false);
    for byte in bytes.iter().step_by(stride) {
        if byte.is_ascii_alphanumeric() {
            length += 1;
            has_digit |= byte.is_ascii_digit();
            if length >= least && has_digit {
                return true;
            }
        } else {
            (length, has_digit) = (0, false);
        }
    }
    false
}

/// Shortest name, and shortest beginning of a credential, that is searched for though the rule does not list it: rare enough.
const NAME_MIN: usize = 8;
const START_MIN: usize = 3;

/// Is it about credentials that begin with something fixed?
fn has_starts(rule: &Rule) -> bool {
    !(rule.forms.is_empty() && rule.prefixes.is_empty())
}

/// Anchors that follow from what the rule says for texts.
fn anchors_of(rule: &Rule, exact: bool) -> Vec<String> {
    match rule.kind {
        Kind::Key => KeyRule::keywords(rule)
            .into_iter()
            .filter(|word| {
                word.is_ascii() && word.len() >= NAME_MIN && !word.contains([' ', '.', '?', '&', '\''])
            })
            .collect(),
        Kind::Shape if exact && has_starts(rule) => rule
            .keywords
            .iter()
            .filter(|start| start.is_ascii() && start.len() >= START_MIN)
            .cloned()
            .collect(),
        Kind::Shape | Kind::Columns => Vec::new(),
    }
}

/// Memory is full of names that programs are made of, and a debugger needs them: what compilers call the parts of a
/// member (`<Password>k__BackingField`, seen in each .NET process) looks like an element that was cut short, and lists
/// of files (`UserSecrets.dll:/usr/...`) like a setting.
fn belongs_to_code(text: &[u8], value: &Range<usize>) -> bool {
    const ROOTS: [&[u8]; 16] = [
        b"/usr/", b"/lib", b"/opt/", b"/home/", b"/root/", b"/var/", b"/etc/", b"/tmp/", b"/app/", b"/run/",
        b"/srv/", b"/mnt/", b"/proc/", b"/dev/", b"/sys/", b"/bin/",
    ];
    let open_element =
        text[..value.start].ends_with(b">") && !text[value.end..].trim_ascii_start().starts_with(b"<");
    let value = &text[value.clone()];
    open_element || ROOTS.iter().any(|root| value.starts_with(root))
}

/// How far below a name at the end of its line `value:` stands, in characters.
const VALUE_BELOW: usize = 64;

/// A quick look at what stands behind a key word: most of them are words in a sentence, or names of members, and
/// nothing that a value can hang on follows. Says yes to everything that [`KeyRule`] may say yes to.
fn may_have_value(behind: &[u8]) -> bool {
    let name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$');
    let length = behind.iter().take(72).take_while(|byte| name(byte)).count();
    let Some(next) = behind.get(length) else { return false };
    // `- name: key` with `value: x` below.
    if matches!(next, b'\n' | b'\r') {
        let below = &behind[length..behind.len().min(length + VALUE_BELOW)];
        return memchr::memmem::find(below, b"alue").is_some();
    }
    matches!(
        next,
        b'=' | b':' | b'%' | b'&' | b'"' | b'\'' | b'`' | b'\\' | b'>' | b'<' | b']' | b' ' | b'\t' | 0x1b
            // `password->x`: the dash counts as part of the name.
            | b'^' | b'#'
    )
}
