//! The second opinion: reads what is about to leave the machine and says where a secret is still in it.
//!
//! Code of its own. It shares no expressions, no word lists and no matching with the redactor, and works the other way
//! round: the redactor writes each learned value in every encoding and searches for those; this pass decodes the text
//! and searches for the values, by keyed fingerprints, so that it needs not know them. Beside that it looks for shapes
//! that are secrets beyond doubt and for pairs like `password=Ab12...`. It blocks the way out, so it says "secret" only
//! where there is little doubt; the redactor is the one that errs on the safe side.
//!
//! Whoever calls it must fail closed: no bundle while there are findings.

mod fingerprints;
mod pairs;
mod shapes;
mod views;

use std::fmt;
use std::io::{self, Read};

pub use fingerprints::Fingerprints;

/// Bytes looked at together.
const WINDOW: usize = 256 << 10;
/// Bytes of the previous window that are looked at again; more than the longest learned value.
const OVERLAP: usize = 20 << 10;
/// Most findings of one member: the first says that the bundle must not leave, the hundredth says nothing new.
const FINDINGS_MAX: usize = 100;

/// A secret that is still there, or a member that could not be looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Member of the recording.
    pub member: String,
    /// Where in the member, in bytes from its start (decompressed).
    pub offset: u64,
    /// What it is. Never the value.
    pub what: What,
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum What {
    /// A value that was learned somewhere, in clear or in the given encoding.
    Learned(&'static str),
    /// A learned value in the name of the member.
    LearnedInName,
    /// Something that is a secret by its shape.
    Shape(&'static str),
    /// A value behind a name like `password`.
    Pair,
    /// A compressed file inside the bundle: nobody looked into it.
    Opaque(&'static str),
    /// The member could not be read.
    Unreadable(io::ErrorKind),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Learned(how) => write!(f, "a value known to be secret ({how})"),
            Self::LearnedInName => f.write_str("a value known to be secret, in the member's name"),
            Self::Shape(shape) => write!(f, "what looks like {shape}"),
            Self::Pair => f.write_str("a value behind a name like `password`"),
            Self::Opaque(kind) => write!(f, "{kind} data that cannot be looked into"),
            Self::Unreadable(kind) => write!(f, "a member that cannot be read: {kind}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at byte {}: {}", self.member, self.offset, self.what)
    }
}

/// Looks through all members. Give it each member's decompressed contents; an archive inside an archive is a finding.
pub fn verify<R: Read>(
    members: impl IntoIterator<Item = (String, R)>,
    learned: &Fingerprints,
) -> Vec<Finding> {
    let mut verifier = Verifier::new(learned);
    for (name, reader) in members {
        verifier.member(&name, reader);
    }
    verifier.findings
}

/// Looks through members that come one after the other.
#[derive(Debug)]
pub struct Verifier<'l> {
    learned: &'l Fingerprints,
    findings: Vec<Finding>,
}

impl<'l> Verifier<'l> {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(learned: &'l Fingerprints) -> Self {
        Self { learned, findings: Vec::new() }
    }

    /// Looks through one member: its decompressed contents.
    pub fn member(&mut self, name: &str, reader: impl Read) {
        self.look(name, reader, |_| true);
    }

    /// The same, for learned values alone.
    pub fn learned_in(&mut self, name: &str, reader: impl Read) {
        self.look(name, reader, |what| matches!(what, What::Learned(_) | What::Unreadable(_)));
    }

    fn look(&mut self, name: &str, reader: impl Read, wanted: impl Fn(What) -> bool) {
        self.name(name);
        let mut found = Vec::new();
        if let Err(error) = look_through(reader, self.learned, &mut found) {
            found.push((0, What::Unreadable(error.kind())));
        }
        found.retain(|(_, what)| wanted(*what));
        found.sort_unstable();
        found.dedup();
        found.truncate(FINDINGS_MAX);
        let member = name;
        self.findings.extend(found.into_iter().map(|(offset, what)| Finding {
            member: member.to_owned(),
            offset,
            what,
        }));
    }

    /// Looks at the name of a member alone: one that is no text.
    pub fn name(&mut self, name: &str) {
        if self.learned.find(name.as_bytes(), &mut |_| {}) {
            self.add(name, What::LearnedInName);
        }
    }

    /// A member could not be read.
    pub fn unreadable(&mut self, name: &str, error: &io::Error) {
        self.add(name, What::Unreadable(error.kind()));
    }

    fn add(&mut self, name: &str, what: What) {
        self.findings.push(Finding { member: name.to_owned(), offset: 0, what });
    }

    /// What was found.
    #[must_use]
    pub fn findings(self) -> Vec<Finding> {
        self.findings
    }
}

/// One member, in overlapping windows.
fn look_through(
    mut reader: impl Read,
    learned: &Fingerprints,
    found: &mut Vec<(u64, What)>,
) -> io::Result<()> {
    let mut window = Vec::with_capacity(WINDOW + OVERLAP);
    let mut base = 0u64;
    let mut first = true;
    loop {
        let wanted = (WINDOW + OVERLAP - window.len()) as u64;
        let read = reader.by_ref().take(wanted).read_to_end(&mut window)?;
        if first {
            if let Some(kind) = archive_kind(&window) {
                found.push((0, What::Opaque(kind)));
            }
            first = false;
        }
        look_at(&window, learned, &mut |at, what| {
            if found.len() < FINDINGS_MAX * 4 {
                found.push((base + at as u64, what));
            }
        });
        if (read as u64) < wanted || read == 0 {
            return Ok(());
        }
        let drop = window.len() - OVERLAP;
        window.drain(..drop);
        base += drop as u64;
    }
}

/// One window: as it stands, and decoded in every way that its bytes suggest.
fn look_at(window: &[u8], learned: &Fingerprints, report: &mut impl FnMut(usize, What)) {
    plain(window, learned, report);
    learned.find(window, &mut |at| {
        if !inside_mask(window, at) {
            report(at, What::Learned("in clear"));
        }
    });
    views::each(window, &mut |view| {
        if view.text_like {
            plain(&view.bytes, learned, &mut |at, what| report(view.source(at), what));
        }
        learned.find(&view.bytes, &mut |at| {
            if !inside_mask(&view.bytes, at) {
                report(view.source(at), What::Learned(view.name));
            }
        });
    });
    if !learned.is_empty() {
        views::each_run(window, &mut |bytes, name, start| {
            if learned.find(bytes, &mut |_| {}) {
                report(start, What::Learned(name));
            }
        });
    }
}

fn plain(text: &[u8], learned: &Fingerprints, report: &mut impl FnMut(usize, What)) {
    let mut report = |at, what| {
        // The rule in a mask may be called `password`, and behind it are letters and digits.
        if !learned.is_allowed_at(text, at) && !inside_mask(text, at) {
            report(at, what);
        }
    };
    shapes::find(text, &mut |at, shape| report(at, What::Shape(shape)));
    pairs::find(text, &mut |at| report(at, What::Pair));
}

/// Is this place inside `[redacted:RULE:PSEUDONYM]`? A value that looks like a piece of a mask is none.
fn inside_mask(text: &[u8], at: usize) -> bool {
    let from = at.saturating_sub(64);
    let Some(open) = memchr::memrchr(b'[', &text[from..=at]).map(|open| from + open) else { return false };
    let Some(close) = memchr::memchr(b']', &text[open..text.len().min(open + 64)]).map(|close| open + close)
    else {
        return false;
    };
    let mut parts = text[open + 1..close].split(|b| *b == b':');
    let (word, rule, digits) = (parts.next(), parts.next(), parts.next());
    close >= at
        && word == Some(b"redacted")
        && rule.is_some_and(|rule| {
            rule.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        })
        && digits.is_some_and(|digits| {
            // The end is escaped in Markdown, and twice in Markdown that is in a page.
            let (digits, end) = digits.split_at(digits.len().min(8));
            digits.len() == 8
                && digits.iter().all(u8::is_ascii_hexdigit)
                && end.len() <= 2
                && end.iter().all(|b| *b == b'\\')
        })
        && parts.next().is_none()
}

/// Compressed formats, by their first bytes.
fn archive_kind(start: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], &str); 6] = [
        (b"PK\x03\x04", "zip"),
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ", "xz"),
        (b"7z\xbc\xaf", "7z"),
    ];
    kinds.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, name)| *name)
}
