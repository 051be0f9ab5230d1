//! What the recorder asks the thread of managed code, and what that answers.

use std::sync::{Arc, Mutex};

use biopsy_dotnet::methods::MethodMap;
use biopsy_model::stack::{Frame, FrameHandle};
use biopsy_model::symbol::FrameSymbols;

use super::rules::Rules;

/// Methods that the event session of a process has told of.
pub type SharedMethods = Arc<Mutex<MethodMap>>;

pub(super) enum Request {
    /// Look whether a runtime is in it.
    Process(u32, Arc<Rules>),
    /// It executes another program.
    Exec(u32),
    /// It has ended.
    Exit(u32),
    /// Methods told by events.
    Methods(u32, SharedMethods),
    Names(Vec<(u32, FrameHandle, Frame)>),
    /// Rules are wanted.
    Rules(u32),
    /// Say of each frame that has no name yet that it has none.
    Last,
}

#[derive(Default)]
pub(super) struct Answer {
    pub(super) symbols: Vec<FrameSymbols>,
    /// No managed code, as far as can be told.
    pub(super) unnamed: Vec<(FrameHandle, Frame)>,
    /// New rules are there for these processes.
    pub(super) rules: Vec<u32>,
    /// Message and hint.
    pub(super) problems: Vec<(String, Option<&'static str>)>,
    /// It answers [`Request::Last`].
    pub(super) last: bool,
}
