//! What may be typed after `biopsy heap`.

use std::path::PathBuf;

use biopsy_analyze::heap::questions;
use biopsy_model::Avma;
use clap::Args;
use regex::Regex;

use crate::symbols::SymbolArgs;

/// Ask a heap: who holds objects of a type, on which ways one gets to them, what one object is.
#[derive(Debug, Args)]
pub struct HeapArgs {
    /// A recording with a snapshot, a `.gcdump`, a `.hprof`, a `.heapsnapshot`, a core or minidump of a .NET process, or of one in C,
    /// C++, Rust or Python.
    pub file: PathBuf,
    /// What is asked.
    #[command(flatten)]
    pub question: Question,
    /// Which snapshot of a recording. [default: the last]
    #[arg(long, value_name = "N")]
    pub snapshot: Option<u32>,
    /// Rows that are shown; 0: all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// For programs: print the answer as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// What is needed to read it.
    #[command(flatten)]
    pub symbols: SymbolArgs,
}

/// What is asked.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Question {
    /// The shortest ways from roots to objects of this type, equal ones put together.
    #[arg(long, value_name = "TYPE")]
    pub path_to: Option<String>,
    /// Who alone holds objects of this type: they go when it goes.
    #[arg(long, value_name = "TYPE")]
    pub holders: Option<String>,
    /// Types whose names match, with what lives because of them.
    #[arg(long = "type", value_name = "REGEX")]
    pub of: Option<Regex>,
    /// Known ways in which memory is wasted or kept: equal strings, empty collections, handlers of events ...
    #[arg(long)]
    pub inspections: bool,
    /// The object at this address: its fields, what lives because of it, the way to it.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub object: Option<Avma>,
}

impl HeapArgs {
    /// Asks it: exactly one question is there.
    pub fn asked<T>(&self, ask: impl FnOnce(questions::Question<'_>) -> T) -> T {
        let Question { path_to, holders, of, inspections, object } = &self.question;
        let is_wanted = |name: &str| of.as_ref().is_some_and(|of| of.is_match(name));
        ask(match (path_to, holders, of, object) {
            _ if *inspections => questions::Question::Inspections,
            (Some(of), ..) => questions::Question::PathTo(of),
            (_, Some(of), ..) => questions::Question::Holders(of),
            (_, _, Some(_), _) => questions::Question::Types(&is_wanted),
            (.., address) => questions::Question::Object(address.unwrap_or_default()),
        })
    }
}

fn address(text: &str) -> Result<Avma, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(Avma)
        .map_err(|_| "an address is hexadecimal: `0x7f12a0001238`".to_owned())
}
