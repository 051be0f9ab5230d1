//! pure functions from a recording to findings: hot paths, waits, convoys, limits.
