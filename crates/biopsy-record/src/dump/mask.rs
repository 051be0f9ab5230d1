//! Masking of dumped memory: the scanner of `biopsy-redact` as the mask of a scrubbed image, and the secret values that
//! a process was given.

mod configuration;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use biopsy_image::scrub::{Mask, MaskCounts};
use biopsy_model::Pid;
use biopsy_redact::memory::{self, LiteralFinder, MemoryScanner, OVERLAP};
use biopsy_redact::{Options, Redactor};
use biopsy_target::ProcRoot;
use biopsy_target::proc_root::ProcessDir;

/// Bytes read of an environment or a command line.
const TEXT_MAX: usize = 1 << 20;

/// Secret values that processes were given: in their environment, on their command line and in their configuration
/// files. They are searched for in the memory of a dump, wherever they stand. Never printed, wiped when dropped.
#[derive(Default)]
pub struct Literals {
    values: memory::Literals,
    /// Knows how programs take their secrets as arguments, and has learned the values.
    redactor: Option<Arc<Redactor>>,
    /// Made once, on first use; [`Literals::of`] makes it at once, since it takes a tenth of a second that should not
    /// pass while a process is frozen.
    scanner: OnceLock<Arc<MemoryScanner>>,
}

impl Literals {
    /// Reads them. What cannot be read is left out: without a literal there are still the rules.
    #[must_use]
    pub fn of(pids: &[Pid]) -> Self {
        let literals = Self::read(pids);
        let _ = literals.scanner();
        literals
    }

    /// Reads them, and leaves the rest for when they are used: for a process that is held meanwhile.
    #[must_use]
    pub fn read(pids: &[Pid]) -> Self {
        Self::in_root(&ProcRoot::live(), pids)
    }

    fn in_root(root: &ProcRoot, pids: &[Pid]) -> Self {
        let mut literals = Self::default();
        // Its key and what it learns are dropped with it. Only values told by their keys are learned, as for a
        // recording.
        if let Ok(redactor) = Redactor::new(Options::default()) {
            for pid in pids {
                if let Ok(dir) = root.process(*pid) {
                    learn_from(&redactor, &dir);
                }
            }
            literals.values = memory::Literals::of_process(&redactor);
            literals.redactor = Some(Arc::new(redactor));
        }
        literals
    }

    /// How many values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many of them there were more than are searched for.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.redactor.as_ref().map_or(0, |redactor| redactor.learning().refused)
    }

    /// A search for them as they are, with code of its own: for what was masked with them.
    #[must_use]
    pub fn finder(&self) -> LiteralFinder {
        LiteralFinder::new(&self.values)
    }

    /// The scanner for them, to be shared.
    pub(crate) fn shared(&self) -> Arc<MemoryScanner> {
        Arc::clone(self.scanner())
    }

    fn scanner(&self) -> &Arc<MemoryScanner> {
        self.scanner.get_or_init(|| {
            Arc::new(
                MemoryScanner::new(&self.values).expect("the built-in rules are compiled by their tests"),
            )
        })
    }
}

impl fmt::Debug for Literals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Literals").field("values", &self.len()).finish_non_exhaustive()
    }
}

/// The scanner, as the mask of a [`biopsy_image::ScrubbedImage`].
#[derive(Clone, Debug)]
pub struct MemoryMask {
    scanner: Arc<MemoryScanner>,
    redactor: Option<Arc<Redactor>>,
}

impl MemoryMask {
    /// With all rules, and these values.
    #[must_use]
    pub fn new(literals: &Literals) -> Self {
        Self { scanner: Arc::clone(literals.scanner()), redactor: literals.redactor.clone() }
    }
}

/// What is masked at a byte depends on so many bytes on either side.
pub const MASK_OVERLAP: u64 = OVERLAP as u64;

impl Mask for MemoryMask {
    fn rules(&self) -> &[String] {
        self.scanner.rules()
    }

    fn overlap(&self) -> usize {
        OVERLAP
    }

    fn mask(&self, bytes: &mut [u8], inner: Range<usize>, counts: &mut MaskCounts) {
        self.scanner.mask(bytes, inner, |rule, start| counts.add(rule, start));
    }

    fn mask_arguments(&self, arguments: &mut [Vec<u8>]) {
        let Some(redactor) = &self.redactor else { return };
        let words: Vec<String> =
            arguments.iter().map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
        let redacted = redactor.command_line(&words);
        for (argument, (word, redacted)) in arguments.iter_mut().zip(words.iter().zip(&redacted.args)) {
            if word != redacted {
                overwrite(argument, redacted.as_bytes());
            }
        }
    }
}

/// Overwrites what two texts do not have in common at their beginnings and ends.
fn overwrite(text: &mut [u8], redacted: &[u8]) {
    let before = text.iter().zip(redacted).take_while(|(one, other)| one == other).count();
    let (own, other) = (&text[before..], &redacted[before..]);
    let behind = own.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    let end = text.len() - behind;
    text[before..end].fill(b'*');
}

/// Environment, command line and configuration of one process.
fn learn_from(redactor: &Redactor, dir: &ProcessDir) {
    let environment = entries(dir, "environ");
    for entry in &environment {
        if let Some((name, value)) = entry.split_once('=') {
            let _ = redactor.env(name, value);
        }
    }
    let arguments = entries(dir, "cmdline");
    let _ = redactor.command_line(&arguments);
    configuration::learn(redactor, dir, &environment, &arguments);
}

/// The entries of a file of strings that end with zero.
fn entries(dir: &ProcessDir, file: &str) -> Vec<String> {
    let bytes = dir.read(file, TEXT_MAX).unwrap_or_default();
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    entries.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}
