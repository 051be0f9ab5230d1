//! Variables of the functions that run: which object each refers to, and what it is called.

use std::sync::Arc;

use biopsy_image::Image;

use super::code::{self, Codes};
use super::layout::{self, Layout, same};
use super::objects::Objects;
use super::reading::Reading;
use super::{frames, threads, version};
use crate::{Limits, Memory, Module};

/// Bytes of pages that are kept.
const CACHED: usize = 16 << 20;

/// A variable of a function that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Address of the object that it refers to.
    pub value: u64,
    /// Its name.
    pub name: String,
    /// The function.
    pub function: Arc<str>,
}

/// What is known of the interpreter of a process, and of the functions that run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Variables {
    /// `3.11.7`; empty where nothing says it.
    pub version: String,
    /// Its objects have heads of another form, and are not read.
    pub free_threaded: bool,
    /// Those of all threads, of each the outermost function first.
    pub variables: Vec<Variable>,
}

/// The interpreter of a process; `None`: it runs none. Without a layout for the version there are no variables.
#[must_use]
pub fn variables(image: &dyn Image, limits: &Limits) -> Option<Variables> {
    let memory = Memory::new(image, None, CACHED);
    let (found, _) = Module::all(image).find_map(|one| Some((version::find(&memory, &one)?, one)))?;
    let mut all =
        Variables { version: found.text.clone(), free_threaded: found.free_threaded, variables: Vec::new() };
    let known = found.minor.filter(|minor| layout::KNOWN.contains(minor)).and_then(Layout::of);
    let Some(layout) = known.filter(|_| !found.free_threaded) else { return Some(all) };
    let reading = Reading { objects: Objects::new(&memory, layout, limits), codes: Codes::default(), limits };
    let Some((_, first)) = threads::first_interpreter(&reading, found.runtime) else { return Some(all) };
    let system = threads::SystemThreads::of(image);
    let mut left = limits.frames;
    for interpreter in threads::interpreters(&reading, first) {
        let (found, _) = threads::read(&reading, &system, interpreter, &mut left, limits.strands);
        for frame in found.iter().flat_map(|thread| thread.frames.iter().rev()) {
            of_frame(&reading.objects, frame, &mut all.variables);
        }
    }
    Some(all)
}

fn of_frame(objects: &Objects<'_, '_>, frame: &frames::PythonFrame, into: &mut Vec<Variable>) {
    let names = objects
        .pointer(frame.at, objects.layout.frame_code)
        .and_then(|code| objects.pointer(code, objects.layout.code_names));
    let Some(names) = names else { return };
    for index in 0..code::looked_at(frame.code.variables) {
        let Some(value) = frame.slot(objects, index) else { continue };
        // The items of a tuple stand where the bytes of `bytes` would begin, less a word for their hash.
        let name = objects.pointer(names, same::BYTES - 8 + index * 8).and_then(|name| objects.text(name));
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        into.push(Variable { value, name, function: Arc::clone(&frame.code.name) });
    }
}
