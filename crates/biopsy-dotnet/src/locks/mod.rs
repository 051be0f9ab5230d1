//! Who holds which lock, and who waits for it.
