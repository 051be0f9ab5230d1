//! A function, by all that tells whose it is.

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
