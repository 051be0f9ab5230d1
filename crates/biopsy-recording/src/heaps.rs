//! Heaps of a recording, `snapshots/NUMBER/`: their facts, their types and the columns of their graph; writer and reader.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use biopsy_model::heap::{HeapFacts, HeapType};

use crate::documents::heap::{SnapshotDocument, TypeLine};
use crate::open::source::Source;
use crate::{Limits, Location, OpenError, RecordingFolder, Unpacked, WriteError, layout};

/// Level of zstd: columns are large and wanted soon.
const LEVEL: i32 = 1;
/// Most bytes of a member that is packed by the bundle. Texts of a snapshot are small; what is large is stored as it is.
const MOST_PACKED: u64 = 256 << 20;

impl RecordingFolder {
    /// Writes the types of a heap as `snapshots/NUMBER/types.jsonl.zst`, and says how many bytes these are. Names of types are code
    /// and kept as they are.
    ///
    /// # Errors
    /// The member is there already, or cannot be written.
    pub fn heap_types(&self, number: u32, types: &[HeapType]) -> Result<u64, WriteError> {
        self.packed(&layout::snapshot_member(number, layout::TYPES), |out| {
            let mut line = Vec::new();
            for of in types {
                line.clear();
                serde_json::to_writer(&mut line, &TypeLine::from(of))?;
                line.push(b'\n');
                out.write_all(&line)?;
            }
            Ok(())
        })
    }

