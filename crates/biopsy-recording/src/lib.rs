//! the waist: layout, timeline chunks, manifest, bundle; writer and reader.
