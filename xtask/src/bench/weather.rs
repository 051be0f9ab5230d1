//! What the machine gave a window of measuring: why two runs of the same differ.

use std::time::Instant;

/// Counters of the whole machine at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    at: Instant,
    /// Busy, idle and stolen ticks of all CPUs (`/proc/stat`).
    busy: u64,
    idle: u64,
    steal: u64,
    switches: u64,
    /// Microseconds in which somebody waited for a CPU, and for a disk (`/proc/pressure`).
    cpu_pressure: Option<u64>,
    io_pressure: Option<u64>,
}

/// What it was between two moments.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Window {
    /// Of all CPUs' time, what the hypervisor gave to others, in per cent.
    pub(crate) steal: f64,
    /// CPUs that were busy with something other than what is measured.
    pub(crate) others: f64,
    /// Of all CPUs' time, what nobody wanted, in per cent.
    pub(crate) idle: f64,
    pub(crate) switches_per_second: f64,
    /// Of the time, in per cent, somebody waited for a CPU or a disk.
    pub(crate) cpu_pressure: Option<f64>,
    pub(crate) io_pressure: Option<f64>,
    /// Mean over the CPUs at the end; virtual machines often do not tell.
    pub(crate) megahertz: Option<f64>,
}

impl Weather {
    /// Now.
    pub(crate) fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/stat"), &read("/proc/pressure/cpu"), &read("/proc/pressure/io"))
    }

    fn parse(stat: &str, cpu: &str, io: &str) -> Self {
        let line = |name: &str| {
            let rest = stat.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            rest.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u64>>()
        };
        // user nice system idle iowait irq softirq steal; guest time is in user time.
        let ticks = line("cpu ");
        let tick = |at: usize| ticks.get(at).copied().unwrap_or(0);
        Self {
            at: Instant::now(),
            busy: [0, 1, 2, 5, 6].into_iter().map(tick).sum(),
            idle: tick(3) + tick(4),
            steal: tick(7),
            switches: line("ctxt ").first().copied().unwrap_or(0),
            cpu_pressure: waited(cpu),
            io_pressure: waited(io),
        }
    }

    /// What it was since `before`; `own` are the CPU seconds of what is measured and of its recorder.
    pub(crate) fn since(&self, before: &Self, own: f64) -> Window {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-6);
        let of = |value: fn(&Self) -> u64| float(value(self).saturating_sub(value(before)));
        let (busy, idle, steal) = (of(|one| one.busy), of(|one| one.idle), of(|one| one.steal));
        let all = (busy + idle + steal).max(1.0);
        let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| float(cpus.get() as u64));
        let pressure =
            |now: Option<u64>, before: Option<u64>| Some(float(now?.saturating_sub(before?)) / 1e4 / seconds);
        Window {
            steal: 100.0 * steal / all,
            others: (busy / all * cpus - own / seconds).max(0.0),
            idle: 100.0 * idle / all,
            switches_per_second: of(|one| one.switches) / seconds,
            cpu_pressure: pressure(self.cpu_pressure, before.cpu_pressure),
            io_pressure: pressure(self.io_pressure, before.io_pressure),
            megahertz: megahertz(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        }
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "steal {:.1} %, others {:.2} CPUs, idle {:.0} %", self.steal, self.others, self.idle)?;
        write!(f, ", {:.0} switches/s", self.switches_per_second)?;
        if let (Some(cpu), Some(io)) = (self.cpu_pressure, self.io_pressure) {
            write!(f, ", pressure cpu {cpu:.0} % io {io:.0} %")?;
        }
        self.megahertz.map_or(Ok(()), |megahertz| write!(f, ", {megahertz:.0} MHz"))
    }
}

/// Microseconds from `some avg10=0.00 avg60=0.00 avg300=0.00 total=4711`.
fn waited(pressure: &str) -> Option<u64> {
    pressure.lines().find(|line| line.starts_with("some"))?.rsplit_once("total=")?.1.parse().ok()
}

fn megahertz(cpuinfo: &str) -> Option<f64> {
    let values =
        cpuinfo.lines().filter_map(|line| line.strip_prefix("cpu MHz")?.rsplit_once(": ")?.1.parse().ok());
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / float(values.len() as u64))
}

#[expect(clippy::cast_precision_loss, reason = "counts of some minutes")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_tells_who_had_the_cpus() {
        let pressure =
            |total: u64| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull total=1\n");
        let stat = |ticks: &str, switches: u64| format!("cpu  {ticks} 0 0\ncpu0 1 2 3\nctxt {switches}\n");
        let before = Weather::parse(&stat("100 0 100 500 0 0 0 0", 1000), &pressure(0), "");
        let mut after = Weather::parse(&stat("150 0 125 600 0 0 0 25", 6000), &pressure(500_000), "");
        after.at = before.at + std::time::Duration::from_secs(1);
        let window = after.since(&before, 0.0);
        assert!((window.steal - 12.5).abs() < 1e-9 && (window.idle - 50.0).abs() < 1e-9, "{window:?}");
        assert!((window.switches_per_second - 5000.0).abs() < 1e-6, "{window:?}");
        assert_eq!((window.cpu_pressure.map(f64::round), window.io_pressure), (Some(50.0), None));
        // All that was busy was ours.
        assert_eq!(after.since(&before, 1000.0).others, 0.0);
        assert_eq!(megahertz("cpu MHz\t\t: 2000.0\ncpu MHz\t\t: 3000.0\n"), Some(2500.0));
    }
}
