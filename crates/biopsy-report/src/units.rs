//! Numbers with units, as people read them.
