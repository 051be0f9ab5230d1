//! sick programs with a known cause, process guards, builders; development only.
