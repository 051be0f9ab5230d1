//! What the memory is.

use crate::dump::{DumpAnalysis, MemoryClass};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::words::{bytes, percent};

/// Below this many bytes the split of memory is nobody's question.
const INTERESTING: u64 = 64 << 20;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let memory = &analysis.memory;
    let largest = memory
        .classes
        .iter()
        .filter(|row| row.class != MemoryClass::Reserved)
        .max_by_key(|row| row.in_dump)?;
    if memory.in_dump < INTERESTING {
        return None;
    }
    let share = largest.in_dump as f64 / memory.in_dump.max(1) as f64;
    Some(Finding {
        id: FindingId::MemorySplit,
        severity: Severity::Info,
        impact: 0.1,
        title: format!("{} of the memory in the dump is {}", percent(share), largest.class.words()),
        explanation:
            "By mapping: which part of anonymous memory is in use, and by whom, takes a look into the heaps."
                .to_owned(),
        evidence: memory
            .classes
            .iter()
            .filter(|row| row.in_dump > 0)
            .take(6)
            .map(|row| {
                let text = format!(
                    "{}: {} in {} mappings",
                    row.class.words(),
                    bytes(row.in_dump as f64),
                    row.mappings
                );
                fact(text, Some(Value::Bytes(row.in_dump as f64)))
            })
            .collect(),
        next_steps: steps(&[]),
    })
}
