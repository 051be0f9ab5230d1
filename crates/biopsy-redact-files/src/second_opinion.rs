//! Reads what was written with code that shares nothing with the redactor.

use std::io;
use std::path::{Path, PathBuf};

use biopsy_redact::Redactor;
use biopsy_redact::verify::Verifier;

use crate::RewriteError;
use crate::find::open_below;
use crate::packing::Packing;

/// Findings that are named.
const NAMED: usize = 8;

/// Looks for secrets in what was written: name, place and packing of each file.
///
/// # Errors
/// There are some, or something cannot be read.
pub(crate) fn second_opinion(
    redactor: &Redactor,
    written: &[(PathBuf, PathBuf, Packing)],
) -> Result<(), RewriteError> {
    let learned = redactor.fingerprints();
    let mut verifier = Verifier::new(&learned);
    for (name, path, packing) in written {
        look(&mut verifier, name, path, *packing)
            .map_err(|source| RewriteError::Read { path: path.clone(), source })?;
    }
    let findings: Vec<String> = verifier.findings().iter().take(NAMED).map(ToString::to_string).collect();
    if findings.is_empty() { Ok(()) } else { Err(RewriteError::Secrets { findings }) }
}

fn look(verifier: &mut Verifier<'_>, name: &Path, path: &Path, packing: Packing) -> io::Result<()> {
    let name = name.display().to_string();
    let file = open_below(path)?;
    if packing != Packing::Zip {
        verifier.member(&name, packing.unpack(file)?);
        return Ok(());
    }
    let mut archive = zip::ZipArchive::new(file)?;
    for index in 0..archive.len() {
        let packing = Packing::of(archive.by_index(index)?)?.unwrap_or(Packing::Plain);
        let member = archive.by_index(index)?;
        let name = format!("{name}/{}", member.name()?);
        verifier.member(&name, packing.unpack(member)?);
    }
    Ok(())
}
