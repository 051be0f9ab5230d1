//! The `system` table: the whole machine, and TCP of the target's network namespace.

use std::path::Path;

use biopsy_model::MonoNanos;

use super::network::TcpCounts;
use super::parse::{Pressure, float, lines, name_values, number, parse_pressure, words};
use super::procfile::{Buffer, ProcFile};
use super::rate::Counter;
use super::sink::{Emitter, Row};
use super::tables::SYSTEM;

const CPU_MODES: [&str; 8] =
    ["cpu.user", "cpu.nice", "cpu.system", "cpu.idle", "cpu.iowait", "cpu.irq", "cpu.softirq", "cpu.steal"];

/// Modes in which a CPU does nothing: positions in [`CPU_MODES`]. Steal is neither idle nor ours: it counts
/// as busy, since the machine could not have done more.
const IDLE_MODES: [usize; 2] = [3, 4];

/// Collector of the `system` table.
#[derive(Debug)]
pub(crate) struct System {
    stat: ProcFile,
    load: ProcFile,
    memory: ProcFile,
    vm: ProcFile,
    pressure: [(&'static str, ProcFile); 3],
    ticks_per_second: f64,
    page_size: f64,
    cpu: [Counter; 8],
    counts: Counts,
    stalls: [[Counter; 2]; 3],
    tcp: TcpRates,
    /// Share of the machine's CPU time that was used in the last interval.
    pub(crate) busy: Option<f64>,
    /// Bytes that can be had without swapping, at the last reading.
    pub(crate) available: Option<u64>,
}

#[derive(Debug, Default)]
struct Counts {
    switches: Counter,
    forks: Counter,
    interrupts: Counter,
    faults: Counter,
    major_faults: Counter,
    swap_in: Counter,
    swap_out: Counter,
    reclaim: Counter,
    oom_kills: Counter,
}

#[derive(Debug, Default)]
struct TcpRates {
    connects: Counter,
    accepts: Counter,
    segments_out: Counter,
    retransmits: Counter,
    resets: Counter,
    failures: Counter,
    overflows: Counter,
    drops: Counter,
}

impl System {
    pub(crate) fn new(proc_root: &Path, ticks_per_second: u64, page_size: u64) -> System {
        let open = |name: &str| ProcFile::new(proc_root.join(name), true);
        System {
            stat: open("stat"),
            load: open("loadavg"),
            memory: open("meminfo"),
            vm: open("vmstat"),
            pressure: [
                ("cpu", open("pressure/cpu")),
                ("memory", open("pressure/memory")),
                ("io", open("pressure/io")),
            ],
            ticks_per_second: float_of(ticks_per_second.max(1)),
            page_size: float_of(page_size),
            cpu: Default::default(),
            counts: Counts::default(),
            stalls: Default::default(),
            tcp: TcpRates::default(),
            busy: None,
            available: None,
        }
    }

    pub(crate) fn read(
        &mut self,
        time: MonoNanos,
        tcp: Option<&TcpCounts>,
        buffer: &mut Buffer,
        out: &mut Emitter<'_>,
    ) {
        let mut row = Row::new(&SYSTEM);
        self.read_stat(time, buffer, &mut row);
        self.read_load(buffer, &mut row);
        self.read_memory(buffer, &mut row);
        self.read_vm(time, buffer, &mut row);
        self.read_pressure(time, buffer, &mut row);
        self.write_tcp(time, tcp, &mut row);
        out.emit(time, &[], &row);
    }

    fn read_stat(&mut self, time: MonoNanos, buffer: &mut Buffer, row: &mut Row) {
        let text = self.stat.read_ok(buffer).unwrap_or_default();
        let mut modes: [Option<u64>; 8] = [None; 8];
        let (mut switches, mut forks, mut interrupts) = (None, None, None);
        for line in lines(text) {
            let mut words = words(line);
            let name = words.next().unwrap_or_default();
            match name {
                b"cpu" => {
                    for (mode, word) in modes.iter_mut().zip(words) {
                        *mode = number(word);
                    }
                }
                b"ctxt" => switches = words.next().and_then(number),
                b"processes" => forks = words.next().and_then(number),
                b"intr" => interrupts = words.next().and_then(number),
                b"procs_running" => row.set_count("processes.running", words.next().and_then(number)),
                b"procs_blocked" => row.set_count("processes.blocked", words.next().and_then(number)),
                _ => {}
            }
        }
        let mut rates: [Option<f64>; 8] = [None; 8];
        for (((counter, ticks), rate), name) in self.cpu.iter_mut().zip(modes).zip(&mut rates).zip(CPU_MODES)
        {
            *rate = counter.rate(ticks, time).map(|rate| rate / self.ticks_per_second);
            row.set(name, *rate);
        }
        self.busy = busy_share(&rates);
        row.set("cpu.busy", self.busy);
        row.set("switches", self.counts.switches.rate(switches, time));
        row.set("forks", self.counts.forks.rate(forks, time));
        row.set("interrupts", self.counts.interrupts.rate(interrupts, time));
    }

    fn read_load(&mut self, buffer: &mut Buffer, row: &mut Row) {
        let text = self.load.read_ok(buffer).unwrap_or_default();
        for (name, word) in ["load.1", "load.5", "load.15"].into_iter().zip(words(text)) {
            row.set(name, float(word));
        }
    }

    fn read_memory(&mut self, buffer: &mut Buffer, row: &mut Row) {
        let text = self.memory.read_ok(buffer).unwrap_or_default();
        let (mut cached, mut swap_total, mut swap_free) = (None, None, None);
        let mut available = None;
        name_values(text, |name, kibibytes| {
            let bytes = kibibytes.checked_mul(1024);
            match name {
                b"MemTotal" => row.set_count("memory.total", bytes),
                b"MemAvailable" => {
                    available = bytes;
                    row.set_count("memory.available", bytes);
                }
                b"MemFree" => row.set_count("memory.free", bytes),
                // `Buffers` is the page cache of block devices: for a reader it is one thing with `Cached`.
                b"Cached" | b"Buffers" => {
                    cached = bytes.and_then(|bytes| bytes.checked_add(cached.unwrap_or(0)));
                }
                b"Dirty" => row.set_count("memory.dirty", bytes),
                b"Writeback" => row.set_count("memory.writeback", bytes),
                b"AnonPages" => row.set_count("memory.anon", bytes),
                b"Shmem" => row.set_count("memory.shared", bytes),
                b"Slab" => row.set_count("memory.slab", bytes),
                b"SwapTotal" => swap_total = bytes,
                b"SwapFree" => swap_free = bytes,
                _ => {}
            }
        });
        self.available = available;
        row.set_count("memory.cached", cached);
        row.set_count("swap.total", swap_total);
        let used = swap_total.zip(swap_free).map(|(total, free)| total.saturating_sub(free));
        row.set_count("swap.used", used);
    }

    fn read_vm(&mut self, time: MonoNanos, buffer: &mut Buffer, row: &mut Row) {
        let text = self.vm.read_ok(buffer).unwrap_or_default();
        let (mut faults, mut major, mut swap_in, mut swap_out) = (None, None, None, None);
        let (mut reclaim, mut oom_kills) = (None, None);
        name_values(text, |name, value| match name {
            b"pgfault" => faults = Some(value),
            b"pgmajfault" => major = Some(value),
            b"pswpin" => swap_in = Some(value),
            b"pswpout" => swap_out = Some(value),
            b"pgscan_direct" => reclaim = Some(value),
            b"oom_kill" => oom_kills = Some(value),
            _ => {}
        });
        let counts = &mut self.counts;
        row.set("faults", counts.faults.rate(faults, time));
        row.set("faults.major", counts.major_faults.rate(major, time));
        row.set("swap.in", counts.swap_in.rate(swap_in, time).map(|pages| pages * self.page_size));
        row.set("swap.out", counts.swap_out.rate(swap_out, time).map(|pages| pages * self.page_size));
        row.set("reclaim.direct", counts.reclaim.rate(reclaim, time));
        row.set("oom.kills", counts.oom_kills.rate(oom_kills, time));
    }

    fn read_pressure(&mut self, time: MonoNanos, buffer: &mut Buffer, row: &mut Row) {
        for ((name, file), [some, full]) in self.pressure.iter_mut().zip(&mut self.stalls) {
            let text = file.read_ok(buffer).unwrap_or_default();
            let (some_now, full_now) = parse_pressure(text);
            let share = some.rate(some_now.total, time).map(stall_share);
            row.set(&format!("pressure.{name}.some"), share);
            row.set(&format!("pressure.{name}.some.avg10"), some_now.avg10);
            // `full` of the whole machine means nothing for the CPU and is always zero.
            if *name != "cpu" {
                set_full(row, name, full, &full_now, time);
            }
        }
    }

    fn write_tcp(&mut self, time: MonoNanos, tcp: Option<&TcpCounts>, row: &mut Row) {
        let none = TcpCounts::default();
        let now = tcp.unwrap_or(&none);
        row.set_count("tcp.established", now.established);
        for (name, counter, value) in [
            ("tcp.connects", &mut self.tcp.connects, now.connects),
            ("tcp.accepts", &mut self.tcp.accepts, now.accepts),
            ("tcp.segments.out", &mut self.tcp.segments_out, now.segments_out),
            ("tcp.retransmits", &mut self.tcp.retransmits, now.retransmits),
            ("tcp.resets", &mut self.tcp.resets, now.resets),
            ("tcp.failures", &mut self.tcp.failures, now.failures),
            ("tcp.listen.overflows", &mut self.tcp.overflows, now.overflows),
            ("tcp.listen.drops", &mut self.tcp.drops, now.drops),
        ] {
            row.set(name, counter.rate(value, time));
        }
    }
}

fn set_full(row: &mut Row, name: &str, counter: &mut Counter, now: &Pressure, time: MonoNanos) {
    row.set(&format!("pressure.{name}.full"), counter.rate(now.total, time).map(stall_share));
    row.set(&format!("pressure.{name}.full.avg10"), now.avg10);
}

/// Microseconds stalled per second as a share of time.
pub(crate) fn stall_share(micros_per_second: f64) -> f64 {
    (micros_per_second / 1e6).min(1.0)
}

/// Share of CPU time that was not idle, from the rates of all modes.
///
/// Divided by the sum of the modes, not by CPUs times seconds: CPUs come and go, and ticks are coarse.
fn busy_share(rates: &[Option<f64>; 8]) -> Option<f64> {
    let idle: f64 = IDLE_MODES.iter().filter_map(|mode| rates.get(*mode).copied().flatten()).sum();
    let total: f64 = rates.iter().copied().sum::<Option<f64>>()?;
    (total > 0.0).then(|| ((total - idle) / total).clamp(0.0, 1.0))
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn float_of(value: u64) -> f64 {
    value as f64
}
