//! What is said in one word: known words are variants, others are kept, so that files of newer versions stay what they are.

/// An enum of words. Beside those that are listed it has `Unknown`, the empty word, and `Other`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
        pub enum $name {
            $($(#[$about])* $variant,)+
            /// Not known.
            #[default]
            Unknown,
            /// Of a newer version, or of another tool.
            Other(String),
        }

        impl $name {
            /// The word; empty: not known.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unknown => "",
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    "" => Self::Unknown,
                    other => Self::Other(other.to_owned()),
                }
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use crate::capture::EndedBy;
    use crate::heap::{Collector, HeapSource, TypeFamily};
    use crate::timeline::{SamplingEvent, TraceMethod};

    /// Each word of the formats: `docs/formats/recording.md`.
    fn check<T: for<'a> From<&'a str> + std::fmt::Debug + Default + PartialEq>(
        as_str: fn(&T) -> &str,
        known: &[&str],
    ) {
        for word in known {
            let value = T::from(*word);
            assert!(!format!("{value:?}").starts_with("Other"), "{value:?}");
            assert_eq!(as_str(&value), *word);
        }
        for word in ["of-tomorrow", "Time", " "] {
            let value = T::from(word);
            assert_eq!(format!("{value:?}"), format!("Other({word:?})"));
            assert_eq!(as_str(&value), word);
        }
        assert_eq!(T::from(""), T::default());
        assert_eq!(as_str(&T::default()), "");
    }

    #[test]
    fn words_are_variants_and_others_are_kept() {
        let ends = ["time", "stopped", "target-exited", "disk-full", "error", "snapshot", "dumped"];
        check(EndedBy::as_str, &ends);
        let methods = ["bpf", "perf-per-cpu", "perf-per-task", "perf-user-only", "imported"];
        check(TraceMethod::as_str, &methods);
        check(SamplingEvent::as_str, &["cycles", "cpu-clock"]);
        check(HeapSource::as_str, &["memory", "runtime"]);
        check(Collector::as_str, &["server", "workstation"]);
        check(TypeFamily::as_str, &["value", "delegate", "task"]);
    }
}
