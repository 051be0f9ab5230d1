//! Why a layout cannot be used, or what it does not say.

/// Why a layout cannot be used, or what it does not say.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A descriptor or layout file is no JSON, or not of the schema.
    #[error("{label} cannot be read as a layout: {what}")]
    Malformed {
        /// Which one.
        label: String,
        /// What is wrong with it.
        what: String,
    },
    /// It asks for more than any real one.
    #[error("{label} has too many {what}: limit {limit}")]
    TooMuch {
        /// Which one.
        label: String,
        /// Of what.
        what: &'static str,
        /// How many are accepted.
        limit: usize,
    },
    /// Neither descriptor nor layout file for this version.
    #[error(
        "no layout for .NET {version}: no descriptor of it can be read, and there are layout files for {known}"
    )]
    UnknownVersion {
        /// Which version.
        version: String,
        /// The versions there are files for.
        known: String,
    },
    /// A layout file for this version, but none of its variants has this table.
    #[error("the table of the runtime has {found} bytes, layout `{label}` knows {known}")]
    UnknownTable {
        /// Which layout file.
        label: String,
        /// Bytes of `g_dacTable`.
        found: u64,
        /// The sizes it knows.
        known: String,
    },
    /// A type is not described.
    #[error("the layout of this runtime does not describe `{type_name}`")]
    NoType {
        /// Its name.
        type_name: String,
    },
    /// A field is not described.
    #[error("the layout of this runtime does not describe `{type_name}.{field}`")]
    NoField {
        /// Its type.
        type_name: String,
        /// Its name.
        field: String,
    },
    /// A global is not described.
    #[error("the layout of this runtime does not describe the global `{name}`")]
    NoGlobal {
        /// Its name.
        name: String,
    },
}
