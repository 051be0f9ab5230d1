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
use biopsy_model::symbol::whole_function;
use biopsy_runtimes::{RuntimeKind, Strand};
use biopsy_stacks::image::ImageStacks;

use super::crash::{AddressKind, Crash};
use super::facts::DumpFacts;
use super::frame_rows::{self, FrameRow};
use super::handled;
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
    /// Frames that were looked at, the innermost first, and what was done with each; none for an exception, and for a stack that
    /// overflowed in the program.
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
        if self.frames.is_empty() {
            return format!("of the function that recurses in {of}");
        }
        format!("of {of}; frames left out: {left_out}, gone past: {}", count(Role::Prefix))
    }

    /// It is the same for crashes in different functions: none that it names is known.
    #[must_use]
    pub fn is_coarse(&self) -> bool {
        self.made_from == MadeFrom::Stack
            && !self.frames.is_empty()
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
    let frames = handled::frames_of_crash(image, stack);
    let rows = frame_rows::rows(stacks, frames.get(..FRAMES).unwrap_or(frames));
    let overflown = matches!(crash.address_kind, Some(AddressKind::StackOverflow { .. }));
    let place = crash.place.as_ref().filter(|place| place.own).map(|place| place.function.as_str());
    of_rows(&rows, overflown, place)
}

/// `place`: the function of the program that the crash is in.
fn of_rows(rows: &[FrameRow], overflown: bool, place: Option<&str>) -> Option<Signature> {
    let rows: Vec<&FrameRow> = rows.iter().filter(|row| !row.is_note()).take(FRAMES).collect();
    let whole =
        |text: String| normalize::whole(if overflown { format!("stackoverflow | {text}") } else { text });
    let by_socorro = |row: &&FrameRow| (name(row), row.function.is_some());
    let (socorro, _) = walk::walk(rows.iter().map(by_socorro).collect(), &Lists::SOCORRO)?;
    let (text, frames) = match place.filter(|_| overflown) {
        // Which function was called last is chance; the one that recurses is not.
        Some(place) => (place.to_owned(), Vec::new()),
        None => with_additions(&rows, place)?,
    };
    let (text, socorro) = (whole(text), whole(socorro));
    let socorro = Some(socorro).filter(|other| *other != text);
    Some(Signature { text, frames, socorro, made_from: MadeFrom::Stack })
}

fn with_additions(rows: &[&FrameRow], place: Option<&str>) -> Option<(String, Vec<SignatureFrame>)> {
    let names = rows
        .iter()
        .map(|row| added_name(row).map_or_else(|| (name(row), row.function.is_some()), |name| (name, true)));
    let names: Vec<(String, bool)> = names.collect();
    if names.iter().any(|(name, _)| Lists::GO.begins(name)) {
        return walk::walk(names, &Lists::GO);
    }
    let (mut text, mut frames) = walk::walk(names, &Lists::ALL)?;
    // It ends in an interpreter: what that runs has no frames of its own here, and is where the program is.
    let ends_in = frames.len().checked_sub(1).and_then(|last| rows.get(last));
    let runs = place.filter(|place| {
        ends_in.is_some_and(|row| row.whose != Whose::Program)
            && !rows.iter().any(|row| row.function.as_deref().map(whole_function) == Some(*place))
    });
    if let Some(place) = runs {
        if let Some(last) = frames.last_mut().filter(|last| last.role == Role::Last) {
            last.role = Role::Prefix;
        }
        text = format!("{text} | {place}");
        frames.push(SignatureFrame { name: place.to_owned(), named: true, role: Role::Last });
    }
    Some((text, frames))
}

/// A frame as Socorro writes it: its function, else its module, else its address.
fn name(row: &FrameRow) -> String {
    match &row.function {
        Some(function) => normalize::function(
            whole_function(function),
            row.source.as_ref().map_or("", |(file, _)| file.as_str()),
        ),
        None if row.module.is_empty() => format!("@{:#x}", row.address.0),
        None => normalize::module(&row.module),
    }
}

/// `str_to_mpn.part.0.constprop.0` → `str_to_mpn`: copies that a compiler made of a function, another one in each build.
fn without_copy(name: &str) -> &str {
    const COPIES: &[&str] = &[".part.", ".constprop.", ".isra.", ".cold", ".lto_priv.", ".llvm."];
    let name = whole_function(name);
    let begins = |copy: &&str| {
        let at = name.find(*copy)?;
        let behind = name.get(at + copy.len()..)?;
        (behind.is_empty() || behind.starts_with(|next: char| next == '.' || next.is_ascii_digit()))
            .then_some(at)
    };
    COPIES.iter().filter_map(begins).min().and_then(|at| name.get(..at)).unwrap_or(name)
}

/// What Socorro does not tell: a function of the program without a name is one among many, and where it begins is the same in all
/// crashes of one build; and `operator new` is not `new`.
fn added_name(row: &FrameRow) -> Option<String> {
    if let Some(function) = &row.function {
        let name = without_copy(function);
        let operator =
            name.starts_with("operator ").then(|| name.split('(').next().unwrap_or(name).trim_end());
        let changed = operator.or((name.len() < function.len()).then_some(name))?;
        let file = row.source.as_ref().map_or("", |(file, _)| file.as_str());
        return Some(operator.map_or_else(|| normalize::function(changed, file), str::to_owned));
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
    let text =
        at.map_or_else(|| first.type_name.clone(), |method| format!("{}: at {method}", first.type_name));
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
