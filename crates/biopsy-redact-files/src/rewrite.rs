//! All files through the redactor, until nothing new is learned; then they get their names.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use biopsy_redact::{Hit, Redactor, StreamSummary};

use crate::RewriteError;
use crate::find::{Found, Item, LeftOut, open, open_below};
use crate::packing::Packing;
use crate::pass::{Passed, pass};
use crate::second_opinion::second_opinion;
use crate::targets::{Nowhere, Watched};

/// Rounds until nothing new is learned: what one file teaches shows in the others in the next round.
const ROUNDS: usize = 4;

/// A file that was written again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RewrittenFile {
    /// Its name below the folder that was read; empty: it was named itself.
    pub name: PathBuf,
    /// Where it is now.
    pub path: PathBuf,
    /// Bytes of text that were read, unpacked.
    pub bytes_in: u64,
    /// What was masked, by rule.
    pub hits: Vec<Hit>,
}

/// What came of it all.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rewritten {
    /// In the order of their names.
    pub files: Vec<RewrittenFile>,
    /// What was not written.
    pub left_out: Vec<LeftOut>,
}

impl Rewritten {
    /// What was masked in all files, by rule: the most frequent first.
    #[must_use]
    pub fn hits(&self) -> Vec<Hit> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for hit in self.files.iter().flat_map(|file| &file.hits) {
            *counts.entry(&hit.rule).or_default() += hit.count;
        }
        let mut hits: Vec<Hit> =
            counts.into_iter().map(|(rule, count)| Hit { rule: rule.to_owned(), count }).collect();
        hits.sort_by_key(|hit| std::cmp::Reverse(hit.count));
        hits
    }
}

/// Where files go that nobody named a place for: `app.log` becomes `app.redacted.log`, `logs` becomes `logs.redacted`, beside it.
#[must_use]
pub fn beside(input: &Path) -> PathBuf {
    let whole = input.canonicalize().unwrap_or_default();
    let name = whole.file_name().unwrap_or_default().to_string_lossy();
    let new_name = match name.split_once('.') {
        Some((stem, ending)) if !stem.is_empty() && !input.is_dir() => format!("{stem}.redacted.{ending}"),
        _ => format!("{name}.redacted"),
    };
    input.parent().map_or_else(|| PathBuf::from(&new_name), |parent| parent.join(&new_name))
}

/// Takes standard input, or anything that can be read once, through the redactor. What is learned late is not masked in
/// what was written before: files do better.
///
/// # Errors
/// Those of reader and writer.
pub fn stream(redactor: &Redactor, from: impl Read, to: impl Write) -> io::Result<StreamSummary> {
    redactor.stream(from, to)
}

/// Writes what was found again, to `output`: a file if a file was named, else a folder that is made. `stop` is asked between
/// pieces of text whether to end.
///
/// # Errors
/// It was stopped; something cannot be read, unpacked or written; there is something at `output`; or the check of what was written finds a secret.
/// Then nothing is left.
pub fn rewrite(
    redactor: &Redactor,
    input: &Path,
    found: Found,
    output: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Rewritten, RewriteError> {
    if output.symlink_metadata().is_ok() {
        return Err(RewriteError::Exists { path: output.to_owned() });
    }
    let is_folder = found.items.iter().any(|item| !item.name.as_os_str().is_empty())
        || std::fs::metadata(input).is_ok_and(|meta| meta.is_dir());
    if is_folder && is_inside(output, input) {
        return Err(RewriteError::Inside { path: output.to_owned() });
    }
    let mut left_out = found.left_out;
    let items = learn(redactor, found.items, &mut left_out, stop)?;
    let parent = parent_of(output);
    let cannot_write = |path: &Path| {
        let path = path.to_owned();
        move |source| RewriteError::Write { path, source }
    };
    // Beside the result, so that it gets its name in one step; gone with everything in it if that never comes.
    let place = tempfile::Builder::new()
        .prefix(".biopsy-redact-")
        .tempdir_in(&parent)
        .map_err(cannot_write(&parent))?;
    let root = place.path().join("whole");
    let mut rewritten = Rewritten::default();
    let mut written = Vec::new();
    for item in &items {
        let name = masked_name(redactor, &item.name);
        let path = if is_folder { root.join(&name) } else { root.clone() };
        let folder = parent_of(&path);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(cannot_write(&folder))?;
        let passed = write_one(redactor, item, &path, stop)?;
        left_out.extend(members_left_out(&name, passed.left_out));
        let path_then = if is_folder { output.join(&name) } else { output.to_owned() };
        rewritten.files.push(RewrittenFile {
            name: name.clone(),
            path: path_then,
            bytes_in: passed.bytes_in,
            hits: passed.hits,
        });
        written.push((name, path, item.packing));
    }
    second_opinion(redactor, &written)?;
    if stop() {
        return Err(RewriteError::Stopped);
    }
    if is_folder && items.is_empty() {
        DirBuilder::new().recursive(true).mode(0o700).create(&root).map_err(cannot_write(&root))?;
    }
    if root.exists() {
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            &root,
            rustix::fs::CWD,
            output,
            rustix::fs::RenameFlags::NOREPLACE,
        )
        .map_err(io::Error::from)
        .map_err(cannot_write(output))?;
    }
    rewritten.left_out = left_out;
    Ok(rewritten)
}

