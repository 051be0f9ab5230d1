//! The graph of a heap.
