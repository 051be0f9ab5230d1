//! Rows of a stack, as a report shows them.

use biopsy_model::module::ModuleKind;
use biopsy_model::symbol::{Function, place_name};
use biopsy_model::{Avma, Svma};
use biopsy_stacks::image::{Frame, ImageStacks};
use biopsy_stacks::unwind::FoundBy;

use crate::whose::{Code, Language, Whose};

/// A row of a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameRow {
    /// Demangled name; `None`: module and offset only.
    pub function: Option<String>,
    /// Inlined into the row below it.
    pub inlined: bool,
    /// A method of managed code.
    pub managed: bool,
    /// Whose code it is.
    pub whose: Whose,
    /// Name of the module; empty when the address is in none.
    pub module: String,
    /// Address in the module, as its file states it.
    pub offset: Svma,
    /// Where the function begins in the file, where unwind information knows it.
    pub start: Option<Svma>,
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
            None => place_name(&self.module, self.start.unwrap_or(self.offset).0),
        }
    }
}

/// The rows of frames: one for each function, inlined ones too.
pub(super) fn rows(stacks: &ImageStacks, frames: &[Frame]) -> Vec<FrameRow> {
    let mut rows = Vec::new();
    for frame in frames {
        let Some(place) = stacks.place(frame.place) else { continue };
        let compiled = place.compiled.as_ref();
        let of_file = stacks.module_of(place);
        let module = match compiled {
            Some(compiled) if !compiled.module.is_empty() => &compiled.module,
            _ => of_file.map_or("", |module| module.name()),
        };
        let row = |function: Option<&Function>, inlined| FrameRow {
            function: function.map(|function| function.name.clone()),
            inlined,
            managed: compiled.is_some_and(|compiled| compiled.is_method),
            whose: match (compiled, of_file) {
                (Some(compiled), _) if !compiled.is_method => Whose::Plumbing,
                (Some(compiled), _) => {
                    let name = function.map(|function| function.name.as_str());
                    let code = Code {
                        language: Language::Managed,
                        module: &compiled.module,
                        function: name,
                        ..Code::default()
                    };
                    // What has no assembly was made by the framework.
                    code.whose().max(if compiled.module.is_empty() { Whose::Library } else { Whose::Program })
                }
                (None, Some(of_file)) => {
                    let is_file = matches!(of_file.kind, ModuleKind::Elf | ModuleKind::Vdso);
                    Code {
                        language: if is_file { Language::Native } else { Language::Managed },
                        module: if is_file { &of_file.path } else { "" },
                        function: function.map(|function| function.name.as_str()),
                        file: function.and_then(|function| function.file.as_deref()),
                        inlined,
                    }
                    .whose()
                }
                (None, None) => Whose::Plumbing,
            },
            module: module.to_owned(),
            offset: Svma(place.offset),
            start: place.function_start.map(Svma),
            address: place.address,
            source: function.and_then(|function| Some((function.file.clone()?, function.line))),
            found: frame.found,
            repeats: (1, 1),
            skipped: 0,
        };
        match place.functions.split_last() {
            None => rows.push(row(None, false)),
            Some((last, inlined)) => {
                rows.extend(inlined.iter().map(|function| row(Some(function), true)));
                rows.push(row(Some(last), false));
            }
        }
    }
    rows
}