/// The same of one file, for whoever passes it on: it is finished and checked, and has no name.
///
/// # Errors
/// As of [`rewrite`]; or it is a folder, or has no text.
pub fn rewrite_one(
    redactor: &Redactor,
    input: &Path,
    found: Found,
    stop: &dyn Fn() -> bool,
) -> Result<File, RewriteError> {
    if input.is_dir() {
        return Err(RewriteError::Folder);
    }
    let cannot_write = |source| RewriteError::Write { path: std::env::temp_dir(), source };
    let place = tempfile::tempdir().map_err(cannot_write)?;
    let path = place.path().join("whole");
    let rewritten = rewrite(redactor, input, found, &path, stop)?;
    if rewritten.files.is_empty() {
        let why = rewritten.left_out.into_iter().next().map(|left| left.why).unwrap_or_default();
        return Err(RewriteError::LeftOut { path: input.to_owned(), why });
    }
    File::open(&path).map_err(cannot_write)
}

/// Goes over all files, and writes nothing, until nothing new is learned. Gives back those that can be read to their end.
pub(crate) fn learn(
    redactor: &Redactor,
    mut items: Vec<Item>,
    left_out: &mut Vec<LeftOut>,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Item>, RewriteError> {
    for _ in 0..ROUNDS {
        let generation = redactor.generation();
        let mut readable = Vec::with_capacity(items.len());
        for item in items {
            let is_named = item.name.as_os_str().is_empty();
            match opened(&item).and_then(|file| pass(redactor, file, item.packing, Nowhere::default(), stop))
            {
                Ok(_) => readable.push(item),
                Err(_) if stop() => return Err(RewriteError::Stopped),
                Err(source) if is_named => return Err(cannot_read(&item, source)),
                Err(error) => left_out.push(LeftOut { name: item.name, why: error.to_string() }),
            }
        }
        items = readable;
        if redactor.generation() == generation {
            break;
        }
    }
    Ok(items)
}

fn opened(item: &Item) -> io::Result<File> {
    if item.name.as_os_str().is_empty() { open(&item.path) } else { open_below(&item.path) }
}

fn cannot_read(item: &Item, source: io::Error) -> RewriteError {
    let path = item.path.clone();
    match item.packing {
        Packing::Plain => RewriteError::Read { path, source },
        Packing::Gzip | Packing::Zstd | Packing::Zip => RewriteError::Unpack { path, source },
    }
}

fn write_one(
    redactor: &Redactor,
    item: &Item,
    path: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Passed, RewriteError> {
    let from = opened(item).map_err(|source| cannot_read(item, source))?;
    let cannot_write = |source| RewriteError::Write { path: path.to_owned(), source };
    let to = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(cannot_write)?;
    let mut to = Watched::new(to);
    pass(redactor, from, item.packing, &mut to, stop).map_err(|source| match () {
        () if stop() => RewriteError::Stopped,
        () if to.has_failed() => cannot_write(source),
        () => cannot_read(item, source),
    })
}

/// Each part of the name without its secrets.
fn masked_name(redactor: &Redactor, name: &Path) -> PathBuf {
    name.components()
        .filter_map(|part| match part {
            Component::Normal(part) => match part.to_str() {
                // What is masked in a part must not make two of it.
                Some(text) => Some(redactor.text(text).text.replace('/', "_").into()),
                None => Some(part.to_owned()),
            },
            _ => None,
        })
        .collect()
}

fn members_left_out(name: &Path, members: Vec<LeftOut>) -> impl Iterator<Item = LeftOut> {
    members.into_iter().map(move |member| LeftOut { name: name.join(member.name), why: member.why })
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Whether a result would be among what is read.
fn is_inside(output: &Path, input: &Path) -> bool {
    let Ok(input) = input.canonicalize() else { return false };
    parent_of(output).canonicalize().is_ok_and(|parent| parent.starts_with(&input))
}
