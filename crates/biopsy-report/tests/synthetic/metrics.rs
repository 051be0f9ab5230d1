//! Metric tables, one reading a second.

use super::{Dice, SECONDS, at};
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};

/// A busy disk between these seconds.
const BUSY: std::ops::Range<u64> = 30..38;

type Row = Vec<Option<f64>>;

fn table(
    name: &str,
    keys: &[&str],
    columns: &[(&str, Unit)],
    mut row: impl FnMut(u64, &mut Dice) -> Vec<(Vec<String>, Row)>,
) -> MetricTable {
    let mut dice = Dice(name.len() as u64);
    let mut rows = Vec::new();
    for second in 0..=SECONDS {
        for (keys, values) in row(second, &mut dice) {
            rows.push(MetricRow { time: at(second as f64), keys, values });
        }
    }
    MetricTable {
        name: name.into(),
        keys: keys.iter().map(|key| (*key).into()).collect(),
        columns: columns.iter().map(|(name, unit)| Column { name: (*name).into(), unit: *unit }).collect(),
        rows,
    }
}

pub(super) fn tables() -> Vec<MetricTable> {
    vec![system(), disks(), network(), processes(), threads(), cgroups()]
}

fn system() -> MetricTable {
    const COLUMNS: &[(&str, Unit)] = &[
        ("cpu.user", Unit::Cores),
        ("cpu.nice", Unit::Cores),
        ("cpu.system", Unit::Cores),
        ("cpu.idle", Unit::Cores),
        ("cpu.iowait", Unit::Cores),
        ("cpu.irq", Unit::Cores),
        ("cpu.softirq", Unit::Cores),
        ("cpu.steal", Unit::Cores),
        ("load.1", Unit::Count),
        ("processes.running", Unit::Count),
        ("processes.blocked", Unit::Count),
        ("switches", Unit::PerSecond),
        ("memory.total", Unit::Bytes),
        ("memory.available", Unit::Bytes),
        ("memory.free", Unit::Bytes),
        ("memory.cached", Unit::Bytes),
        ("memory.anon", Unit::Bytes),
        ("memory.slab", Unit::Bytes),
        ("swap.used", Unit::Bytes),
        ("swap.in", Unit::BytesPerSecond),
        ("swap.out", Unit::BytesPerSecond),
        ("faults.major", Unit::PerSecond),
        ("pressure.cpu.some", Unit::Ratio),
        ("pressure.memory.some", Unit::Ratio),
        ("pressure.memory.full", Unit::Ratio),
        ("pressure.io.some", Unit::Ratio),
        ("pressure.io.full", Unit::Ratio),
        ("tcp.retransmits", Unit::PerSecond),
    ];
    table("system", &[], COLUMNS, |second, dice| {
        let busy = BUSY.contains(&second);
        let user = if busy { 0.9 } else { 2.1 } + 0.4 * dice.roll();
        let system = 0.7 + 0.2 * dice.roll();
        let iowait = if busy { 1.4 } else { 0.08 } + 0.1 * dice.roll();
        let memory = (16u64 << 30) as f64;
        let anon = (6.0 + second as f64 * 0.02) * 1e9;
        if second == 0 {
            // Rates need two readings: the first row has levels only.
            let mut row = vec![None; COLUMNS.len()];
            row[8] = Some(2.0);
            row[12] = Some(memory);
            return vec![(vec![], row)];
        }
        vec![(
            vec![],
            [
                user,
                0.0,
                system,
                4.0 - user - system - iowait - 0.15,
                iowait,
                0.01,
                0.09,
                0.05,
                3.4,
                4.0,
                if busy { 3.0 } else { 0.0 },
                81_000.0 + 9_000.0 * dice.roll(),
                memory,
                memory - anon - 1.2e9,
                1.1e9,
                memory - anon - 2.6e9,
                anon,
                0.7e9,
                0.0,
                0.0,
                0.0,
                0.0,
                0.12 + 0.05 * dice.roll(),
                0.0,
                0.0,
                if busy { 0.6 } else { 0.02 } + 0.05 * dice.roll(),
                if busy { 0.4 } else { 0.01 },
                0.0,
            ]
            .map(Some)
            .to_vec(),
        )]
    })
}

