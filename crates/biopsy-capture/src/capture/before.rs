//! What was recorded before: asked of the recorder that keeps the last minutes of a process.

use biopsy_model::metric::MetricTable;
use biopsy_model::runtime_trace::RuntimeTrace;
use biopsy_model::{ClockPair, MonoNanos, ProcessKey};
use biopsy_record::context::clock_pair;
use biopsy_record::trace::{Before, Control, TraceHandle};

use crate::failure::{Failure, FailureKind};
use crate::recent::{self, Recent, RecentPlace, Stead};
use crate::recording::Draft;

use super::plan::RecentWish;

/// Somebody keeps the last minutes, and will be asked for them.
#[derive(Debug)]
pub(super) struct Asked {
    place: RecentPlace,
    wish: RecentWish,
}

/// What is known of the time before, beside the trace.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Metrics.
    pub(super) tables: Vec<MetricTable>,
    /// What runtimes said.
    pub(super) runtimes: Vec<RuntimeTrace>,
    /// Who keeps the last minutes is silent meanwhile.
    _stead: Option<Stead>,
}

impl Asked {
    /// Looks whether somebody keeps the last minutes of a process; `None`: nobody does, and that is no reason not to record.
    pub(super) fn of(wish: &RecentWish, target: &ProcessKey) -> Result<Option<Self>, Failure> {
        let place = RecentPlace::of(&wish.folder, target);
        if recent::is_kept(&place) {
            return Ok(Some(Self { place, wish: wish.clone() }));
        }
        if !wish.is_needed {
            return Ok(None);
        }
        let message = format!("nobody keeps the last minutes of process {}", target.pid);
        let hint = "`biopsy watch --recent 10m --process NAME` does from now on";
        Err(Failure::new(FailureKind::Target, message).with_hint(Some(hint)))
    }

    /// What was kept up to now.
    pub(super) fn answer(&self, now: &ClockPair) -> std::io::Result<(Recent, Stead)> {
        let length = u64::try_from(self.wish.length.as_nanos()).unwrap_or(u64::MAX);
        let from = MonoNanos(now.mono.0.saturating_sub(length));
        recent::ask(&self.place, from, now.mono)
    }

    /// Puts what there is before the recording that has just begun. Returns what else is known of that time.
    pub(super) fn put_before(self, trace: &TraceHandle, draft: &mut Draft) -> Result<Known, Failure> {
        let now = clock_pair();
        let (recent, stead) = match self.answer(&now) {
            Ok(answer) => answer,
            Err(error) => {
                let message =
                    format!("the minutes before are not there: who keeps them does not answer: {error}");
                draft.warn("recording.no-before", message);
                return Ok(Known::default());
            }
        };
        draft.warn("recording.before", recent.described(&recent.kept()));
        draft.warn_all(&recent.warnings());
        draft.header.start = recent.begin(&now);
        draft.write_header()?;
        trace.send(Control::Before(Box::new(Before {
            timeline: recent.timeline,
            label: if self.wish.is_all {
                "asked for".to_owned()
            } else {
                "recorded in full from here".to_owned()
            },
            settings_hold: self.wish.is_all,
        })));
        Ok(Known { tables: recent.tables, runtimes: recent.runtimes, _stead: Some(stead) })
    }
}
