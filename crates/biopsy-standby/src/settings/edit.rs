//! The settings in an editor, checked before they hold.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use biopsy_capture::{Failure, FailureKind};
use biopsy_watch::settings::CommandCheck;

use super::load::parse;
use super::own::{own_file, text_of, write};

/// What a new file begins with.
const TEMPLATE: &str = r#"// Settings of biopsy: which processes `biopsy watch` records, and when. `biopsy config kinds` lists kinds by name.
{
  // Profile from the start; the kinds of the vendor's own file are known: "Compiler": true
  "profiling": {
    "processes": {
      "Compiler": false
    }
  },
  "watch": {
    "rules": {
      // "slow": {"who": {"entry": "Shop.Api"}, "when": "cpu>90%:30s", "do": "capture --for 60s", "perDay": 5}
    }
  }
}
"#;

/// What became of what was edited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edited {
    /// It is as it was.
    Unchanged,
    /// It was in order, and is in this file.
    Holds(PathBuf),
}

/// Opens a copy of the settings in the user's editor; what comes back takes their place if it makes sense, else it is kept and named.
/// `tell` is told of each mistake.
///
/// # Errors
/// No editor, no place, or a mistake in what was typed.
pub fn edit(machine: bool, command: CommandCheck<'_>, tell: &mut dyn FnMut(&str)) -> Result<Edited, Failure> {
    let path = own_file(machine)?;
    let old = text_of(&path)?;
    let begin = if old.trim().is_empty() && path.extension().is_some_and(|ending| ending == "json") {
        TEMPLATE
    } else {
        &old
    };
    let failed = |what: &str, error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot {what}: {error}"))
    };
    let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    let copy = tempfile::Builder::new()
        .prefix("diagnostics-")
        .suffix(&format!(".{ending}"))
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile();
    let copy = copy.map_err(|error| failed("make a copy of the settings", error))?;
    std::fs::write(copy.path(), begin).map_err(|error| failed("make a copy of the settings", error))?;
    open(copy.path().as_os_str().to_owned())?;
    let new = std::fs::read_to_string(copy.path()).map_err(|error| failed("read what was edited", error))?;
    if new == begin && !old.is_empty() {
        return Ok(Edited::Unchanged);
    }
    let checked = parse("user", path.clone(), new.clone()).and_then(|layer| {
        let (_, problems) = biopsy_watch::Settings::of(std::slice::from_ref(&layer), command);
        for (_, problem) in &problems {
            tell(&layer.shown(problem).to_string());
        }
        let errors = problems.iter().filter(|(_, problem)| problem.is_error).count();
        if errors == 0 {
            Ok(())
        } else {
            Err(Failure::new(
                FailureKind::BadInput,
                format!("{errors} mistakes: the settings are as they were"),
            ))
        }
    });
    if let Err(failure) = checked {
        let hint = match copy.keep() {
            Ok((_, kept)) => format!("what was typed is in `{}`", kept.display()),
            Err(error) => format!("what was typed is lost: {error}"),
        };
        return Err(failure.with_hint(Some(hint)));
    }
    write(&path, &new)?;
    Ok(Edited::Holds(path))
}

/// The editor of the user, with its own options: `code --wait`.
fn open(file: OsString) -> Result<(), Failure> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()));
    let named = named.unwrap_or_else(|| "vi".to_owned());
    let mut words = named.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(file).status().map_err(|error| {
        Failure::new(FailureKind::Usage, format!("cannot start the editor `{named}`: {error}"))
            .with_hint(Some("`$EDITOR` names another"))
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(
            FailureKind::Usage,
            format!("the editor `{named}` ended with {status}: the settings are as they were"),
        ))
    }
}
