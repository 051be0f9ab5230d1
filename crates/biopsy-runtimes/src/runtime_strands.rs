//! What a runtime has.

use biopsy_model::Avma;

use crate::{RuntimeKind, Strand, StrandId};

/// A runtime that is in an image, with its strands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeStrands {
    /// Which.
    pub kind: RuntimeKind,
    /// Its version as it says it, where it could be told.
    pub version: Option<String>,
    /// Path of the executable or library that it is in, as the process saw it.
    pub path: Vec<u8>,
    /// Where its first byte is mapped.
    pub base: u64,
    /// Strands that have not ended, in the runtime's order.
    pub strands: Vec<Strand>,
    /// How many there are, also those above a limit.
    pub total: u64,
    /// The lock that only one thread of an interpreter can have at a time.
    pub interpreter_lock: Option<InterpreterLock>,
    /// What was not understood, in words: a version that is not known, lists that are not whole.
    pub warnings: Vec<String>,
}

impl RuntimeStrands {
    /// A runtime of which nothing has been read yet.
    #[must_use]
    pub fn new(kind: RuntimeKind, path: &[u8], base: u64) -> Self {
        Self {
            kind,
            version: None,
            path: path.to_vec(),
            base,
            strands: Vec::new(),
            total: 0,
            interpreter_lock: None,
            warnings: Vec::new(),
        }
    }

    /// `Go 1.22.10`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.kind.name()),
            None => self.kind.name().to_owned(),
        }
    }

    /// A strand.
    #[must_use]
    pub fn strand(&self, id: StrandId) -> Option<&Strand> {
        self.strands.iter().find(|strand| strand.id == id)
    }

    /// Adds a warning once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// The lock of an interpreter (CPython's GIL).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterpreterLock {
    /// Where it is.
    pub address: Avma,
    /// Somebody has it.
    pub locked: bool,
    /// The strand that has it.
    pub holder: Option<StrandId>,
}
