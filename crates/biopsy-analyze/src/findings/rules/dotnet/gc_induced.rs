//! The program asks for collections.

use crate::findings::dotnet::{at_least, heard, in_place, in_table, of_process};
use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::words::{number, percent, seconds};
use biopsy_model::runtime_trace::CollectionReason;

/// Collections that the program asks for from which on somebody should know why.
const INDUCED: u64 = 3;
/// Full ones a second from which on they cost.
const RATE: f64 = 0.5;

/// Share of the time in pauses, and of the CPU time below one function, from which on that function does what is done in pauses.
const PAUSES: f64 = 0.25;
const MOST: f64 = 0.5;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene)
        .filter(|heard| heard.summary.collections.induced >= INDUCED)
        .max_by_key(|heard| heard.summary.collections.induced)?;
    let summary = heard.summary;
    let count = summary.collections.induced;
    let rate = summary.rate(count);
    let items = heard.trace.collections.items.iter().filter(|item| item.reason == CollectionReason::Induced);
    let full = items.clone().filter(|item| item.generation >= 2).count();
    let place = items
        .clone()
        .find_map(|item| item.stack)
        .map(|stack| crate::runtimes::place(heard.trace, Some(stack)))
        .filter(|place| place.own);
    let by_samples = place.is_none().then(|| caller(scene, summary.collections.pause_share)).flatten();
    let in_place = match (&place, &by_samples) {
        (Some(place), _) => in_place(place),
        (None, Some((words, _))) => format!(", {words}"),
        (None, None) => String::new(),
    };
    let mut evidence = vec![in_table(
        summary,
        "collections",
        0,
        format!(
            "{} of {} collections were asked for, {} of them full",
            number(count as f64),
            number(summary.collections.total as f64),
            number(full as f64)
        ),
        Some(Value::Count(count as f64)),
    )];
    evidence.extend(by_samples.map(|(_, evidence)| evidence));
    Some(Finding {
        id: FindingId::GcInduced,
        severity: if full as u64 >= INDUCED && rate >= RATE { Severity::Warning } else { Severity::Notice },
        impact: summary.collections.pause_share.max(0.05),
        title: format!(
            "The program asks for garbage collection itself: {}{} times, every {}{in_place}{}",
            at_least(&heard, "collections"),
            number(count as f64),
            seconds(1.0 / rate.max(1e-9)),
            of_process(scene, summary)
        ),
        explanation: "A collection that is asked for is a full, blocking one unless it says otherwise, and it makes objects old that \
                      would have died young. The collector knows better when; exceptions are rare (after a large one-time load)."
            .to_owned(),
        evidence,
        next_steps: steps(&["Look for `GC.Collect` in the program and its libraries, and leave it out"]),
    })
}

/// Who calls for collections, by samples: events of collections need not have stacks. Where `GC.Collect` was compiled into its caller, it is
/// most likely the function that most of the CPU time is below: whoever asks for a collection does it, where it is not done by threads of its own.
fn caller(scene: &Scene<'_>, pauses: f64) -> Option<(String, Evidence)> {
    const ASKS: &[&str] = &["System.GC.Collect", "System.GC._Collect", "System.GC.<Collect>"];
    // `System.GC.CollectionCount` asks for none.
    let asks = |name: &str| {
        let rest = ASKS.iter().find_map(|known| name.strip_prefix(known));
        rest.is_some_and(|rest| !rest.starts_with("ionCount"))
    };
    let trees = &scene.analysis.flames.all;
    let caller = |tree| scene.caller_of(tree, |_, row| asks(&row.name));
    if let Some((function, share)) = caller(&trees.cpu).or_else(|| caller(&trees.waiting)) {
        let name = scene.function_name(Some(function))?;
        let text = format!("{} of the time in `GC.Collect` is below {name}", percent(share));
        let evidence = at(Reference::Function(function), text, Some(Value::Share(share)));
        return Some((format!("in {name}"), evidence));
    }
    let most = scene.program_of(&trees.cpu).filter(|(_, share)| pauses >= PAUSES && *share >= MOST);
    let (function, share) = most?;
    let name = scene.function_name(Some(function))?;
    let text = format!(
        "{} of the CPU time is below {name}: whoever asks for a collection mostly does it",
        percent(share)
    );
    let evidence = at(Reference::Function(function), text, Some(Value::Share(share)));
    Some((format!("most likely in {name}"), evidence))
}
