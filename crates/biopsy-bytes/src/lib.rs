//! cursor over untrusted bytes: bounds, limits, errors with offsets.
