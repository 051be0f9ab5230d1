//! When something is done about a process.

use std::time::Duration;

use crate::quantity;

/// When.
#[derive(Clone, PartialEq, Debug)]
pub enum When {
    /// `start`: as soon as it is seen; also one that runs already when the watcher begins.
    Start,
    /// `alive>30s`: it lives longer.
    Alive(Duration),
    /// `cpu>90%:30s`, `memory>2G`, `threads>500`: read from the list of processes, which costs the process nothing.
    Bound(Bound),
    /// Another trigger of `biopsy dump --on`: a command is started with the process, and waits for it.
    Trigger(String),
}

/// A quantity that is above a bound, for a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    /// Of what.
    pub quantity: Quantity,
    /// Per cent of a core, bytes, or a number.
    pub above: f64,
    /// At every look for so long; zero: one is enough.
    pub lasting: Duration,
}

/// What can be above a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// CPU time, in per cent of a core.
    Cpu,
    /// Resident memory, in bytes.
    Memory,
    /// Threads.
    Threads,
}

/// It is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no moment: {why}")]
pub struct WhenError {
    /// What was written.
    pub text: String,
    /// Why not.
    pub why: String,
}

impl When {
    /// Parses one. Whether a trigger makes sense is for those to say who wait for it.
    ///
    /// # Errors
    /// [`WhenError`].
    pub fn parse(text: &str) -> Result<Self, WhenError> {
        let trimmed = text.trim();
        let error = |why: &str| WhenError { text: trimmed.chars().take(80).collect(), why: why.to_owned() };
        let lower = trimmed.to_ascii_lowercase();
        if lower == "start" {
            return Ok(Self::Start);
        }
        if let Some(rest) = after_word(&lower, &["alive"]) {
            let time = rest.strip_prefix('>').and_then(quantity::duration);
            return time.map(Self::Alive).ok_or_else(|| error("it looks like `alive>30s`"));
        }
        let quantities: [(&[&str], Quantity); 3] = [
            (&["cpu"], Quantity::Cpu),
            (&["memory", "mem", "rss"], Quantity::Memory),
            (&["threads"], Quantity::Threads),
        ];
        for (words, quantity) in quantities {
            // `>=` and `<` are rarer: those are triggers, which a command waits for.
            let Some(rest) = after_word(&lower, words).and_then(|rest| rest.strip_prefix('>')) else {
                continue;
            };
            if rest.starts_with('=') {
                break;
            }
            let (value, lasting) =
                rest.split_once(':').map_or((rest, None), |(value, time)| (value, Some(time)));
            let above = match quantity {
                Quantity::Cpu => value.trim().trim_end_matches('%').trim().parse::<f64>().ok(),
                Quantity::Memory => quantity::size(value).map(as_float),
                Quantity::Threads => value.trim().parse::<u32>().ok().map(f64::from),
            };
            let above = above.filter(|above| above.is_finite() && *above >= 0.0);
            let above =
                above.ok_or_else(|| error("it looks like `cpu>90%:30s`, `memory>2G` or `threads>500`"))?;
            let lasting = match lasting {
                Some(time) => quantity::duration(time).ok_or_else(|| error("the time looks like `30s`"))?,
                None => Duration::ZERO,
            };
            return Ok(Self::Bound(Bound { quantity, above, lasting }));
        }
        if trimmed.is_empty() {
            return Err(error("it is empty"));
        }
        Ok(Self::Trigger(trimmed.to_owned()))
    }
}

fn after_word<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    words.iter().find_map(|word| text.strip_prefix(word)).map(str::trim_start)
}

#[expect(clippy::cast_precision_loss, reason = "compared with a reading of the same coarseness")]
pub(crate) fn as_float(bytes: u64) -> f64 {
    bytes as f64
}

impl std::fmt::Display for When {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Alive(time) => write!(f, "alive>{}", quantity::duration_text(*time)),
            Self::Bound(Bound { quantity, above, lasting }) => {
                match quantity {
                    Quantity::Cpu => write!(f, "cpu>{above}%")?,
                    Quantity::Memory => {
                        #[expect(
                            clippy::cast_possible_truncation,
                            clippy::cast_sign_loss,
                            reason = "it was a size"
                        )]
                        let bytes = *above as u64;
                        write!(f, "memory>{}", quantity::size_text(bytes))?;
                    }
                    Quantity::Threads => write!(f, "threads>{above}")?,
                }
                if lasting.is_zero() { Ok(()) } else { write!(f, ":{}", quantity::duration_text(*lasting)) }
            }
            Self::Trigger(trigger) => f.write_str(trigger),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (text, shown) in [
            ("Start", "start"),
            ("alive > 30s", "alive>30s"),
            ("cpu>90%:30s", "cpu>90%:30s"),
            ("CPU > 150", "cpu>150%"),
            ("memory>2G", "memory>2.0 GB"),
            ("rss>500MB:1m", "memory>500.0 MB:1m"),
            ("threads>500", "threads>500"),
            ("cpu>=90%", "cpu>=90%"),
            ("crash", "crash"),
            ("log:PATTERN X", "log:PATTERN X"),
        ] {
            assert_eq!(When::parse(text).unwrap().to_string(), shown, "{text}");
        }
        assert!(matches!(When::parse("cpu<5%"), Ok(When::Trigger(_))));
        for text in [
            "",
            "alive",
            "alive>soon",
            "cpu>much",
            "memory>2 parsecs",
            "threads>-1",
            "cpu>90%:soon",
            "cpu>nan",
        ] {
            assert!(When::parse(text).is_err(), "{text}");
        }
    }
}
