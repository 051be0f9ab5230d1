//! What may stand where: the one table by which settings are checked, described, and completed by editors.

/// What may stand at a place.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Switch,
    /// A number, not negative.
    Number,
    /// A whole number, not negative.
    Count,
    /// Any text.
    Text,
    /// A text like `24h`.
    Duration,
    /// A text like `2GB`.
    Size,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A text, or several.
    Texts,
    /// Names that the user gives, each with the same.
    Map(&'static Shape),
    /// These names.
    Object(&'static [Field]),
    /// A text, or an object with these names.
    TextOr(&'static [Field]),
    /// The same, or nothing at all (`null`).
    OrNull(&'static Shape),
}

/// A name of an object.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// What stands there.
    pub shape: Shape,
    /// What it means, for editors.
    pub says: &'static str,
}

const fn field(name: &'static str, shape: Shape, says: &'static str) -> Field {
    Field { name, shape, says }
}

/// The words of the vendor's `profiling.kind`.
const PROFILING_KINDS: &[&str] =
    &["performance", "performance-tracing", "performance-timeline", "memory", "memory-allocation"];

const SWITCHES: Shape = Shape::Map(&Shape::Switch);

const LOGGING: &[Field] = &[
    field("processes", SWITCHES, "The vendor's own logs, by kind of process. biopsy does nothing with it."),
    field("trace", SWITCHES, "Categories of those logs. biopsy does nothing with it."),
    field("stopLoggingAfterHours", Shape::Number, "When the vendor's program switches its logs off again."),
];

const DEBUGGING: &[Field] =
    &[field("processes", SWITCHES, "Where a debugger is to be started. biopsy starts none, and says so.")];

const CRASH_DUMPS: &[Field] = &[
    field("processes", SWITCHES, "Kinds of processes that are dumped when they crash: `\"Compiler\": true`."),
    field(
        "exceptionTypes",
        Shape::Texts,
        "Types of exceptions at which they are dumped, crash or not; `*`: at crashes alone, of any type.",
    ),
];

const PROFILING: &[Field] = &[
    field(
        "kind",
        Shape::OrNull(&Shape::Choice(PROFILING_KINDS)),
        "performance: a trace. performance-timeline: a capture with metrics and runtime events. memory: a snapshot of the heap once \
         the process has lived 30 s. memory-allocation: a capture with a sample of allocations.",
    ),
    field(
        "processes",
        SWITCHES,
        "Kinds of processes that are profiled from their start: `\"Compiler\": true`.",
    ),
];

/// Who.
const WHO: &[Field] = &[
    field(
        "name",
        Shape::Texts,
        "Name of the process, file name of its executable, or its entry; `*` and `?` are wild.",
    ),
    field(
        "kind",
        Shape::Texts,
        "Kinds of processes by name: those that are shipped, and those of `watch.kinds`.",
    ),
    field("executable", Shape::Texts, "File name or path of the executable; `*` and `?` are wild."),
    field(
        "entry",
        Shape::Texts,
        ".NET entry assembly, script or jar, with or without its ending; `*` and `?` are wild.",
    ),
    field("command", Shape::Texts, "First argument: `build` of `dotnet build`; `*` and `?` are wild."),
    field(
        "arguments",
        Shape::Texts,
        "Each of these is in one argument of its command line; `*` and `?` are wild.",
    ),
    field("without", Shape::Texts, "None of these is in an argument."),
    field("parent", Shape::Texts, "Name, executable or entry of the process that started it."),
    field("unit", Shape::Texts, "systemd unit."),
    field("container", Shape::Texts, "Beginning of the container's id."),
    field("user", Shape::Texts, "Name or number of the user whose process it is."),
];

const KEEP: &[Field] = &[
    field("size", Shape::Size, "Most bytes of all results; the oldest go first. [10GB]"),
    field("age", Shape::Duration, "Results older than this go. [7d]"),
    field("count", Shape::Count, "Most results of one rule. [100]"),
];

const RULE: &[Field] = &[
    field("on", Shape::Switch, "`false`: the rule rests. [true]"),
    field(
        "who",
        Shape::TextOr(WHO),
        "Which processes: the name of a kind, or conditions that all must hold.",
    ),
    field(
        "when",
        Shape::Texts,
        "start; alive>30s; cpu>90%:30s, memory>2G, threads>500; or another trigger of `biopsy dump --on`: crash, exit!=0, hang:10s, \
         pressure-memory>10%:30s, log:REGEX, exception:TYPE ... Several: any of them. [start]",
    ),
    field(
        "do",
        Shape::Texts,
        "trace, capture, dump or snapshot, with the options of the command: `capture --for 60s --allocations`; or `recent 10m`: keep the \
         last ten minutes in memory. [trace]",
    ),
    field(
        "recent",
        Shape::Duration,
        "Keep so much of the time before, too: in memory, with few samples, from when the process is first seen. It is part of what the \
         rule records, and is written when the process ends badly. [nothing]",
    ),
    field("perDay", Shape::Count, "Most results in 24 hours. [20]"),
    field("coolDown", Shape::Duration, "Shortest time between two of its results. [none]"),
    field("atOnce", Shape::Count, "Most of its processes that are recorded at once. [4]"),
    field("every", Shape::Count, "Only every Nth process that matches. [1]"),
    field(
        "budget",
        Shape::Count,
        "Most CPU time that one recording may take while it goes on, in per cent of a core. A rule that takes more ends what it records, and \
         switches itself off until it is changed or the watcher begins anew. [30]",
    ),
];

const WATCH: &[Field] = &[
    field("folder", Shape::Text, "Where results go. [the folder `watch` of biopsy's state]"),
    field("for", Shape::Duration, "The watcher ends by itself after this. [24h]"),
    field(
        "keep",
        Shape::Object(KEEP),
        "How long results are kept. One beside which a file NAME.keep lies is kept for ever.",
    ),
    field("minFree", Shape::Size, "Nothing is recorded while less than this is free on the disk. [2GB]"),
    field("atOnce", Shape::Count, "Most recordings at once, of all rules. [8]"),
    field(
        "tell",
        Shape::Texts,
        "A program that is told of each result and each failure, and its arguments: it reads one line of JSON, as of `biopsy watch --json`. [nobody]",
    ),
    field(
        "send",
        Shape::Text,
        "A file with links of open requests, one a line: each takes the next result, sealed to who asks, as by `biopsy send --yes`. [nobody]",
    ),
    field("kinds", Shape::Map(&Shape::Object(WHO)), "Kinds of processes of your own, by name."),
    field("rules", Shape::Map(&Shape::Object(RULE)), "Rules, by name."),
];

/// All settings.
pub const SETTINGS: Shape = Shape::Object(&[
    field("$schema", Shape::Text, "Where editors find what may stand here."),
    field("version", Shape::Count, "Version of the format: 1."),
    field("logging", Shape::Object(LOGGING), "The vendor's own logs."),
    field("debugging", Shape::Object(DEBUGGING), "The vendor's own way to start a debugger."),
    field("crashDumps", Shape::Object(CRASH_DUMPS), "Dumps of processes that crash."),
    field("profiling", Shape::Object(PROFILING), "Recordings of processes from their start."),
    field("watch", Shape::Object(WATCH), "Rules of `biopsy watch`."),
]);

impl Shape {
    /// What may stand there, in words.
    #[must_use]
    pub fn allowed(&self) -> String {
        match self {
            Self::Switch => "`true` or `false`".to_owned(),
            Self::Number => "a number, not negative".to_owned(),
            Self::Count => "a whole number, not negative".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Duration => "a time like \"30s\", \"1h30m\" or \"7d\"".to_owned(),
            Self::Size => "a size like \"500MB\" or \"10GB\"".to_owned(),
            Self::Choice(words) => format!("one of {}", quoted(words)),
            Self::Texts => "a text, or a list of texts".to_owned(),
            Self::Map(of) => format!("an object whose values are each {}", of.allowed()),
            Self::Object(fields) => format!("an object with {}", names(fields)),
            Self::TextOr(fields) => format!("a text, or an object with {}", names(fields)),
            Self::OrNull(of) => format!("{}, or `null`", of.allowed()),
        }
    }

    /// The names that may stand there; `None`: any, or it has none.
    #[must_use]
    pub fn fields(&self) -> Option<&'static [Field]> {
        match self {
            Self::Object(fields) | Self::TextOr(fields) => Some(fields),
            Self::OrNull(of) => of.fields(),
            Self::Switch
            | Self::Number
            | Self::Count
            | Self::Text
            | Self::Duration
            | Self::Size
            | Self::Choice(_)
            | Self::Texts
            | Self::Map(_) => None,
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn names(fields: &[Field]) -> String {
    quoted(&fields.iter().map(|field| field.name).collect::<Vec<_>>())
}
