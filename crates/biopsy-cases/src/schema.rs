//! The published tables: names, columns, order. `docs/formats/cases.md` says the same, which a test sees to.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// Version of the tables. It goes up when the meaning of a column changes or one goes away, not when one is added.
pub const VERSION: u32 = 1;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
    /// One row a report.
    Cases,
    /// What was found.
    Findings,
    /// What equal crashes and equal causes have in common.
    Signatures,
    /// Metrics in brief, one row a metric.
    Metrics,
    /// The functions with the most CPU time, then waiting time.
    Functions,
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// UTF-8 without control characters.
    Text,
    /// A whole number, 64 bits with a sign.
    Count,
    /// A finite number.
    Number,
    /// Yes or no.
    Truth,
    /// A moment in UTC, in microseconds.
    Moment,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// It may be absent: not known.
    pub is_optional: bool,
    /// What it means.
    pub means: &'static str,
}

const fn always(name: &'static str, kind: Kind, means: &'static str) -> Column {
    Column { name, kind, is_optional: false, means }
}

const fn maybe(name: &'static str, kind: Kind, means: &'static str) -> Column {
    Column { name, kind, is_optional: true, means }
}

/// All tables begin with these.
pub(crate) const COMMON: &[Column] = &[
    always("case_id", Kind::Text, "name of the case"),
    always("upload", Kind::Text, "which of the things that were sent for it"),
    always("analysed_at", Kind::Moment, "when it was analysed"),
];

const CASES: &[Column] = &[
    maybe("program", Kind::Text, "name of the process"),
    maybe("runtime", Kind::Text, "its language runtime"),
    maybe("runtime_version", Kind::Text, "version of that"),
    maybe("build_id", Kind::Text, "build id of its executable, of a dump"),
    maybe("os", Kind::Text, "operating system"),
    maybe("kernel", Kind::Text, "its kernel"),
    maybe("architecture", Kind::Text, "processor"),
    maybe("cpus", Kind::Count, "how many"),
    maybe("tool", Kind::Text, "version of biopsy that recorded, or the tool that wrote the file"),
    maybe("seconds", Kind::Number, "length of the recording"),
    maybe("sampled_ns", Kind::Count, "CPU time that its samples stand for"),
    maybe("partial", Kind::Truth, "the recording was cut short"),
    always("dumps", Kind::Count, "how many dumps"),
    always("heaps", Kind::Count, "how many managed heaps"),
];

const FINDINGS: &[Column] = &[
    always("id", Kind::Text, "which finding (`biopsy explain`)"),
    always("severity", Kind::Text, "`info`, `notice`, `warning`, `critical`"),
    maybe("impact", Kind::Number, "share of time or memory that it explains"),
    maybe("title", Kind::Text, "in one line"),
    maybe("found_in", Kind::Text, "`recorded`, `dump`, `all`"),
    maybe("function", Kind::Text, "the first function that its evidence names"),
    maybe("module", Kind::Text, "where that is"),
];

const SIGNATURES: &[Column] = &[
    always("kind", Kind::Text, "`crash`, or `cause`: a finding (warning or worse) at a place"),
    always(
        "text",
        Kind::Text,
        "equal texts of one kind and version are most likely one cause; of a cause: id, function, module",
    ),
    maybe("version", Kind::Count, "of the rules that a crash's was made by"),
    maybe("made_from", Kind::Text, "of a crash: `stack`, `goroutine`, `exception`"),
    maybe("program", Kind::Text, "name of the process"),
];

const METRICS: &[Column] = &[
    always("metric", Kind::Text, "table and column of the recording: `host.cpu_busy`"),
    maybe("key", Kind::Text, "which disk, process and so on"),
    maybe(
        "unit",
        Kind::Text,
        "`count`, `per-second`, `cores`, `ratio`, `bytes`, `bytes-per-second`, `milliseconds`",
    ),
    maybe("readings", Kind::Count, "how many"),
    maybe("missing", Kind::Count, "how many could not be read"),
    maybe("mean", Kind::Number, "mean"),
    maybe("min", Kind::Number, "least"),
    maybe("max", Kind::Number, "most"),
    maybe("last", Kind::Number, "last"),
];

const FUNCTIONS: &[Column] = &[
    always("rank", Kind::Count, "1 has the most CPU time, then waiting time"),
    always("name", Kind::Text, "its name, or module and offset"),
    maybe("module", Kind::Text, "where it is"),
    maybe("kind", Kind::Text, "`kernel`, `native`, `jit`, `unknown`, `heading`"),
    maybe("cpu_self_ns", Kind::Count, "CPU time in it"),
    maybe("cpu_total_ns", Kind::Count, "and in what it called"),
    maybe("wait_self_ns", Kind::Count, "waiting time in it"),
    maybe("wait_total_ns", Kind::Count, "and in what it called"),
];

impl Table {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Cases, Self::Findings, Self::Signatures, Self::Metrics, Self::Functions];

    /// Its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cases => "cases",
            Self::Findings => "findings",
            Self::Signatures => "signatures",
            Self::Metrics => "metrics",
            Self::Functions => "functions",
        }
    }

    /// The table of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Its columns, in order.
    pub fn columns(self) -> impl Iterator<Item = &'static Column> {
        let own = match self {
            Self::Cases => CASES,
            Self::Findings => FINDINGS,
            Self::Signatures => SIGNATURES,
            Self::Metrics => METRICS,
            Self::Functions => FUNCTIONS,
        };
        COMMON.iter().chain(own)
    }

    /// By which columns the rows of a file are sorted: what is asked for most is found without reading the rest.
    #[must_use]
    pub fn sorted_by(self) -> &'static [&'static str] {
        match self {
            Self::Cases => &["case_id", "upload"],
            Self::Findings => &["id", "function", "case_id", "upload"],
            Self::Signatures => &["kind", "text", "case_id", "upload"],
            Self::Metrics => &["metric", "key", "case_id", "upload"],
            Self::Functions => &["name", "module", "case_id", "upload"],
        }
    }

    /// Rows of a row group: of what is searched for single texts, few.
    #[must_use]
    pub fn group_rows(self) -> usize {
        match self {
            Self::Signatures => 1024,
            Self::Cases | Self::Findings => 4096,
            Self::Metrics | Self::Functions => 8192,
        }
    }

    /// The same as Arrow has it.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        let field = |column: &Column| Field::new(column.name, column.kind.data_type(), column.is_optional);
        Arc::new(Schema::new(self.columns().map(field).collect::<Vec<_>>()))
    }
}

impl Kind {
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Text => DataType::Utf8,
            Self::Count => DataType::Int64,
            Self::Number => DataType::Float64,
            Self::Truth => DataType::Boolean,
            Self::Moment => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        }
    }

    /// As the published schema calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Count => "int64",
            Self::Number => "float64",
            Self::Truth => "boolean",
            Self::Moment => "timestamp",
        }
    }
}
