//! Assemblies: PE files, ECMA-335 metadata, portable debug information.
