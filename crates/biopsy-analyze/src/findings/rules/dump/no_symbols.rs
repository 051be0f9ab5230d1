//! Frames without names.

use crate::dump::{DumpAnalysis, SymbolStatus};
use crate::findings::dump::has_goroutines;
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::words::percent;

/// Share of frames without a name from which on it is worth a word, and worth doing something.
const WORTH_A_WORD: f64 = 0.05;
const MANY: f64 = 0.3;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let all: u64 = analysis.modules.iter().map(|module| module.frames).sum();
    let nameless: Vec<_> = analysis
        .modules
        .iter()
        .filter(|module| module.frames > 0 && matches!(module.symbols, SymbolStatus::None))
        .collect();
    let frames: u64 = nameless.iter().map(|module| module.frames).sum();
    let part = frames as f64 / all.max(1) as f64;
    if part < WORTH_A_WORD {
        return None;
    }
    Some(Finding {
        id: FindingId::NoSymbols,
        severity: if part >= MANY && !has_goroutines(analysis) { Severity::Notice } else { Severity::Info },
        impact: part * 0.3,
        title: format!("{} of the frames have no names", percent(part)),
        explanation:
            "They are shown as module and offset. The build ids below say exactly which files have the names."
                .to_owned(),
        evidence: nameless
            .iter()
            .take(5)
            .map(|module| {
                let id = module.build_id.as_deref().unwrap_or("not known");
                fact(
                    format!("`{}`: {} frames; {}; build id {id}", module.name, module.frames, module.words),
                    Some(Value::Count(module.frames as f64)),
                )
            })
            .collect(),
        next_steps: steps(&[
            "Install the debug packages of these files, and analyse again: no new dump is needed",
        ]),
    })
}
