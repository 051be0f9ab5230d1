//! What the memory of processes said when the recording ended (`--stacks`): what is kept of it, and how it joins what time showed.

use super::explains;
use crate::dump::DumpAnalysis;
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use crate::words::seconds;
use biopsy_model::capture::Capture;
use biopsy_model::look::{Look, LookFinding};
use biopsy_model::{MonoNanos, Pid};

/// Findings that a recording of time cannot make. What threads do and what memory is, it shows better.
const KEPT: [FindingId; 15] = [
    FindingId::Deadlock,
    FindingId::OrphanedLock,
    FindingId::AbandonedLock,
    FindingId::LockQueue,
    FindingId::FinalizerBlocked,
    FindingId::PoolStarvation,
    FindingId::WaitingOperations,
    FindingId::FullChannel,
    FindingId::StrandDeadlock,
    FindingId::StrandsWait,
    FindingId::NeverWoken,
    FindingId::HeldUp,
    FindingId::StuckWait,
    FindingId::SilentPeer,
    FindingId::WaitsForProcess,
];

impl DumpAnalysis {
    /// What is kept of it in a recording.
    #[must_use]
    pub fn look(&self, pid: Pid, time: MonoNanos) -> Look {
        let operations = self.managed.as_ref().and_then(|managed| managed.operations.as_ref());
        Look {
            pid,
            name: self.identity.name.clone(),
            time,
            pause: self.identity.pause.unwrap_or_default(),
            threads: self.threads.len() as u64,
            operations: operations.map(|operations| operations.pending),
            findings: self.findings.iter().filter(|one| KEPT.contains(&one.id)).map(kept).collect(),
            undetermined: self.undetermined.clone(),
        }
    }
}

/// The id of a finding that was kept: what is read from a file may be any text.
fn known_id(id: &str) -> Option<FindingId> {
    FindingId::parse(id).filter(|id| KEPT.contains(id))
}

fn kept(finding: &Finding) -> LookFinding {
    LookFinding {
        id: finding.id.as_str().to_owned(),
        severity: finding.severity.into(),
        impact: finding.impact,
        title: finding.title.clone(),
        explanation: finding.explanation.clone(),
        evidence: finding.evidence.iter().map(|one| one.text.clone()).collect(),
        next_steps: finding.next_steps.clone(),
    }
}

/// Adds what memory said to what time showed. Where both see one thing, memory names it and time says since when.
pub(super) fn add(capture: &Capture, findings: &mut Vec<Finding>) {
    let several = capture.looks.len() > 1;
    for look in &capture.looks {
        for one in &look.findings {
            if let Some(id) = known_id(&one.id) {
                let seen = finding(id, one, look, several);
                join(seen, findings);
            }
        }
    }
}

/// Operations that wait in one place, from which on what they keep is a good part of what grows.
const MANY: u64 = 1_000;

/// Goroutines, tasks and promises that nobody ends keep their stacks and what these lead to: where memory of their process grows, thousands
/// that wait in one place say who makes them.
pub(super) fn explain_growth(capture: &Capture, findings: &mut [Finding]) {
    let Some(growth) = findings.iter_mut().find(|one| one.id == FindingId::MemoryGrowth) else { return };
    let grows = growth.evidence.first().and_then(|first| pid_of(&first.reference));
    let looks = capture.looks.iter().filter(|look| Some(look.pid) == grows);
    let waits = |one: &&LookFinding| {
        let known = known_id(&one.id);
        known.is_some_and(|id| {
            matches!(id, FindingId::StuckWait | FindingId::WaitingOperations | FindingId::StrandsWait)
        })
    };
    let many = looks.flat_map(|look| &look.findings).filter(waits);
    let many = many.max_by_key(|one| first_number(&one.title));
    let Some(many) = many.filter(|one| first_number(&one.title) >= MANY) else { return };
    // Behind how much it grows.
    let rest = growth.evidence.split_off(growth.evidence.len().min(1));
    growth.evidence.push(fact(format!("what may keep it: {}", many.title)));
    growth.evidence.extend(many.evidence.iter().take(2).map(|text| fact(text.clone())));
    growth.evidence.extend(rest);
}

/// The process that a metric is of: its key begins with it.
fn pid_of(reference: &Reference) -> Option<Pid> {
    match reference {
        Reference::Metric { key, .. } => key.split(' ').next()?.parse().ok().map(Pid),
        _ => None,
    }
}

/// The number that a title begins with: `4,131 goroutines wait in ...`. Of what memory said a recording keeps words alone.
fn first_number(title: &str) -> u64 {
    let digits: String =
        title.split(' ').next().unwrap_or_default().chars().filter(|one| *one != ',').collect();
    digits.parse().unwrap_or(0)
}

