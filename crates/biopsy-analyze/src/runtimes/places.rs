//! Where something happened, by a managed stack.

use super::bounded::cut;
use crate::limits::RUNTIME_FRAMES;
use crate::whose::dotnet;
use biopsy_model::runtime_trace::{RuntimeStack, RuntimeTrace};

/// Where something happened, by a managed stack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RuntimePlace {
    /// The application's innermost function; of the class library where there is none. Empty: no stack.
    pub function: String,
    /// The function of the class library that it called, where there is one: `System.Int32.Parse`.
    pub via: Option<String>,
    /// The function is the application's own.
    pub own: bool,
}

/// The functions of a stack, innermost first, as far as they are there.
pub(crate) fn names(trace: &RuntimeTrace, stack: Option<RuntimeStack>) -> impl Iterator<Item = &str> + Clone {
    let stack = stack.and_then(|stack| trace.stacks.get(stack.0 as usize)).map_or(&[][..], Vec::as_slice);
    stack
        .iter()
        .take(RUNTIME_FRAMES)
        .filter_map(|&function| trace.functions.get(function as usize))
        .map(|function| function.name.as_str())
}

/// Where a stack is.
pub(crate) fn place(trace: &RuntimeTrace, stack: Option<RuntimeStack>) -> RuntimePlace {
    let names = names(trace, stack);
    let Some(at) = dotnet::place(names.clone()) else { return RuntimePlace::default() };
    let function = names.clone().nth(at).unwrap_or_default();
    let own = dotnet::is_application(function);
    let called = at.checked_sub(1).and_then(|at| names.clone().nth(at));
    RuntimePlace { function: cut(function), via: called.filter(|_| own).map(cut), own }
}
