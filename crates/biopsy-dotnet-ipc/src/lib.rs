//! The diagnostics protocol of .NET: commands to a running process and the streams it answers with.
//!
//! ```text
//! DiagnosticPort::find ─► Client ─┬─► process_info, set_variable
//!                                 └─► start_session ─► Session (Read: nettrace) + SessionControl
//! ReversePort::listen ◄─ Arrival: a runtime that starts, and waits
//! ```
//!
//! What it promises: every step has a time limit; a runtime that does not answer is diagnosed ([`Silence`]), not waited
//! for; whom the socket leads to is checked; nothing is left behind in the process, however this one ends: sessions end
//! with their socket. What it does not do: load code into a process, command other tools' sessions, or understand what a
//! session streams: `biopsy-dotnet` does.
//!
//! ```no_run
//! use std::io::Read;
//! use biopsy_dotnet_ipc::{Client, EventLevel, Provider, Rundown, SessionConfig};
//! use biopsy_model::Pid;
//!
//! let client = Client::of(Pid(4711))?;
//! println!("{:?}", client.process_info()?.version);
//! let mut session = client.start_session(&SessionConfig {
//!     buffer_mb: 16,
//!     rundown: Rundown::None,
//!     stacks: true,
//!     providers: vec![Provider::new("Microsoft-Windows-DotNETRuntime", 0x8000, EventLevel::Error)],
//! })?;
//! let mut magic = [0; 8];
//! session.read_exact(&mut magic)?;
//! assert_eq!(&magic, b"Nettrace");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

mod caller;
mod client;
mod connection;
mod error;
mod folder;
mod fuzz;
mod hresult;
mod info;
mod missing;
mod port;
mod reverse;
mod session;
mod session_config;
mod silence;
mod target;
mod wire;

pub use caller::TimeLimits;
pub use client::Client;
pub use error::{IpcError, NoSocket};
pub use fuzz::fuzz_answers;
pub use hresult::HResult;
pub use info::ProcessInfo;
pub use port::DiagnosticPort;
pub use reverse::{Arrival, ReversePort};
pub use session::{Session, SessionControl};
pub use session_config::{EventFilter, EventLevel, Provider, Rundown, SessionConfig};
pub use silence::Silence;
