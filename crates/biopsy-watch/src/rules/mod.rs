//! Rules: who, when, what, how much.

mod pattern;
mod rule;
mod when;
mod who;

pub use pattern::Pattern;
pub use rule::{Limits, Rule, Source, Verb, What, WhatError};
pub(crate) use when::as_float;
pub use when::{Bound, Quantity, When, WhenError};
pub use who::{Conditions, IsOfKind, Who};
