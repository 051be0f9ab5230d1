//! What reports say, over all cases: rows of five tables (`biopsy_cases`), in encrypted files that go when a case of theirs goes.
//!
//! A *segment* holds all rows of some reports, a file a table, encrypted with a key of its own that is in the database, wrapped as keys of cases are.
//! Each report makes a segment; small ones are put together by whoever analyses ([`compact`]), so that there are few files, and none is so large that
//! it takes long to write it again. That is what deletion does ([`deletion`]): segments with rows of the case are written again without them under
//! new keys, the old keys are dropped, and the wrapping key that a back-up would need for them is destroyed with the case's own.

pub mod ask;
pub mod compact;
pub mod deletion;
pub mod segments;

/// What an export is, in the log and in certificates.
pub(crate) const EXPORTED: &str = "exported";
/// What a query is.
pub(crate) const QUERIED: &str = "queried";
