//! What the parts of a report on a recording are made from.

use biopsy_analyze::{Analysis, FunctionHandle};
use biopsy_model::MonoNanos;
use biopsy_model::capture::Capture;
use rustc_hash::FxHashMap;

/// What the assembling functions share.
pub(crate) struct Assembly<'a> {
    pub(crate) capture: &'a Capture,
    pub(crate) analysis: &'a Analysis,
    /// Where moments count from.
    pub(crate) window: (MonoNanos, MonoNanos),
    /// Position in the output of the functions that are in it.
    pub(crate) positions: FxHashMap<FunctionHandle, usize>,
}

impl<'a> Assembly<'a> {
    /// Starts with an empty table of functions.
    pub(crate) fn new(capture: &'a Capture, analysis: &'a Analysis) -> Self {
        Assembly { capture, analysis, window: window(capture, analysis), positions: FxHashMap::default() }
    }

    /// Seconds since the start of the window; negative before it. Microseconds are kept.
    pub(crate) fn at(&self, time: MonoNanos) -> f64 {
        let start = self.window.0;
        let micros = |nanos: u64| crate::units::to_f64(nanos / 1_000) / 1e6;
        if time >= start { micros(time.since(start).0) } else { -micros(start.since(time).0) }
    }

    /// Name of a function.
    pub(crate) fn function_name(&self, handle: Option<FunctionHandle>) -> Option<String> {
        self.analysis.function(handle?).map(|row| row.name.clone())
    }
}

/// JSON has no way to write what is not a number; where a number must stand, that is a zero.
pub(crate) fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}

/// The window of the analysis, or what the header and the trace say, or nothing.
fn window(capture: &Capture, analysis: &Analysis) -> (MonoNanos, MonoNanos) {
    if let Some(window) = analysis.window {
        return window;
    }
    let start = capture.header.start.mono;
    match (&capture.header.end, capture.timeline.as_ref().and_then(|timeline| timeline.span)) {
        (Some(end), _) if end.mono > start => (start, end.mono),
        (_, Some(span)) => span,
        _ => (start, start),
    }
}
