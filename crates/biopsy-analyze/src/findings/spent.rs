//! What CPU time was spent on besides the program's own work: several rules ask.

use crate::findings::called::{self, Called};
use crate::findings::evidence::{at, fact};
use crate::findings::finding::{Evidence, Reference, Severity, Value};
use crate::findings::harm::harms;
use crate::findings::made_by::name_with_maker;
use crate::findings::scene::Scene;
use crate::trace::cost_names::{Cost, WORDS};
use crate::trace::function::FunctionHandle;
use crate::words::percent;
use biopsy_model::process::RuntimeKind;

/// Functions of the program that are named for a cost.
const CALLERS: usize = 3;
/// A smaller share of a cost is not worth a name.
const WORTH_A_NAME: f64 = 0.1;
/// CPU samples below which shares are chance.
const SAMPLES: u64 = 40;

/// CPU time of some kinds of cost.
pub(super) struct Spent {
    /// Share of the CPU time, 0 to 1.
    pub(super) share: f64,
    /// CPUs' worth of time, by what the process wants of them.
    pub(super) cores: f64,
    /// Where in the program most of it is.
    pub(super) place: Option<FunctionHandle>,
    /// A line for each kind, with the functions of the program below which it is.
    pub(super) evidence: Vec<Evidence>,
}

impl Spent {
    /// ` in ...`, or nothing.
    pub(super) fn in_place(&self, scene: &Scene<'_>) -> String {
        let tree = &scene.analysis.flames.all.cpu;
        let name = self.place.and_then(|place| name_with_maker(scene.analysis, tree, place));
        let Some(name) = name else { return String::new() };
        let called =
            self.called(scene).map_or(String::new(), |called| format!(", which calls {}", called.name));
        format!(" below {name}{called}")
    }

    /// What the program's function calls of a library that costs this: where it is not the allocator itself, it is what a person changes.
    fn called(&self, scene: &Scene<'_>) -> Option<Called> {
        called::largest(scene, self.place?).filter(|called| !is_memory(called.cost))
    }

    /// What memory is asked for: the library's function that the program calls.
    pub(super) fn for_what(&self, scene: &Scene<'_>) -> Option<Evidence> {
        let name = scene.function_name(self.place)?;
        Some(self.called(scene)?.evidence(&format!("the CPU time of {name}")))
    }
}

fn is_memory(cost: Option<Cost>) -> bool {
    matches!(cost, Some(Cost::Allocation | Cost::Collection | Cost::PageFaults | Cost::Mappings))
}

/// How much of the CPU time is of these kinds; `None`: none of it, or too few samples to tell.
pub(super) fn on(scene: &Scene<'_>, kinds: &[(Cost, &str)]) -> Option<Spent> {
    let samples: u64 = scene.analysis.threads.rows.iter().map(|row| row.samples).sum();
    if scene.sampled <= 0.0 || samples < SAMPLES {
        return None;
    }
    let rows = scene.facts.costs.iter().filter_map(|row| {
        let (_, words) = kinds.iter().find(|(cost, _)| *cost == row.cost)?;
        Some((row, *words))
    });
    let rows: Vec<_> = rows.collect();
    let time: f64 = rows.iter().map(|(row, _)| row.time.as_secs_f64()).sum();
    let mut evidence = Vec::new();
    for (row, words) in &rows {
        let all = row.time.as_secs_f64();
        let mut text = format!("{} of the CPU time is {words}", percent(all / scene.sampled));
        let named = |list: &[(FunctionHandle, biopsy_model::Nanos)]| {
            let large =
                list.iter().filter(|(_, time)| time.as_secs_f64() >= all * WORTH_A_NAME).take(CALLERS);
            let names = large.filter_map(|(function, _)| scene.function_name(Some(*function)));
            names.collect::<Vec<_>>().join(", ")
        };
        let (entries, callers) = (named(&row.entries), named(&row.callers));
        if !entries.is_empty() {
            text.push_str(&format!(" ({entries})"));
        }
        if !callers.is_empty() {
            text.push_str(&format!(", most of it below {callers}"));
        }
        let reference =
            row.callers.first().map_or(Reference::Recording, |(function, _)| Reference::Function(*function));
        evidence.push(at(reference, text, Some(Value::Share(all / scene.sampled))));
    }
    // Memory is asked for by the program and collected by threads of the runtime: the first kind that has a caller tells who.
    let place = kinds.iter().find_map(|(cost, _)| {
        let row = rows.iter().map(|(row, _)| row).find(|row| row.cost == *cost)?;
        let (function, own) = row.callers.first()?;
        (own.as_secs_f64() >= row.time.as_secs_f64() * WORTH_A_NAME).then_some(*function)
    });
    let share = time / scene.sampled;
    (time > 0.0).then(|| Spent { share, cores: share * scene.wanted_cores().unwrap_or(0.0), place, evidence })
}

/// A smaller share of the CPU time is no news.
const NEWS: f64 = 0.1;

/// Kinds that are worth a line each.
const KINDS: usize = 2;

/// The largest of what is not the program's own work, as evidence of what the CPU time goes to.
pub(super) fn largest(scene: &Scene<'_>) -> Vec<Evidence> {
    let rows = scene.facts.costs.iter().take(KINDS);
    let kinds = rows.filter_map(|row| WORDS.iter().find(|(cost, _)| *cost == row.cost));
    kinds.filter_map(|kind| on(scene, &[*kind]).filter(|spent| spent.share >= NEWS)?.evidence.pop()).collect()
}

/// A warning where somebody waits for it. What others keep from the CPU, so that it gets less than `least`, may be a moment's.
pub(super) fn severity(scene: &Scene<'_>, least: f64) -> Severity {
    let gets = scene.cores.is_some_and(|used| used >= least);
    if gets && harms(scene) { Severity::Warning } else { Severity::Notice }
}

/// Share of the CPU time in a collector from which on it is one that collects.
const COLLECTING: f64 = 0.04;

/// What is allocated is collected as garbage, not given back.
pub(super) fn collects(scene: &Scene<'_>) -> bool {
    let busiest = scene.analysis.threads.rows.first().map(|row| scene.runtime_of(row.pid));
    let known = matches!(busiest, Some(RuntimeKind::Go | RuntimeKind::Jvm | RuntimeKind::Node));
    let spent = scene.facts.costs.iter().find(|row| row.cost == Cost::Collection);
    known || spent.is_some_and(|row| row.time.as_secs_f64() >= scene.sampled * COLLECTING)
}

/// How busy the process is, as evidence.
pub(super) fn busy_evidence(scene: &Scene<'_>) -> Option<Evidence> {
    let row = scene.analysis.threads.rows.first()?;
    let share = row.running.as_secs_f64() / scene.seconds;
    let text =
        format!("the busiest thread, {}, runs {} of the time", scene.thread_name(row.tid), percent(share));
    Some(match scene.cores {
        Some(cores) => at(
            Reference::Thread(row.tid),
            format!("{text}; in all {} are used", crate::words::cores(cores)),
            Some(Value::Cores(cores)),
        ),
        None => fact(text, Some(Value::Share(share))),
    })
}
