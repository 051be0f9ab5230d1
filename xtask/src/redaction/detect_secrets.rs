//! detect-secrets over the same texts, with its default plugins and filters, in a Python that has it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::case::{Bundle, Input};
use super::engine::{Engine, Masked};
use super::spans;
use crate::run::Outcome;

/// One JSON array of texts per line comes in; one array of arrays of found values per line goes out.
const PROGRAM: &str = r#"
import json, sys, tempfile, os
from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings
with default_settings():
    for line in sys.stdin:
        path = os.path.join(tempfile.gettempdir(), "text-%d.log" % os.getpid())
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(json.loads(line))
        found = sorted({(secret.line_number, secret.secret_value) for secret in scan_file(path) if secret.secret_value})
        print(json.dumps([{"line": line, "value": value} for line, value in found]))
        os.unlink(path)
"#;

/// The Python that runs it.
pub(super) struct DetectSecrets {
    python: PathBuf,
}

#[derive(Deserialize)]
struct Found {
    line: usize,
    value: String,
}

impl DetectSecrets {
    /// With a Python that has the package.
    pub(super) fn new(python: &Path) -> Self {
        Self { python: python.to_owned() }
    }
}

impl Engine for DetectSecrets {
    fn name(&self) -> &str {
        "detect-secrets"
    }

    fn mask(&self, bundles: &[Bundle]) -> Outcome<Vec<Masked>> {
        let failed = |error: std::io::Error| format!("cannot run `{}`: {error}", self.python.display());
        let mut child = Command::new(&self.python)
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut input = child.stdin.take().ok_or("no input of Python")?;
        let texts: Vec<Vec<u8>> = bundles.iter().flatten().filter_map(Input::as_text).collect();
        let writer = std::thread::spawn(move || -> std::io::Result<()> {
            for text in texts {
                writeln!(input, "{}", serde_json::Value::from(String::from_utf8_lossy(&text)))?;
            }
            Ok(())
        });
        let output = child.wait_with_output().map_err(failed)?;
        let written = writer.join().map_err(|_| "writing to Python panicked".to_owned())?;
        if !output.status.success() {
            return Err(format!("`{}` ended with {}", self.python.display(), output.status));
        }
        written.map_err(failed)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let mut lines = said.lines();
        let mut mask = |input: &Input| {
            let text = input.as_text()?;
            let found: Vec<Found> = serde_json::from_str(lines.next()?).ok()?;
            spans::without(input, places(&text, &found))
        };
        Ok(bundles.iter().map(|bundle| spans::bundle(bundle, &mut mask)).collect())
    }
}

/// Where the values stand in the lines that were named.
fn places(text: &[u8], found: &[Found]) -> Vec<std::ops::Range<usize>> {
    let mut starts = vec![0];
    starts.extend(text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index + 1));
    let mut ranges = Vec::new();
    for Found { line, value } in found {
        let Some(start) = line.checked_sub(1).and_then(|index| starts.get(index)) else { continue };
        let end = starts.get(*line).copied().unwrap_or(text.len());
        let length = value.len();
        let fits = |at: &usize| text[*at..end].starts_with(value.as_bytes());
        ranges.extend((*start..end).filter(fits).map(|at| at..at + length));
    }
    spans::merged(ranges)
}