/// The finding of the time gives its evidence to that of memory, if that is worth as much or says that the wait never ends.
fn join(mut seen: Finding, findings: &mut Vec<Finding>) {
    let Some(at) = explains::named_by(seen.id, findings) else {
        findings.push(seen);
        return;
    };
    let there = &mut findings[at];
    // Who waits for ever is in no queue that moves on, however long that was seen to be.
    let ends_never = matches!(
        seen.id,
        FindingId::Deadlock | FindingId::OrphanedLock | FindingId::AbandonedLock | FindingId::NeverWoken
    );
    if ends_never && seen.severity >= Severity::Warning {
        seen.severity = seen.severity.max(there.severity);
    }
    if there.severity > seen.severity {
        there.evidence.push(fact(format!("in memory at the end: {}", seen.title)));
        return;
    }
    seen.impact = seen.impact.max(there.impact);
    seen.evidence.push(fact(format!("during the recording: {}", there.title)));
    seen.evidence.append(&mut there.evidence);
    *there = seen;
}

fn finding(id: FindingId, one: &LookFinding, look: &Look, several: bool) -> Finding {
    let pause = seconds(look.pause.as_secs_f64());
    let mut evidence: Vec<Evidence> = one.evidence.iter().map(|text| fact(text.clone())).collect();
    evidence.push(fact(format!(
        "read from memory when the recording ended, for which the process stood still for {pause}; all stacks are in \
         `stacks/{}.txt` of the recording",
        look.pid
    )));
    let of = if several { format!("{} ({}): ", look.name, look.pid) } else { String::new() };
    Finding {
        id,
        severity: (&one.severity).into(),
        impact: one.impact,
        title: format!("{of}{}", one.title),
        explanation: one.explanation.clone(),
        evidence,
        next_steps: one.next_steps.clone(),
    }
}

fn fact(text: String) -> Evidence {
    Evidence { text, reference: Reference::Recording, value: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::Severity;
    use biopsy_model::capture::CaptureHeader;
    use biopsy_model::{Nanos, Pid};

    fn capture(findings: Vec<LookFinding>) -> Capture {
        let look = Look {
            pid: Pid(7),
            name: "server".to_owned(),
            pause: Nanos(7_000_000),
            findings,
            ..Look::default()
        };
        Capture {
            header: CaptureHeader::default(),
            processes: vec![],
            timeline: None,
            runtimes: vec![],
            looks: vec![look],
            metrics: vec![],
            logs: vec![],
            context: vec![],
            warnings: vec![],
            redactions: vec![],
        }
    }

    fn seen(id: &str, severity: &str) -> LookFinding {
        LookFinding {
            id: id.to_owned(),
            severity: severity.into(),
            title: format!("{id} in memory"),
            ..LookFinding::default()
        }
    }

    fn during(id: FindingId, severity: Severity) -> Finding {
        Finding {
            id,
            severity,
            impact: 0.9,
            title: format!("{id} in time"),
            explanation: String::new(),
            evidence: vec![fact("waited".to_owned())],
            next_steps: vec![],
        }
    }

    #[test]
    fn memory_names_what_time_shows() {
        let mut findings = vec![
            during(FindingId::BlockedOnLock, Severity::Critical),
            during(FindingId::CpuBound, Severity::Notice),
        ];
        add(
            &capture(vec![seen("deadlock", "critical"), seen("waiting-operations", "warning")]),
            &mut findings,
        );
        let ids: Vec<&str> = findings.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["deadlock", "cpu-bound", "waiting-operations"]);
        let evidence: Vec<&str> = findings[0].evidence.iter().map(|one| one.text.as_str()).collect();
        assert!(
            evidence[0].contains("stood still for 7.0 ms") && evidence[0].contains("stacks/7.txt"),
            "{evidence:?}"
        );
        assert_eq!(evidence[1..], ["during the recording: blocked-on-lock in time", "waited"]);
        assert!(findings[0].impact > 0.8);
    }

    #[test]
    fn what_is_worse_during_the_recording_stays() {
        let mut findings = vec![during(FindingId::PoolStarvation, Severity::Critical)];
        add(&capture(vec![seen("pool-starvation", "notice")]), &mut findings);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].title, "pool-starvation in time");
        assert_eq!(findings[0].evidence[1].text, "in memory at the end: pool-starvation in memory");
    }

    #[test]
    fn a_wait_that_never_ends_is_no_queue_however_bad_that_looked() {
        let mut findings = vec![during(FindingId::LockConvoy, Severity::Critical)];
        add(&capture(vec![seen("deadlock", "warning")]), &mut findings);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].id, findings[0].severity), (FindingId::Deadlock, Severity::Critical));
        // What is only perhaps one, and a queue at one moment, do not take its place.
        for (id, severity) in [("deadlock", "notice"), ("lock-queue", "warning")] {
            let mut findings = vec![during(FindingId::LockConvoy, Severity::Critical)];
            add(&capture(vec![seen(id, severity)]), &mut findings);
            assert_eq!((findings.len(), findings[0].id), (1, FindingId::LockConvoy), "{id}");
        }
    }

    #[test]
    fn ids_and_severities_of_other_versions() {
        let mut findings = Vec::new();
        add(&capture(vec![seen("../../x", "critical"), seen("deadlock", "unheard of")]), &mut findings);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity, Severity::Info);
    }
}
