//! Asynchronous operations that have not ended, and what they wait for.
