//! Whose code a function is: the program's own, a library's, or the plumbing below everything.
//!
//! The one place that knows: every rule that names a place asks here. What is a library is data, in a file for each language; no such
//! list is ever complete, and nothing but the choice of which function of a stack is named depends on it.
//! [Why so](../../../../docs/design/19-places.md).

mod answer;
mod code;
pub(crate) mod dotnet;
mod go;
mod interpreted;
mod java;
mod native;

pub use answer::Whose;
pub(crate) use code::{Code, Language};

impl Code<'_> {
    /// Whose it is.
    pub(crate) fn whose(&self) -> Whose {
        let name = self.function.unwrap_or_default();
        let file = self.file.unwrap_or_default();
        // What V8 has built in is in no script: `RegExp.test`.
        let is_built_in = self.module == "[javascript]" && file.is_empty();
        if is_note(name) || is_built_in {
            return Whose::Plumbing;
        }
        match (self.language, language_of(file)) {
            (Language::Python, _) | (Language::Native | Language::Managed, Some(Language::Python)) => {
                interpreted::python(file)
            }
            (Language::JavaScript, _)
            | (Language::Native | Language::Managed, Some(Language::JavaScript)) => {
                interpreted::javascript(file)
            }
            (Language::Go, _) | (Language::Native, Some(Language::Go)) => go::whose(name, file),
            (Language::Java, _) => java::whose(name),
            (Language::Managed, _) if name.is_empty() => Whose::Plumbing,
            (Language::Managed, _) => dotnet::whose(self.module, name).max(java::whose(name)),
            (Language::Native, _) => native::whose(self),
        }
    }
}

/// A name in brackets is none, but says what is there: `(stub of the virtual machine)`. Somebody wrote what is `(anonymous)`.
fn is_note(name: &str) -> bool {
    name.starts_with('(') && name.ends_with(')') && !name.contains("::") && name != "(anonymous)"
}

/// The language that a source file is written in, where frames of it stand beside others.
fn language_of(file: &str) -> Option<Language> {
    const ENDINGS: &[(&str, Language)] = &[
        ("cjs", Language::JavaScript),
        ("go", Language::Go),
        ("js", Language::JavaScript),
        ("mjs", Language::JavaScript),
        ("py", Language::Python),
        ("ts", Language::JavaScript),
    ];
    if file.starts_with("node:") {
        return Some(Language::JavaScript);
    }
    if file.starts_with("<frozen ") {
        return Some(Language::Python);
    }
    let ending = file.rsplit_once('.')?.1;
    ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, language)| *language)
}

/// Which of a stack, innermost first, is the place: the innermost of the program, else of a library, else the first.
pub(crate) fn place(stack: impl Iterator<Item = Whose> + Clone) -> Option<usize> {
    let innermost = |whose| stack.clone().position(|one| one == whose);
    innermost(Whose::Program)
        .or_else(|| innermost(Whose::Library))
        .or_else(|| stack.clone().next().map(|_| 0))
}

#[cfg(test)]
mod tests;
