//! Why something over all cases was not done.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use parquet::errors::ParquetError;

use crate::limits::MOST_MEMORY;

/// Why something over all cases was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CasesError {
    /// The question is no `SELECT`.
    #[error(
        "`{what}` is not answered: a query only reads (`SELECT`, `WITH`, `EXPLAIN`, `SHOW TABLES`, `DESCRIBE`)"
    )]
    OnlyReads {
        /// What was asked for instead.
        what: String,
    },
    /// The question is not understood.
    #[error("cannot answer the query: {why}")]
    Question {
        /// Why, in the words of the engine.
        why: String,
    },
    /// The answer needs more memory than a query may have.
    #[error("the query needs more than the {megabytes} MiB of memory that it may have")]
    TooLarge {
        /// What it may have.
        megabytes: usize,
    },
    /// A report is not one of ours.
    #[error("cannot read a report: {0}")]
    Report(#[from] serde_json::Error),
    /// A file was written by a newer biopsy-lab.
    #[error(
        "`{name}` has version {found} of the tables, this biopsy-lab reads up to {}",
        crate::schema::VERSION
    )]
    Newer {
        /// Which file.
        name: String,
        /// Its version.
        found: String,
    },
    /// A file cannot be read or written.
    #[error("a file of the tables over all cases is damaged, or its key is another's")]
    File(#[source] ParquetError),
    /// A file is gone.
    #[error(
        "a file of the tables over all cases was replaced while it was read, because a case was deleted: ask again"
    )]
    Replaced,
    /// Columns do not fit each other.
    #[error("columns of the tables over all cases do not fit")]
    Columns(#[from] ArrowError),
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Which.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl From<ParquetError> for CasesError {
    fn from(error: ParquetError) -> Self {
        let is_gone = |cause: &(dyn std::error::Error + 'static)| {
            let cause = cause.downcast_ref::<std::io::Error>();
            cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::NotFound)
        };
        match &error {
            ParquetError::External(cause) if is_gone(cause.as_ref()) => Self::Replaced,
            _ => Self::File(error),
        }
    }
}

impl CasesError {
    /// What the engine says, without places in its own sources.
    pub(crate) fn of_engine(error: &DataFusionError) -> Self {
        if let DataFusionError::ResourcesExhausted(_) = error.find_root() {
            return Self::TooLarge { megabytes: MOST_MEMORY >> 20 };
        }
        let mut why = error.strip_backtrace();
        for needless in
            ["Error during planning: ", "External error: ", "Schema error: ", "SQL error: ", "lab.public."]
        {
            why = why.replace(needless, "");
        }
        Self::Question { why: why.trim().to_owned() }
    }

    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TooLarge { .. } => {
                Some("name the columns that you want, and fewer rows (`WHERE`, `LIMIT`)")
            }
            Self::Question { .. } => {
                Some("`SHOW TABLES` lists the tables, `DESCRIBE findings` the columns of one")
            }
            _ => None,
        }
    }
}
