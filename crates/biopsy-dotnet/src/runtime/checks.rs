//! Checks at load time: whether a layout fits the memory it is applied to.

/// How a check ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CheckResult {
    /// It holds.
    Holds,
    /// It does not, and why.
    Fails(String),
    /// What it needs is not in the image, or does not exist at this moment.
    NotApplicable(&'static str),
}

/// One check.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Check {
    /// What is asked, in a few words.
    pub name: &'static str,
    /// Whether the runtime is refused when it fails.
    pub required: bool,
    /// How it ended.
    pub result: CheckResult,
}
