//! The line that names an exception: type and text.

/// Characters of the text of an exception.
const TEXT: usize = 300;

/// An exception: its type and its text.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Thrown {
    pub(super) type_name: String,
    pub(super) text: String,
}

impl Thrown {
    /// Without a type: a panic.
    pub(super) fn text(text: &str) -> Self {
        Self { type_name: String::new(), text: short(text) }
    }

    pub(super) fn words(&self) -> String {
        match self.text.as_str() {
            "" => self.type_name.clone(),
            text => format!("{}: {text}", self.type_name),
        }
    }
}

/// `ValueError: text`; the name is one word. Node writes `NoPrice [Error]: text`, and `Error [ERR_X]: text`.
pub(super) fn error(line: &str) -> Option<Thrown> {
    let (name, text) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
    let name = name.split_once(" [").map_or(name, |(name, _)| name);
    is_name(name).then(|| Thrown { type_name: name.to_owned(), text: short(text) })
}

/// The first word of a line that is the type of an exception: programs write `cannot serve: a.b.Error: text`.
pub(super) fn error_in(line: &str) -> Option<Thrown> {
    // A word in front of it is followed by a blank; so is what stands behind brackets of a log.
    let starts = std::iter::once(0).chain(line.match_indices(' ').map(|(at, _)| at + 1));
    let mut found = starts.filter_map(|at| {
        let rest = line.get(at..)?;
        let name = rest.split([':', ' ', ',']).next()?;
        let behind = rest.get(name.len()..)?;
        // Node: `NoPrice [Error]: text`.
        let tagged = is_class(name) && (behind.starts_with(" [Error]") || behind.starts_with(" [ERR_"));
        if !tagged && !is_type(name) {
            return None;
        }
        (behind.is_empty() || behind.starts_with(": ") || behind == ":" || behind.starts_with(" ["))
            .then(|| error(rest))?
    });
    found.next()
}

/// The last word of a line that may be the name of a class of the program: `cannot serve: NoPrice: text`, `fatal NoPrice: text`.
pub(super) fn named(line: &str) -> Option<Thrown> {
    let starts = line.match_indices(' ').map(|(at, _)| at + 1);
    let mut found = starts.filter_map(|at| {
        let rest = line.get(at..)?;
        let name = rest.split(' ').next()?.strip_suffix(':')?;
        is_class(name).then(|| error(rest))?
    });
    found.next()
}

/// The name of a class: it begins with a capital, and is not a level of a log.
fn is_class(name: &str) -> bool {
    is_name(name) && name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
}

/// Word characters and dots; the name of a nested class of Java has `$`, one of .NET `+`, a generic one of .NET a backtick.
fn is_name(name: &str) -> bool {
    let is_part = |one: char| one.is_alphanumeric() || matches!(one, '_' | '$' | '.' | '+' | '`');
    !name.is_empty() && name.chars().all(is_part)
}

/// A name that types of exceptions have: it ends as they do, or has a package, and a class in it.
fn is_type(name: &str) -> bool {
    if !is_name(name) {
        return false;
    }
    let class = name.rsplit(['.', '$', '+']).next().unwrap_or(name);
    let begins = |name: &str| name.starts_with(char::is_uppercase);
    let ends = ["Error", "Exception", "Failure", "Fault", "Throwable"].iter().any(|end| class.ends_with(end));
    let in_package = class.len() < name.len() && !name.starts_with(|one: char| one.is_ascii_digit());
    begins(class) && (ends || in_package)
}

pub(super) fn short(text: &str) -> String {
    text.chars().take(TEXT).collect()
}
