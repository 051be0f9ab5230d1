//! Writes files and folders again without their secrets: the redactor for everything that was not recorded by us.
//!
//! Promises:
//! - the input is only read, and nothing that exists is written over; what is not finished has no name
//! - what is found by its key in one file is masked in all of them: files are gone over until nothing new is learned
//! - names, line ends, encodings (UTF-8, UTF-16, what keeps ASCII) and packing (gzip, zstd, zip) stay as they were
//! - what cannot be looked into (programs, pictures, links, devices) is left out and named, never copied
//! - bounded memory, whatever the size; what unpacks to more than it should is refused
//!
//! The map: [`find`] lists what is to be written, `packing` knows what is packed, `pass` takes one file through the redactor,
//! [`rewrite`] does that for all of them and
//! `second_opinion` reads the result, [`check`] says what would be masked and why.

#![forbid(unsafe_code)]

mod check;
mod error;
mod find;
mod packing;
mod pass;
mod rewrite;
mod second_opinion;
mod targets;

pub use check::{Marked, check};
pub use error::RewriteError;
pub use find::{Found, Item, LeftOut, find};
pub use packing::Packing;
pub use rewrite::{Rewritten, RewrittenFile, beside, rewrite, rewrite_one, stream};
