//! `biopsy heap`: questions to a heap.

use biopsy_cli::{HeapArgs, SymbolArgs};
use std::path::Path;

use biopsy_analyze::heap::questions::{QuestionError, answer};
use biopsy_capture::{Failure, FailureKind};
use biopsy_import::heap::Heap;
use biopsy_report::{render_heap_answer_json, render_heap_answer_text};

use super::input::{bad_input, look};
use super::sources::{say, sources};
use crate::render::for_reports;
use biopsy_foreground::{Code, out};
use biopsy_terminal::terminal::Terminal;

/// Runs `biopsy heap`.
pub(crate) fn heap(args: &HeapArgs, terminal: Terminal) -> Result<Code, Failure> {
    let heap = read_heap(&args.file, args.snapshot, &args.symbols)?;
    let asked = args.asked(|question| answer(question, &heap.name, &heap.graph, &heap.facts));
    let answer = asked.map_err(|error| {
        let kind = match &error {
            QuestionError::References(_) => FailureKind::BadInput,
            QuestionError::NoType(_) | QuestionError::NoObject(_) => FailureKind::Usage,
        };
        Failure::from_error(kind, &error).with_hint(error.hint())
    })?;
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
        let sources = sources(symbols)?;
        let heap = evidence.any_heap(&sources.files).map_err(bad_input)?;
        say(&sources);
        return Ok(heap);
    };
    evidence.heap(number).map_err(bad_input)?.ok_or_else(|| {
        Failure::new(FailureKind::Usage, format!("`{}` has no snapshot {number}", file.display()))
    })
}
