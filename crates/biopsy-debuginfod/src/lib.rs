//! Debug files and programs from debuginfod servers (elfutils' web API), for who reads a dump and allowed it.
//!
//! ```text
//!  reader ──build id──► Client ──► Cache: was it fetched before, or is it known that nobody has it?
//!                          └─────► each server in turn: GET URL/buildid/HEX/debuginfo, or /executable ──► checked, then kept in the cache
//! ```
//!
//! It opens sockets, to the servers that the command line or `DEBUGINFOD_URLS` names and to where these send it on, and only `--debuginfod`
//! makes a [`Client`]. All that it tells them is the build id; nothing that it gets is believed before the file says the same id itself.
//! No server that fails ends anything: what is missing is in [`Client::told`], and the names are as they were without it.

#![forbid(unsafe_code)]

mod cache;
mod client;
mod fetch;
mod limits;
mod servers;
mod sources;
mod told;

pub use cache::{CacheError, default_folder};
pub use client::Client;
pub use fetch::Progress;
pub use limits::Limits;
pub use servers::{ServersError, parse_servers};
pub use sources::{Sources, SourcesError};
pub use told::Told;
