//! A crash signature: a short text that is the same for crashes with the same cause, so that they meet.
//!
//! The rules are those that Mozilla's Socorro sorts crashes of Firefox by, as its library `siggen` has them in version 2.2.20241029
//! (<https://github.com/willkg/siggen>): frames are written alike (`normalize`), some are left out and some are gone past, and the
//! first that is neither ends the text (`walk`, over the names in `lists`). What those rules do not know (Go, managed exceptions,
//! the ways out of libstdc++, Node and Python, programs without names) is added, and marked in `lists`; where that makes a
//! difference the text without it is given too. [`VERSION`] goes up with each change that changes a text.

mod lists;
mod normalize;
mod walk;

use biopsy_image::Image;
use biopsy_runtimes::{RuntimeKind, Strand};
use biopsy_stacks::image::ImageStacks;

use super::crash::{self, AddressKind, Crash};
use super::facts::DumpFacts;
use super::frame_rows::{self, FrameRow};
use super::managed::ExceptionRow;
use super::strand_place;
use super::strands::StrandRuntime;
use super::threads::DumpThread;
use crate::whose::Whose;
use lists::Lists;
pub use walk::{Role, SignatureFrame};

/// Of these rules and names.
pub const VERSION: u32 = 1;
/// Frames that are looked at, inlined ones too.
const FRAMES: usize = 40;

/// A text that is the same for crashes with the same cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// `abort | shop::settle`.
    pub text: String,
    /// What it was made from.
    pub made_from: MadeFrom,
    /// Frames that were looked at, the innermost first, and what was done with each; none for an exception.
    pub frames: Vec<SignatureFrame>,
    /// What the rules of Socorro alone give, where that is another text.
    pub socorro: Option<String>,
}

/// What a signature is made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MadeFrom {
    /// The stack of the thread that crashed.
    Stack,
    /// The stack of the goroutine that panicked.
    Goroutine,
    /// The exception that nobody caught.
    Exception,
}

impl MadeFrom {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Goroutine => "goroutine",
            Self::Exception => "exception",
        }
    }
}

impl Signature {
    /// How it was made, in words.
    #[must_use]
    pub fn how(&self) -> String {
        let count = |role: Role| self.frames.iter().filter(|frame| frame.role == role).count();
        let of = match self.made_from {
            MadeFrom::Stack => "the stack",
            MadeFrom::Goroutine => "the stack of the goroutine",
            MadeFrom::Exception => return "of the exception and the method that threw it".to_owned(),
        };
        let left_out = count(Role::Above) + count(Role::Irrelevant);
        match count(Role::Prefix) {
            0 => format!("of {of}, {left_out} frames left out"),
            past => format!("of {of}, {left_out} frames left out, {past} gone past"),
        }
    }

    /// It is the same for crashes in different functions: none that it names is known.
    #[must_use]
    pub fn is_coarse(&self) -> bool {
        self.made_from == MadeFrom::Stack
            && !self.frames.iter().any(|frame| frame.named && frame.role == Role::Last)
    }
}

/// The signature of what ended the process; `None`: nothing did, or there is no stack of it.
pub(super) fn find(
    image: &dyn Image,
    stacks: &ImageStacks,
    facts: &DumpFacts<'_>,
    crash: Option<&Crash>,
    threads: &[DumpThread],
    strands: &[StrandRuntime],
) -> Option<Signature> {
    if let Some((_, strand)) = strands.iter().find_map(|one| one.panics().map(|(strand, _)| (one, strand))) {
        return of_goroutine(strand);
    }
    let crash = crash?;
    let thread = threads.iter().find(|thread| thread.tid == crash.thread);
    let exception = thread.and_then(|thread| thread.managed.as_ref()?.exception.as_ref());
    // Killed from outside: what the thread threw last has nothing to do with it.
    if let Some(exception) = exception.filter(|_| crash.sender.is_none() && matches!(crash.signal, 6 | 11)) {
        return Some(of_exception(exception));
    }
    if let Some((_, strand)) = strand_place::on_thread(facts.strands.iter(), crash.thread)
        .filter(|(runtime, strand)| runtime.kind == RuntimeKind::Go && !strand.frames.is_empty())
        && let Some(signature) = of_goroutine(strand)
    {
        return Some(signature);
    }
    let stack = stacks.of(crash.thread)?;
    let frames = crash::frames_of_crash(image, stack);
    let rows = frame_rows::rows(stacks, frames.get(..FRAMES).unwrap_or(frames));
    let overflown = matches!(crash.address_kind, Some(AddressKind::StackOverflow { .. }));
    of_rows(&rows, overflown)
}

fn of_rows(rows: &[FrameRow], overflown: bool) -> Option<Signature> {
    let rows: Vec<&FrameRow> = rows.iter().filter(|row| !row.is_note()).take(FRAMES).collect();
    let walk = |lists: &Lists, name: &dyn Fn(&FrameRow) -> (String, bool)| {
        let (text, frames) = walk::walk(rows.iter().map(|row| name(row)).collect(), lists)?;
        Some((normalize::whole(if overflown { format!("stackoverflow | {text}") } else { text }), frames))
    };
    let by_socorro = |row: &FrameRow| (name(row), row.function.is_some());
    let (text, frames) =
        walk(&Lists::ALL, &|row| added_name(row).map_or_else(|| by_socorro(row), |name| (name, true)))?;
    let socorro = walk(&Lists::SOCORRO, &by_socorro).map(|(text, _)| text).filter(|other| *other != text);
    Some(Signature { text, frames, socorro, made_from: MadeFrom::Stack })
}

/// A frame as Socorro writes it: its function, else its module, else its address.
fn name(row: &FrameRow) -> String {
    match &row.function {
        Some(function) => {
            normalize::function(function, row.source.as_ref().map_or("", |(file, _)| file.as_str()))
        }
        None if row.module.is_empty() => format!("@{:#x}", row.address.0),
        None => normalize::module(&row.module),
    }
}

/// What Socorro does not tell: a function of the program without a name is one among many, and where it begins is the same in all
/// crashes of one build; and `operator new` is not `new`.
fn added_name(row: &FrameRow) -> Option<String> {
    if let Some(function) = &row.function {
        let operator = function.starts_with("operator").then(|| function.split('(').next())??;
        return Some(operator.trim_end().to_owned());
    }
    let own = row.whose == Whose::Program && !row.module.is_empty();
    own.then_some(row.start?).map(|start| format!("{}+{start:#x}", normalize::module(&row.module)))
}

/// As Socorro's rule for exceptions of Java: of a chain the one that it began with, and the method that threw it, without its
/// arguments.
fn of_exception(exception: &ExceptionRow) -> Signature {
    let first = exception.inner.last().unwrap_or(exception);
    let at = first.thrown_in.first().or(exception.thrown_in.first());
    let at = at.map(|method| method.split('(').next().unwrap_or_default().trim_end());
    let text = at.map_or_else(|| first.type_name.clone(), |method| format!("{}: at {method}", first.type_name));
    Signature {
        text: normalize::whole(text),
        made_from: MadeFrom::Exception,
        frames: Vec::new(),
        socorro: None,
    }
}

/// The functions by which Go's runtime was told of a panic stay in it, as what they are called says what it was.
fn of_goroutine(strand: &Strand) -> Option<Signature> {
    let frames = strand.frames.iter().take(FRAMES).map(|frame| (frame.function.to_string(), true));
    let (text, frames) = walk::walk(frames.collect(), &Lists::GO)?;
    Some(Signature { text: normalize::whole(text), made_from: MadeFrom::Goroutine, frames, socorro: None })
}

#[cfg(test)]
mod tests;
