//! The end of the target, and what is wrong with the recording itself.

use super::scene::{Scene, at, fact, steps};
use super::words::{number, percent, seconds};
use crate::finding::{Finding, Reference, Severity, Value};
use biopsy_model::loss::LossKind;
use biopsy_model::timeline::TimelineEvent;

/// The target exited (or executed another program) during the recording.
pub(super) fn target_ended(scene: &Scene<'_>) -> Option<Finding> {
    let header = &scene.capture.header;
    let target = header.target.as_ref().map(|key| key.pid);
    let timeline = scene.capture.timeline.as_ref();
    let exit = timeline.and_then(|timeline| {
        timeline.process_events.iter().find_map(|event| match event {
            TimelineEvent::ProcessExit { time, pid } if Some(*pid) == target => Some(*time),
            _ => None,
        })
    });
    if exit.is_none() && header.ended_by != "target-exited" {
        return None;
    }
    let (from, to) = scene.analysis.window?;
    let when = exit.unwrap_or(to);
    // A program that was launched for the recording is expected to end.
    let launched = timeline.is_some_and(|timeline| {
        let of_target = |pid: &biopsy_model::Pid| Some(*pid) == target;
        let executed =
            |event: &TimelineEvent| matches!(event, TimelineEvent::Exec { pid, .. } if of_target(pid));
        timeline.threads.iter().any(|life| target.is_some_and(|pid| life.info.tid.0 == pid.0) && life.born)
            || timeline.process_events.iter().any(executed)
    });
    let at_second = when.since(from).as_secs_f64();
    let last_error = scene
        .capture
        .logs
        .iter()
        .enumerate()
        .flat_map(|(log, file)| file.lines.iter().enumerate().map(move |(line, text)| (log, line, text)))
        .filter(|(_, _, line)| line.level == biopsy_model::log::LogLevel::Error)
        .rfind(|(_, _, line)| line.time.is_some_and(|time| when.since(time).as_secs_f64() < 5.0));
    let mut evidence = vec![at(
        Reference::Time { from: when, to: to.max(when) },
        format!("it ended {} after the start of the recording", seconds(at_second)),
        None,
    )];
    if let Some((log, line, text)) = last_error {
        let text: String = text.text.chars().take(200).collect();
        evidence.push(at(Reference::Log { log, line }, format!("the last error before: {text}"), None));
    }
    Some(Finding {
        id: "target-ended",
        severity: if launched { Severity::Info } else { Severity::Warning },
        impact: if launched { 0.1 } else { 0.9 },
        title: format!("{} ended {} into the recording", capitalised(&scene.name), seconds(at_second)),
        explanation: "Whether it crashed, was stopped or had finished, the recording alone does not tell; the logs and the \
                      exit status its parent saw do."
            .to_owned(),
        evidence,
        next_steps: steps(&["See the last log lines, and the journal of the service for the exit status or signal"]),
    })
}

fn capitalised(name: &str) -> String {
    name.strip_prefix("the ").map_or_else(|| name.to_owned(), |rest| format!("The {rest}"))
}

/// The recording lacks something that weakens the other findings.
pub(super) fn incomplete(scene: &Scene<'_>) -> Option<Finding> {
    let whole = &scene.analysis.completeness;
    let mut evidence = Vec::new();
    let mut impact = 0.0f64;
    let mut severity = Severity::Notice;
    if whole.partial {
        evidence.push(fact("it was cut short: the recorder did not come to its end", None));
        impact = impact.max(0.2);
    }
    if scene.capture.header.ended_by == "disk-full" {
        evidence.push(fact("it ended because the disk was full", None));
        impact = impact.max(0.3);
    }
    for loss in &whole.losses {
        let share = loss.share.unwrap_or(0.0);
        let much = share >= 0.02 || (loss.share.is_none() && loss.kind != LossKind::Throttled);
        if !much {
            continue;
        }
        let count =
            if loss.count == 0 { "an unknown number of".to_owned() } else { number(loss.count as f64) };
        let of = loss.share.map_or(String::new(), |share| format!(" ({})", percent(share)));
        evidence.push(fact(
            format!("{count} {} were lost{of}", loss_words(loss.kind)),
            loss.share.map(Value::Share),
        ));
        impact = impact.max(share);
        if share >= 0.2 {
            severity = Severity::Warning;
        }
    }
    if let Some(root) = whole.reaching_root.filter(|&root| root < 0.8) {
        evidence.push(fact(
            format!("only {} of the stacks reach the thread's first function", percent(root)),
            Some(Value::Share(root)),
        ));
        impact = impact.max((1.0 - root) / 2.0);
    }
    if evidence.is_empty() {
        return None;
    }
    Some(Finding {
        id: "recording-incomplete",
        severity,
        impact,
        title: "The recording is not whole, so shares and sums are less certain".to_owned(),
        explanation:
            "What is missing is counted and shown; what is there is right. See what could not be determined."
                .to_owned(),
        evidence,
        next_steps: steps(&[
            "If the finding in question depends on it, record again: shorter, or with a lower frequency",
        ]),
    })
}

fn loss_words(kind: LossKind) -> &'static str {
    match kind {
        LossKind::Samples => "CPU samples",
        LossKind::Waits => "records of waits",
        LossKind::SideBand => "records of process and thread changes",
        LossKind::Throttled => "samples (throttled by the kernel)",
        LossKind::StacksSkipped => "stacks of samples",
        LossKind::Metrics => "metric readings",
        LossKind::Disk => "events that could not be written",
    }
}
