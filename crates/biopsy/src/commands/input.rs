//! Opening whatever files a reading command was given.

use std::path::{Path, PathBuf};

use biopsy_analyze::Diagnosis;
use biopsy_capture::{Failure, FailureKind};
use biopsy_import::{Evidence, EvidenceError, Location};
use biopsy_redact::{InMaking, Redactor};
use biopsy_seal::{Identity, is_sealed_file};

use biopsy_cli::SymbolArgs;

use super::sources::{missing, sources};

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
    let sources = sources(symbols)?;
    let made = InMaking::begin();
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let redactor = || made.wait().ok();
        all.push(
            Diagnosis::of_with(&mut look(file, symbols)?, &sources.files, &redactor).map_err(bad_input)?,
        );
    }
    let redactor = made.take().map_err(|error| Failure::from_error(FailureKind::Bug, &error))?;
    let mut diagnosis =
        Diagnosis::of_several(all).map_err(|error| Failure::from_error(FailureKind::BadInput, &error))?;
    diagnosis.undetermined.extend(missing(&sources));
    Ok(Diagnosed { diagnosis, redactor })
}
