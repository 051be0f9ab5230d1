//! What stands by: settings of which processes are captured when, and the decisions on them.
//!
//! ```text
//! diagnostics.json ─► text (a tree with places) ─► settings (checked: line, column, what is allowed there) ─► rules
//!                                                                                                             │
//! processes that are there ─► Engine::look ─► fire, or why not  ◄── limits: a day, cool-down, at once, disk ◄─┘
//! results that are kept ─► keep::to_remove          what is on ─► lease::Journal, written before it takes effect
//! ```
//!
//! Nothing here looks at a process, starts one or waits: whoever watches says what is there and what time it is, so that days can be
//! gone through in a test. Settings are read from files that nobody else may write ([`mod@file`]); the rest is pure.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

mod budget;
pub mod engine;
pub mod file;
pub mod fuzz;
pub mod keep;
pub mod kinds;
pub mod lease;
mod moment;
pub mod process;
pub mod quantity;
pub mod rules;
pub mod sends;
pub mod settings;
pub mod text;

pub use engine::{Engine, Held, Outcome};
pub use moment::Moment;
pub use process::Observed;
pub use settings::{Layer, Problem, Settings};
