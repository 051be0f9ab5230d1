//! A redactor that is made while something else is done.

use std::cell::{Cell, OnceCell};
use std::thread::JoinHandle;

use crate::{Options, RedactError, Redactor};

type Made = Result<Redactor, RedactError>;

/// A redactor with the built-in rules that a thread of its own makes: that takes some hundredths of a second.
pub struct InMaking {
    thread: Cell<Option<JoinHandle<Made>>>,
    made: OnceCell<Made>,
}

impl std::fmt::Debug for InMaking {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("InMaking")
            .field("is_made", &self.made.get().is_some())
            .finish_non_exhaustive()
    }
}

impl InMaking {
    /// Begins. Where no thread can be started it is made when it is asked for.
    #[must_use]
    pub fn begin() -> Self {
        let thread = std::thread::Builder::new().name("redactor".to_owned()).spawn(make).ok();
        Self { thread: Cell::new(thread), made: OnceCell::new() }
    }

    /// When it is made.
    ///
    /// # Errors
    /// Those of [`Redactor::new`].
    pub fn wait(&self) -> Result<&Redactor, &RedactError> {
        let join =
            |thread: JoinHandle<Made>| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.made.get_or_init(|| self.thread.take().map_or_else(make, join)).as_ref()
    }

    /// The same, for good.
    ///
    /// # Errors
    /// Those of [`Redactor::new`].
    pub fn take(self) -> Result<Redactor, RedactError> {
        // Waits; what came of it is looked at below.
        let _ = self.wait();
        self.made.into_inner().unwrap_or_else(make)
    }
}

fn make() -> Made {
    Redactor::new(Options::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_masks_as_one_that_was_waited_for() {
        let made = InMaking::begin();
        let text = "Password=hunter2;";
        let masked = made.wait().unwrap().text(text).text.into_owned();
        assert!(!masked.contains("hunter2"));
        assert_eq!(made.take().unwrap().text(text).text, masked, "it is the same one");
    }
}
