//! Where files are looked for that evidence names: below folders, and of servers where the command line says so.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use biopsy_stacks::symbols::{FileSources, FilesElsewhere};

use crate::{CacheError, Client, Limits, Progress, ServersError, Told, default_folder, parse_servers};

/// Where servers are named that are asked, if nothing else is said (debuginfod(8)).
const ENVIRONMENT: &str = "DEBUGINFOD_URLS";

/// Folders and servers.
#[derive(Debug)]
pub struct Sources {
    /// In the form in which readers take them.
    pub files: FileSources,
    client: Option<Arc<Client>>,
}

/// Why there is no such place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourcesError {
    /// A folder that was named cannot be opened.
    #[error("cannot look for files in `{}`: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What was named is no server.
    #[error(transparent)]
    Servers(#[from] ServersError),
    /// What they give cannot be kept.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl SourcesError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        matches!(self, Self::Servers(ServersError::None)).then(|| {
            format!("`{ENVIRONMENT}` is not set or empty; say which one: `--debuginfod=https://debuginfod.elfutils.org`")
        })
    }
}

impl Sources {
    /// These folders, and these servers: addresses, or an empty text for those of the environment. None of them is asked before a reader
    /// wants a file. `watch` is called while a fetch takes long.
    ///
    /// # Errors
    /// A folder is not there, an address is none, or there is no place for what is fetched.
    pub fn of(
        folders: &[PathBuf],
        servers: &[String],
        watch: fn(&Progress<'_>),
    ) -> Result<Self, SourcesError> {
        // By names without links, which are not followed below them.
        let real = |path: &PathBuf| {
            std::fs::canonicalize(path).map_err(|source| SourcesError::Folder { path: path.clone(), source })
        };
        let roots = folders.iter().map(real).collect::<Result<_, _>>()?;
        let client = if servers.is_empty() { None } else { Some(Arc::new(client(servers, watch)?)) };
        let elsewhere = client.clone().map(|client| client as Arc<dyn FilesElsewhere>);
        Ok(Self { files: FileSources { roots, elsewhere }, client })
    }

    /// What was asked from whom, and what nobody had.
    #[must_use]
    pub fn told(&self) -> Told {
        self.client.as_ref().map(|client| client.told()).unwrap_or_default()
    }
}

fn client(named: &[String], watch: fn(&Progress<'_>)) -> Result<Client, SourcesError> {
    let environment = std::env::var(ENVIRONMENT).unwrap_or_default();
    let addresses = named.iter().map(|address| if address.is_empty() { &environment } else { address });
    let list: Vec<&str> = addresses.map(String::as_str).collect();
    Ok(Client::new(parse_servers(&list.join(" "))?, default_folder()?, Limits::default(), watch)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_named_is_asked() {
        let here = Sources::of(&[PathBuf::from("/")], &[], |_| {}).unwrap();
        assert_eq!(here.files.roots, [PathBuf::from("/")]);
        assert!(here.files.elsewhere.is_none() && here.told().asked.is_empty());
    }

    #[test]
    fn a_folder_that_is_not_there_and_an_address_that_is_none_are_refused() {
        let gone = Sources::of(&[PathBuf::from("/nonexistent")], &[], |_| {}).unwrap_err();
        assert!(gone.to_string().starts_with("cannot look for files in `/nonexistent`"), "{gone}");
        let none = Sources::of(&[], &["nothing".to_owned()], |_| {}).unwrap_err();
        assert!(matches!(none, SourcesError::Servers(ServersError::NotWeb(_))) && none.hint().is_none());
    }
}
