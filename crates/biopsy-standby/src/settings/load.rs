//! Reads the settings that hold: of the machine, and over them those of the user; or of one file alone.

use std::path::{Path, PathBuf};

use biopsy_capture::{Failure, FailureKind};
use biopsy_watch::settings::CommandCheck;
use biopsy_watch::{Layer, Problem, Settings, file};

use crate::places;

/// Settings, and where they are from.
#[derive(Debug)]
pub struct Loaded {
    /// The files, the least important first.
    pub layers: Vec<Layer>,
    /// What they say together.
    pub settings: Settings,
    /// By index of the layer.
    pub problems: Vec<(usize, Problem)>,
}

/// The files that are looked for, the least important first.
pub fn files(given: Option<&Path>) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
    if let Some(path) = given {
        return Ok(vec![("given", path.to_owned())]);
    }
    let mut files = vec![("machine", places::file_in(&places::machine_folder())?)];
    if let Some(folder) = places::user_folder() {
        files.push(("user", places::file_in(&folder)?));
    }
    Ok(files)
}

/// Reads them.
///
/// # Errors
/// A file cannot be read, others may write it, or it makes no sense as a text.
pub fn load(given: Option<&Path>, command: CommandCheck<'_>) -> Result<Loaded, Failure> {
    let mut layers = Vec::new();
    for (name, path) in files(given)? {
        let text = file::read(&path)
            .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()))?;
        match text {
            Some(text) => layers.push(parse(name, path, text)?),
            None if given.is_some() => {
                return Err(Failure::new(FailureKind::BadInput, format!("there is no `{}`", path.display())));
            }
            None => {}
        }
    }
    let (settings, problems) = Settings::of(&layers, command);
    Ok(Loaded { layers, settings, problems })
}

/// Parses one layer.
pub fn parse(name: &'static str, path: PathBuf, text: String) -> Result<Layer, Failure> {
    Layer::parse(name, path, text).map_err(|error| Failure::from_error(FailureKind::BadInput, &error))
}

impl Loaded {
    /// The problems as lines; errors among them.
    pub fn lines(&self) -> impl Iterator<Item = (bool, String)> {
        self.problems
            .iter()
            .filter_map(|(index, problem)| Some((problem.is_error, self.layers.get(*index)?.shown(problem))))
    }

    /// Refuses settings with an error, all of them in the message.
    pub fn checked(self) -> Result<Self, Failure> {
        let errors: Vec<String> =
            self.lines().filter(|(is_error, _)| *is_error).map(|(_, line)| line).collect();
        if errors.is_empty() {
            return Ok(self);
        }
        Err(Failure::new(FailureKind::BadInput, format!("the settings are not used:\n{}", errors.join("\n")))
            .with_hint(Some("`biopsy config edit` opens them")))
    }
}
