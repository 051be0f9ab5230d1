//! One file of settings: whose it is, and what stands in it.

use std::path::PathBuf;

use crate::text::{self, Node, Place, SyntaxError, Value};

use super::check::{Problem, check};
use super::shape::SETTINGS;

/// One file of settings that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Layer {
    /// What it is called: `user`, `machine`, `given`.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// The same, parsed.
    pub root: Node,
}

/// A text that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{}`, line {}, column {}: {message}", path.display(), place.line, place.column)]
pub struct LayerError {
    /// Of which file.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What is wrong there.
    pub message: String,
}

impl Layer {
    /// Parses a text.
    ///
    /// # Errors
    /// [`LayerError`]: where it stops making sense.
    pub fn parse(name: &'static str, path: PathBuf, text: String) -> Result<Self, LayerError> {
        let parsed = if text.trim().is_empty() {
            Ok(Node { span: 0..0, value: Value::Map(Vec::new()) })
        } else {
            text::parse(&path.to_string_lossy(), &text)
        };
        match parsed {
            Ok(root) => Ok(Self { name, path, text, root }),
            Err(SyntaxError { at, message }) => {
                Err(LayerError { place: Place::of(&text, at), path, message })
            }
        }
    }

    /// What is wrong with its form. What it means is looked at by [`super::Settings::of`].
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = check(&self.root, &SETTINGS);
        if let Some(version) =
            self.root.get("version").filter(|version| version.number().is_some_and(|number| number > 1.0))
        {
            problems.push(Problem {
                span: version.span.clone(),
                path: "version".to_owned(),
                message: "this version is newer than the program: what it does not know has no effect"
                    .to_owned(),
                allowed: None,
                is_error: false,
            });
        }
        problems
    }

    /// A problem as editors and compilers print it: `FILE:LINE:COLUMN: error: ...`.
    #[must_use]
    pub fn shown(&self, problem: &Problem) -> String {
        let Place { line, column } = Place::of(&self.text, problem.span.start);
        let severity = if problem.is_error { "error" } else { "warning" };
        let at = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
        let allowed = problem.allowed.as_ref().map(|allowed| format!("; {allowed}")).unwrap_or_default();
        format!("{}:{line}:{column}: {severity}: {at}{}{allowed}", self.path.display(), problem.message)
    }
}
