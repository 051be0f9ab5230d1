//! Where the program itself stands in a stack: the innermost function of its own, and the way from there through libraries.

use biopsy_model::symbol::whole_function;
use biopsy_runtimes::{RuntimeKind, RuntimeStrands, Strand, StrandFrame};
use rustc_hash::FxHashMap;

use super::frame_rows::FrameRow;
use super::strand_place;
use crate::whose::{self, Whose};
use crate::words::shorten;

/// Functions of libraries that are named one by one.
const THROUGH: usize = 3;
/// A function that comes so much more often than the innermost one is what recurses.
const RECURSES: usize = 10;

/// Where the program itself stands.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StackPlace {
    /// The innermost function of the program; of a library where the stack has none of the program.
    pub function: String,
    /// File and line in it.
    pub source: Option<(String, Option<u32>)>,
    /// It is the program's own.
    pub own: bool,
    /// As a frame of an interpreted language or of Go is shown: `render_menu (menu.py:12)`.
    pub shown: Option<String>,
    /// Functions of libraries between it and the innermost one, as they call each other.
    pub through: Vec<String>,
    /// The function of the program that called it.
    pub caller: Option<String>,
}

impl StackPlace {
    /// The function, for a sentence: `` `route_parcel` ``.
    #[must_use]
    pub fn name(&self) -> String {
        self.shown.clone().unwrap_or_else(|| format!("`{}`", shorten(&self.function)))
    }

    /// With the way through libraries: `` `route_parcel` → `std::mutex::lock` → `pthread_mutex_lock` ``.
    #[must_use]
    pub fn path(&self) -> String {
        let mut words = self.name();
        for function in &self.through {
            words.push_str(" → ");
            if function == "…" {
                words.push_str(function);
            } else {
                words.push_str(&format!("`{}`", shorten(function)));
            }
        }
        words
    }

    /// With the function of the program that called it as well.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.caller {
            Some(caller) => format!("{}, called by `{}`", self.path(), shorten(caller)),
            None => self.path(),
        }
    }
}

/// Which row is the place. In a stack with methods of a managed runtime, whoever hosts it is not, and code that they call is in a
/// library of the program.
pub(super) fn row(rows: &[FrameRow]) -> Option<usize> {
    if !rows.iter().any(|row| row.managed) {
        return whose::place(rows.iter().map(|row| row.whose));
    }
    let first = |best: Whose| rows.iter().position(|row| row.managed && row.whose <= best);
    let own = of_program(rows).next().map(|(at, _)| at);
    own.or_else(|| first(Whose::Library)).or_else(|| first(Whose::Plumbing))
}

/// The rows of the program, from inside.
fn of_program(rows: &[FrameRow]) -> impl Iterator<Item = (usize, &FrameRow)> {
    let outermost = rows.iter().rposition(|row| row.managed);
    let hosted = rows.iter().enumerate().take(outermost.map_or(rows.len(), |at| at + 1));
    hosted.filter(move |(_, row)| {
        row.whose == Whose::Program && (outermost.is_none() || row.managed || row.module.contains(".so"))
    })
}

/// The place of a stack. `strand`: the strand of a language that is on the thread, with its runtime.
pub(super) fn of(rows: &[FrameRow], strand: Option<(&RuntimeStrands, &Strand)>) -> Option<StackPlace> {
    let native = row(rows).map(|at| (at, place_at(rows, at)));
    let language = strand.and_then(|(runtime, strand)| {
        let frame = strand_place::of_program(runtime.kind, &strand.frames)?;
        Some(of_frame(frame, strand_place::whose(runtime.kind, frame) == Whose::Program))
    });
    match (native, language) {
        (Some((at, place)), Some(language)) => {
            // Of a stripped program the language knows the names.
            let named = rows.get(at).is_some_and(|row| row.function.is_some()) || !language.own;
            Some(if place.own && named && is_inside(rows, at, strand) { place } else { language })
        }
        (native, language) => native.map(|(_, place)| place).or(language),
    }
}

