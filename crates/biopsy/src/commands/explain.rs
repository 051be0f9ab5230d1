//! `biopsy explain`: what a finding means, and where it is in a file.

use std::path::PathBuf;

use biopsy_analyze::FindingId;
use biopsy_capture::Failure;
use biopsy_report::{explanations, render_explanation, render_explanations_json, render_ids};
use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::input::{Diagnosed, diagnose};
use super::symbols::SymbolArgs;
use biopsy_foreground::Code;
use crate::render::for_reports;
use biopsy_foreground::out;
use biopsy_terminal::terminal::Terminal;

/// Say what a finding means: what it rests on, what would disprove it, and what to do. Without ID: all findings there are.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The finding, as reports call it: `deadlock`.
    #[arg(value_parser = FindingIdParser, hide_possible_values = true)]
    id: Option<FindingId>,
    /// Say where the finding is in this file, with its evidence: whatever `analyze` reads.
    #[arg(requires = "id")]
    file: Option<PathBuf>,
    /// For programs: print it as one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Runs `biopsy explain`.
pub(crate) fn explain(args: &ExplainArgs, terminal: Terminal) -> Result<Code, Failure> {
    let read = match &args.file {
        Some(file) => {
            Some((diagnose(std::slice::from_ref(file), &args.symbols)?, file.display().to_string()))
        }
        None => None,
    };
    if args.json {
        let ids = args.id.as_ref().map_or(FindingId::ALL, std::slice::from_ref);
        let document = explanations(ids, read.as_ref().map(|(read, _)| &read.diagnosis));
        let masked = |text: &str| read.as_ref().map_or_else(|| text.to_owned(), |(read, _)| read.mask(text));
        let wanted = read.as_ref().is_some_and(|(read, _)| read.is_unmasked());
        return out::json(render_explanations_json(&document, wanted.then_some(&masked)));
    }
    let text = match args.id {
        None => render_ids(for_reports(terminal)),
        Some(id) => {
            let found_in = read.as_ref().map(|(read, file)| (&read.diagnosis, file.as_str()));
            render_explanation(id, found_in, for_reports(terminal))
        }
    };
    out::text(&text, terminal.colour)?;
    let damaged = |(read, _): &(Diagnosed, String)| read.diagnosis.is_damaged();
    Ok(if read.as_ref().is_some_and(damaged) { Code::Partial } else { Code::Ok })
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
