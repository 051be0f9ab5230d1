//! What may be typed after `biopsy open CASE --from`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

/// Fetch what was sent for a case that its lab cannot read, as it was sealed, and read it with your key.
#[derive(Debug, Parser)]
#[command(name = "biopsy open", max_term_width = 100)]
pub struct OpenFromArgs {
    /// The case.
    pub case: String,
    /// The lab that has it: `https://lab.example`.
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// A file with a token of the lab, of a role that reads.
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// Your key, as `age-keygen` writes it.
    #[arg(long, value_name = "KEYFILE")]
    pub identity: PathBuf,
    /// Where the sealed file goes. What is there already is read, and not fetched again. [default: CASE.sealed here]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// A verb of `biopsy` and its arguments, such as `heap --holders TYPE`. [default: analyze]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "VERB")]
    pub words: Vec<OsString>,
}

impl OpenFromArgs {
    /// `None`: these arguments are for the lab's own machine, and are handed on.
    ///
    /// # Errors
    /// What was typed makes no sense.
    pub fn of(arguments: &[OsString]) -> Option<Result<Self, clap::Error>> {
        let is_from = |text: &OsString| {
            text.to_str().is_some_and(|text| text == "--from" || text.starts_with("--from="))
        };
        let name = OsString::from("biopsy open");
        arguments.iter().any(is_from).then(|| Self::try_parse_from(std::iter::once(&name).chain(arguments)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<Result<OpenFromArgs, clap::Error>> {
        OpenFromArgs::of(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_fetched_is_told_from_what_is_opened_where_the_lab_is() {
        assert!(of(&["4711"]).is_none());
        assert!(of(&["4711", "heap", "--holders", "T"]).is_none());
        assert!(of(&["4711", "--from", "https://lab"]).unwrap().is_err(), "neither token nor key");
        let all =
            ["4711", "--from=https://lab", "--token-file", "t", "--identity", "k", "heap", "--holders", "T"];
        let args = of(&all).unwrap().unwrap();
        assert_eq!((args.case.as_str(), args.words.len()), ("4711", 3));
    }
}
