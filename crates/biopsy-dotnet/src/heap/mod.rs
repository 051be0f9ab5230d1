//! The collected heap: objects, references, roots.
