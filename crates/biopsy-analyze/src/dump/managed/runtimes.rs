//! The runtimes of an image, opened.

use std::path::PathBuf;
use std::sync::Arc;

use biopsy_dotnet::runtime::{
    CheckResult, FoundRuntime, LocalFiles, MissingFiles, Options, Runtime, RuntimeKind, find_runtimes_with,
};
use biopsy_dotnet::stack::{ExplicitFrames, ManagedUnwind};
use biopsy_image::Image;

/// A runtime that is in the image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeRow {
    /// `.NET 8.0.31`.
    pub name: String,
    /// Path of the library or executable, as the process saw it.
    pub path: String,
    /// It is linked into the executable.
    pub single_file: bool,
    /// Why it cannot be read; `None`: it can.
    pub problem: Option<String>,
    /// Checks of its layout that failed although nothing was refused because of them.
    pub failed_checks: Vec<String>,
}

/// The runtimes of an image, opened. Make it before the stacks are walked: [`Runtimes::code`] is what names and unwinds managed
/// code.
#[derive(Debug, Default)]
pub struct Runtimes<'i> {
    opened: Vec<Runtime<'i>>,
    rows: Vec<RuntimeRow>,
}

impl<'i> Runtimes<'i> {
    /// Finds and opens them. `roots`: folders below which files of the process are looked for where a core has left out their
    /// text; without any, none is opened.
    #[must_use]
    pub fn open(image: &'i dyn Image, roots: &[PathBuf]) -> Self {
        let mut all = Self::default();
        let files =
            (!roots.is_empty()).then(|| Arc::new(LocalFiles::new(image, roots)) as Arc<dyn MissingFiles>);
        for found in find_runtimes_with(image, files.clone()) {
            let mut options = Options::default();
            options.files.clone_from(&files);
            let opened = Runtime::open(Box::new(image), &found, &options);
            all.rows.push(row(&found, &opened));
            all.opened.extend(opened);
        }
        all
    }

    /// All that were found, those that cannot be read too.
    #[must_use]
    pub fn rows(&self) -> &[RuntimeRow] {
        &self.rows
    }

    /// Those that can be read.
    #[must_use]
    pub fn opened(&self) -> &[Runtime<'i>] {
        &self.opened
    }

    /// What they have noted on the stacks of their threads.
    #[must_use]
    pub fn explicit_frames(&self) -> ExplicitFrames {
        ExplicitFrames::read(&self.opened)
    }

    /// Names and frames of their code.
    #[must_use]
    pub fn code(&self) -> ManagedUnwind<&Runtime<'i>> {
        ManagedUnwind::new(&self.opened)
    }
}

fn row(
    found: &FoundRuntime,
    opened: &Result<Runtime<'_>, biopsy_dotnet::runtime::RuntimeError>,
) -> RuntimeRow {
    let version = found.version.map_or_else(String::new, |version| format!(" {version}"));
    let failed = |runtime: &Runtime<'_>| {
        let failed = runtime.checks().iter().filter_map(|check| match &check.result {
            CheckResult::Fails(why) => Some(format!("{}: {why}", check.name)),
            CheckResult::Holds | CheckResult::NotApplicable(_) => None,
        });
        failed.collect()
    };
    RuntimeRow {
        name: format!(".NET{version}"),
        path: String::from_utf8_lossy(&found.path).into_owned(),
        single_file: found.kind == RuntimeKind::SingleFile,
        problem: opened.as_ref().err().map(ToString::to_string),
        failed_checks: opened.as_ref().map(failed).unwrap_or_default(),
    }
}
