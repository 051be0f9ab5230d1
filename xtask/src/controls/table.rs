//! The table in `docs/security.md`: what is taken away, and which test fails then.

use super::mutation::Mutation;
use crate::run::{Outcome, root};

const DOCUMENT: &str = "docs/security.md";
/// What it is behind.
const HEAD: &str = "| threat | control that is taken away | test that fails |\n| --- | --- | --- |\n";

/// Writes it anew.
pub(super) fn write(all: &[Mutation]) -> Outcome {
    let path = root().join(DOCUMENT);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("`{DOCUMENT}`: {error}"))?;
    std::fs::write(&path, with(&text, all)?).map_err(|error| format!("`{DOCUMENT}`: {error}"))
}

/// The document with the table of these.
fn with(document: &str, all: &[Mutation]) -> Outcome<String> {
    let lost = || {
        format!("`{DOCUMENT}` has no table that begins with `{}`", HEAD.lines().next().unwrap_or_default())
    };
    let (before, behind) = document.split_once(HEAD).ok_or_else(lost)?;
    let rest = behind.lines().skip_while(|line| line.starts_with('|')).map(|line| format!("{line}\n"));
    let rows = all.iter().map(|one| format!("| {} | {} | `{}` |\n", one.threat, one.control, one.test));
    Ok(std::iter::once(format!("{before}{HEAD}")).chain(rows).chain(rest).collect())
}

#[cfg(test)]
mod tests {
    use super::super::mutation::read;
    use super::*;

    #[test]
    fn the_table_of_the_document_is_of_what_is_taken_away() {
        let document = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let wanted = with(&document, &read(&root()).unwrap()).unwrap();
        assert!(document == wanted, "`cargo xtask controls --table` makes it anew");
    }

    #[test]
    fn what_is_around_the_table_stays() {
        let document = format!("# One\n\n{HEAD}| old | x | y |\n\n## Two\n");
        assert_eq!(with(&document, &[]).unwrap(), format!("# One\n\n{HEAD}\n## Two\n"));
        assert!(with("# One\n", &[]).is_err());
    }
}
