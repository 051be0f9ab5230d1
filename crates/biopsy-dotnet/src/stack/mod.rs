//! Managed frames: unwind information of compiled methods, and the runtime's explicit frames.
