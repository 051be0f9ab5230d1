//! The runtime as it stands in the memory of a process: threads, modules, types, methods.
