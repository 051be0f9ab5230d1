//! Changes one value of the settings, and nothing else of their file.

use std::path::PathBuf;

use biopsy_capture::{Failure, FailureKind};
use biopsy_watch::settings::CommandCheck;
use biopsy_watch::{Settings, text};

use super::load::parse;
use super::own;

/// What was set.
#[derive(Debug)]
pub struct Set {
    /// The value, as it stands there now.
    pub value: String,
    /// The file.
    pub path: PathBuf,
    /// What is less than right with it.
    pub warnings: Vec<String>,
}

/// Sets it, if the settings make sense with it. `value`: JSON, or a text as it is.
///
/// # Errors
/// The file is TOML, cannot be read or written, or makes no sense with the value.
pub fn set(key: &str, value: &str, machine: bool, command: CommandCheck<'_>) -> Result<Set, Failure> {
    let path = own::own_file(machine)?;
    if path.extension().is_some_and(|ending| ending == "toml") {
        return Err(Failure::new(
            FailureKind::Usage,
            format!("`{}` is TOML, which `set` does not write", path.display()),
        )
        .with_hint(Some("`biopsy config edit` opens it")));
    }
    let old = own::text_of(&path)?;
    // What is JSON is meant as that; all else is a text.
    let value = match text::parse_json(value) {
        Ok(_) => value.trim().to_owned(),
        Err(_) => serde_json::Value::from(value).to_string(),
    };
    let names: Vec<String> = key.split('.').map(str::to_owned).collect();
    let new =
        text::set(&old, &names, &value).map_err(|error| Failure::from_error(FailureKind::Usage, &error))?;
    let layer = parse("user", path.clone(), new.clone())?;
    let (_, problems) = Settings::of(std::slice::from_ref(&layer), command);
    // What was wrong before is not this value's fault, and does not keep it from being set.
    let is_below = |at: &str| at.to_lowercase().starts_with(&key.to_lowercase());
    let mut warnings = Vec::new();
    for (_, problem) in problems.iter().filter(|(_, problem)| is_below(&problem.path)) {
        let shown = layer.shown(problem);
        if problem.is_error {
            return Err(Failure::new(FailureKind::Usage, shown).with_hint(problem.allowed.clone()));
        }
        warnings.push(shown);
    }
    own::write(&path, &new)?;
    Ok(Set { value, path, warnings })
}
