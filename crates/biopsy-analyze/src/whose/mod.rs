//! Whose code a function is: the program's own, a library's, or the plumbing below everything.
//!
//! The one place that knows: every rule that names a place asks here. What is a library is data, in a file for each language; no such
//! list is ever complete, and nothing but the choice of which function of a stack is named depends on it.
//! [Why so](../../../../docs/design/19-places.md).

pub(crate) mod dotnet;
mod go;
mod interpreted;
mod java;
mod native;

/// Whose code a function is. The smaller, the better it says where the program is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Whose {
    /// The program's own.
    #[default]
    Program,
    /// A library, a framework or an interpreter: the place where nothing of the program is there.
    Library,
    /// C library, the standard library of a compiled language, locks, allocators, machinery of a runtime: what a person would call the
    /// place only if there is nothing else.
    Plumbing,
}

/// What kind of code a function is, as far as whoever found it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Language {
    /// Machine code of a file: C, C++, Rust, Go.
    #[default]
    Native,
    /// Compiled or interpreted by a runtime: .NET or Java, or whatever its source file says.
    Managed,
    /// Go, by its own tables.
    Go,
    /// Python.
    Python,
    /// Java and other languages of its virtual machine.
    Java,
    /// JavaScript.
    JavaScript,
}

/// A function, by all that tells whose it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Code<'a> {
    pub(crate) language: Language,
    /// Path or file name of the module; empty where it is in none.
    pub(crate) module: &'a str,
    /// Its name.
    pub(crate) function: Option<&'a str>,
    /// Its source file.
    pub(crate) file: Option<&'a str>,
    /// It was inlined into another one.
    pub(crate) inlined: bool,
}

impl Code<'_> {
    /// Whose it is.
    pub(crate) fn whose(&self) -> Whose {
        let name = self.function.unwrap_or_default();
        let file = self.file.unwrap_or_default();
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
