//! What an inspection found: how much, and where.

use biopsy_model::order::Order as _;

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InspectionKind {
    /// Strings of equal contents.
    DuplicateStrings,
    /// Collections with nothing in them.
    EmptyCollections,
    /// Collections with room for more than twice of what is in them.
    OversizedCollections,
    /// Arrays of references that are empty for the most part.
    SparseArrays,
    /// Values in boxes.
    BoxedValues,
    /// Events with many handlers.
    EventHandlers,
    /// Timers that are set.
    Timers,
    /// Callbacks that wait for the cancellation of one source.
    TokenCallbacks,
    /// Asynchronous methods that wait for something.
    WaitingMethods,
    /// Asynchronous methods that have not ended and that nobody can wake any more.
    LostMethods,
    /// Load contexts that were told to unload and are still there.
    StuckContexts,
    /// Objects that wait for their finalizer.
    FinalizerQueue,
    /// Objects that handles keep from moving.
    PinnedObjects,
    /// What a static field alone keeps.
    Statics,
    /// What only a closure keeps.
    Closures,
    /// Holes between objects.
    FreeSpace,
}

/// What the bytes of an inspection are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// They would not be needed.
    Wasted,
    /// They live because of these objects alone.
    Retained,
    /// The objects' own.
    Own,
}

impl Measure {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Wasted => "wasted",
            Self::Retained => "retained",
            Self::Own => "own",
        }
    }
}

impl InspectionKind {
    /// Its name in files.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::DuplicateStrings => "duplicate-strings",
            Self::EmptyCollections => "empty-collections",
            Self::OversizedCollections => "oversized-collections",
            Self::SparseArrays => "sparse-arrays",
            Self::BoxedValues => "boxed-values",
            Self::EventHandlers => "event-handlers",
            Self::Timers => "timers",
            Self::TokenCallbacks => "token-callbacks",
            Self::WaitingMethods => "waiting-methods",
            Self::LostMethods => "lost-methods",
            Self::StuckContexts => "stuck-contexts",
            Self::FinalizerQueue => "finalizer-queue",
            Self::PinnedObjects => "pinned-objects",
            Self::Statics => "statics",
            Self::Closures => "closures",
            Self::FreeSpace => "free-space",
        }
    }

    /// What its objects are, in words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::DuplicateStrings => "strings that another string equals",
            Self::EmptyCollections => "collections with nothing in them",
            Self::OversizedCollections => "collections with room for more than twice of what they hold",
            Self::SparseArrays => "arrays that are empty for the most part",
            Self::BoxedValues => "values in boxes",
            Self::EventHandlers => "handlers of events",
            Self::Timers => "timers that are set",
            Self::TokenCallbacks => "callbacks that wait for a cancellation",
            Self::WaitingMethods => "asynchronous methods that wait",
            Self::LostMethods => "asynchronous methods that have not ended and that nobody can wake",
            Self::StuckContexts => "load contexts that were told to unload and are still there",
            Self::FinalizerQueue => "objects that wait for their finalizer",
            Self::PinnedObjects => "objects that a handle keeps from moving",
            Self::Statics => "static fields that hold much",
            Self::Closures => "closures that hold much",
            Self::FreeSpace => "holes between objects",
        }
    }

    /// What its bytes are.
    #[must_use]
    pub fn measure(self) -> Measure {
        match self {
            Self::DuplicateStrings
            | Self::EmptyCollections
            | Self::OversizedCollections
            | Self::SparseArrays
            | Self::FreeSpace => Measure::Wasted,
            Self::EventHandlers
            | Self::Timers
            | Self::TokenCallbacks
            | Self::WaitingMethods
            | Self::StuckContexts
            | Self::FinalizerQueue
            | Self::Statics
            | Self::Closures => Measure::Retained,
            Self::BoxedValues | Self::LostMethods | Self::PinnedObjects => Measure::Own,
        }
    }
}

/// What an inspection found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspection {
    /// What was looked for.
    pub kind: InspectionKind,
    /// How many there are.
    pub objects: u64,
    /// Bytes: [`InspectionKind::measure`] says of what.
    pub bytes: u64,
    /// Where, the most bytes first, and not all of it.
    pub rows: Vec<InspectionRow>,
}

/// A part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectionRow {
    /// Whose: a field, a type, a method.
    pub what: String,
    /// How many.
    pub objects: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What is told in a few words: what has at least so many parts of a hundred of what is alive.
const TOLD: f64 = 0.03;

/// Rows that are kept of one inspection.
const ROWS: usize = 10;

impl Inspection {
    /// From all rows; `None`: there are none.
    pub(super) fn of(kind: InspectionKind, mut rows: Vec<InspectionRow>) -> Option<Self> {
        let objects = rows.iter().map(|row| row.objects).fold(0, u64::saturating_add);
        let bytes = rows.iter().map(|row| row.bytes).fold(0, u64::saturating_add);
        rows.order_by(|a, b| (b.bytes, b.objects, &a.what).cmp(&(a.bytes, a.objects, &b.what)));
        rows.truncate(ROWS);
        (objects > 0).then_some(Self { kind, objects, bytes, rows })
    }

    /// Whether it is worth a line beside much else: a share of what is `alive`; contexts that do not unload always.
    #[must_use]
    pub fn is_told(&self, alive: u64) -> bool {
        match self.kind {
            // Who holds what is told anyway.
            InspectionKind::Statics => false,
            InspectionKind::StuckContexts => true,
            _ => self.bytes as f64 >= alive as f64 * TOLD,
        }
    }
}
