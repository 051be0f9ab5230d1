//! What may be typed after `biopsy explain`.

use std::path::PathBuf;

use biopsy_analyze::FindingId;
use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::symbols::SymbolArgs;

/// Say what a finding means: what it rests on, what would disprove it, and what to do. Without ID: all findings there are.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The finding, as reports call it: `deadlock`.
    #[arg(value_parser = FindingIdParser, hide_possible_values = true)]
    pub id: Option<FindingId>,
    /// Say where the finding is in this file, with its evidence: whatever `analyze` reads.
    #[arg(requires = "id")]
    pub file: Option<PathBuf>,
    /// For programs: print it as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// What is needed to read it.
    #[command(flatten)]
    pub symbols: SymbolArgs,
}

/// Reads an id: shells complete it, and who mistypes it is told what is near.
#[derive(Clone, Debug)]
struct FindingIdParser;

impl TypedValueParser for FindingIdParser {
    type Value = FindingId;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<FindingId, clap::Error> {
        let typed = value.to_string_lossy();
        if let Some(id) = FindingId::parse(&typed) {
            return Ok(id);
        }
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        if let Some(argument) = argument {
            error.insert(ContextKind::InvalidArg, ContextValue::String(argument.to_string()));
        }
        error.insert(ContextKind::InvalidValue, ContextValue::String(typed.clone().into_owned()));
        let near: Vec<String> = FindingId::near(&typed).iter().map(ToString::to_string).collect();
        if near.is_empty() {
            let all = "`biopsy explain` alone lists all findings".into();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![all]));
        } else {
            error.insert(ContextKind::SuggestedValue, ContextValue::Strings(near));
        }
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = FindingId::ALL.iter().map(|id| PossibleValue::new(id.as_str()).help(id.summary()));
        Some(Box::new(all))
    }
}
