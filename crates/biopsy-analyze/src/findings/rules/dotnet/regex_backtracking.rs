//! A regular expression that backtracks.

use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::trace::frames::as_u32;
use crate::trace::function::FunctionHandle;
use crate::words::percent;

/// Half of the CPU time of a busy process in one library is what a person would call the cause.
const SHARE: f64 = 0.5;
/// Less than this of one core is not worth a word.
const CORES: f64 = 0.3;
/// From so much of one core on it is most of what a thread does.
const CRITICAL: f64 = 0.6;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    if scene.sampled <= 0.0 {
        return None;
    }
    let is_regex = |name: &str| name.starts_with("System.Text.RegularExpressions.");
    let mut rows = scene.analysis.functions.iter().enumerate().filter(|(_, row)| is_regex(&row.name));
    let (number, row) = rows.next()?;
    let (mut most, mut total) = (number, row.cpu_total);
    for (number, row) in rows {
        if row.cpu_total > total {
            (most, total) = (number, row.cpu_total);
        }
    }
    let share = total.as_secs_f64() / scene.sampled;
    let busy = total.as_secs_f64() / scene.seconds;
    if share < SHARE || busy < CORES {
        return None;
    }
    let handle = FunctionHandle(as_u32(most));
    let name = scene.function_name(Some(handle))?;
    let tree = &scene.analysis.flames.all.cpu;
    let caller = scene.caller_of(tree, |_, row| is_regex(&row.name));
    let mut evidence = vec![at(
        Reference::Function(handle),
        format!("{} of the CPU time is in {name} and what it calls", percent(share)),
        Some(Value::Share(share)),
    )];
    let mut place = String::new();
    if let Some((caller, of_that)) = caller {
        let caller_name = scene.function_name(Some(caller)).unwrap_or_default();
        evidence.push(at(
            Reference::Function(caller),
            format!("{} of that is called from {caller_name}", percent(of_that)),
            Some(Value::Share(of_that)),
        ));
        place = format!(" called from {caller_name}");
    }
    let busiest = scene.analysis.threads.rows.first();
    if let Some(row) = busiest {
        let running = row.running.as_secs_f64() / scene.seconds;
        evidence.push(at(
            Reference::Thread(row.tid),
            format!("{} runs {} of the time", scene.thread_name(row.tid), percent(running)),
            Some(Value::Share(running)),
        ));
    }
    if scene.analysis.functions.iter().any(|row| row.name.contains("RegexInterpreter") && row.cpu_total.0 > 0)
    {
        evidence
            .push(fact("it runs in the interpreter of regular expressions, which is the slowest way", None));
    }
    Some(Finding {
        id: FindingId::RegexBacktracking,
        severity: if busy >= CRITICAL { Severity::Critical } else { Severity::Warning },
        impact: busy.min(1.0),
        title: format!("A regular expression{place} takes {} of the CPU time", percent(share)),
        explanation: "A pattern with repetition inside repetition, such as `(a+)+$`, can be matched in exponentially many ways, and \
                      all of them are tried on a text that almost matches. Most likely that is what happens here; a pattern that \
                      is only used very often looks the same from outside. If the text comes from users, they can stop the server \
                      with it."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look at the pattern that the caller uses: nested or overlapping repetition",
            "`RegexOptions.NonBacktracking` (from .NET 7) is linear; a match timeout bounds the harm",
        ]),
    })
}
