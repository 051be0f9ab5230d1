//! Where the runtime keeps its data: descriptors that it exports, and layout files for versions without one.
