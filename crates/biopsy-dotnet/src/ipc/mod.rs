//! The diagnostics protocol: commands to a running process and the streams it answers with.
