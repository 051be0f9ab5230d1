//! Readers of nettrace files and streams, versions 4, 5 and 6.
