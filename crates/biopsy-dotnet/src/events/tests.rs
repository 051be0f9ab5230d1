//! Events that the writer of test streams makes, collected.
