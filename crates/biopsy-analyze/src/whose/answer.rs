//! The three answers.

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
