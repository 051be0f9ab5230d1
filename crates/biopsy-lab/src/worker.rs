//! The process that reads what customers sent. Before it reads the first byte of it, it has given up the network, all files but that one,
//! other processes, and more memory and time than it needs; its answer goes to a pipe.

mod fence;

use std::io::{self, Read as _};
use std::path::Path;

use biopsy_analyze::Diagnosis;
use biopsy_import::{Evidence, FileSources, Location};
use biopsy_redact::Redactor;
use biopsy_report::{Mask, render_html, render_json, render_markdown};
use biopsy_seal::{Identity, SealedFile};

use crate::error::in_words;
use crate::work::Reports;

/// Most bytes of a report that came ready.
const MOST_REPORT: u64 = 64 << 20;

/// Reads the key from standard input and says what the file holds. Nothing else may have been started in this process.
///
/// # Errors
/// Why not, in words.
pub fn run(path: &Path) -> Result<Vec<u8>, String> {
    let mut key = zeroize::Zeroizing::new(String::new());
    io::stdin().take(1000).read_to_string(&mut key).map_err(|error| error.to_string())?;
    let identity: Identity = key.parse().map_err(|_| "there is no key".to_owned())?;
    fence::put_up(path).map_err(|error| format!("it could not be fenced in: {error}"))?;
    let reports = match report_alone(path, &identity) {
        Some(reports) => reports,
        None => analyse(path, identity)?,
    };
    serde_json::to_vec(&reports).map_err(|error| error.to_string())
}

/// As `biopsy analyze` does it.
fn analyse(path: &Path, identity: Identity) -> Result<Reports, String> {
    let redactor = Redactor::new(biopsy_redact::Options::default()).map_err(|error| in_words(&error))?;
    let mut evidence = Evidence::look(Location::sealed(path, identity)).map_err(|error| in_words(&error))?;
    let diagnosis = Diagnosis::of(&mut evidence, &FileSources::default(), Some(&redactor))
        .map_err(|error| in_words(&error))?;
    let mask = |text: &str| redactor.text(text).text.into_owned();
    let from_memory = !diagnosis.dumps.is_empty() || !diagnosis.heaps.is_empty();
    let mask: Option<Mask<'_>> = from_memory.then_some(&mask);
    Ok(Reports {
        html: Some(render_html(&diagnosis, mask)),
        json: Some(render_json(&diagnosis, mask)),
        markdown: render_markdown(&diagnosis, mask),
    })
}

/// A report that was made on the customer's side. Its text is kept; a page that somebody else made is shown to nobody.
fn report_alone(path: &Path, identity: &Identity) -> Option<Reports> {
    let mut file = SealedFile::open(path, identity).ok()?;
    let mut start = [0; biopsy_deliver::REPORT_ALONE.len()];
    file.read_exact(&mut start).ok()?;
    if start != *biopsy_deliver::REPORT_ALONE {
        return None;
    }
    let mut markdown = String::new();
    file.take(MOST_REPORT).read_to_string(&mut markdown).ok()?;
    Some(Reports { html: None, json: None, markdown })
}
