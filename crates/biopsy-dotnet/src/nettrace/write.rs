//! A little writer of nettrace streams, for tests and benches: nobody here writes version 6, or odd streams.
