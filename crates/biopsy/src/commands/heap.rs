//! `biopsy heap`: questions to a heap.

use std::path::PathBuf;

use biopsy_analyze::HeapSummary;
use biopsy_analyze::heap::questions::{self, Answer};
use biopsy_capture::{Failure, FailureKind};
use biopsy_import::heap::Heap;
use biopsy_model::Avma;
use biopsy_report::{render_heap_answer_json, render_heap_answer_text};
use clap::Args;
use regex::Regex;

use super::symbols::SymbolArgs;
use biopsy_foreground::Code;
use crate::render::for_reports;
use biopsy_foreground::out;
use biopsy_terminal::terminal::Terminal;

/// Ask a heap: who holds objects of a type, on which ways one gets to them, what one object is.
#[derive(Debug, Args)]
pub(crate) struct HeapArgs {
    /// A recording with a snapshot, a `.gcdump`, a `.hprof`, a `.heapsnapshot`, a core or minidump of a .NET process.
    file: PathBuf,
    #[command(flatten)]
    question: Question,
    /// Which snapshot of a recording. [default: the last]
    #[arg(long, value_name = "N")]
    snapshot: Option<u32>,
    /// Rows that are shown; 0: all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// For programs: print the answer as one JSON document.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// What is asked.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Question {
    /// The shortest ways from roots to objects of this type, equal ones put together.
    #[arg(long, value_name = "TYPE")]
    path_to: Option<String>,
    /// Who alone holds objects of this type: they go when it goes.
    #[arg(long, value_name = "TYPE")]
    holders: Option<String>,
    /// Types whose names match, with what lives because of them.
    #[arg(long = "type", value_name = "REGEX")]
    of: Option<Regex>,
    /// Known ways in which memory is wasted or kept: equal strings, empty collections, handlers of events ...
    #[arg(long)]
    inspections: bool,
    /// The object at this address: its fields, what lives because of it, the way to it.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    object: Option<Avma>,
}

fn address(text: &str) -> Result<Avma, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(Avma)
        .map_err(|_| "an address is hexadecimal: `0x7f12a0001238`".to_owned())
}

/// Runs `biopsy heap`.
pub(crate) fn heap(args: &HeapArgs, terminal: Terminal) -> Result<Code, Failure> {
    let heap = crate::snapshot::read_heap(&args.file, args.snapshot, &args.symbols)?;
    let answer = answer(&args.question, &heap).map_err(|error| {
        Failure::new(FailureKind::BadInput, format!("the references cannot be read: {error}"))
    })??;
    if args.json {
        out::json(render_heap_answer_json(&answer))?;
    } else {
        out::text(&render_heap_answer_text(&answer, args.top, for_reports(terminal)), terminal.colour)?;
    }
    Ok(if heap.facts.whole { Code::Ok } else { Code::Partial })
}

fn answer(question: &Question, heap: &Heap) -> std::io::Result<Result<Answer, Failure>> {
    let graph = &heap.graph;
    if question.inspections {
        return Ok(Ok(questions::inspections(&HeapSummary::new(&heap.name, graph, &heap.facts))));
    }
    Ok(match (&question.path_to, &question.holders, &question.of, question.object) {
        (Some(of), ..) => known(heap, of, questions::paths_to(graph, of)?),
        (None, Some(of), ..) => known(heap, of, questions::holders_of(graph, of)?),
        (None, None, Some(of), _) => {
            let summary = HeapSummary::new(&heap.name, graph, &heap.facts);
            Ok(questions::types(&summary, &|name| of.is_match(name)))
        }
        (None, None, None, address) => {
            let address = address.unwrap_or_default();
            questions::object_at(graph, address)?
                .ok_or_else(|| Failure::new(FailureKind::Usage, format!("there is no object at {address}")))
        }
    })
}

/// An answer about a type that there is.
fn known(heap: &Heap, wanted: &str, answer: Answer) -> Result<Answer, Failure> {
    if heap.graph.types().iter().any(|of| questions::is_meant(&of.name, wanted)) {
        return Ok(answer);
    }
    let hint =
        "`--type REGEX` lists types by name; a type is meant by its full name, or without its namespace";
    Err(Failure::new(FailureKind::Usage, format!("no type of the heap is called `{wanted}`"))
        .with_hint(Some(hint.to_owned())))
}
