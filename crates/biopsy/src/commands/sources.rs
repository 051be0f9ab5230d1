//! Where files are looked for that evidence names: below folders, and of debuginfod servers where the command line says so.

use std::path::PathBuf;
use std::sync::Arc;

use biopsy_capture::{Failure, FailureKind};
use biopsy_cli::SymbolArgs;
use biopsy_debuginfod::{Client, Limits, Progress, ServersError, default_folder, parse_servers};
use biopsy_foreground::out;
use biopsy_import::{FileSources, FilesElsewhere};

/// Where servers are named that are asked, if nothing else is said (debuginfod(8)).
const ENVIRONMENT: &str = "DEBUGINFOD_URLS";

/// Folders and servers.
#[derive(Debug)]
pub(crate) struct Sources {
    /// In the form in which readers take them.
    pub(crate) files: FileSources,
    client: Option<Arc<Client>>,
}

impl Sources {
    /// What the command line allows. Nothing is asked before a reader wants a file.
    pub(crate) fn of(args: &SymbolArgs) -> Result<Self, Failure> {
        let roots = roots(args)?;
        let client =
            if args.debuginfod.is_empty() { None } else { Some(Arc::new(client(&args.debuginfod)?)) };
        let elsewhere = client.clone().map(|client| client as Arc<dyn FilesElsewhere>);
        Ok(Self { files: FileSources { roots, elsewhere }, client })
    }

    /// Says what was asked from whom, and gives what is missing.
    pub(crate) fn missing(&self) -> Vec<String> {
        let Some(client) = &self.client else { return Vec::new() };
        let told = client.told();
        for line in told.asked {
            out::say(format_args!("note: {line}"));
        }
        told.missing
    }

    /// Says both.
    pub(crate) fn say(&self) {
        for line in self.missing() {
            out::say(format_args!("note: not known: {line}"));
        }
    }
}

/// Folders of programs and libraries by names without links, which are not followed below them.
fn roots(args: &SymbolArgs) -> Result<Vec<PathBuf>, Failure> {
    let real = |folder: &PathBuf| {
        std::fs::canonicalize(folder).map_err(|error| {
            let message = format!("cannot look for files in `{}`: {error}", folder.display());
            Failure::new(FailureKind::Usage, message)
        })
    };
    args.folders.iter().map(real).collect()
}

/// `named`: addresses, or empty for those of the environment.
fn client(named: &[String]) -> Result<Client, Failure> {
    let mut list = String::new();
    for address in named {
        list.push(' ');
        match address.as_str() {
            "" => list.push_str(&std::env::var(ENVIRONMENT).unwrap_or_default()),
            address => list.push_str(address),
        }
    }
    let servers = parse_servers(&list).map_err(|error| {
        let hint = (error == ServersError::None).then(|| {
            format!("`{ENVIRONMENT}` is not set or empty; say which one: `--debuginfod=https://debuginfod.elfutils.org`")
        });
        Failure::from_error(FailureKind::Usage, &error).with_hint(hint)
    })?;
    let folder = default_folder().map_err(|error| Failure::from_error(FailureKind::Usage, &error))?;
    Client::new(servers, folder, Limits::default(), progress)
        .map_err(|error| Failure::from_error(FailureKind::Output, &error))
}

fn progress(progress: &Progress<'_>) {
    let Progress { module, server, bytes, of } = progress;
    let megabytes = |bytes: u64| bytes >> 20;
    let of = of.map_or_else(String::new, |of| format!(" of {}", megabytes(of)));
    out::say(format_args!("file of {module} from {server}: {}{of} MiB", megabytes(*bytes)));
}
