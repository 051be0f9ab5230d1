//! What a check at load time says.

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
    /// Whether it looks at what a running process changes all the time: in memory that is not frozen its failure says nothing,
    /// and a frozen moment in the middle of such a change is followed by one that is not.
    pub moving: bool,
    /// How it ended.
    pub result: CheckResult,
}

impl Check {
    /// The check, and why it failed.
    #[must_use]
    pub fn failure(&self) -> String {
        match &self.result {
            CheckResult::Fails(why) => format!("{}: {why}", self.name),
            CheckResult::Holds | CheckResult::NotApplicable(_) => self.name.to_owned(),
        }
    }
}
