//! The facts of a heap: how it was seen and what it holds, without its objects.

use crate::words::words;
use crate::{Avma, Pid};

/// A heap of a managed runtime at one moment, in numbers.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct HeapFacts {
    /// Whose heap.
    pub pid: Pid,
    /// Version of the runtime, if it says so.
    pub runtime: String,
    /// How its objects were seen.
    pub source: HeapSource,
    /// Which collector looks after it.
    pub collector: Collector,
    /// When, seconds since 1970 in UTC; 0: not known.
    pub taken_at_unix_seconds: f64,
    /// How long the process stood still for the attempt that succeeded, in milliseconds.
    pub pause_ms: f64,
    /// How long for all attempts together, in milliseconds.
    pub all_pauses_ms: f64,
    /// How often it was frozen.
    pub attempts: u32,
    /// Why more than once.
    pub retries: Retries,
    /// How long the frozen copy was needed, in milliseconds.
    pub frozen_ms: f64,
    /// Objects, free space left out.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reachable objects, by roots of which those on stacks are conservative; `None`: not determined.
    pub live_objects: Option<u64>,
    /// Their bytes.
    pub live_bytes: Option<u64>,
    /// Gaps between objects.
    pub free_objects: u64,
    /// Their bytes.
    pub free_bytes: u64,
    /// References between objects.
    pub references: u64,
    /// Types.
    pub types: u64,
    /// Objects by generation; empty where it is not told.
    pub generations: Vec<GenerationFacts>,
    /// Roots by kind.
    pub roots: Vec<(String, u64)>,
    /// Bytes of all segments.
    pub segment_bytes: u64,
    /// Nothing is known to be missing.
    pub whole: bool,
    /// Places where the heap could not be read, or lost events.
    pub problems: u64,
    /// Bytes that were not walked because of them.
    pub skipped_bytes: u64,
    /// References of live objects that lead to no object.
    pub dangling: u64,
    /// References of garbage that lead to no object: a background collection has swept what they named. No damage.
    pub stale: u64,
    /// What is worth knowing.
    pub warnings: Vec<String>,
}

/// What is in one generation, free space left out.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GenerationFacts {
    /// `gen0` to `gen2`, `large`, `pinned`, `frozen`.
    pub name: String,
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why a process was frozen more than once: how often what was seen was of no use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Retries {
    /// A garbage collection was under way.
    pub collecting: u32,
    /// A thread was being made or ended.
    pub threads: u32,
    /// The heap was not whole: an object was being made, or it is damaged.
    pub torn: u32,
}

impl Retries {
    /// Why, for people; `None`: once was enough.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let times = |count: u32| if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let reasons = [
            (self.collecting, "a collection was under way"),
            (self.threads, "a thread was being made or ended"),
            (self.torn, "the heap was not whole"),
        ];
        let said: Vec<String> = reasons
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, reason)| format!("{reason} {}", times(count)))
            .collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

words! {
    /// How the objects of a heap were seen.
    HeapSource {
        /// Read from the memory of a frozen copy or of a dump: garbage is there, too.
        Memory = "memory",
        /// Told by the runtime after a collection: what was left.
        Runtime = "runtime",
        /// Blocks of allocators of native code, read from memory; words that look like addresses of blocks are references.
        Blocks = "blocks",
    }
}

words! {
    /// The garbage collector of a heap.
    Collector {
        /// A heap for each CPU, threads of its own.
        Server = "server",
        /// One heap.
        Workstation = "workstation",
    }
}

/// A type that objects of a heap have.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HeapType {
    /// Full name, generics and nesting included.
    pub name: String,
    /// Name of its module's file, without folders; empty if not known.
    pub module: String,
    /// Address of its method table; 0 if not known.
    pub method_table: Avma,
    /// It is a gap that the collector left between objects, and no object.
    pub is_free: bool,
    /// Names of the fields that the references of its objects are in, one for each place, in order; empty: not known, or an array of
    /// references. Where they are known, an empty place counts as a reference to nothing.
    pub fields: Vec<String>,
    /// An array: `fields` are those of each element.
    pub repeats: bool,
    /// Its static fields that hold references, and where each is.
    pub statics: Vec<(String, Avma)>,
    /// Bytes of one element of an array or a text; 0: it has none, or not known.
    pub element_bytes: u32,
    /// What it is derived from.
    pub family: TypeFamily,
    /// What was noted of each of its objects, a number each, in order: fields of the runtime's own collections, timers and tasks by
    /// name, and [`SAME_TEXT`].
    pub noted: Vec<String>,
}

/// What is noted of a string: strings of equal contents have equal numbers from 1 on, and 0 has what nobody else has.
pub const SAME_TEXT: &str = "same text";

words! {
    /// What a type is derived from, where that says what its objects are for.
    TypeFamily {
        /// `System.ValueType`: an object of it is a value in a box.
        Value = "value",
        /// `System.MulticastDelegate`.
        Delegate = "delegate",
        /// `System.Threading.Tasks.Task`.
        Task = "task",
    }
}

impl HeapType {
    /// The field that the reference of this number is in; `None`: not known.
    #[must_use]
    pub fn field_of(&self, reference: usize) -> Option<&str> {
        let number = if self.repeats { reference.checked_rem(self.fields.len())? } else { reference };
        self.fields.get(number).map(String::as_str)
    }

    /// Which of the numbers that were noted of its objects is this; `None`: it was not noted.
    #[must_use]
    pub fn noted(&self, name: &str) -> Option<usize> {
        self.noted.iter().position(|one| one == name)
    }

    /// Whether nothing tells its name: it stands as `?` and the address of its method table.
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        !self.is_free && self.name.strip_prefix('?').is_some_and(|rest| rest.starts_with("0x"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_without_a_name_is_known_by_its_place() {
        let of = |name: &str, is_free| HeapType { name: name.to_owned(), is_free, ..HeapType::default() };
        assert!(of("?0x7f00", false).is_nameless());
        assert!(!of("?0x7f00", true).is_nameless(), "free space has no name of its own");
        assert!(!of("?", false).is_nameless() && !of("App.?0x", false).is_nameless());
    }

    #[test]
    fn retries_are_told_in_words() {
        assert_eq!(Retries::default().text(), None);
        let retries = Retries { collecting: 1, threads: 6, torn: 0 };
        let said = "a collection was under way once, a thread was being made or ended 6 times";
        assert_eq!(retries.text().as_deref(), Some(said));
    }
}
