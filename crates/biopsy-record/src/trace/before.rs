//! What another recorder has of the time before, as a part of this timeline.

use std::io;

use biopsy_model::MonoNanos;
use biopsy_model::timeline::TimelineEvent;
use biopsy_recording::{Limits, timeline};

use super::intern::Interner;
use super::sink::Sink;

/// What was recorded before a recording began.
#[derive(Clone, Debug)]
pub struct Before {
    /// A whole timeline.
    pub timeline: Vec<u8>,
    /// What is noted at the moment at which this recording takes over.
    pub label: String,
    /// Its settings hold for all, because nothing but it is of interest.
    pub settings_hold: bool,
}

impl Before {
    /// Appends what was before `begin`, from where on this recorder has seen all itself, with handles behind those that there are.
    pub(super) fn put_into(
        &self,
        begin: MonoNanos,
        interner: &mut Interner,
        sink: &mut Sink,
    ) -> io::Result<()> {
        let shift = interner.shift();
        let mut behind = shift;
        let mut result = Ok(());
        let read = timeline::read_events(self.timeline.as_slice(), &Limits::default(), |mut event| {
            let is_other = matches!(event, TimelineEvent::Settings(_)) && !self.settings_hold;
            if is_other || result.is_err() || !timeline::cut_at(&mut event, begin) {
                return;
            }
            behind.count(&event);
            shift.event(&mut event);
            result = sink.push(&event);
        });
        interner.skip_to(behind);
        result?;
        sink.push(&TimelineEvent::Mark { time: begin, label: self.label.clone() })?;
        match read {
            Ok(_) => Ok(()),
            Err(error) => {
                sink.warn("recording.no-before", format!("the minutes before cannot be read: {error}"), None)
            }
        }
    }
}
