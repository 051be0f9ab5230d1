//! Why what was typed is no trigger, and what would be right.

/// What was typed is no trigger.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTriggerError {
    /// No word that is known.
    #[error("`{text}` is no trigger")]
    Unknown {
        /// What was typed.
        text: String,
    },
    /// The value behind a comparison is none.
    #[error("`{value}` is no bound for `{what}`")]
    Value {
        /// The word before it.
        what: &'static str,
        /// What was typed.
        value: String,
    },
    /// The comparison is missing.
    #[error("`{text}` does not say what to compare with")]
    NoComparison {
        /// What was typed.
        text: String,
        /// The word.
        what: &'static str,
    },
    /// There is no pressure as such.
    #[error("`{text}` does not say which pressure")]
    NoResource {
        /// What was typed.
        text: String,
    },
    /// The time is none.
    #[error("`{value}` is no length of time")]
    Duration {
        /// The word before it.
        what: &'static str,
        /// What was typed.
        value: String,
    },
    /// The regular expression is none.
    #[error("the pattern `{pattern}` cannot be used: {why}")]
    Pattern {
        /// What was typed.
        pattern: String,
        /// The last line of what the library says.
        why: String,
    },
    /// Something follows that does not belong there.
    #[error("`{what}` takes nothing behind it, but `{rest}` was given")]
    Rest {
        /// The word.
        what: &'static str,
        /// What follows.
        rest: String,
    },
}

impl ParseTriggerError {
    /// The right form, with an example.
    #[must_use]
    pub fn hint(&self) -> String {
        if let Self::Unknown { .. } | Self::Rest { .. } = self {
            return format!("{ALL}; of .NET processes: {OF_DOTNET}");
        }
        let example = match self {
            Self::Value { what, .. } | Self::NoComparison { what, .. } | Self::Duration { what, .. } => {
                example(what)
            }
            Self::NoResource { .. } => example("pressure-memory"),
            Self::Pattern { .. } => "for example `log:ERROR.*timeout` or `log:/var/log/app.log:OutOfMemory`",
            Self::Rest { .. } | Self::Unknown { .. } => ALL,
        };
        example.to_owned()
    }
}

fn example(what: &str) -> &'static str {
    match what {
        "cpu" => {
            "for example `cpu>90%:30s`: more than 90 % of one core for 30 seconds (`cpu>150%` for several)"
        }
        "memory" => "for example `memory>2G` or `memory>512M:1m`",
        "growth" => "for example `growth>200M`: so much more resident memory than at the beginning",
        "threads" => "for example `threads>500`",
        "fds" => "for example `fds>1000`",
        "pressure-cpu" | "pressure-memory" | "pressure-io" => {
            "for example `pressure-memory>10%:30s`: for 30 seconds, somebody waits for memory during more than 10 % of the time; also \
             `pressure-cpu` and `pressure-io`"
        }
        "hang" => "for example `hang:10s`",
        "after" => "for example `after:10m`",
        "exception" => "for example `exception:System.OutOfMemoryException` or `exception:IOException~disk`",
        "gc-heap" => "for example `gc-heap>2G` or `gc-heap>2G:1m`",
        "gc-gen0" | "gc-gen1" | "gc-gen2" | "gc-loh" | "gc-poh" => "for example `gc-gen2>1G`",
        "threadpool-queue" => "for example `threadpool-queue>100:10s`",
        "request" => "for example `request>10s`",
        "request-status" => "for example `request-status>=500`",
        "counter" => "for example `counter:cpu-usage>90` or `counter:My.Meter/queue.length>100:30s`",
        _ => "for example `cpu>90%:30s`",
    }
}

const ALL: &str = "triggers are `exit`, `exit!=0`, `crash`, `cpu>90%:30s`, `memory>2G`, `growth>200M`, `threads>500`, `fds>1000`, `pressure-memory>10%:30s`, `pressure-io>30%:10s`, `pressure-cpu>50%:1m`, `hang:10s`, `log:REGEX`, `log:PATH:REGEX`, `after:10m`";

const OF_DOTNET: &str = "`exception:TYPE`, `unhandled-exception`, `gc-heap>2G`, `gc-gen2>1G`, `threadpool-queue>100`, `request>10s`, `request-status>=500`, `counter:NAME>5`";
