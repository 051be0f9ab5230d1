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
            /// Those that are known, in the order of their variants.
            #[cfg(test)]
            pub(crate) const KNOWN: &'static [&'static str] = &[$($word,)+];

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
    use crate::footprint::MemoryKind;
    use crate::heap::{Collector, HeapSource, TypeFamily};
    use crate::look::LookSeverity;
    use crate::runtime_trace::{AllocationSampling, SampledKind};
    use crate::timeline::{SamplingEvent, TraceMethod};

    /// Where each word is said.
    const DOCUMENTS: [&str; 2] = [
        include_str!("../../../docs/formats/recording.md"),
        include_str!("../../../docs/formats/report-schema.md"),
    ];

    /// `expected`: the words of the formats. None comes, goes or becomes another one by the way: old files have it.
    fn check<T: for<'a> From<&'a str> + std::fmt::Debug + Default + PartialEq>(
        as_str: fn(&T) -> &str,
        known: &[&str],
        expected: &[&str],
    ) {
        assert_eq!(known, expected);
        for word in known {
            let value = T::from(*word);
            assert!(!format!("{value:?}").starts_with("Other"), "{value:?}");
            assert_eq!(as_str(&value), *word);
            let quoted = format!("`{word}`");
            assert!(DOCUMENTS.iter().any(|text| text.contains(&quoted)), "docs/formats do not say {quoted}");
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
        check(EndedBy::as_str, EndedBy::KNOWN, &ends);
        let methods = ["bpf", "perf-per-cpu", "perf-per-task", "perf-user-only", "imported"];
        check(TraceMethod::as_str, TraceMethod::KNOWN, &methods);
        check(SamplingEvent::as_str, SamplingEvent::KNOWN, &["cycles", "cpu-clock"]);
        check(HeapSource::as_str, HeapSource::KNOWN, &["memory", "runtime", "blocks"]);
        check(Collector::as_str, Collector::KNOWN, &["server", "workstation"]);
        check(TypeFamily::as_str, TypeFamily::KNOWN, &["value", "delegate", "task"]);
        check(AllocationSampling::as_str, AllocationSampling::KNOWN, &["ticks", "random"]);
        check(LookSeverity::as_str, LookSeverity::KNOWN, &["critical", "warning", "notice", "info"]);
        let memory = [
            "allocated",
            "allocator-free",
            "stacks",
            "managed-heap",
            "managed-free",
            "runtime-data",
            "compiled-code",
            "changed-files",
            "shared",
            "unaccounted",
        ];
        check(MemoryKind::as_str, MemoryKind::KNOWN, &memory);
        let sampled = [
            "requests",
            "commands",
            "messages",
            "allocations",
            "counters",
            "counters of requests",
            "events of the runtime",
        ];
        check(SampledKind::as_str, SampledKind::KNOWN, &sampled);
    }
}
