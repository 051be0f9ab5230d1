//! How the recording goes, on one line that is drawn again.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use biopsy_model::printable::printable;
use biopsy_record::metrics::Latest;
use biopsy_record::trace::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::render::out;
use crate::render::terminal::Terminal;

/// The display; nothing is drawn where standard error is not a terminal.
pub(crate) struct Display {
    bar: ProgressBar,
    started: Instant,
    length: Option<Duration>,
}

impl Display {
    pub(crate) fn start(length: Option<Duration>, quiet: bool, terminal: Terminal) -> Self {
        let bar = match length {
            Some(length) => ProgressBar::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
            None => ProgressBar::new_spinner(),
        };
        if quiet || terminal.width.is_none() && !crate::render::terminal::stderr_is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let template = match (length.is_some(), terminal.unicode) {
            (true, _) => "{bar:20} {msg}",
            (false, _) => "{spinner} {msg}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style =
            if terminal.unicode { style.progress_chars("━╸─") } else { style.progress_chars("=> ") };
        bar.set_style(style);
        Self { bar, started: Instant::now(), length }
    }

    /// Draws what there is now.
    pub(crate) fn update(&self, trace: Option<&Progress>, latest: Option<&Latest>) {
        let elapsed = self.started.elapsed();
        self.bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        let mut parts = vec![match self.length {
            Some(length) => format!("{} left", clock(length.saturating_sub(elapsed))),
            None => clock(elapsed),
        }];
        if let Some(trace) = trace {
            let count = |number: &std::sync::atomic::AtomicU64| grouped(number.load(Relaxed));
            parts.push(format!("{} samples", count(&trace.samples)));
            parts.push(format!("{} waits", count(&trace.waits)));
            parts.push(format!("{} threads", count(&trace.threads)));
            parts.push(format!("{} lost", count(&trace.lost)));
            parts.push(size(trace.bytes.load(Relaxed)));
        }
        if let Some(latest) = latest {
            if let Some(cpu) = latest.cpu {
                parts.push(format!("CPU {cpu:.1} cores"));
            }
            if let Some(resident) = latest.resident {
                parts.push(format!("RSS {}", size(resident)));
            }
            if latest.throttled {
                parts.push("throttled".to_owned());
            }
        }
        self.bar.set_message(parts.join(" · "));
    }

    /// Prints a line above the display.
    pub(crate) fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            out::say(format_args!("{line}"));
        } else {
            self.bar.println(printable(line));
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// `1:05`, `1:02:05`
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// `12,345`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `312 MB`
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let (mut unit, mut rest, mut divisor) = (0, bytes, 1_u64);
    while rest >= 1000 && unit + 1 < units.len() {
        rest /= 1000;
        divisor *= 1000;
        unit += 1;
    }
    if unit == 0 || rest >= 10 {
        format!("{rest} {}", units[unit])
    } else {
        format!("{}.{} {}", rest, bytes % divisor / (divisor / 10), units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(3725)), "1:02:05");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1_540_000), "1.5 MB");
        assert_eq!(size(312_000_000), "312 MB");
    }
}
