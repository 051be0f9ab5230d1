//! Opening whatever files a reading command was given.

use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use biopsy_analyze::Diagnosis;
use biopsy_capture::{Failure, FailureKind};
use biopsy_import::{Evidence, EvidenceError, Location};
use biopsy_redact::{RedactError, Redactor};
use biopsy_seal::{Identity, is_sealed_file};

use biopsy_cli::SymbolArgs;

use super::sources::Sources;

/// Looks what a file or folder holds. A sealed one is read where it is.
pub(crate) fn look(path: &Path, args: &SymbolArgs) -> Result<Evidence, Failure> {
    let location = match args.identity.as_ref().filter(|_| is_sealed_file(path)) {
        None => path.into(),
        Some(key) => {
            let identity = Identity::of_file(key);
            Location::sealed(
                path,
                identity.map_err(|error| Failure::from_error(FailureKind::BadInput, &error))?,
            )
        }
    };
    Evidence::look(location).map_err(bad_input)
}

/// It cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn bad_input(error: EvidenceError) -> Failure {
    Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint())
}

/// What files say, and what masks secrets in it.
#[derive(Debug)]
pub(crate) struct Diagnosed {
    /// What they say.
    pub(crate) diagnosis: Diagnosis,
    redactor: Redactor,
}

impl Diagnosed {
    /// A text with its secrets masked.
    pub(crate) fn mask(&self, text: &str) -> String {
        self.redactor.text(text).text.into_owned()
    }

    /// There are texts from memory, which nobody masked. What was recorded was masked when it was.
    pub(crate) fn is_unmasked(&self) -> bool {
        !self.diagnosis.dumps.is_empty() || !self.diagnosis.heaps.is_empty()
    }
}

/// Reads and analyses files of one incident.
pub(crate) fn diagnose(files: &[PathBuf], symbols: &SymbolArgs) -> Result<Diagnosed, Failure> {
    let sources = Sources::of(symbols)?;
    let made = Making::begin();
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let redactor = || made.wait().as_ref().ok();
        all.push(
            Diagnosis::of_with(&mut look(file, symbols)?, &sources.files, &redactor).map_err(bad_input)?,
        );
    }
    let redactor = made.take().map_err(|error| Failure::from_error(FailureKind::Bug, &error))?;
    let mut diagnosis =
        Diagnosis::of_several(all).map_err(|error| Failure::from_error(FailureKind::BadInput, &error))?;
    diagnosis.undetermined.extend(sources.missing());
    Ok(Diagnosed { diagnosis, redactor })
}

/// A redactor that is made while files are opened.
struct Making {
    thread: Cell<Option<JoinHandle<Made>>>,
    made: OnceCell<Made>,
}

type Made = Result<Redactor, RedactError>;

impl Making {
    fn begin() -> Self {
        let make = || Redactor::new(biopsy_redact::Options::default());
        // Without a thread it is made when it is asked for.
        let thread = std::thread::Builder::new().name("redactor".to_owned()).spawn(make).ok();
        Self { thread: Cell::new(thread), made: OnceCell::new() }
    }

    fn wait(&self) -> &Made {
        self.made.get_or_init(|| match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Redactor::new(biopsy_redact::Options::default()),
        })
    }

    fn take(self) -> Made {
        self.wait();
        self.made.into_inner().unwrap_or_else(|| Redactor::new(biopsy_redact::Options::default()))
    }
}
