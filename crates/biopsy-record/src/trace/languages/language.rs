//! The interpreter of a process, whichever it is.

use std::io;

use biopsy_model::stack::Frame;
use biopsy_runtimes::python::RawStack;

use super::java::Java;
use super::mix::Unmixed;
use super::named::Timeline;
use super::node::Node;
use super::python::Python;

/// An interpreter that is sampled.
#[derive(Debug)]
pub(crate) enum Language {
    Python(Box<Python>),
    Java(Box<Java>),
    Node(Box<Node>),
}

impl Language {
    /// Appends native frames and calls of the language, innermost first. `false`: there are none of the language.
    pub(crate) fn mixed(
        &mut self,
        stack: Unmixed<'_>,
        now: u64,
        timeline: &mut Timeline<'_>,
        frames: &mut Vec<Frame>,
    ) -> io::Result<bool> {
        let Unmixed { walked, word, raw, .. } = stack;
        match (self, raw) {
            (Self::Python(python), Some(raw)) => {
                python.mixed(stack, raw, now, timeline, frames).map(|()| true)
            }
            (Self::Python(_), None) => Ok(false),
            (Self::Node(node), _) => node.mixed(walked, word, now, timeline, frames).map(|()| true),
            (Self::Java(java), _) => java.mixed(walked, word, now, timeline, frames).map(|()| true),
        }
    }

    /// The frames of a thread that sleeps, where they are not on its stack.
    pub(crate) fn stack_now(&mut self, tid: u32, now: u64) -> Option<RawStack> {
        match self {
            Self::Python(python) => python.stack_now(tid, now),
            Self::Java(_) | Self::Node(_) => None,
        }
    }

    /// A thread has ended.
    pub(crate) fn forget_thread(&mut self, tid: u32) {
        match self {
            Self::Python(python) => python.forget_thread(tid),
            Self::Java(_) | Self::Node(_) => {}
        }
    }

    /// The same in a process that began as a copy of this one, and does not do so only to execute another program.
    pub(crate) fn of_child(&self, pid: u32) -> Option<Self> {
        match self {
            Self::Python(python) => Some(Self::Python(Box::new(python.of_child(pid)))),
            Self::Java(_) | Self::Node(_) => None,
        }
    }
}
