//! Keys and signals while recording. None of them ever reaches the target.

use std::io::{IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::arrivals::{Arrivals, Handle};
use crate::interrupt::{self, Leaving};

/// What the user wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// `q`, or a signal that asks to end, see [`crate::interrupt`]: stop and keep.
    Stop,
    /// `s`, SIGUSR1: a usable recording of what there is, and go on.
    Snapshot,
    /// `m`, SIGUSR2: note this moment.
    Mark,
}

/// Listens until dropped; then the terminal is as it was.
pub(crate) struct Controls {
    wishes: Receiver<Wish>,
    signals: Handle,
    saved: Option<(Termios, Leaving)>,
}

impl Controls {
    /// Starts listening. `keys`: also to the terminal, if there is one.
    pub(crate) fn listen(keys: bool) -> std::io::Result<Self> {
        let (tell, wishes) = channel();
        let arrivals = Arrivals::of([SIGUSR1, SIGUSR2])?;
        let from_signals = tell.clone();
        let asked = tell.clone();
        // Nobody listens any more: then nothing is left to stop.
        interrupt::tell(move || {
            let _ = asked.send(Wish::Stop);
        });
        let handle = arrivals.start("biopsy-signals", move |signal| {
            let wish = if signal == SIGUSR1 { Wish::Snapshot } else { Wish::Mark };
            // Nobody has wishes any more.
            let _ = from_signals.send(wish);
        })?;
        let saved = if keys { single_keys() } else { None };
        let saved = saved.map(|saved| (saved.clone(), interrupt::restoring(saved)));
        if saved.is_some() {
            std::thread::Builder::new().name("biopsy-keys".to_owned()).spawn(move || read_keys(&tell))?;
        }
        Ok(Self { wishes, signals: handle, saved })
    }

    /// Whether keys are listened to.
    pub(crate) fn has_keys(&self) -> bool {
        self.saved.is_some()
    }

    /// The next wish within this time.
    pub(crate) fn wait(&self, time: Duration) -> Option<Wish> {
        match self.wishes.recv_timeout(time) {
            Ok(wish) => Some(wish),
            Err(RecvTimeoutError::Timeout) => None,
            // Nobody can wish anything any more; the time still has to pass.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(time);
                None
            }
        }
    }
}

impl Drop for Controls {
    fn drop(&mut self) {
        self.signals.close();
        if let Some((saved, _)) = &self.saved {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, saved);
        }
    }
}

/// Makes the terminal give single keys without showing them. Ctrl-C stays a signal.
fn single_keys() -> Option<Termios> {
    let stdin = std::io::stdin();
    // A background process that touched the terminal would be stopped.
    let foreground = rustix::termios::tcgetpgrp(&stdin).ok()? == rustix::process::getpgrp();
    if !stdin.is_terminal() || !foreground {
        return None;
    }
    let saved = tcgetattr(&stdin).ok()?;
    let mut single = saved.clone();
    single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Now, &single).ok()?;
    Some(saved)
}

fn read_keys(tell: &Sender<Wish>) {
    let mut key = [0];
    while std::io::stdin().lock().read_exact(&mut key).is_ok() {
        let wish = match key[0].to_ascii_lowercase() {
            b'q' => Wish::Stop,
            b's' => Wish::Snapshot,
            b'm' => Wish::Mark,
            _ => continue,
        };
        if tell.send(wish).is_err() {
            break;
        }
    }
}
