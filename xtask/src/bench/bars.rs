//! The bars of SPECIFICATION.md, by row number.

/// A promise.
#[derive(Debug)]
pub(crate) struct Bar {
    /// Row of SPECIFICATION.md.
    pub(crate) row: &'static str,
    /// What is measured.
    pub(crate) what: &'static str,
    /// The value is the least that is promised; otherwise the most.
    pub(crate) least: bool,
    /// The promised value.
    pub(crate) value: f64,
}

const fn at_least(value: f64, row: &'static str, what: &'static str) -> Bar {
    Bar { row, what, least: true, value }
}

const fn at_most(value: f64, row: &'static str, what: &'static str) -> Bar {
    Bar { row, what, least: false, value }
}

/// All of them.
pub(super) const BARS: &[Bar] = &[
    at_least(0.90, "1", "M throughput with states and wake-ups, share of unrecorded"),
    at_least(1.4, "2a", "the same, times that under perf -p"),
    at_least(1.4, "2b", "the same, times that under samply"),
    at_least(0.85, "3", "M throughput with wait stacks too, share of unrecorded"),
    at_least(0.99, "W1", "M throughput with the last minutes kept, share of unrecorded"),
    at_most(64.0, "W2", "memory of who keeps the last minutes of M, MB"),
    at_most(0.2, "W3a", "watcher beside 500 processes at rest, % of a core"),
    at_most(40.0, "W3b", "the same, memory, MB"),
    at_most(1.0, "W4", "`capture --recent=5m` of M, s"),
    at_least(1.0, "W6", "starts recorded from the first instruction, share, worst run"),
    at_most(1.02, "W10a", "build of the compiler tree with a watcher, nothing matches, times without"),
    at_most(1.05, "W10b", "the same, compilers traced"),
    at_least(
        0.99,
        "W10c",
        "ASP.NET Core at saturation with the last minutes kept, requests for a second of all CPU, share of unrecorded",
    ),
    at_least(0.97, "4", "Z work per CPU second, share of unrecorded"),
    at_most(0.10, "5", "recorder CPU on M, cores"),
    at_most(0.5, "6", "output on M, MB/s"),
    at_most(30.0, "7", "output on Z, KB/s"),
    at_most(1.0, "8", "stop to result, short run of M, s"),
    at_most(2.0, "9", "stop to result, 5 min of M, s"),
    at_least(99.0, "10", "stacks to the thread's root on M, %"),
    at_most(100.0, "11", "recorder memory, 5 min of M, MB"),
    at_most(5.0, "12", "change of M's 99th percentile at attach, ms"),
    at_most(0.04, "D1a", "pause inside the target, 4 KiB pages, share of gcore's"),
    at_most(0.04, "D1b", "the same, share of createdump's"),
    at_most(25.0, "D1c", "the same, ms"),
    at_most(0.005, "D2a", "pause, huge pages, share of gcore's"),
    at_most(0.005, "D2b", "the same, share of createdump's"),
    at_most(3.0, "D2c", "the same, ms"),
    at_most(3.0, "D2d", "pause after --collapse, ms"),
    at_most(90.0, "D3a", "pause of 4 GiB, ns a present page"),
    at_most(90.0, "D3b", "pause of 16 GiB, ns a present page"),
    at_most(2.0, "D3c", "predicted pause by measured pause, worst of all"),
    at_most(2.0, "D3d", "the same, 4 and 16 GiB"),
    at_most(1.2, "D4", "raw dump of a quiet target, time by gcore's"),
    at_most(1.2, "D5", "compressed dump, time by zstd of the same bytes on all cores"),
    at_most(0.35, "D6", "compressed size by gcore's"),
    at_most(20.0, "D6b", "compressed size of a .NET server of 70 to 90 MB, MB"),
    at_most(64.0, "D7", "memory of biopsy, MB"),
    at_most(64.0, "D7b", "memory of biopsy, 4 and 16 GiB, MB"),
    at_least(2.0, "D8a", "scrubbing, memory of a .NET server, GB/s and core"),
    at_least(2.0, "D8b", "the same, libraries"),
    at_least(2.0, "D8c", "the same, source text"),
    at_most(0.0, "D9", "targets harmed by SIGKILL of biopsy at random moments"),
    at_most(0.0, "D10", "calls of the target that were broken off, worst of all"),
    at_least(1.0, "D11", "launches of 1 ms that were caught, share"),
    at_least(0.98, "D12a", "work of a target without signals that is followed, share of unfollowed"),
    at_least(0.85, "D12b", "the same with 1,000 signals a second"),
    at_least(0.92, "N1a", "ASP.NET Core at saturation under capture, share of unrecorded"),
    at_least(1.0, "N1b", "the same, times that under dotnet-trace"),
    at_least(0.88, "N2", "the same with every request's events, share of unrecorded"),
    at_most(1.08, "N3a", "CPU per request of a server that waits, times unrecorded"),
    at_most(1.0, "N3b", "the same, times that under dotnet-trace"),
    at_least(99.0, "N4", "stacks of the saturated server to the thread's root, %"),
    at_most(300.0, "N6a", "first sample after the command, server and native, ms"),
    at_most(5.0, "N6b", "change of the 99th percentile of requests while attaching, ms"),
    at_most(5.0, "N6c", "the same while detaching, ms"),
    at_least(300.0, "N7a", "reading nettrace on one core, MB/s"),
    at_most(150.0, "N7b", "`analyze` of 1,000 MiB of nettrace, MB of memory"),
    at_least(1.0, "N8", "its counts equal to nettrace-check's (1: yes)"),
    at_most(0.034, "H1", "pause of a heap snapshot of 10^7 objects, times dotnet-gcdump's"),
    at_most(0.334, "H2", "whole command, times dotnet-gcdump's"),
    at_most(40.0, "H3", "most memory of biopsy, bytes per object"),
    at_most(0.334, "H4", "types of a core with 10^7 objects, times dotnet-dump's time"),
    at_most(1.0, "H6", "`biopsy stacks` of a server with 200 threads, s"),
    at_most(1.15, "V1a", "dump of 1 GiB that is sealed, time by that of one that is not"),
    at_most(1.0, "V1b", "most bytes on the disk meanwhile, times the sealed file"),
    at_most(1.15, "V1c", "the same of a raw dump, time"),
    at_most(1.0, "V1d", "the same of a raw dump, bytes on the disk"),
    at_most(
        1.1,
        "V2a",
        "bytes sent over a way with 100 cuts, 20 kills of each side, times those of the file",
    ),
    at_least(1.0, "V2b", "arrived as it was, with one receipt and one notice (1: yes)"),
    at_least(0.8, "V3a", "upload over loopback, in memory, share of curl to nginx"),
    at_least(0.8, "V3b", "the same on the disk, acknowledged when it is on it"),
    at_most(5.0, "V4", "last byte to notice with 50 uploads in flight, 99th percentile, s"),
    at_most(1024.0, "V5a", "memory of a lab with 200 slow uploads, MB"),
    at_most(1.1, "V5b", "memory of a lab after a bundle of 2 GiB, times that after 64 MiB"),
    at_most(50.0, "V6", "opening one member of a sealed bundle of 5 GiB, ms"),
    at_most(1.0, "V7a", "search for a signature among 10^6 cases, the whole command, s"),
    at_most(500.0, "V7b", "memory of a question over 10^6 cases, MB"),
    at_most(10.0, "H7", "its pause in the server, ms"),
];
