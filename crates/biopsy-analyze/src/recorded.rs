//! A recording, and what it says.

use biopsy_model::capture::Capture;

use crate::analysis::Analysis;
use crate::completeness::Completeness;
use crate::findings;
use crate::logs::LogSummary;
use crate::metrics::MetricSummary;
use crate::runtimes::RuntimeSummary;
use crate::trace::{self, allocations::AllocationSummary, allocations::counted, facts::Facts};

/// A recording, and what it says.
#[derive(Debug)]
pub struct Recorded {
    /// What was recorded.
    pub capture: Capture,
    /// What that means.
    pub analysis: Analysis,
}

impl Recorded {
    /// Analyses a recording.
    #[must_use]
    pub fn new(capture: Capture) -> Self {
        let analysis = analyze(&capture);
        Self { capture, analysis }
    }
}

/// Analyses a recording.
#[must_use]
pub fn analyze(capture: &Capture) -> Analysis {
    let window = trace::window::window(capture);
    let mut analysis = Analysis {
        window,
        metrics: MetricSummary::new(capture),
        logs: LogSummary::new(capture),
        runtimes: RuntimeSummary::all(capture),
        ..Analysis::default()
    };
    let traced = capture.timeline.as_ref().map(|timeline| trace::read(capture, timeline, window));
    let frames = traced.as_ref().map(|traced| &traced.frames);
    analysis.completeness = Completeness::new(capture, window, frames);
    let mut facts = Facts::default();
    if let (Some(traced), Some(timeline)) = (traced, &capture.timeline) {
        analysis.allocations = counted::summary(timeline, &traced.frames)
            .or_else(|| AllocationSummary::new(timeline, &traced.frames));
        analysis.threads = traced.threads;
        analysis.flames = traced.flames;
        analysis.waits = traced.waits;
        analysis.functions = traced.frames.functions;
        facts = traced.facts;
    }
    analysis.findings = findings::of_recording(capture, &analysis, &facts);
    analysis
}
