//! Exceptions as control flow.

use crate::findings::dotnet::{Heard, at_least, code, heard, in_place, in_table, of_process, quoted};
use crate::findings::evidence::{at, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Value};
use crate::findings::scene::Scene;
use crate::trace::frames::as_u32;
use crate::trace::function::FunctionHandle;
use crate::words::{number, percent};

/// An exception costs 10 to 100 µs and more with deep stacks: 300 a second are a noticeable share of a core, and no program
/// that works as intended throws 50 a second.
const RATE: [f64; 3] = [300.0, 50.0, 10.0];

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene).max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let all = rate(&heard);
    let severity = grade(all, RATE)?;
    let summary = heard.summary;
    let top = summary.exceptions.first();
    let least = at_least(&heard, "exceptions");
    let mut evidence: Vec<Evidence> = summary
        .exceptions
        .iter()
        .take(3)
        .enumerate()
        .map(|(at, row)| {
            let via = row.place.via.as_ref().map_or(String::new(), |via| format!(", by {}", code(via)));
            let message =
                if row.message.is_empty() { String::new() } else { format!(": {}", quoted(&row.message)) };
            in_table(
                summary,
                "exceptions",
                at,
                format!(
                    "{least}{} times {}{}{via}{message}",
                    number(row.count as f64),
                    code(&row.type_name),
                    in_place(&row.place)
                ),
                Some(Value::Count(row.count as f64)),
            )
        })
        .collect();
    let cost = cost(scene);
    evidence.extend(cost.iter().map(|(evidence, _)| evidence.clone()));
    let title = match top {
        // Of a tree of attempts that fail in turn, none is half of all.
        Some(row) if row.count.saturating_mul(2) < summary.exceptions_total => format!(
            "Exception storm: {least}{} a second thrown in different places, most often {}{}{}",
            number(all),
            code(&row.type_name),
            in_place(&row.place),
            of_process(scene, summary)
        ),
        Some(row) => {
            let via = row.place.via.as_ref().map_or(String::new(), |via| format!(" (by {})", code(via)));
            format!(
                "Exception storm: {least}{} {} a second thrown{}{via}{}",
                number(summary.rate(row.count)),
                code(&row.type_name),
                in_place(&row.place),
                of_process(scene, summary)
            )
        }
        None => format!("Exception storm: {least}{} exceptions a second", number(all)),
    };
    Some(Finding {
        id: FindingId::ExceptionStorm,
        severity,
        impact: cost.map_or((all / 5_000.0).clamp(0.05, 0.5), |(_, share)| share.max(0.05)),
        title,
        explanation: "Each throw unwinds the stack, which costs thousands of times what a test costs. They do not end the program \
             or fill its log, so most likely they are caught and swallowed: exceptions as control flow, or an error that \
             is tried again and again. Counted are all that are thrown (first chance), caught or not."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Ask first where failing is usual: `TryParse`, `TryGetValue`, a check before the call",
            "See the stacks in the table of exceptions: who calls the function that throws, and who catches",
        ]),
    })
}

fn rate(heard: &Heard<'_>) -> f64 {
    heard.summary.rate(heard.summary.exceptions_total)
}

/// CPU time in throwing and catching, where functions tell.
fn cost(scene: &Scene<'_>) -> Option<(Evidence, f64)> {
    if scene.sampled <= 0.0 {
        return None;
    }
    let throws = |name: &str| {
        name.starts_with("System.Runtime.EH.") || name.contains("RaiseTheException") || name == "IL_Throw"
    };
    let (at_row, row) = scene
        .analysis
        .functions
        .iter()
        .enumerate()
        .filter(|(_, row)| throws(&row.name))
        .max_by(|a, b| a.1.cpu_total.cmp(&b.1.cpu_total).then(b.0.cmp(&a.0)))?;
    let share = row.cpu_total.as_secs_f64() / scene.sampled;
    let handle = FunctionHandle(as_u32(at_row));
    let text = format!("{} of the CPU time is spent in throwing and catching", percent(share));
    (share >= 0.02).then(|| (at(Reference::Function(handle), text, Some(Value::Share(share))), share))
}
