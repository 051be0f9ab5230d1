//! A command that runs: what it tells is shown, signals reach it, and where there is no memory it says what it leaves.

use std::sync::Arc;

use biopsy_capture::{Failure, Job, Patience};
use biopsy_foreground::{Code, Screen, interrupt};
use biopsy_terminal::ColorChoice;

/// What is said when there is no memory: by then nothing can be put together any more.
#[global_allocator]
static ALLOCATOR: biopsy_sys::allocator::EndsWithoutMemory = biopsy_sys::allocator::EndsWithoutMemory::new(
    "error: biopsy itself has run out of memory\n\nhint: what was written so far, if anything, is kept and called partial; \
     what was recorded runs on\n",
    Code::Memory as i32,
);

/// Begins it: signals are listened to from now on.
pub(crate) fn begin(
    color: ColorChoice,
    quiet: bool,
    json: bool,
    patience: Patience,
) -> Result<(Job, Arc<Screen>), Failure> {
    let screen = Arc::new(Screen::new(color, quiet, json, |left| ALLOCATOR.leaves(left)));
    let job = Job::new(Box::new(Arc::clone(&screen)));
    interrupt::listen(&job, patience, color)?;
    Ok((job, screen))
}

/// Where Rust gets no memory for the signal stack of a new thread it panics before anything of ours runs, cannot unwind, and aborts. It
/// is the same as an allocation that is refused.
pub(crate) fn end_where_a_thread_gets_no_memory() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.location().is_some_and(|at| at.file().ends_with("stack_overflow.rs")) {
            ALLOCATOR.end();
        }
        usual(panic);
    }));
}
