//! Building warnings.

use biopsy_model::loss::Warning;

/// A warning of the reader, without a moment.
pub(crate) fn warning(code: &str, message: String, hint: Option<&str>) -> Warning {
    Warning { code: code.to_owned(), message, hint: hint.map(str::to_owned), time: None }
}

/// "1 event", "2 events".
pub(crate) fn plural(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}
