//! Signals on a thread of their own, whatever the kernel answers.
//!
//! The iterator of signal-hook panics when the kernel refuses to read from its socket (ENOMEM): then nobody listens any more, and
//! the first Ctrl-C does nothing. Here it is asked again.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::SigId;

/// How long is waited before the kernel is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// Listens until [`Handle::close`].
pub(crate) struct Arrivals {
    signals: Vec<(i32, Arc<AtomicBool>)>,
    ids: Vec<SigId>,
    bell: UnixStream,
    handle: UnixStream,
}

/// Ends listening.
#[derive(Debug)]
pub(crate) struct Handle {
    ids: Vec<SigId>,
    bell: UnixStream,
}

impl Arrivals {
    /// Takes these signals from now on.
    pub(crate) fn of(numbers: impl IntoIterator<Item = i32>) -> std::io::Result<Self> {
        let (bell, ring) = UnixStream::pair()?;
        let handle = bell.try_clone()?;
        let mut arrivals = Self { signals: Vec::new(), ids: Vec::new(), bell, handle };
        for number in numbers {
            let came = Arc::new(AtomicBool::new(false));
            // In this order: who hears the bell finds the flag set.
            arrivals.ids.push(signal_hook::flag::register(number, Arc::clone(&came))?);
            arrivals.ids.push(signal_hook::low_level::pipe::register(number, ring.try_clone()?)?);
            arrivals.signals.push((number, came));
        }
        Ok(arrivals)
    }

    /// Starts the thread that calls `came` for each signal. Several of one number that come at once may be one.
    pub(crate) fn start(
        self,
        name: &str,
        mut came: impl FnMut(i32) + Send + 'static,
    ) -> std::io::Result<Handle> {
        let Self { signals, ids, mut bell, handle } = self;
        let listen = move || {
            let mut rings = [0; 64];
            loop {
                match bell.read(&mut rings) {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(_) => std::thread::sleep(AGAIN),
                }
                for (number, flag) in &signals {
                    if flag.swap(false, Ordering::SeqCst) {
                        came(*number);
                    }
                }
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(listen)?;
        Ok(Handle { ids, bell: handle })
    }
}

impl Handle {
    /// No signal is told any more.
    pub(crate) fn close(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
        // The thread that listens reads its end.
        let _ = self.bell.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGURG, SIGWINCH};
    use std::sync::mpsc::channel;

    #[test]
    fn signals_are_told_until_it_is_closed() {
        let (tell, told) = channel();
        let arrivals = Arrivals::of([SIGWINCH, SIGURG]).unwrap();
        let mut handle = arrivals
            .start("listens", move |signal| {
                let _ = tell.send(signal);
            })
            .unwrap();
        for signal in [SIGURG, SIGWINCH, SIGURG] {
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(signal));
        }
        handle.close();
        // Its end of the channel is gone with the thread.
        assert_eq!(told.recv_timeout(Duration::from_secs(10)).ok(), None);
    }
}
