//! Findings, with their evidence pointing into the output.

use super::assembly::{Assembly, finite};
use crate::schema::{Evidence, Finding, Number, Reference, Source};
use biopsy_analyze::{self as analyze, Diagnosis, FunctionHandle, Value};

/// All findings. `assembly`: of what was recorded over time.
pub(super) fn findings(diagnosis: &Diagnosis, assembly: Option<&Assembly<'_>>) -> Vec<Finding> {
    let all = diagnosis.findings().into_iter();
    all.map(|(source, finding)| Finding {
        id: finding.id.as_str().to_owned(),
        of: match source {
            analyze::Source::Recorded => Source::Recorded,
            analyze::Source::Dump(index) => Source::Dump { index },
            analyze::Source::All => Source::All,
        },
        severity: finding.severity.word().to_owned(),
        impact: finite(finding.impact),
        title: finding.title.clone(),
        explanation: finding.explanation.clone(),
        evidence: finding
            .evidence
            .iter()
            .map(|evidence| Evidence {
                text: evidence.text.clone(),
                reference: reference(assembly, &evidence.reference),
                value: evidence.value.and_then(number),
            })
            .collect(),
        next_steps: finding.next_steps.clone(),
    })
    .collect()
}

fn reference(assembly: Option<&Assembly<'_>>, reference: &analyze::Reference) -> Option<Reference> {
    Some(match reference {
        analyze::Reference::Recording => return None,
        analyze::Reference::Function(handle) => assembly?.function_reference(*handle, false)?,
        analyze::Reference::WaitFunction(handle) => assembly?.function_reference(*handle, true)?,
        analyze::Reference::Thread(tid) => Reference::Thread { tid: tid.0 },
        analyze::Reference::Group(index) => Reference::Group { index: *index },
        analyze::Reference::Metric { table, column, key } => {
            Reference::Metric { table: table.clone(), column: column.clone(), key: key.clone() }
        }
        analyze::Reference::Time { from, to } => {
            let assembly = assembly?;
            Reference::Time { from: assembly.at(*from), to: assembly.at(*to) }
        }
        analyze::Reference::Log { log, line } => Reference::Log {
            source: assembly?.capture.logs.get(*log).map(|log| log.source.clone()).unwrap_or_default(),
            log: *log,
            line: *line,
        },
        analyze::Reference::Runtime { runtime, table, row } => Reference::Runtime {
            runtime: assembly?.analysis.runtimes.iter().position(|summary| summary.trace == *runtime)?,
            table: (*table).to_owned(),
            row: *row,
        },
    })
}

impl Assembly<'_> {
    fn function_reference(&self, handle: FunctionHandle, waiting: bool) -> Option<Reference> {
        let row = self.analysis.function(handle)?;
        Some(Reference::Function {
            name: row.name.clone(),
            module: row.module.clone(),
            waiting,
            index: self.positions.get(&handle).copied(),
        })
    }
}

fn number(value: Value) -> Option<Number> {
    let (number, value): (fn(f64) -> Number, f64) = match value {
        Value::Time(time) => return Some(Number::Ns(time.0)),
        Value::Share(share) => (Number::Share, share),
        Value::Count(count) => (Number::Count, count),
        Value::Bytes(bytes) => (Number::Bytes, bytes),
        Value::PerSecond(rate) => (Number::PerSecond, rate),
        Value::Cores(cores) => (Number::Cores, cores),
    };
    value.is_finite().then(|| number(value))
}
