//! What was asked from whom, and what is missing, in words.

use std::path::PathBuf;

use biopsy_stacks::symbols::Wanted;

/// Modules that one sentence names.
const NAMED: usize = 8;

/// What became of one build id.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It had been fetched before.
    Cached(PathBuf),
    /// It was fetched.
    Fetched {
        /// Where it is.
        path: PathBuf,
        /// How large it is.
        bytes: u64,
        /// Number of the server.
        server: usize,
    },
    /// All servers said that they do not have it.
    Missing,
    /// They said so a short time ago.
    KnownMissing,
    /// One could not be asked, or gave what is not taken.
    Failed(String),
}

impl Outcome {
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Cached(path) | Self::Fetched { path, .. } => Some(path),
            Self::Missing | Self::KnownMissing | Self::Failed(_) => None,
        }
    }
}

/// A module of which a file was wanted.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its file name.
    pub(crate) module: String,
    pub(crate) wanted: Wanted,
    pub(crate) outcome: Outcome,
}

/// What was asked from whom, and what is missing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Told {
    /// One sentence for each server, and for what was there already.
    pub asked: Vec<String>,
    /// What cannot be determined for want of files: the modules, and why.
    pub missing: Vec<String>,
}

impl Told {
    pub(crate) fn of(urls: &[String], asked: &[u64], gone: &[Option<String>], rows: &[Row]) -> Self {
        let mut told = Self::default();
        for (number, ((url, asked), gone)) in urls.iter().zip(asked).zip(gone).enumerate() {
            let (mut count, mut sum) = (0_u64, 0_u64);
            for row in rows {
                if let Outcome::Fetched { bytes, server, .. } = &row.outcome
                    && *server == number
                {
                    (count, sum) = (count + 1, sum.saturating_add(*bytes));
                }
            }
            if *asked == 0 {
                continue;
            }
            let gave = if count == 0 {
                "gave none".to_owned()
            } else {
                format!("gave {count} ({})", megabytes(sum))
            };
            let ended =
                gone.as_ref().map_or_else(String::new, |why| format!("; it is not asked any more: {why}"));
            told.asked.push(format!("{url} was asked for {} by build id, and {gave}{ended}", files(*asked)));
        }
        let cached = rows.iter().filter(|row| matches!(row.outcome, Outcome::Cached(_))).count();
        if cached > 0 {
            told.asked.push(format!("{} had been fetched before", files(cached as u64)));
        }
        if rows.is_empty() {
            told.asked.push("no debuginfod server was asked: no file of an ELF module was wanted".to_owned());
        }
        for wanted in [Wanted::DebugFile, Wanted::Program] {
            let of_kind = || rows.iter().filter(move |row| row.wanted == wanted);
            let what = match wanted {
                Wanted::DebugFile => "what debug files would tell of",
                Wanted::Program => "what unwind information would tell of stacks through",
            };
            let mut missing: Vec<&str> = of_kind()
                .filter(|row| matches!(row.outcome, Outcome::Missing | Outcome::KnownMissing))
                .map(|row| row.module.as_str())
                .collect();
            missing.dedup();
            if !missing.is_empty() {
                let recently = of_kind().any(|row| matches!(row.outcome, Outcome::KnownMissing));
                let when = if recently { ", as of some was said within the last hour" } else { "" };
                let does = if urls.len() == 1 { "does" } else { "do" };
                told.missing.push(format!(
                    "{what} {}: {} {does} not have them{when}",
                    some(&missing),
                    urls.join(", ")
                ));
            }
            let mut failed: Vec<(&str, Vec<&str>)> = Vec::new();
            for row in of_kind() {
                let Outcome::Failed(why) = &row.outcome else { continue };
                match failed.iter_mut().find(|(known, _)| known == why) {
                    Some((_, modules)) => modules.push(&row.module),
                    None => failed.push((why, vec![&row.module])),
                }
            }
            told.missing
                .extend(failed.into_iter().map(|(why, modules)| format!("{what} {}: {why}", some(&modules))));
        }
        told
    }
}

fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

fn megabytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let megabytes = bytes as f64 / f64::from(1 << 20);
    format!("{megabytes:.1} MiB")
}

fn some(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    let shown = shown.join(", ");
    match names.len().checked_sub(NAMED) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(module: &str, outcome: Outcome) -> Row {
        Row { module: module.to_owned(), wanted: Wanted::DebugFile, outcome }
    }

    #[test]
    fn who_was_asked_for_how_much_and_what_is_missing_is_said() {
        let urls = ["https://a", "https://b"].map(str::to_owned);
        let fetched = |server| Outcome::Fetched { path: PathBuf::new(), bytes: 3 << 19, server };
        let rows = [
            row("one", fetched(1)),
            row("two", Outcome::Missing),
            row("three", Outcome::Failed("https://a: it answers 503".to_owned())),
            row("four", Outcome::Failed("https://a: it answers 503".to_owned())),
            row("five", Outcome::Cached(PathBuf::new())),
        ];
        let gone = [Some("it answers 503".to_owned()), None];
        let told = Told::of(&urls, &[3, 4], &gone, &rows);
        assert_eq!(
            told.asked,
            [
                "https://a was asked for 3 files by build id, and gave none; it is not asked any more: it answers 503",
                "https://b was asked for 4 files by build id, and gave 1 (1.5 MiB)",
                "1 file had been fetched before",
            ]
        );
        assert_eq!(
            told.missing,
            [
                "what debug files would tell of `two`: https://a, https://b do not have them",
                "what debug files would tell of `three`, `four`: https://a: it answers 503",
            ]
        );
        let nothing = Told::of(&urls, &[0, 0], &[None, None], &[]);
        assert!(nothing.missing.is_empty() && nothing.asked[0].starts_with("no debuginfod server was asked"));
    }

    #[test]
    fn of_many_modules_the_first_are_named() {
        let urls = ["https://a".to_owned()];
        let rows: Vec<Row> = (0..20).map(|number| row(&format!("lib{number}"), Outcome::Missing)).collect();
        let told = Told::of(&urls, &[20], &[None], &rows);
        assert!(told.missing[0].contains("`lib7` and 12 more"), "{told:?}");
        assert!(told.missing[0].ends_with("https://a does not have them"), "{told:?}");
    }
}