    /// Writes a column of a heap as `snapshots/NUMBER/NAME.npy.zst`, and says how many bytes these are.
    ///
    /// # Errors
    /// The member is there already, or cannot be written.
    pub fn heap_column(
        &self,
        number: u32,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<u64, WriteError> {
        self.packed(&column_member(number, name), write)
    }

    /// Writes the facts of a heap as `snapshots/NUMBER/snapshot.json`. They come last: a snapshot without them is not whole.
    ///
    /// # Errors
    /// The member cannot be written.
    pub fn heap_facts(&self, number: u32, facts: &HeapFacts) -> Result<(), WriteError> {
        self.write_json(&layout::snapshot_member(number, layout::FACTS), &SnapshotDocument::from(facts))
    }

    fn packed(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<u64, WriteError> {
        let member = self.create_member(name)?;
        let packed = zstd::Encoder::new(member.file(), LEVEL).and_then(|mut packed| {
            write(&mut packed)?;
            packed.finish()
        });
        let bytes = packed.and_then(|file| file.metadata()).map(|meta| meta.len());
        bytes.map_err(|error| member.write_error(error))
    }
}

fn column_member(number: u32, name: &str) -> String {
    layout::snapshot_member(number, &format!("{name}{}", layout::COLUMN))
}

/// Why a heap of a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapReadError {
    /// Its members cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The recording.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It has no facts.
    #[error("snapshot {number} of `{}` was not finished", path.display())]
    Unfinished {
        /// Which.
        number: u32,
        /// The recording.
        path: PathBuf,
    },
    /// Its types are damaged, or over the limits.
    #[error("the types of snapshot {number} are damaged")]
    Types {
        /// Which.
        number: u32,
        /// What is wrong.
        source: io::Error,
    },
    /// Its facts are damaged.
    #[error("the facts of snapshot {number} are damaged")]
    Facts {
        /// Which.
        number: u32,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// The heaps of a recording, folder or bundle, read where they are.
pub struct Heaps {
    path: PathBuf,
    location: Location,
    source: Source,
    numbers: Vec<u32>,
    limits: Limits,
}

impl Heaps {
    /// Looks into a recording. `None`: it is none, or has no snapshots.
    ///
    /// # Errors
    /// A recording that is damaged or over the limits.
    pub fn open(location: impl Into<Location>, limits: &Limits) -> Result<Option<Self>, OpenError> {
        let location = location.into();
        let source = match Source::open(&location, limits, &mut Vec::new()) {
            Ok(source) => source,
            Err(OpenError::NotARecording { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let number = |name: &String| {
            let (number, _) = name.strip_prefix(layout::SNAPSHOTS_FOLDER)?.split_once('/')?;
            number.parse().ok()
        };
        let mut numbers: Vec<u32> = source.members().keys().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok((!numbers.is_empty()).then(|| Self {
            path: location.path().to_owned(),
            location,
            source,
            numbers,
            limits: limits.clone(),
        }))
    }

    /// The numbers of the snapshots, ascending.
    #[must_use]
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The facts of a heap.
    ///
    /// # Errors
    /// [`HeapReadError`].
    pub fn facts(&mut self, number: u32) -> Result<HeapFacts, HeapReadError> {
        let mut bytes = Vec::new();
        self.member(&layout::snapshot_member(number, layout::FACTS))
            .and_then(|from| {
                from.map(|from| from.take(self.limits.json_bytes).read_to_end(&mut bytes)).transpose()
            })
            .map_err(|source| HeapReadError::Io { path: self.path.clone(), source })?;
        if bytes.is_empty() {
            return Err(HeapReadError::Unfinished { number, path: self.path.clone() });
        }
        let facts: SnapshotDocument =
            serde_json::from_slice(&bytes).map_err(|source| HeapReadError::Facts { number, source })?;
        Ok(facts.into())
    }

    /// The types of a heap, by number; none where they are missing. Lines that are none become types without a name, so that the
    /// numbers of the others stay.
    ///
    /// # Errors
    /// They cannot be read, or there are more or longer lines than the limits allow.
    pub fn types(&mut self, number: u32) -> Result<Vec<HeapType>, HeapReadError> {
        let member = self.member(&layout::snapshot_member(number, layout::TYPES));
        let unpacked = member.and_then(|from| from.map(|from| Unpacked::new(from, &self.limits)).transpose());
        let Some(from) = unpacked.map_err(|source| HeapReadError::Io { path: self.path.clone(), source })?
        else {
            return Ok(Vec::new());
        };
        read_types(BufReader::new(from), &self.limits)
            .map_err(|source| HeapReadError::Types { number, source })
    }

    /// Opens a column, unpacked; `None`: there is none of that name. `ratio`: how many bytes more may come from each packed one, as
    /// [`Limits::ratio`].
    ///
    /// # Errors
    /// It cannot be read, or is packed by the bundle although it is packed in itself.
    pub fn open_column(
        &mut self,
        number: u32,
        name: &str,
        ratio: u64,
    ) -> io::Result<Option<impl Read + use<>>> {
        let limits = Limits { ratio, ..self.limits.clone() };
        let packed = self.member(&column_member(number, name))?;
        packed.map(|packed| Unpacked::new(packed, &limits)).transpose()
    }

    /// Opens a member as it is; `None`: there is none of that name.
    fn member(&mut self, name: &str) -> io::Result<Option<Box<dyn Read + Send>>> {
        let Some(size) = self.source.members().get(name).copied() else { return Ok(None) };
        match &mut self.source {
            Source::Folder(folder) => {
                let (file, _) = folder.open_member(name)?;
                Ok(Some(Box::new(file.take(size))))
            }
            Source::Zip(zip) => {
                if let Some(range) = zip.place(name)? {
                    let mut file = self.location.reader()?;
                    file.seek(SeekFrom::Start(range.start))?;
                    return Ok(Some(Box::new(file.take(range.end.saturating_sub(range.start)))));
                }
                if size > MOST_PACKED {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "too large to be packed"));
                }
                let bytes = self.source.bytes(name, MOST_PACKED)?;
                Ok(Some(Box::new(io::Cursor::new(bytes))))
            }
        }
    }
}

impl std::fmt::Debug for Heaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heaps")
            .field("path", &self.path)
            .field("numbers", &self.numbers)
            .finish_non_exhaustive()
    }
}

fn read_types(mut from: impl BufRead, limits: &Limits) -> io::Result<Vec<HeapType>> {
    let over = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let longest = limits.line_bytes as u64;
    let mut types = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut from).take(longest).read_until(b'\n', &mut line)? == 0 {
            return Ok(types);
        }
        if line.len() as u64 == longest && !line.ends_with(b"\n") {
            return Err(over(format!("type {} has more than {longest} bytes", types.len())));
        }
        if types.len() >= limits.types {
            return Err(over(format!("there are more than {} types", limits.types)));
        }
        types.push(serde_json::from_slice::<TypeLine>(&line).map(Into::into).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
