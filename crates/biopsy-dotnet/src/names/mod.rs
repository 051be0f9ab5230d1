//! Names as the programmer wrote them, of what the compiler made of async methods, lambdas and generics.
//!
//! ```text
//! App.Feed+<GetAsync>d__5          MoveNext            App.Feed.GetAsync (async)
//! App.Feed+<>c__DisplayClass3_0    <Get>b__0           App.Feed.Get lambda
//! App.Feed                         <Get>g__Parse|3_0   App.Feed.Get local Parse
//! System.Collections.Generic.List`1[System.__Canon]  .ctor   System.Collections.Generic.List<__Canon> (constructor)
//! ```
//!
//! Names are the target's: they may hold anything. What could disturb a terminal or a page (control characters, marks that
//! turn the direction of text, invisible ones) is escaped, and what is longer than anybody reads is cut in the middle. The
//! raw name is kept beside the shown one by whoever needs it.

mod escape;
mod generated;
mod method_name;
mod type_name;

pub use escape::{LONGEST, clean};

use generated::{Made, generated};
use method_name::{Suffix, push_dotted, push_method};
use type_name::Segment;

/// The shown name of a method, from its type with namespace and its name in the metadata.
#[must_use]
pub fn display(namespace_type: &str, method: &str) -> String {
    display_with(namespace_type, method, "")
}

/// The same; the signature tells iterators (`MoveNext` returns `bool`) from async methods.
#[must_use]
pub fn display_with(namespace_type: &str, method: &str, signature: &str) -> String {
    let machine = if returns_bool(signature) { Machine::Iterator } else { Machine::Async };
    clean(&readable(namespace_type, method, machine))
}

/// The same where it is known what the state machine is for.
#[must_use]
pub fn display_as(namespace_type: &str, method: &str, machine: Machine) -> String {
    clean(&readable(namespace_type, method, machine))
}

/// Whether `method` of this type is where a state machine goes on: worth finding out which kind it is.
#[must_use]
pub fn is_state_machine(namespace_type: &str, method: &str) -> bool {
    let last = || type_name::segments(namespace_type).pop();
    matches!(method, "MoveNext" | "MoveNextAsync")
        && last().is_some_and(|last| matches!(generated(last.name), Some(Made::StateMachine(_))))
}

/// What a compiler made a state machine of. Its fields tell: `<>t__builder` has what is `async`, `<>2__current` what yields.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Machine {
    /// An async method.
    #[default]
    Async,
    /// `IEnumerable`.
    Iterator,
    /// `IAsyncEnumerable`.
    AsyncIterator,
}

/// The shown name of a type.
#[must_use]
pub fn display_type(namespace_type: &str) -> String {
    let mut text = String::new();
    for segment in type_name::segments(namespace_type) {
        push_dotted(&mut text, &segment.readable());
    }
    clean(&text)
}

fn readable(namespace_type: &str, method: &str, machine: Machine) -> String {
    if namespace_type.is_empty() {
        return method.to_owned();
    }
    if namespace_type == "dynamicClass" {
        return format!("{method} (dynamic)");
    }
    let mut text = String::new();
    let mut suffix = Suffix::None;
    for segment in type_name::segments(namespace_type) {
        push_type(&mut text, &segment, &mut suffix);
    }
    push_method(&mut text, method, &mut suffix);
    text.push_str(match (suffix, machine) {
        (Suffix::None, _) => "",
        (Suffix::AsyncIterator, _) | (Suffix::Machine, Machine::AsyncIterator) => " (async iterator)",
        (Suffix::Machine, Machine::Iterator) => " (iterator)",
        (Suffix::Machine, Machine::Async) => " (async)",
    });
    text
}

fn push_type(text: &mut String, segment: &Segment<'_>, suffix: &mut Suffix) {
    match generated(segment.name) {
        // What a lambda captured, and where lambdas live that capture nothing.
        Some(Made::Closure) => {}
        Some(Made::StateMachine(of)) => {
            push_method(text, of, suffix);
            *suffix = Suffix::Machine;
        }
        Some(Made::AnonymousType) => push_dotted(text, "anonymous type"),
        _ => push_dotted(text, &segment.readable()),
    }
}

fn returns_bool(signature: &str) -> bool {
    let returned = signature.trim_start().trim_start_matches("instance ").trim_start();
    returned.split([' ', '(']).next() == Some("bool")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines `type TAB method TAB signature TAB shown`.
    #[test]
    fn each_name_is_shown_as_it_was_written() {
        let mut checked = 0;
        for line in
            include_str!("cases.tsv").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let fields: Vec<&str> = line.split('\t').collect();
            let &[namespace_type, method, signature, shown] = fields.as_slice() else { panic!("`{line}`") };
            assert_eq!(display_with(namespace_type, method, signature), shown, "`{line}`");
            checked += 1;
        }
        assert!(checked > 60, "{checked} cases");
    }

    /// Each type argument holds a method with a type argument of its own: seen to end the process, when the depth began anew in
    /// each of them.
    #[test]
    fn names_in_names_without_end_are_cut() {
        for (open, close) in
            [("<m<", ">>d__1"), ("<<m<", ">>b__0>d__1"), ("A.I<<m<", ">>d__1>.m"), ("A`1[<m<", ">>d__1]")]
        {
            let deep = open.repeat(4000) + "B" + &close.repeat(4000);
            for (of, method) in [
                (format!("A<{deep}>"), "M"),
                ("A".to_owned(), &*format!("M<{deep}>")),
                (deep.clone(), "MoveNext"),
            ] {
                let shown = display(&of, method);
                assert!(shown.chars().count() <= LONGEST, "{shown}");
            }
        }
    }

    #[test]
    fn types_alone() {
        assert_eq!(
            display_type("System.Collections.Generic.Dictionary`2+Entry[System.__Canon,System.Int32]"),
            "System.Collections.Generic.Dictionary<__Canon, int>.Entry"
        );
        assert_eq!(display_type("App.Feed[]"), "App.Feed[]");
    }

    proptest::proptest! {
        #[test]
        fn any_names_give_a_short_and_harmless_one(
            namespace_type in "[<>cdb_`\\[\\]+|,.A-Za1-3\\PC]{0,80}",
            method in "[<>cdbg_`|+.A-Z0-9$\\PC]{0,80}",
            signature in "\\PC{0,10}",
        ) {
            let shown = display_with(&namespace_type, &method, &signature);
            proptest::prop_assert!(shown.chars().count() <= LONGEST);
            proptest::prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
