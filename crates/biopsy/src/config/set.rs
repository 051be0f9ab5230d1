//! `biopsy config set`: one value.

use biopsy_capture::{Failure, FailureKind};
use biopsy_watch::text;

use super::file;
use crate::exit_codes::Code;
use crate::render::out;
use crate::standing::settings;

/// Sets it, if the settings make sense with it.
pub(super) fn set(key: &str, value: &str, machine: bool) -> Result<Code, Failure> {
    let path = file::own_file(machine)?;
    if path.extension().is_some_and(|ending| ending == "toml") {
        return Err(Failure::new(
            FailureKind::Usage,
            format!("`{}` is TOML, which `set` does not write", path.display()),
        )
        .with_hint(Some("`biopsy config edit` opens it")));
    }
    let old = file::text_of(&path)?;
    // What is JSON is meant as that; all else is a text.
    let value = match text::parse_json(value) {
        Ok(_) => value.trim().to_owned(),
        Err(_) => serde_json::Value::from(value).to_string(),
    };
    let names: Vec<String> = key.split('.').map(str::to_owned).collect();
    let new =
        text::set(&old, &names, &value).map_err(|error| Failure::from_error(FailureKind::Usage, &error))?;
    let layer = settings::parse("user", path.clone(), new.clone())?;
    let (_, problems) =
        biopsy_watch::Settings::of(std::slice::from_ref(&layer), &crate::standing::commands::check);
    // What was wrong before is not this value's fault, and does not keep it from being set.
    let is_below = |at: &str| at.to_lowercase().starts_with(&key.to_lowercase());
    for (_, problem) in problems.iter().filter(|(_, problem)| is_below(&problem.path)) {
        if problem.is_error {
            return Err(
                Failure::new(FailureKind::Usage, layer.shown(problem)).with_hint(problem.allowed.clone())
            );
        }
        out::say(format_args!("{}", layer.shown(problem)));
    }
    file::write(&path, &new)?;
    out::text(&format!("{key} is {value} in {}\n", path.display()), false)
}
