//! Rows of a stack, as a report shows them.

use biopsy_model::Avma;
use biopsy_model::symbol::place_name;
use biopsy_stacks::unwind::FoundBy;

/// Assemblies of the framework, by name.
pub(crate) fn is_framework(module: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "System.",
        "Microsoft.AspNetCore.",
        "Microsoft.Extensions.",
        "Microsoft.Win32.",
        "Microsoft.CSharp",
        "netstandard.",
        "mscorlib.",
    ];
    module.is_empty() || PREFIXES.iter().any(|prefix| module.starts_with(prefix))
}

/// A row of a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameRow {
    /// Demangled name; `None`: module and offset only.
    pub function: Option<String>,
    /// Inlined into the row below it.
    pub inlined: bool,
    /// A method of managed code.
    pub managed: bool,
    /// Name of the module; empty when the address is in none.
    pub module: String,
    /// Address in the module, as its file states it.
    pub offset: u64,
    /// Where the function begins in the file, where unwind information knows it.
    pub start: Option<u64>,
    /// Address in the process.
    pub address: Avma,
    /// Source file and line.
    pub source: Option<(String, Option<u32>)>,
    /// How the frame was found.
    pub found: FoundBy,
    /// How often the rows from this one on repeat, `1` for almost all, and how many rows that are.
    pub repeats: (u32, u32),
    /// Rows left out before this one.
    pub skipped: u32,
}

impl FrameRow {
    /// It was found by a frame pointer: right for code that keeps one.
    #[must_use]
    pub fn guessed(&self) -> bool {
        self.found == FoundBy::FramePointer
    }

    /// It is no code, but a note that a managed runtime left on the stack (`[InlinedCallFrame]`).
    #[must_use]
    pub fn is_note(&self) -> bool {
        let bracketed = |name: &String| name.starts_with('[') && name.ends_with(']');
        self.found == FoundBy::ExplicitFrame && !self.managed && self.function.as_ref().is_some_and(bracketed)
    }

    /// How it was found, in a word.
    #[must_use]
    pub fn found_word(&self) -> &'static str {
        match self.found {
            FoundBy::Registers => "registers",
            FoundBy::UnwindInfo => "unwind-info",
            FoundBy::FramePointer => "frame-pointer",
            FoundBy::CallSite => "call-site",
            FoundBy::SignalFrame => "signal-frame",
            FoundBy::ExplicitFrame => "explicit-frame",
        }
    }

    /// The function, or module and where it begins, or module and offset.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.function {
            Some(name) => name.clone(),
            None if self.module.is_empty() => format!("{:#x}", self.address.0),
            None => place_name(&self.module, self.start.unwrap_or(self.offset)),
        }
    }
}
