//! How far the dump can be trusted to tell the truth.

use biopsy_model::stack::StackEnd;

use super::{fact, share, steps};
use crate::dump::{DumpAnalysis, SymbolStatus};
use crate::finding::{Finding, FindingId, Severity, Value};
use crate::findings::words::{bytes, percent, threads};

/// Stacks that do not reach their root.
pub(super) fn stacks(analysis: &DumpAnalysis) -> Option<Finding> {
    let broken: usize = analysis
        .groups
        .iter()
        .filter(|group| !matches!(group.end, StackEnd::Root) && !group.cut)
        .map(|group| group.members.len())
        .sum();
    let part = share(analysis, broken);
    if broken == 0 {
        return None;
    }
    Some(Finding {
        id: FindingId::BrokenStacks,
        severity: if part >= 0.5 { Severity::Warning } else { Severity::Notice },
        impact: part * 0.5,
        title: format!("The stacks of {} of {} are not whole", threads(broken), analysis.threads.len()),
        explanation: "Their inner frames are right; where they began is not known. Equal stacks may be told apart, or put together, \
                      wrongly."
            .to_owned(),
        evidence: analysis.undetermined.iter().take(4).map(|text| fact(text.clone(), None)).collect(),
        next_steps: steps(&["Put the program's files, or its debug files, where the process had them, and analyse again"]),
    })
}

pub(super) fn symbols(analysis: &DumpAnalysis) -> Option<Finding> {
    let all: u64 = analysis.modules.iter().map(|module| module.frames).sum();
    let nameless: Vec<_> = analysis
        .modules
        .iter()
        .filter(|module| module.frames > 0 && matches!(module.symbols, SymbolStatus::None))
        .collect();
    let frames: u64 = nameless.iter().map(|module| module.frames).sum();
    let part = frames as f64 / all.max(1) as f64;
    if part < 0.05 {
        return None;
    }
    Some(Finding {
        id: FindingId::NoSymbols,
        severity: if part >= 0.3 { Severity::Notice } else { Severity::Info },
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

pub(super) fn missing(analysis: &DumpAnalysis) -> Option<Finding> {
    let damaged: Vec<_> =
        analysis.memory.missing.iter().filter(|missing| missing.reason.is_damage()).collect();
    let lost: u64 = damaged.iter().map(|missing| missing.bytes).sum();
    if !analysis.damaged {
        return None;
    }
    let what = if lost > 0 {
        format!("{} that should be in it are missing", bytes(lost as f64))
    } else {
        "parts of it contradict themselves or could not be read".to_owned()
    };
    Some(Finding {
        id: FindingId::IncompleteDump,
        severity: Severity::Warning,
        impact: 0.3,
        title: format!("The dump is not whole: {what}"),
        explanation:
            "What is said here rests on what is there. A thread or lock whose memory is missing is not seen."
                .to_owned(),
        evidence: damaged
            .iter()
            .map(|missing| {
                fact(
                    format!("{}: {}", missing.reason.words(), bytes(missing.bytes as f64)),
                    Some(Value::Bytes(missing.bytes as f64)),
                )
            })
            .collect(),
        next_steps: steps(&["Take the dump again, with room for all of it"]),
    })
}

pub(super) fn scrubbed(analysis: &DumpAnalysis) -> Option<Finding> {
    (analysis.identity.scrubbed == Some(true)).then(|| Finding {
        id: FindingId::Scrubbed,
        severity: Severity::Info,
        impact: 0.0,
        title: "The memory of the dump is scrubbed".to_owned(),
        explanation: "Secrets of known shapes were masked while it was written. That is not a promise that none is left: handle the \
                      file as confidential."
            .to_owned(),
        evidence: Vec::new(),
        next_steps: Vec::new(),
    })
}
