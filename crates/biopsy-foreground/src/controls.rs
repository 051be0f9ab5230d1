//! Keys and signals while recording. None of them ever reaches the target.

use std::io::{IsTerminal, Read};
use std::sync::mpsc::Sender;

use biopsy_capture::capture::Wish;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::arrivals::{Arrivals, Handle};
use crate::interrupt;

/// SIGUSR1 wishes a snapshot, SIGUSR2 a mark, until this is dropped.
#[derive(Debug)]
pub struct SignalWishes(Handle);

impl SignalWishes {
    /// Listens from now on.
    ///
    /// # Errors
    /// The kernel gives no socket or no thread.
    pub fn listen(wishes: Sender<Wish>) -> std::io::Result<Self> {
        let arrivals = Arrivals::of([SIGUSR1, SIGUSR2])?;
        let handle = arrivals.start("biopsy-signals", move |signal| {
            let wish = if signal == SIGUSR1 { Wish::Snapshot } else { Wish::Mark };
            // Nobody has wishes any more.
            let _ = wishes.send(wish);
        })?;
        Ok(Self(handle))
    }
}

impl Drop for SignalWishes {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Single keys of the terminal; when it is dropped, the terminal is as it was.
#[derive(Debug)]
pub(crate) struct Keys(Termios);

impl Keys {
    /// `None`: there is no terminal, or it is not ours.
    pub(crate) fn listen(wishes: Sender<Wish>) -> Option<Self> {
        let saved = single_keys()?;
        interrupt::restoring(saved.clone());
        let keys = Self(saved);
        let read = move || read_keys(&wishes);
        std::thread::Builder::new().name("biopsy-keys".to_owned()).spawn(read).ok()?;
        Some(keys)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
        interrupt::forget_terminal();
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
