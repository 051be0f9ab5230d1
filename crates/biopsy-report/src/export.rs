//! The recording in the formats of other tools.
//!
//! Each format has one file. `docs/guide/exports.md` says what each holds, what it cannot hold, and with which
//! reader it was checked.

mod collapsed;
mod firefox;
mod perfetto;
mod pprof;
mod speedscope;
mod stacks;
#[cfg(test)]
mod tests;
mod waits;

pub use pprof::write_heap as write_heap_as_pprof;

use biopsy_model::capture::Capture;
use biopsy_model::timeline::Timeline;
use std::io::{self, Write};
use std::str::FromStr;

/// A format of another tool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Firefox Profiler's processed profile (gzip): <https://profiler.firefox.com>.
    Firefox,
    /// Perfetto trace (protobuf): <https://ui.perfetto.dev>.
    Perfetto,
    /// pprof (gzip): `go tool pprof`, `pprof`.
    Pprof,
    /// speedscope JSON: <https://www.speedscope.app>.
    Speedscope,
    /// Collapsed stacks of CPU time, in samples: `flamegraph.pl`, inferno.
    Collapsed,
    /// Collapsed stacks of waiting time, in microseconds.
    CollapsedWaits,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 6] = [
        Format::Firefox,
        Format::Perfetto,
        Format::Pprof,
        Format::Speedscope,
        Format::Collapsed,
        Format::CollapsedWaits,
    ];

    /// Name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Firefox => "firefox",
            Format::Perfetto => "perfetto",
            Format::Pprof => "pprof",
            Format::Speedscope => "speedscope",
            Format::Collapsed => "collapsed",
            Format::CollapsedWaits => "collapsed-waits",
        }
    }

    /// Usual ending of a file name, with the dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Format::Firefox => ".firefox.json.gz",
            Format::Perfetto => ".perfetto-trace",
            Format::Pprof => ".pb.gz",
            Format::Speedscope => ".speedscope.json",
            Format::Collapsed => ".collapsed.txt",
            Format::CollapsedWaits => ".waits.collapsed.txt",
        }
    }

    /// What to open the file with, as one sentence for people.
    #[must_use]
    pub fn opens_with(self) -> &'static str {
        match self {
            Format::Firefox => {
                "load it in https://profiler.firefox.com (it stays in the browser), or `samply load FILE`"
            }
            Format::Perfetto => {
                "open it in https://ui.perfetto.dev (it stays in the browser), or with `trace_processor`"
            }
            Format::Pprof => "`go tool pprof -http : FILE`, or any other pprof viewer",
            Format::Speedscope => {
                "open it in https://www.speedscope.app (it stays in the browser), or `speedscope FILE`"
            }
            Format::Collapsed | Format::CollapsedWaits => "`inferno-flamegraph FILE` or `flamegraph.pl FILE`",
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;
    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// No format has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown export format `{name}`")]
pub struct UnknownFormat {
    /// The name given.
    pub name: String,
}

impl UnknownFormat {
    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        let names: Vec<_> = Format::ALL.iter().map(|format| format!("`{}`", format.name())).collect();
        format!("the formats are {}", names.join(", "))
    }
}

/// Why a recording could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is nothing of what this format holds.
    #[error("cannot export to {format}: the recording has {missing}", format = .format.name())]
    Nothing {
        /// The format.
        format: Format,
        /// What is missing: `no trace`, `no off-CPU samples`.
        missing: &'static str,
    },
    /// Writing failed.
    #[error("cannot write the {format} export", format = .format.name())]
    Write {
        /// The format.
        format: Format,
        /// Why.
        source: io::Error,
    },
}

fn has_allocations(timeline: &Timeline) -> bool {
    !timeline.allocations.is_empty() || !timeline.allocation_counts.is_empty()
}

/// Writes `capture` in `format`.
///
/// # Errors
/// [`ExportError::Nothing`] where the recording holds nothing of what the format can hold; [`ExportError::Write`] when
/// `out` fails.
pub fn write(format: Format, capture: &Capture, out: impl Write) -> Result<(), ExportError> {
    let nothing = |missing| Err(ExportError::Nothing { format, missing });
    // Of bytes there is one format.
    let shows = |timeline: &&Timeline| {
        !stacks::is_empty(timeline) || format == Format::Pprof && has_allocations(timeline)
    };
    let trace = capture.timeline.as_ref().filter(shows);
    let result = match (format, trace) {
        // Perfetto draws counters and log lines too, so metrics and logs alone are worth a file.
        (Format::Perfetto, None) if capture.metrics.is_empty() && capture.logs.is_empty() => {
            return nothing("no trace, no metrics and no logs");
        }
        (Format::Perfetto, _) => perfetto::write(capture, out),
        (Format::Pprof, None) if capture.timeline.is_some() => {
            return nothing("no samples, no waits and no allocations");
        }
        (_, None) if capture.timeline.is_some() => return nothing("no samples and no waits"),
        (_, None) => return nothing("no trace"),
        (Format::Firefox, Some(timeline)) => firefox::write(capture, timeline, out),
        // Waits without a stack are nothing that a format of stacks could show.
        (Format::Pprof | Format::Speedscope, Some(timeline))
            if timeline.samples.is_empty()
                && stacks::wait_shares(timeline).is_empty()
                && (format == Format::Speedscope || !has_allocations(timeline)) =>
        {
            return nothing("no samples and no stacks of waiting threads");
        }
        (Format::Pprof, Some(timeline)) => pprof::write(capture, timeline, out),
        (Format::Speedscope, Some(timeline)) => speedscope::write(capture, timeline, out),
        (Format::Collapsed, Some(timeline)) if timeline.samples.is_empty() => {
            return nothing("no CPU samples");
        }
        (Format::Collapsed, Some(timeline)) => collapsed::write_cpu(capture, timeline, out),
        (Format::CollapsedWaits, Some(timeline)) if stacks::wait_shares(timeline).is_empty() => {
            return nothing("no stacks of waiting threads");
        }
        (Format::CollapsedWaits, Some(timeline)) => collapsed::write_waits(capture, timeline, out),
    };
    result.map_err(|source| ExportError::Write { format, source })
}
