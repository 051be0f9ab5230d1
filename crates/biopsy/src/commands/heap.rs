//! `biopsy heap`: questions to a heap.

use biopsy_cli::{HeapArgs, Question, SymbolArgs};
use std::path::Path;

use biopsy_analyze::HeapSummary;
use biopsy_analyze::heap::questions::{self, Answer};
use biopsy_capture::{Failure, FailureKind};
use biopsy_import::heap::Heap;
use biopsy_report::{render_heap_answer_json, render_heap_answer_text};

use super::input::{bad_input, look, roots};
use crate::render::for_reports;
use biopsy_foreground::Code;
use biopsy_foreground::out;
use biopsy_terminal::terminal::Terminal;

/// Runs `biopsy heap`.
pub(crate) fn heap(args: &HeapArgs, terminal: Terminal) -> Result<Code, Failure> {
    let heap = read_heap(&args.file, args.snapshot, &args.symbols)?;
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

/// A heap by the number of its snapshot; the last, if no number is given.
pub(crate) fn read_heap(file: &Path, snapshot: Option<u32>, symbols: &SymbolArgs) -> Result<Heap, Failure> {
    let evidence = look(file, symbols)?;
    let Some(number) = snapshot else {
        return evidence.any_heap(&roots(symbols)?).map_err(bad_input);
    };
    evidence.heap(number).map_err(bad_input)?.ok_or_else(|| {
        Failure::new(FailureKind::Usage, format!("`{}` has no snapshot {number}", file.display()))
    })
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
