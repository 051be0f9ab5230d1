//! Environment variables: names always, values only from an allow-list.

use crate::counts::merge_hits;
use crate::rules::Strength;
use crate::{Hit, Redactor, plausible};

/// Rule id of values that are hidden because nobody allowed them.
const ENV_RULE: &str = "env";

/// The value of an environment variable, as it may be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnvValue {
    /// The value without its secrets, or a mask.
    pub text: String,
    /// The value as a whole is hidden.
    pub masked: bool,
    /// Length of the real value, in bytes.
    pub length: usize,
    /// Which rules fired.
    pub hits: Vec<Hit>,
}

impl std::fmt::Display for EnvValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        if self.masked { write!(f, " ({} bytes)", self.length) } else { Ok(()) }
    }
}

impl Redactor {
    /// What may be shown of the variable `name`. Values behind a secret's name are learned, so recorders should pass
    /// the environment before they write anything else.
    #[must_use]
    pub fn env(&self, name: &str, value: &str) -> EnvValue {
        let shown = |text: String, masked, hits| EnvValue { text, masked, length: value.len(), hits };
        if value.is_empty() {
            return shown(String::new(), false, Vec::new());
        }
        let one_hit = |rule: &str| vec![Hit { rule: rule.to_owned(), count: 1 }];
        if let Some(rule) = self.engine().rule_for_name(name, value) {
            self.learn_told(value.as_bytes());
            let rule = &self.engine().rules()[rule].id;
            return shown(self.pseudonym(rule, value), true, one_hit(rule));
        }
        // Learns what the value holds (`DATABASE_URL`), also when the value itself is not shown.
        let redacted = self.text(value);
        if self.is_allowed(name) || self.engine().allows(value.as_bytes()) {
            return shown(redacted.text.into_owned(), false, redacted.hits);
        }
        if plausible::is_strong(value.as_bytes(), Strength::Random) {
            self.learn_told(value.as_bytes());
        }
        self.remember_of_process(value.as_bytes());
        let mut hits = one_hit(ENV_RULE);
        merge_hits(&mut hits, &redacted.hits);
        shown(self.pseudonym(ENV_RULE, value), true, hits)
    }

    fn is_allowed(&self, name: &str) -> bool {
        self.allow_env.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == allowed,
        })
    }
}
