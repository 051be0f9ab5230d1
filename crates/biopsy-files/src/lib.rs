//! The one opener for files that somebody else names: a process by its mappings, a dump by its notes, a user of the machine by
//! a link in a folder of his.
//!
//! What it promises, whatever lies at the path and however often it is changed meanwhile:
//! - **it never waits**: only regular files are opened for reading, and only on file systems that are served by this kernel;
//!   nothing is looked up on a network file system, below an automounter, or in FUSE ([`Refused::FileSystem`]);
//! - **it has no effect**: devices, FIFOs and sockets are looked at by `O_PATH` and not opened ([`Refused::NotRegular`]);
//! - **it stays inside**: links below `/proc/PID/root` are resolved against that root, not ours, and magic links are not followed;
//! - **it lends nobody our rights**: a link that a user made leads to what that user may read ([`Refused::Foreign`]).
//!
//! It walks a path part by part with `O_PATH | O_NOFOLLOW`, and looks at the handle that it has, so nothing can be exchanged
//! between the look and the open. openat2(2) alone cannot do it: it tells neither whose links it followed nor, before it has
//! looked up a name there, on which file system it is. [Design](../../../docs/design/14-files-of-others.md).
//!
//! What it does not do: believe what it opened. That the file is the one that was meant is the caller's to check, by build id.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

mod file_system;
mod kernel;
mod refused;
mod walk;

pub use file_system::{Found, Mounts};
pub use kernel::{open_kernels, read_kernels};
pub use refused::Refused;
pub use walk::{Links, Opened, Root, open, open_handle, reopen};
