//! Names of methods as the programmer wrote them, with what compilers made of lambdas, local functions and `await` read back.

use super::generated::{Made, generated};
use super::type_name::member;

/// What the name ends with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Suffix {
    None,
    /// Of a state machine: an async method, or an iterator.
    Machine,
    AsyncIterator,
}

/// Lambdas in lambdas: deeper than programmers go, the raw name is as good.
const DEEPEST: usize = 16;

/// The method that a state machine is for, by itself: `<Get>g__Parse|3_0` → `Get local Parse`. `depth`: of the type argument that
/// it stands in.
pub(super) fn method_of_machine(method: &str, depth: usize) -> String {
    let mut text = String::new();
    push_nested(&mut text, method, &mut Suffix::None, depth);
    text
}

/// Adds the name of a method behind that of its type.
pub(super) fn push_method(text: &mut String, method: &str, suffix: &mut Suffix) {
    push_nested(text, method, suffix, 0);
}

fn push_nested(text: &mut String, method: &str, suffix: &mut Suffix, depth: usize) {
    if *suffix == Suffix::Machine {
        match method {
            "MoveNext" => return,
            "MoveNextAsync" => {
                *suffix = Suffix::AsyncIterator;
                return;
            }
            "System.Collections.IEnumerator.MoveNext"
            | "System.Runtime.CompilerServices.IAsyncStateMachine.MoveNext" => return,
            // Bookkeeping of the state machine: `Dispose`, `GetEnumerator`, `SetStateMachine`.
            other => {
                *suffix = Suffix::None;
                text.push_str(" (state machine).");
                text.push_str(other);
                return;
            }
        }
    }
    let made = if depth < DEEPEST { generated(method) } else { None };
    match made {
        Some(Made::Lambda(of)) => {
            push_nested(text, of, suffix, depth + 1);
            text.push_str(" lambda");
        }
        Some(Made::Local { of, name }) => {
            push_nested(text, of, suffix, depth + 1);
            text.push_str(" local ");
            text.push_str(name);
        }
        Some(Made::Main) => push_dotted(text, "Main"),
        Some(Made::Clone) => push_dotted(text, "Clone"),
        Some(Made::Initializer) => text.push_str(" (constructor)"),
        Some(Made::StateMachine(of)) => {
            push_nested(text, of, suffix, depth + 1);
            *suffix = Suffix::Machine;
        }
        Some(Made::Closure | Made::AnonymousType) => push_dotted(text, method),
        None => match method {
            "" => {}
            ".ctor" => text.push_str(" (constructor)"),
            ".cctor" => text.push_str(" (static constructor)"),
            plain => push_dotted(text, &member(plain, depth)),
        },
    }
}

/// Adds a part behind a dot.
pub(super) fn push_dotted(text: &mut String, part: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(part);
}
