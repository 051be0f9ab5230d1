//! What the output can show: width, colours, line-drawing characters.

use std::io::IsTerminal;

use anstyle::Style;
use biopsy_model::printable::printable_lines;

/// Notes are yellow.
pub const NOTE: Style = anstyle::AnsiColor::Yellow.on_default();

/// What a stream can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terminal {
    /// Columns; `None`: not a terminal, so lines are not cut.
    pub width: Option<usize>,
    /// Colours are wanted.
    pub colour: bool,
    /// Characters beyond ASCII can be shown.
    pub unicode: bool,
}

/// When to use colours: `--color`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Terminal {
    /// What standard output can show.
    pub fn of_stdout(choice: ColorChoice) -> Self {
        Self::of(stdout_is_terminal(), choice)
    }

    /// What standard error can show.
    pub fn of_stderr(choice: ColorChoice) -> Self {
        Self::of(stderr_is_terminal(), choice)
    }

    fn of(is_terminal: bool, choice: ColorChoice) -> Self {
        let width =
            if is_terminal { terminal_size::terminal_size().map(|(width, _)| width.0.into()) } else { None };
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = match choice {
            ColorChoice::Auto => is_terminal && !set("NO_COLOR") && !dumb,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        Self { width, colour, unicode: speaks_utf8(|name| std::env::var(name).ok()) }
    }

    /// Wraps a text in a style, where colours are wanted. The text brings none of its own.
    pub fn paint(self, style: Style, text: &str) -> String {
        let text = printable_lines(text);
        if self.colour && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.into_owned() }
    }
}

/// Whether somebody looks at standard error.
#[expect(clippy::disallowed_methods, reason = "nothing is written")]
pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Whether somebody looks at standard output.
#[expect(clippy::disallowed_methods, reason = "nothing is written")]
pub fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// The first of these that is set and not empty decides, as locale(7) says.
fn speaks_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    match locale {
        Some(locale) => {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        }
        // Nothing is set in many containers and services, and their terminals are UTF-8 all the same.
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales() {
        let with = |set: &'static [(&str, &str)]| {
            speaks_utf8(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert!(with(&[]));
        assert!(with(&[("LANG", "en_GB.UTF-8")]));
        assert!(!with(&[("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "de_DE.utf8")]));
    }
}
