//! What the user sees at the end.

use std::time::Duration;

use biopsy_capture::Failure;
use biopsy_capture::capture::{Captured, Why};
use biopsy_capture::words::{grouped, pause_text, size};
use biopsy_model::printable::printable;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::render::{for_reports, result};
use biopsy_foreground::{Code, out};
use biopsy_terminal::terminal::{ColorChoice, Terminal};

use biopsy_cli::CaptureArgs;

/// The result for programs.
#[derive(Serialize)]
struct Summary<'a> {
    /// Version of this document.
    version: u32,
    path: String,
    bytes: u64,
    is_bundle: bool,
    snapshots: Vec<String>,
    /// Processes that stood still at the end.
    frozen: Vec<Frozen<'a>>,
    trace: Option<Trace<'a>>,
    /// As it is in `report.json`: parsing it again would take more memory than the recording did.
    report: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Frozen<'a> {
    pid: u32,
    name: &'a str,
    pause_ms: f64,
    /// `asked` or `nothing-moved`.
    why: &'static str,
}

#[derive(Serialize)]
struct Trace<'a> {
    method: &'a str,
    frequency_hz: u32,
    samples: u64,
    stacks_to_root: u64,
    waits: u64,
    wait_stacks: u64,
    lost: u64,
    timeline_bytes: u64,
    frames: u64,
    named_frames: u64,
    recorder_cpu_seconds: f64,
    recorder_peak_bytes: u64,
}

/// Shows it.
pub(super) fn show(args: &CaptureArgs, captured: &Captured, color: ColorChoice) -> Result<Code, Failure> {
    if args.json {
        out::document(&document(captured))?;
    } else {
        let terminal = Terminal::of_stdout(color);
        out::text(&text(captured, terminal), terminal.colour)?;
    }
    let whole = captured.trace.as_ref().is_some_and(|trace| trace.cut_short.is_none());
    Ok(if captured.diagnosis.is_some() && whole { Code::Ok } else { Code::Partial })
}

fn text(captured: &Captured, terminal: Terminal) -> String {
    let Some(diagnosis) = &captured.diagnosis else {
        let path = printable(&captured.result.path.to_string_lossy());
        return format!(
            "stopped at once: the recording is in {path}, without a report\nread it with: biopsy analyze {path}\n"
        );
    };
    let shown = biopsy_report::render_text(diagnosis, 0, for_reports(terminal));
    let mut text = format!("{}\n\n", shown.trim_end());
    if let Some(trace) = &captured.trace {
        text.push_str(&format!(
            "{} samples, {} waits, {} lost; recorder used {:.2} s of CPU and {} of memory\n",
            grouped(trace.samples),
            grouped(trace.waits),
            grouped(trace.lost),
            Duration::from_nanos(biopsy_sys::clock::process_cpu_nanos()).as_secs_f64(),
            size(biopsy_sys::limits::peak_resident_bytes()),
        ));
    }
    for one in &captured.frozen {
        let why = match one.why {
            Why::Asked => "",
            Why::NothingMoved => ": it did not move, and nothing that was recorded says why",
        };
        let (name, pause) = (printable(&one.name), pause_text(Duration::from_nanos(one.pause.0)));
        text.push_str(&format!("{name} ({}) stood still once at the end, for {pause}{why}\n", one.pid));
    }
    text + &result::place(&captured.result)
}

fn document(captured: &Captured) -> Summary<'_> {
    Summary {
        version: 1,
        path: captured.result.path.to_string_lossy().into_owned(),
        bytes: captured.result.bytes,
        is_bundle: captured.result.is_bundle,
        snapshots: captured.snapshots.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        frozen: captured
            .frozen
            .iter()
            .map(|one| Frozen {
                pid: one.pid.0,
                name: &one.name,
                pause_ms: one.pause.as_secs_f64() * 1e3,
                why: match one.why {
                    Why::Asked => "asked",
                    Why::NothingMoved => "nothing-moved",
                },
            })
            .collect(),
        trace: captured.trace.as_ref().map(|trace| Trace {
            method: trace.method.as_str(),
            frequency_hz: trace.frequency_hz,
            samples: trace.samples,
            stacks_to_root: trace.rooted,
            waits: trace.waits,
            wait_stacks: trace.wait_stacks,
            lost: trace.lost,
            timeline_bytes: trace.bytes,
            frames: trace.frames.0,
            named_frames: trace.frames.1,
            recorder_cpu_seconds: Duration::from_nanos(biopsy_sys::clock::process_cpu_nanos()).as_secs_f64(),
            recorder_peak_bytes: biopsy_sys::limits::peak_resident_bytes(),
        }),
        report: captured.diagnosis.as_ref().and_then(result::report),
    }
}
