//! Words of files: whatever one says, it is kept, and known words are nothing but themselves.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

use biopsy_model::capture::EndedBy;
use biopsy_model::footprint::MemoryKind;
use biopsy_model::heap::{Collector, HeapSource, TypeFamily};
use biopsy_model::look::LookSeverity;
use biopsy_model::runtime_trace::{AllocationSampling, SampledKind};
use biopsy_model::timeline::{SamplingEvent, TraceMethod};
use biopsy_model::{Confidence, Severity};
use proptest::prelude::*;

/// Words of all enums, so that each is also asked for those of the others; and what is nearly one.
const WORDS: [&str; 30] = [
    "",
    "time",
    "stopped",
    "target-exited",
    "disk-full",
    "error",
    "snapshot",
    "dumped",
    "bpf",
    "perf-per-cpu",
    "imported",
    "cycles",
    "cpu-clock",
    "memory",
    "runtime",
    "blocks",
    "server",
    "workstation",
    "value",
    "delegate",
    "task",
    "ticks",
    "random",
    "critical",
    "info",
    "allocated",
    "stacks",
    "unaccounted",
    "unknown",
    "other",
];

/// The value that a word becomes, and the word that it is written as.
fn round<T: for<'a> From<&'a str> + Debug + PartialEq + Eq + Hash + Clone + Default>(
    word: &str,
    as_str: fn(&T) -> &str,
) -> Result<(), TestCaseError> {
    let value = T::from(word);
    prop_assert_eq!(as_str(&value), word, "{:?}", value);
    prop_assert_eq!(&T::from(as_str(&value)), &value, "read again");
    prop_assert_eq!(value == T::default(), word.is_empty(), "only the empty word is not known");
    let counts: HashMap<T, u8> = [(value.clone(), 1), (T::from(word), 2)].into_iter().collect();
    prop_assert_eq!(counts.get(&value), Some(&2), "it is one key");
    Ok(())
}

fn all(word: &str) -> Result<(), TestCaseError> {
    round(word, EndedBy::as_str)?;
    round(word, MemoryKind::as_str)?;
    round(word, Collector::as_str)?;
    round(word, HeapSource::as_str)?;
    round(word, TypeFamily::as_str)?;
    round(word, LookSeverity::as_str)?;
    round(word, AllocationSampling::as_str)?;
    round(word, SampledKind::as_str)?;
    round(word, SamplingEvent::as_str)?;
    round(word, TraceMethod::as_str)
}

#[test]
fn words_of_one_kind_are_kept_by_all_others() {
    for word in WORDS {
        all(word).unwrap_or_else(|error| panic!("`{word}`: {error}"));
    }
}

proptest! {
    #[test]
    fn any_word_is_written_as_it_was_read(word in any::<String>()) {
        all(&word)?;
    }

    /// What is nearly a word is another one: case, blanks and beginnings count.
    #[test]
    fn what_is_nearly_a_word_is_another(number in 1..WORDS.len(), kind in 0..4_usize) {
        let word = WORDS[number];
        let near = match kind {
            0 => word.to_uppercase(),
            1 => format!("{word} "),
            2 => format!("\u{feff}{word}"),
            _ => word[..word.len() - 1].to_owned(),
        };
        all(&near)?;
        prop_assert_ne!(EndedBy::from(near.as_str()), EndedBy::from(word));
        prop_assert_ne!(MemoryKind::from(near.as_str()), MemoryKind::from(word));
    }
}

/// The words of severities and confidences are read by people and by programs: one word or two, in lower case, each another one.
#[test]
fn words_for_people_are_plain_and_distinct() {
    let sure = [Confidence::Possible, Confidence::VeryLikely, Confidence::AlmostCertain, Confidence::Certain];
    let words: Vec<&str> =
        Severity::ALL.map(Severity::word).into_iter().chain(sure.map(Confidence::words)).collect();
    for (number, word) in words.iter().enumerate() {
        assert!(!word.is_empty() && word.chars().all(|one| one.is_ascii_lowercase() || one == ' '), "{word}");
        assert!(!words[..number].contains(word), "{word} is there twice");
    }
}

/// A severity that goes into a recording comes out as it was; of words of newer versions the order does not change.
#[test]
fn a_severity_is_the_same_behind_a_recording() {
    for one in Severity::ALL {
        for other in Severity::ALL {
            let through =
                |severity| Severity::from(&LookSeverity::from(LookSeverity::from(severity).as_str()));
            assert_eq!(through(one).cmp(&through(other)), one.cmp(&other));
        }
    }
    for word in ["", "Critical", "fatal", "5"] {
        assert_eq!(Severity::from(&LookSeverity::from(word)), Severity::Info, "`{word}` alarms nobody");
    }
}
