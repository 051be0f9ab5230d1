//! The catalogue of all findings as Markdown: a part of `docs/guide/findings.md`.

use std::fmt::Write as _;

use biopsy_analyze::{FindingId, Kind};

/// The catalogue: a table for each kind of evidence, then what each finding means.
#[must_use]
pub fn catalogue() -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let _ = writeln!(
            text,
            "### Found {}\n\n| id | said when | rests on |\n| --- | --- | --- |",
            kind.words()
        );
        for &id in FindingId::ALL {
            for said in id.about().said.iter().filter(|said| said.of == kind) {
                let _ = writeln!(text, "| [`{id}`](#{id}) | {} | {} |", said.when, said.rests_on);
            }
        }
        text.push('\n');
    }
    text.push_str("## What each means\n");
    for &id in FindingId::ALL {
        let about = id.about();
        let _ = writeln!(text, "\n### {id}\n\n{} {}\n", id.summary(), about.means);
        let _ = writeln!(text, "- **It would be wrong, or harmless, if:** {}", lower(about.disproved_by));
        for step in about.to_do {
            let end = if step.ends_with('?') { "" } else { "." };
            let _ = writeln!(text, "- **To do:** {step}{end}");
        }
    }
    text
}

/// A sentence that goes on behind a colon.
fn lower(sentence: &str) -> String {
    let mut chars = sentence.chars();
    match (chars.next(), chars.clone().next()) {
        // `FIFO` and `I` stay as they are.
        (Some(first), Some(second)) if second.is_lowercase() => {
            format!("{}{}", first.to_lowercase(), chars.as_str())
        }
        _ => sentence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str =
        "<!-- catalogue: made by `cargo xtask catalogue` from biopsy-analyze/src/findings/catalogue -->\n";
    const END: &str = "<!-- end of the catalogue -->\n";

    #[test]
    fn no_sentence_comes_twice() {
        for &id in FindingId::ALL {
            assert!(
                !id.about().means.starts_with(id.summary()),
                "{id}: what it means begins with its summary"
            );
        }
    }

    /// `cargo xtask catalogue` runs this test, with `BIOPSY_WRITE_FIXTURES=1` to write the guide anew.
    #[test]
    fn the_guide_has_the_catalogue_of_today() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/findings.md");
        let guide = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = guide.split_once(BEGIN).expect("the guide has a place for the catalogue");
        let (old, after) = rest.split_once(END).expect("the catalogue ends");
        let new = format!("\n{}\n", catalogue());
        if std::env::var_os("BIOPSY_WRITE_FIXTURES").is_some() {
            std::fs::write(&path, format!("{before}{BEGIN}{new}{END}{after}")).unwrap();
        } else {
            assert!(old == new, "docs/guide/findings.md is behind: run `cargo xtask catalogue`");
        }
    }

    #[test]
    fn sentences_go_on_behind_a_colon() {
        assert_eq!(lower("The wait."), "the wait.");
        assert_eq!(lower("FIFO is meant."), "FIFO is meant.");
        assert_eq!(lower("`ss` shows it."), "`ss` shows it.");
        assert_eq!(lower(""), "");
    }
}
