//! How fast the redactor goes over logs and source text, on one core, built as it is given away.

use std::path::Path;

use super::clean::Sample;
use super::ordinary;
use crate::run::{Outcome, cargo, output_of};

/// Size of each file.
const BYTES: usize = 64 << 20;

/// Writes ordinary logs, those of the corpus, source text and one long line, measures, and says it.
pub(super) fn measure(samples: &[Sample], folder: &Path) -> Outcome<String> {
    let is_log = |sample: &Sample| sample.sort.ends_with(".log") || sample.sort.ends_with(".json");
    let is_source = |sample: &Sample| sample.sort.ends_with("-source.txt");
    let mut command =
        cargo(&["run", "--release", "--quiet", "-p", "biopsy-redact", "--example", "text_throughput", "--"]);
    let mut files = Vec::new();
    files.push(("logs of six programs", ordinary::logs(1, BYTES)));
    for (name, is_part) in
        [("logs full of bait", &is_log as &dyn Fn(&Sample) -> bool), ("source", &is_source)]
    {
        let part: String =
            samples.iter().filter(|sample| is_part(sample)).map(|sample| sample.text.as_str()).collect();
        let text = part.repeat(BYTES / part.len().max(1) + 1);
        files.push((name, text));
    }
    files.push(("one line without an end", "GET /items 200 ".repeat(BYTES / 15)));
    for (name, text) in &files {
        let path = folder.join(format!("speed {name}"));
        std::fs::write(&path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        command.arg(path);
    }
    let said = output_of(&mut command);
    for (name, _) in &files {
        // They are large, and made again when they are needed.
        let _ = std::fs::remove_file(folder.join(format!("speed {name}")));
    }
    Ok(said?.replace(&format!("{}/", folder.display()), ""))
}
