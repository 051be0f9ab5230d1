//! What was recorded, how whole it is, and who was there.

use super::assembly::Assembly;
use crate::schema::{Completeness, Host, Loss, Mark, Moment, Process, Recording, Redaction, Warning};
use crate::{when, words};
use biopsy_model::ClockPair;

/// Loss intervals and marks in an output at most.
const INTERVALS: usize = 1_000;

impl Assembly<'_> {
    pub(super) fn recording(&self) -> Recording {
        let header = &self.capture.header;
        let host = &header.host;
        let target = header.target.as_ref();
        Recording {
            tool: header.tool.clone(),
            command: header.command.clone(),
            target_name: header.target_name.clone(),
            target_pid: target.map(|key| key.pid.0),
            target_start_ticks: target.map(|key| key.start_ticks),
            boot_id: target.map(|key| key.boot_id.0.clone()),
            start: Some(moment(&header.start)),
            end: header.end.as_ref().map(moment),
            window_start_ns: Some(self.window.0.0),
            seconds: self.window.1.since(self.window.0).as_secs_f64(),
            ended_by: Some(header.ended_by.as_str().to_owned()).filter(|word| !word.is_empty()),
            host: Host {
                hostname: host.hostname.clone(),
                kernel: host.kernel.clone(),
                os: host.os.clone(),
                architecture: host.architecture.clone(),
                cpus: host.cpus,
                memory_bytes: host.memory,
                cpu_model: host.cpu_model.clone(),
            },
        }
    }

    pub(super) fn completeness(&self) -> Completeness {
        let whole = &self.analysis.completeness;
        Completeness {
            partial: whole.partial || self.capture.header.end.is_none(),
            has_trace: whole.has_trace || self.capture.timeline.is_some(),
            has_metrics: whole.has_metrics || !self.capture.metrics.is_empty(),
            has_logs: whole.has_logs || !self.capture.logs.is_empty(),
            method: whole.method.clone(),
            frequency_hz: self
                .capture
                .timeline
                .as_ref()
                .map(|timeline| timeline.settings.frequency_hz)
                .filter(|hertz| *hertz > 0),
            samples: whole.samples,
            sampled_ns: whole.sampled.0,
            waits: whole.waits,
            off_cpu_samples: whole.off_cpu_samples,
            threads: whole.threads,
            reaching_root: whole.reaching_root.filter(|share| share.is_finite()),
            unnamed_frames: whole.unnamed_frames.filter(|share| share.is_finite()),
            named_managed: whole.named.managed.filter(|share| share.is_finite()),
            named_native: whole.named.native.filter(|share| share.is_finite()),
            named_kernel: whole.named.kernel.filter(|share| share.is_finite()),
            unnamed_modules: whole
                .unnamed_modules
                .iter()
                .filter(|(_, share)| share.is_finite())
                .cloned()
                .collect(),
            clock_step_ms: Some(whole.clock_step_ms).filter(|step| *step != 0.0 && step.is_finite()),
            losses: whole
                .losses
                .iter()
                .map(|total| Loss {
                    kind: words::loss(total.kind).to_owned(),
                    count: Some(total.count).filter(|count| *count > 0),
                    covered_ns: Some(total.time.0),
                    share: total.share.filter(|share| share.is_finite()),
                    ..Loss::default()
                })
                .collect(),
            undetermined: whole.undetermined.clone(),
        }
    }

    pub(super) fn processes(&self) -> Vec<Process> {
        self.capture
            .processes
            .iter()
            .map(|process| Process {
                pid: process.key.pid.0,
                parent: process.parent.0,
                name: process.name.clone(),
                exe: process.exe.clone(),
                exe_deleted: process.exe_deleted,
                command_line: process.command_line.clone(),
                uid: process.uid,
                runtime: words::runtime(process.runtime.kind).to_owned(),
                runtime_version: process.runtime.version.clone(),
                entry: process.runtime.entry.clone(),
                ns_pid: process.ns_pid,
                cgroup: process.cgroup.clone(),
                container_id: process.container_id.clone(),
                unit: process.unit.clone(),
            })
            .collect()
    }

    pub(super) fn marks(&self) -> Vec<Mark> {
        let Some(timeline) = &self.capture.timeline else { return Vec::new() };
        let marks = timeline.marks.iter().take(INTERVALS);
        marks.map(|(time, label)| Mark { at: self.at(*time), label: label.clone() }).collect()
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        self.capture
            .warnings
            .iter()
            .map(|warning| Warning {
                code: warning.code.clone(),
                message: warning.message.clone(),
                hint: warning.hint.clone(),
                at: warning.time.map(|time| self.at(time)),
            })
            .collect()
    }

    pub(super) fn redactions(&self) -> Vec<Redaction> {
        self.capture
            .redactions
            .iter()
            .map(|count| Redaction {
                member: count.member.clone(),
                rule: count.rule.clone(),
                count: count.count,
            })
            .collect()
    }
}

/// The intervals in which something was lost.
pub(crate) fn losses(assembly: &Assembly<'_>) -> Vec<Loss> {
    let Some(timeline) = &assembly.capture.timeline else { return Vec::new() };
    let intervals = timeline.losses.iter().take(INTERVALS);
    intervals
        .map(|loss| Loss {
            kind: words::loss(loss.kind).to_owned(),
            count: Some(loss.count).filter(|count| *count > 0),
            from: Some(assembly.at(loss.from)),
            to: Some(assembly.at(loss.to)),
            tid: loss.tid.map(|tid| tid.0),
            ..Loss::default()
        })
        .collect()
}

fn moment(clock: &ClockPair) -> Moment {
    Moment {
        wall: when::rfc3339(clock),
        zone: Some(clock.zone.clone()).filter(|zone| !zone.is_empty()),
        monotonic_ns: clock.mono.0,
    }
}
