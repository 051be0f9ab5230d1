//! How much is fetched and kept, and how long is waited.

use std::time::Duration;

/// Bounds of everything that a server decides.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one file at most. That of a browser has 1.5 GB; Debian's largest of a server (MariaDB) 90 MB.
    pub file_bytes: u64,
    /// Bytes that one run fetches at most.
    pub run_bytes: u64,
    /// Bytes that the cache keeps; what was not used for longest goes first.
    pub cache_bytes: u64,
    /// Files that one run asks for at most.
    pub files: usize,
    /// Until there is a connection.
    pub connect: Duration,
    /// Until the answer begins (a server may have to unpack the file first), and without a byte of it later.
    pub answer: Duration,
    /// For one file at most.
    pub whole: Duration,
    /// How long it is remembered that no server has a file.
    pub miss: Duration,
    /// How often a server may send on.
    pub redirects: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 2 << 30,
            run_bytes: 4 << 30,
            cache_bytes: 4 << 30,
            files: 2_000,
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(90),
            whole: Duration::from_secs(1800),
            miss: Duration::from_secs(3600),
            redirects: 3,
        }
    }
}
