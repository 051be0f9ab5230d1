//! Asking a recorder for the last minutes.

use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use biopsy_model::MonoNanos;

use super::answer::Recent;
use super::place::{RecentPlace, may_ask};

/// How long an answer may take: the recorder is of low priority, and the machine may be starved.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether somebody keeps the last minutes there.
#[must_use]
pub fn is_kept(place: &RecentPlace) -> bool {
    place.connect().is_ok()
}

/// Whoever keeps the last minutes leaves the events of runtimes to somebody else as long as this lives.
#[derive(Debug)]
pub(crate) struct Stead {
    _stream: UnixStream,
}

/// What happened behind `from` and not behind `until`, as far as it was kept; and the right to listen instead from now on.
pub(crate) fn ask(place: &RecentPlace, from: MonoNanos, until: MonoNanos) -> io::Result<(Recent, Stead)> {
    let mut stream = place.connect()?;
    if !may_ask(&stream) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user who answers"));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    writeln!(stream, "{} {}", from.0, until.0)?;
    let recent = Recent::read(&mut BufReader::new(&stream))?;
    Ok((recent, Stead { _stream: stream }))
}
