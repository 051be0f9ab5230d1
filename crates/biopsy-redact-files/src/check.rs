//! What would be masked, line by line, and nothing is written.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use biopsy_redact::{Hit, Redactor};

use crate::RewriteError;
use crate::find::{Found, LeftOut, open, open_below};
use crate::rewrite::learn;

/// A line that is longer is looked at in pieces of this length.
const LINE: u64 = 64 << 10;

/// A line with something to be masked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marked {
    /// Its number in the unpacked text, from 1.
    pub line: u64,
    /// What it would be.
    pub text: String,
    /// Which rules find something in it.
    pub hits: Vec<Hit>,
}

/// Says of each line in which something would be masked what it would be, in order of file and line. `seen` gets the
/// path of the file. Archives are looked into by [`crate::rewrite`] alone.
///
/// # Errors
/// A file that was named cannot be read or unpacked.
pub fn check(
    redactor: &Redactor,
    found: &Found,
    mut seen: impl FnMut(&Path, Marked),
) -> Result<Vec<LeftOut>, RewriteError> {
    let mut left_out = found.left_out.clone();
    let readable = learn(redactor, found.items.clone(), &mut left_out, &|| false)?;
    for item in &readable {
        let is_named = item.name.as_os_str().is_empty();
        let file = if is_named { open(&item.path) } else { open_below(&item.path) };
        let text = file.and_then(|file| item.packing.unpack(file));
        let looked = text.and_then(|text| lines(redactor, text, |marked| seen(&item.path, marked)));
        match looked {
            Ok(()) => {}
            Err(source) if is_named => return Err(RewriteError::Read { path: item.path.clone(), source }),
            Err(error) => left_out.push(LeftOut { name: item.name.clone(), why: error.to_string() }),
        }
    }
    Ok(left_out)
}

fn lines(redactor: &Redactor, reader: impl Read, mut seen: impl FnMut(Marked)) -> io::Result<()> {
    let mut reader = BufReader::new(reader);
    let mut lines = redactor.lines();
    let mut number = 1;
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let ends = line.ends_with(b"\n");
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        let redacted = lines.line(&text);
        if !redacted.hits.is_empty() {
            seen(Marked { line: number, text: redacted.text.into_owned(), hits: redacted.hits });
        }
        number += u64::from(ends);
    }
}
