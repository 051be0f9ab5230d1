//! What a reader should know of two recordings before believing what they say together.

use biopsy_model::loss::LossKind;

use super::slices::Slices;
use crate::recorded::Recorded;
use crate::words::{percent, seconds};

/// Shorter recordings have no noise that could be told.
const SHORTEST: f64 = 3.0;
/// CPU samples of which more may be lost makes rates wrong by as much as differences that are claimed.
const LOST: f64 = 0.05;

/// Remarks; and why nothing is claimed at all, where nothing can be.
pub(super) fn about(
    before: &Recorded,
    after: &Recorded,
    first: &Slices,
    second: &Slices,
) -> (Vec<String>, Option<String>) {
    let mut remarks = Vec::new();
    let (one, other) = (&before.capture, &after.capture);
    let traces = (one.timeline.as_ref(), other.timeline.as_ref());
    let refused = refused(first, second, traces.0.is_some() && traces.1.is_some());
    let (from, to) = (&one.header, &other.header);
    let same_start =
        from.start.mono == to.start.mono && from.start.wall_unix_nanos == to.start.wall_unix_nanos;
    if same_start && from.target == to.target && first.samples == second.samples {
        remarks.push("both are the same recording: there cannot be a difference".to_owned());
    }
    if from.target_name != to.target_name {
        remarks.push(format!(
            "they are of different programs, `{}` and `{}`: what only one of them has is shown as a difference",
            from.target_name, to.target_name
        ));
    }
    if let (Some(one), Some(other)) = traces {
        let (one, other) = (&one.settings, &other.settings);
        if one.method != other.method || one.sampling_event != other.sampling_event {
            remarks.push(format!(
                "they were taken differently ({} by {} and {} by {}): waits and functions of the kernel may differ for that alone",
                one.method.as_str(),
                one.sampling_event.as_str(),
                other.method.as_str(),
                other.sampling_event.as_str()
            ));
        }
        if one.frequency_hz != other.frequency_hz {
            remarks.push(format!(
                "samples were taken {} and {} times a second: the finer one sees more",
                one.frequency_hz, other.frequency_hz
            ));
        }
    }
    let (machine, another) = (&from.host, &to.host);
    if (&machine.cpu_model, machine.cpus) != (&another.cpu_model, another.cpus) {
        remarks.push(format!(
            "they are of different machines ({} CPUs, {}; {} CPUs, {}): all code differs for that alone",
            machine.cpus, machine.cpu_model, another.cpus, another.cpu_model
        ));
    } else if machine.kernel != another.kernel {
        remarks.push(format!("the kernels differ: {} and {}", machine.kernel, another.kernel));
    }
    let builds = |of: &Recorded| -> Option<Vec<u8>> {
        let modules = &of.capture.timeline.as_ref()?.modules;
        let name = &of.capture.header.target_name;
        let own = modules.iter().find(|module| module.path.rsplit('/').next() == Some(name))?;
        own.build_id.as_ref().map(|id| format!("{id:?}").into_bytes())
    };
    if from.target_name == to.target_name
        && let (Some(one), Some(other)) = (builds(before), builds(after))
        && one != other
    {
        remarks.push(
            "the program is another build: functions without a name cannot be told to be the same".to_owned(),
        );
    }
    for (of, name, slices) in [(before, "first", first), (after, "second", second)] {
        if of.analysis.completeness.partial {
            remarks.push(format!("the {name} recording was cut short"));
        }
        let lost = lost(of);
        if lost > LOST {
            remarks.push(format!(
                "{} of the samples of the {name} recording were lost: its rates are too low by as much",
                percent(lost)
            ));
        }
        if slices.seconds > 0.0 && slices.seconds < 2.0 * SHORTEST {
            remarks.push(format!(
                "the {name} recording is only {} long: small differences cannot be seen",
                seconds(slices.seconds)
            ));
        }
    }
    (remarks, refused)
}

/// From here on it is worth saying that all of the program takes more or less.
const ALL_ALIKE: f64 = 0.1;

/// The functions that did not change by themselves all take by so much more CPU time in the second recording.
pub(super) fn rest(factor: f64) -> Option<String> {
    let words = match factor {
        factor if factor > 1.0 + ALL_ALIKE => format!("{} more", percent(factor - 1.0)),
        factor if factor < 1.0 - ALL_ALIKE => format!("{} less", percent(1.0 - factor)),
        _ => return None,
    };
    Some(format!(
        "all code of the program takes {words} CPU time in the second recording, by the load or the machine; functions are held against that"
    ))
}

fn refused(first: &Slices, second: &Slices, traced: bool) -> Option<String> {
    if !traced {
        return Some(
            "one of the recordings has no trace, so nothing can be held against the other".to_owned(),
        );
    }
    let short = first.seconds.min(second.seconds);
    if short < SHORTEST {
        return Some(format!(
            "one of the recordings is {} long: too short to tell noise from differences",
            seconds(short)
        ));
    }
    None
}

/// Share of the CPU samples that were lost.
fn lost(of: &Recorded) -> f64 {
    let totals = of.analysis.completeness.losses.iter().filter(|loss| loss.kind == LossKind::Samples);
    totals.filter_map(|loss| loss.share).fold(0.0, f64::max)
}
