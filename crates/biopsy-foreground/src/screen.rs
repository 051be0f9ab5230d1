//! What a user sees while a verb works: sentences, and one line that is drawn again.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use biopsy_capture::capture::Wish;
use biopsy_capture::words::{grouped, size};
use biopsy_capture::{Event, Failure, LeftBehind, Observer};
use biopsy_model::printable::printable;
use biopsy_record::metrics::Latest;
use biopsy_record::trace::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::controls::Keys;
use crate::forecast::show_forecast;
use crate::out;
use biopsy_terminal::terminal::{ColorChoice, NOTE, Terminal, stderr_is_terminal};

/// Shows what a verb tells.
#[derive(Debug)]
pub struct Screen {
    color: ColorChoice,
    terminal: Terminal,
    quiet: bool,
    json: bool,
    /// Is told what would be left behind where there is no memory any more.
    leaves: fn(Vec<(CString, String)>),
    /// Where keys lead to; not set: there are none.
    wishes: OnceLock<Sender<Wish>>,
    drawn: Mutex<Drawn>,
    /// Why something that was to be shown on standard output is not there.
    failed: Mutex<Option<Failure>>,
}

/// What is on the screen, and is taken from it again.
#[derive(Default, Debug)]
struct Drawn {
    display: Option<Display>,
    _keys: Option<Keys>,
    bar: Option<ProgressBar>,
}

impl Screen {
    /// For a command with these options. `leaves` is told what would be left behind where there is no memory any more, with a sentence for
    /// each: by then nothing can be put together.
    pub fn new(color: ColorChoice, quiet: bool, json: bool, leaves: fn(Vec<(CString, String)>)) -> Self {
        Self {
            color,
            terminal: Terminal::of_stderr(color),
            quiet,
            json,
            leaves,
            wishes: OnceLock::new(),
            drawn: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// From the beginning of the recording on, keys of the terminal are wishes.
    pub fn listen_to_keys(&self, wishes: Sender<Wish>) {
        // They are listened to once.
        let _ = self.wishes.set(wishes);
    }

    /// The terminal is as it was, and all that was to be shown was shown.
    ///
    /// # Errors
    /// Why something that was to be shown on standard output is not there.
    pub fn clear(&self) -> Result<(), Failure> {
        *self.drawn() = Drawn::default();
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sentence, above what is drawn.
    fn say(&self, line: &str) {
        match &self.drawn().display {
            Some(display) if !display.bar.is_hidden() => display.bar.println(printable(line)),
            _ => out::say(format_args!("{line}")),
        }
    }

    fn write(&self, pid: biopsy_model::Pid, done: u64, total: u64) {
        let mut drawn = self.drawn();
        let bar = drawn.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(0);
            if !stderr_is_terminal() {
                bar.set_draw_target(ProgressDrawTarget::hidden());
            }
            let style = ProgressStyle::with_template("{bar:20} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars(blocks(self.terminal));
            bar.set_style(style);
            bar.set_message(format!("writing process {pid}"));
            bar
        });
        bar.set_length(total);
        bar.set_position(done);
    }

    fn begin(&self, greeting: &str, length: Option<Duration>) {
        let keys = self.wishes.get().and_then(|wishes| Keys::listen(wishes.clone()));
        let help =
            if keys.is_some() { "; keys: s snapshot and go on, m mark this moment, q stop" } else { "" };
        *self.drawn() =
            Drawn { display: Some(Display::start(length, self.terminal)), _keys: keys, ..Drawn::default() };
        self.say(&format!("{greeting}{help}"));
    }
}

impl Observer for Screen {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Note(text) => self.say(&format!("note: {text}")),
            Event::Warning(text) => self.say(&format!("warning: {text}")),
            Event::Failed(failure) => out::say_failure(failure, self.color),
            Event::Forecast(forecast) => {
                if let Err(failure) = show_forecast(forecast, self.quiet, self.json, self.color) {
                    *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                }
            }
            _ if self.quiet => {}
            Event::Step(text) => self.say(text),
            Event::Remark(text) => self.say(&format!("note: {text}")),
            Event::Check(check) => {
                let (name, detail) = (check.name, printable(&check.detail));
                let line = format!("{} {name}: {detail}\n", self.terminal.paint(NOTE, "note:"));
                out::to_stderr(&line, self.terminal.colour);
                if let Some(hint) = &check.hint {
                    out::say(format_args!("      {hint}"));
                }
            }
            Event::Recording { name, pid, processes, length, trace_only } => {
                let what = if trace_only { "tracing" } else { "capturing" };
                let more = match processes {
                    0 | 1 => String::new(),
                    more => format!(" and {} processes below it", more - 1),
                };
                self.begin(&format!("{what} {name} (pid {pid}){more}"), length);
            }
            Event::Recorded { trace, metrics } => {
                if let Some(display) = &self.drawn().display {
                    display.update(trace, metrics);
                }
            }
            Event::RecordingEnded => {
                if let Some(display) = &self.drawn().display {
                    display.finish();
                }
            }
            Event::Writing { pid, done, total } => self.write(pid, done, total),
            Event::Written => {
                if let Some(bar) = self.drawn().bar.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }

    /// Where there is no memory any more, nothing can be put together: it is told beforehand.
    fn left_behind(&self, files: &[LeftBehind]) {
        let sentence = |left: &LeftBehind| {
            let what = if left.finished { "finished:" } else { "not finished:" };
            let path = CString::new(left.path.as_os_str().as_bytes()).ok()?;
            Some((path, format!("{what} `{}`\n", printable(&left.path.to_string_lossy()))))
        };
        (self.leaves)(files.iter().filter_map(sentence).collect());
    }
}

fn blocks(terminal: Terminal) -> &'static str {
    if terminal.unicode { "━╸─" } else { "=> " }
}

/// The display; nothing is drawn where standard error is not a terminal.
#[derive(Debug)]
struct Display {
    bar: ProgressBar,
    started: Instant,
    length: Option<Duration>,
}

impl Display {
    fn start(length: Option<Duration>, terminal: Terminal) -> Self {
        let bar = match length {
            Some(length) => ProgressBar::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
            None => ProgressBar::new_spinner(),
        };
        if terminal.width.is_none() && !stderr_is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let template = match (length.is_some(), terminal.unicode) {
            (true, _) => "{bar:20} {msg}",
            (false, _) => "{spinner} {msg}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars(blocks(terminal)));
        Self { bar, started: Instant::now(), length }
    }

    /// Draws what there is now.
    fn update(&self, trace: Option<&Progress>, latest: Option<&Latest>) {
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

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// `1:05`, `1:02:05`
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(3725)), "1:02:05");
    }
}