fn disks() -> MetricTable {
    const COLUMNS: &[(&str, Unit)] = &[
        ("read.throughput", Unit::BytesPerSecond),
        ("write.throughput", Unit::BytesPerSecond),
        ("read.iops", Unit::PerSecond),
        ("write.iops", Unit::PerSecond),
        ("read.latency", Unit::Milliseconds),
        ("write.latency", Unit::Milliseconds),
        ("busy", Unit::Ratio),
        ("queue", Unit::Count),
    ];
    table("disks", &["device"], COLUMNS, |second, dice| {
        let busy = BUSY.contains(&second);
        let factor = if busy { 6.0 } else { 1.0 };
        let row = [
            2e6 * factor * (0.5 + dice.roll()),
            9e6 * factor * (0.5 + dice.roll()),
            120.0 * factor,
            420.0 * factor,
            0.4 * factor,
            1.1 * factor * (0.5 + dice.roll()),
            if busy { 0.97 } else { 0.18 + 0.1 * dice.roll() },
            if busy { 14.0 } else { 0.6 },
        ];
        vec![
            (vec!["nvme0n1".into()], row.map(Some).to_vec()),
            (vec!["sda".into()], [0.0; 8].map(Some).to_vec()),
        ]
    })
}

fn network() -> MetricTable {
    const COLUMNS: &[(&str, Unit)] = &[
        ("rx.throughput", Unit::BytesPerSecond),
        ("tx.throughput", Unit::BytesPerSecond),
        ("rx.drops", Unit::PerSecond),
    ];
    table("network", &["interface"], COLUMNS, |_, dice| {
        let row = [1.2e6 * (0.7 + dice.roll()), 4.5e6 * (0.7 + dice.roll()), 0.0];
        vec![(vec!["eth0".into()], row.map(Some).to_vec()), (vec!["lo".into()], [0.0; 3].map(Some).to_vec())]
    })
}

fn processes() -> MetricTable {
    const COLUMNS: &[(&str, Unit)] = &[
        ("cpu.user", Unit::Cores),
        ("cpu.system", Unit::Cores),
        ("memory.rss", Unit::Bytes),
        ("memory.pss", Unit::Bytes),
        ("faults.major", Unit::PerSecond),
        ("read.throughput", Unit::BytesPerSecond),
        ("write.throughput", Unit::BytesPerSecond),
        ("switches.voluntary", Unit::PerSecond),
        ("switches.involuntary", Unit::PerSecond),
        ("threads", Unit::Count),
        ("fds", Unit::Count),
    ];
    table("processes", &["pid", "name"], COLUMNS, |second, dice| {
        let busy = BUSY.contains(&second);
        let grown = second as f64;
        let database = [
            if busy { 0.5 } else { 1.6 } + 0.3 * dice.roll(),
            0.5 + 0.1 * dice.roll(),
            2.1e9 + grown * 9e6,
            2.0e9 + grown * 9e6,
            0.0,
            1.9e6,
            8.8e6 * if busy { 6.0 } else { 1.0 },
            61_000.0 + 4_000.0 * dice.roll(),
            3_100.0 + 500.0 * dice.roll(),
            14.0 + (second / 20) as f64,
            212.0 + (second / 3) as f64,
        ];
        let exporter = [0.12, 0.03, 9e7, 8e7, 0.0, 0.0, 1e4, 300.0, 20.0, 11.0, 31.0];
        let mut rows = vec![(vec!["4711".into(), "mariadbd".into()], database.map(Some).to_vec())];
        if second >= 5 {
            rows.push((vec!["4802".into(), "node".into()], exporter.map(Some).to_vec()));
        }
        rows
    })
}

fn threads() -> MetricTable {
    const COLUMNS: &[(&str, Unit)] = &[("cpu", Unit::Cores), ("ready", Unit::Ratio)];
    table("threads", &["pid", "tid", "name"], COLUMNS, |_, dice| {
        (0..8)
            .filter_map(|worker| {
                let cpu = 0.2 + 0.1 * dice.roll();
                (dice.roll() > 0.1).then(|| {
                    let keys = vec!["4711".into(), (4720 + worker).to_string(), format!("conn-{worker}")];
                    (keys, vec![Some(cpu), Some(0.05)])
                })
            })
            .collect()
    })
}

fn cgroups() -> MetricTable {
    const COLUMNS: &[(&str, Unit)] = &[
        ("cpu.usage", Unit::Cores),
        ("cpu.quota", Unit::Cores),
        ("throttled.ratio", Unit::Ratio),
        ("throttled.time", Unit::Cores),
        ("memory.current", Unit::Bytes),
        ("memory.limit", Unit::Bytes),
    ];
    table("cgroups", &["path"], COLUMNS, |second, dice| {
        let throttled = (44..52).contains(&second);
        let row = [
            if throttled { 2.5 } else { 2.0 + 0.3 * dice.roll() },
            2.5,
            if throttled { 0.7 + 0.2 * dice.roll() } else { 0.0 },
            if throttled { 0.4 } else { 0.0 },
            2.4e9,
            4e9,
        ];
        vec![
            (vec!["/system.slice/mariadb.service".into()], row.map(Some).to_vec()),
            (vec!["/system.slice".into()], vec![Some(3.0), None, None, None, Some(5e9), None]),
        ]
    })
}