fn of_frame(frame: &StrandFrame, own: bool) -> StackPlace {
    StackPlace {
        function: frame.function.to_string(),
        source: frame.file.as_ref().map(|file| (file.to_string(), frame.line)),
        own,
        shown: Some(strand_place::words(frame)),
        ..StackPlace::default()
    }
}

/// A native frame is inside of what the strand's language runs: an extension that it called. Of a program in Go, its code is both.
fn is_inside(rows: &[FrameRow], at: usize, strand: Option<(&RuntimeStrands, &Strand)>) -> bool {
    let Some((runtime, _)) = strand.filter(|(runtime, _)| runtime.kind != RuntimeKind::Go) else {
        return true;
    };
    let path = String::from_utf8_lossy(&runtime.path);
    let file = path.rsplit('/').next().unwrap_or_default();
    !rows.iter().take(at + 1).any(|row| row.module == file)
}

fn place_at(rows: &[FrameRow], at: usize) -> StackPlace {
    let Some(row) = rows.get(at) else { return StackPlace::default() };
    let function = label(row);
    let own = row.whose == Whose::Program;
    let mut callers = of_program(rows).filter(|(caller, _)| own && *caller > at).map(|(_, row)| label(row));
    StackPlace {
        caller: callers.find(|caller| *caller != function),
        through: through(rows.get(..at).unwrap_or_default()),
        source: row.source.clone(),
        shown: None,
        function,
        own,
    }
}

/// What is said is said of the function, whichever part of it ran.
fn label(row: &FrameRow) -> String {
    whole_function(&row.label()).to_owned()
}

/// Names on the way, from the outermost: all, or the first and the innermost one. What a library calls in itself is left out where
/// its names say so, by an underscore in front.
fn through(rows: &[FrameRow]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows.iter().rev().filter(|row| row.function.is_some() && !row.is_note()) {
        let name = label(row);
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    let inside = |name: &str| name.starts_with('_') && name != "__cxa_throw";
    if names.iter().any(|name| !inside(name)) {
        names.retain(|name| !inside(name));
    }
    if names.len() > THROUGH {
        let inner = names.pop();
        names.truncate(THROUGH - 2);
        names.push("…".to_owned());
        names.extend(inner);
    }
    names
}

/// Of a stack that overflowed: the function that recurses, where another one of the program is the innermost.
pub(super) fn recursing(
    rows: &[FrameRow],
    strand: Option<(&RuntimeStrands, &Strand)>,
    innermost: &StackPlace,
) -> Option<StackPlace> {
    let Some((runtime, strand)) = strand.filter(|_| innermost.shown.is_some()) else {
        let own: Vec<(usize, String)> = of_program(rows).map(|(at, row)| (at, label(row))).collect();
        return Some(place_at(rows, most_frequent(&own, &innermost.function)?));
    };
    let frames = strand.frames.iter().enumerate();
    let own = frames.filter(|(_, frame)| strand_place::whose(runtime.kind, frame) == Whose::Program);
    let own: Vec<(usize, String)> = own.map(|(at, frame)| (at, frame.function.to_string())).collect();
    Some(of_frame(strand.frames.get(most_frequent(&own, &innermost.function)?)?, true))
}

/// Where the name is first that comes far more often than `innermost`.
fn most_frequent(names: &[(usize, String)], innermost: &str) -> Option<usize> {
    let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
    for (_, name) in names {
        *counts.entry(name).or_default() += 1;
    }
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    // The innermost of those that come equally often.
    let (_, most) = names.iter().rev().max_by_key(|(_, name)| count(name))?;
    let (first, _) = names.iter().find(|(_, name)| name == most)?;
    (count(most) >= RECURSES * count(innermost).max(1)).then_some(*first)
}

#[cfg(test)]
mod tests;
