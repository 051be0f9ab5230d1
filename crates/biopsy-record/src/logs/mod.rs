//! Logs: the lines of the recording's window, from files and from the journal, masked.
//!
//! [`LogWatch::begin`] notes which files there are and how large they are when the recording starts;
//! [`LogWatch::collect`] takes what belongs to the window when it has ended. Lines with a time stamp are cut by
//! it; of files without any, what was written during the recording is taken. Lines that begin without a stamp
//! belong to the record before them (stack traces).
//!
//! Large files are not read whole: the window is searched from the end. Rotated and compressed parts are found
//! beside a file. Nothing but regular files is opened, lines and files of any size take bounded memory, and
//! all that is left out is said in a [`Warning`].

mod code_page;
mod collect;
mod config;
mod glob_walk;
mod journal;
mod level;
mod open;
mod output;
mod place;
mod preview;
mod records;
mod rotated;
mod source;
mod stamp;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod watch;
mod zone;

use std::time::Duration;

pub use config::Config;
pub use output::{CollectedLog, Summary};
pub use watch::LogWatch;

/// Reads any bytes as a log, in each encoding and with a window around its stamps: for fuzzing. Never panics,
/// and holds bounded memory.
pub fn fuzz_records(bytes: &[u8]) {
    use std::io::BufReader;
    let until = std::time::Instant::now() + Duration::from_secs(10);
    let near = 1_795_255_200_000_000_000;
    let resolver = zone::Resolver::new(jiff::tz::TimeZone::UTC, near);
    let window =
        records::Cut::Window { resolver, from: near - (1 << 60), to: near + (1 << 60), sure_from: 100 };
    let _ = text::find_encoding(bytes, bytes);
    for cut in [&window, &records::Cut::Everything] {
        for big in [None, Some(true), Some(false)] {
            let mut seen = records::Seen::default();
            let mut reader: Box<dyn std::io::BufRead> = match big {
                None => Box::new(bytes),
                Some(big) => Box::new(BufReader::new(text::Utf16Reader::new(bytes, big))),
            };
            let _ = records::read_records(&mut reader, cut, until, &mut seen, |_| Ok::<(), ()>(()));
        }
    }
    let _ = journal::parse_entry(bytes);
}
