//! other tools' recordings (perf.data) into our model.
