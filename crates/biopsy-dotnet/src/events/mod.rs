//! What the events of a trace mean: decoded payloads, and the collector that makes a `RuntimeTrace` of them.
