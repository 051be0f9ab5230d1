//! Who is asked for files by the reader of a dump, and asks servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use biopsy_stacks::elf;
use biopsy_stacks::symbols::{FilesElsewhere, Wanted};

use crate::cache::{Cache, CacheError, Known, hexadecimal};
use crate::fetch::{Answer, Server, Watch};
use crate::limits::Limits;
use crate::told::{Outcome, Row, Told};

/// Fetches files by build id, each once.
#[derive(Debug)]
pub struct Client {
    servers: Vec<Server>,
    urls: Vec<String>,
    cache: Cache,
    limits: Limits,
    watch: Watch,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: BTreeMap<(Wanted, Vec<u8>), Option<PathBuf>>,
    rows: Vec<Row>,
    /// Why a server is not asked any more.
    gone: Vec<Option<String>>,
    /// Build ids that servers were asked for, by server.
    asked: Vec<u64>,
    /// Bytes that came.
    bytes: u64,
}

impl Client {
    /// Of these servers ([`crate::parse_servers`]), in their order, with a folder for what they give. `watch` is called while a fetch takes
    /// long. Nothing is asked yet.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn new(
        servers: Vec<String>,
        folder: PathBuf,
        limits: Limits,
        watch: fn(&crate::Progress<'_>),
    ) -> Result<Self, CacheError> {
        let state =
            State { gone: vec![None; servers.len()], asked: vec![0; servers.len()], ..State::default() };
        Ok(Self {
            servers: servers.iter().map(|url| Server::new(url.clone(), &limits)).collect(),
            urls: servers,
            cache: Cache::open(folder)?,
            limits,
            watch,
            state: Mutex::new(state),
        })
    }

    /// What was asked from whom so far, and what of it is missing.
    #[must_use]
    pub fn told(&self) -> Told {
        let state = self.state();
        Told::of(&self.urls, &state.asked, &state.gone, &state.rows)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, state: &mut State, id: &[u8], wanted: Wanted, module: &str) -> Outcome {
        match self.cache.known(id, wanted, &self.urls, self.limits.miss) {
            Known::File(path) => return Outcome::Cached(path),
            Known::Missing => return Outcome::KnownMissing,
            Known::Nothing => {}
        }
        if state.rows.len() >= self.limits.files {
            return Outcome::Failed(format!("only {} files are asked for in one run", self.limits.files));
        }
        let path = match wanted {
            Wanted::DebugFile => format!("buildid/{}/debuginfo", hexadecimal(id)),
            Wanted::Program => format!("buildid/{}/executable", hexadecimal(id)),
        };
        let mut why = None;
        for (number, server) in self.servers.iter().enumerate() {
            if let Some(gone) = state.gone.get(number).cloned().flatten() {
                why.get_or_insert(format!("{}: {gone}", server.url));
                continue;
            }
            let most = self.limits.file_bytes.min(self.limits.run_bytes.saturating_sub(state.bytes));
            let mut part = match self.cache.begin(id) {
                Ok(part) => part,
                Err(error) => {
                    return Outcome::Failed(format!("nothing can be written to the cache: {error}"));
                }
            };
            if let Some(asked) = state.asked.get_mut(number) {
                *asked += 1;
            }
            match server.fetch(&path, module, &self.limits, most, &mut part.file, self.watch) {
                Answer::Missing => {}
                Answer::Refused(said) => {
                    why.get_or_insert(format!("{}: {said}", server.url));
                }
                Answer::Unreachable(said) => {
                    why.get_or_insert(format!("{}: {said}", server.url));
                    if let Some(gone) = state.gone.get_mut(number) {
                        *gone = Some(said);
                    }
                }
                Answer::Here(error) => {
                    return Outcome::Failed(format!("it cannot be written to the cache: {error}"));
                }
                Answer::Bytes(bytes) => {
                    state.bytes = state.bytes.saturating_add(bytes);
                    match is_of(id, &part.file) {
                        Ok(()) => match self.cache.keep(id, wanted, part, self.limits.cache_bytes) {
                            Ok(path) => return Outcome::Fetched { path, bytes, server: number },
                            Err(error) => {
                                return Outcome::Failed(format!("it cannot be kept in the cache: {error}"));
                            }
                        },
                        Err(said) => {
                            why.get_or_insert(format!("{}: {said}", server.url));
                        }
                    }
                }
            }
        }
        match why {
            Some(why) => Outcome::Failed(why),
            None => {
                // Without it the servers are asked again the next time.
                let _ = self.cache.remember_missing(id, wanted, &self.urls);
                Outcome::Missing
            }
        }
    }
}

impl FilesElsewhere for Client {
    fn get(&self, build_id: &[u8], wanted: Wanted, label: &str) -> Option<PathBuf> {
        let mut state = self.state();
        let question = (wanted, build_id.to_vec());
        if let Some(known) = state.known.get(&question) {
            return known.clone();
        }
        let module = label.rsplit('/').next().unwrap_or(label).to_owned();
        let outcome = self.find(&mut state, build_id, wanted, &module);
        let path = outcome.path().cloned();
        state.known.insert(question, path.clone());
        state.rows.push(Row { module, wanted, outcome });
        path
    }
}

/// Whether a file says of itself that it has this build id.
fn is_of(id: &[u8], file: &std::fs::File) -> Result<(), String> {
    let not_opened = |error: &dyn std::error::Error| format!("what it gave is no ELF file: {error}");
    let file = file.try_clone().map_err(|error| not_opened(&error))?;
    let label = std::path::Path::new("answer");
    let opened = elf::ElfFile::from_file(label, file, &elf::Limits::default());
    match opened.map_err(|error| not_opened(&error))?.build_id() {
        Some(found) if found == id => Ok(()),
        Some(found) => Err(format!("what it gave has the build id {}", hexadecimal(found))),
        None => Err("what it gave has no build id".to_owned()),
    }
}
