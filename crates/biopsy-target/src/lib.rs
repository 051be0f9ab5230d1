//! find a process, identify it safely, its tree and runtime, and what may be recorded of it.
