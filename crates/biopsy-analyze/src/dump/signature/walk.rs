//! From frames to a text: where it begins, what is left out, what is gone past, where it ends.

use super::lists::Lists;

/// A frame that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignatureFrame {
    /// As it stands in a signature.
    pub name: String,
    /// It tells a function, and not only a module or an address.
    pub named: bool,
    /// What was done with it.
    pub role: Role,
}

/// What was done with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Left out: a frame further out is where such a crash begins.
    Above,
    /// Left out: it says nothing of the crash.
    Irrelevant,
    /// Taken, and gone past: it is not the reason, but says of which kind that is.
    Prefix,
    /// Taken; the signature ends here.
    Last,
}

impl Role {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Above => "above",
            Self::Irrelevant => "irrelevant",
            Self::Prefix => "prefix",
            Self::Last => "last",
        }
    }
}

/// The text of frames that are written alike, with whether each is a function's name, and what was done with those up to its end.
/// `None`: there are no frames.
pub(super) fn walk(names: Vec<(String, bool)>, lists: &Lists) -> Option<(String, Vec<SignatureFrame>)> {
    let begin = names.iter().position(|(name, _)| lists.begins(name)).unwrap_or(0);
    let mut frames: Vec<SignatureFrame> = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    for (at, (name, named)) in names.iter().enumerate() {
        let role = if at < begin {
            Role::Above
        } else if name.is_empty() || lists.is_irrelevant(name) || is_repeated(name, taken.last()) {
            Role::Irrelevant
        } else {
            taken.push(name.clone());
            if lists.is_prefix(name) { Role::Prefix } else { Role::Last }
        };
        frames.push(SignatureFrame { name: name.clone(), named: *named, role });
        if role == Role::Last {
            break;
        }
    }
    let text = taken.join(" | ");
    if !text.is_empty() {
        return Some((text, frames));
    }
    // All of them say nothing: the first is better than none.
    names.get(begin).map(|(name, _)| (name.clone(), frames))
}

/// A library without names stands for all of its frames that follow each other.
fn is_repeated(name: &str, last: Option<&String>) -> bool {
    let ending = name.get(name.len().saturating_sub(4)..).unwrap_or_default().to_ascii_lowercase();
    let library = ending == ".dll" || ending.ends_with(".so") || name == "XUL";
    let unnamed = name == "<name omitted>" || name.starts_with("<unknown in");
    (library || unnamed) && last.is_some_and(|last| last == name)
}
