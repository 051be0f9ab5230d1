//! Charts of the metrics over the window: which readings are drawn together, and what is quiet and left out.

use super::readings::{Readings, by_key};
use crate::assemble::Assembly;
use crate::words;
use biopsy_model::metric::Unit;
use biopsy_model::order::Order as _;
use serde::Serialize;

/// All charts of the page.
#[derive(Serialize, Default)]
pub(super) struct Charts {
    /// Times of points, milliseconds; several lines share one.
    pub(super) grids: Vec<Vec<f64>>,
    pub(super) charts: Vec<Chart>,
    /// Titles of the charts whose readings are all zero.
    pub(super) quiet: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Chart {
    pub(super) id: &'static str,
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// One line in plain words: what is drawn.
    pub(super) about: String,
    pub(super) stacked: bool,
    /// The largest value there can be.
    pub(super) ceiling: Option<f64>,
    pub(super) lines: Vec<Line>,
    /// How many readings one point stands for.
    pub(super) merged: usize,
}

#[derive(Serialize)]
pub(super) struct Line {
    pub(super) label: String,
    pub(super) grid: usize,
    pub(super) values: Vec<Option<f64>>,
    /// What it is, for colours that mean something: `kernel`, `limit`, ...; empty: the next of the palette.
    pub(super) role: &'static str,
    /// Table, columns and key it is drawn from, for links from findings.
    pub(super) source: (String, Vec<String>, String),
}

/// What a chart draws.
struct Spec {
    id: &'static str,
    title: &'static str,
    about: &'static str,
    table: &'static str,
    lines: &'static [LineSpec],
    /// Keys drawn, those with the largest readings first.
    keys: usize,
    stacked: bool,
    /// Cores of the machine, or the largest reading of this column.
    ceiling: Ceiling,
}

/// Columns that are added up, label, role.
type LineSpec = (&'static [&'static str], &'static str, &'static str);

enum Ceiling {
    None,
    Cpus,
    One,
    Column(&'static str),
}

const fn spec(
    id: &'static str,
    title: &'static str,
    table: &'static str,
    lines: &'static [LineSpec],
) -> Spec {
    Spec { id, title, about: "", table, lines, keys: 4, stacked: false, ceiling: Ceiling::None }
}

/// In the order of the page: the target first, then what it lives on.
static SPECS: &[Spec] = &[
    Spec {
        about: "cores used, as the kernel accounts them",
        ..spec("process-cpu", "CPU of each process", "processes", &[(&["cpu.user", "cpu.system"], "", "")])
    },
    Spec {
        about: "cores, by what they did; white is idle",
        stacked: true,
        ceiling: Ceiling::Cpus,
        ..spec(
            "system-cpu",
            "CPU of the machine",
            "system",
            &[
                (&["cpu.user", "cpu.nice"], "user", "user"),
                (&["cpu.system"], "system", "kernel"),
                (&["cpu.irq", "cpu.softirq"], "interrupts", "irq"),
                (&["cpu.steal"], "stolen", "steal"),
                (&["cpu.iowait"], "idle, disk pending", "iowait"),
            ],
        )
    },
    Spec {
        about: "cores used and allowed by the cgroup",
        ..spec(
            "quota",
            "CPU quota of the cgroup",
            "cgroups",
            &[(&["cpu.usage"], "used", ""), (&["cpu.quota"], "quota", "limit")],
        )
    },
    Spec {
        about: "share of periods in which the cgroup used up its quota and had to stop",
        ceiling: Ceiling::One,
        ..spec("throttled", "Throttling", "cgroups", &[(&["throttled.ratio"], "", "")])
    },
    Spec {
        about: "share of time in which some (or all: full) tasks of the machine stalled",
        ..spec(
            "pressure",
            "Pressure (PSI)",
            "system",
            &[
                (&["pressure.cpu.some"], "CPU", "user"),
                (&["pressure.memory.some"], "memory", "memory"),
                (&["pressure.memory.full"], "memory, full", ""),
                (&["pressure.io.some"], "disk", "iowait"),
                (&["pressure.io.full"], "disk, full", ""),
            ],
        )
    },
    Spec {
        about: "resident set",
        ..spec("process-memory", "Memory of each process", "processes", &[(&["memory.rss"], "", "")])
    },
    Spec {
        about: "what the cgroup uses and may use",
        ..spec(
            "cgroup-memory",
            "Memory of the cgroup",
            "cgroups",
            &[(&["memory.current"], "used", ""), (&["memory.limit"], "limit", "limit")],
        )
    },
    Spec {
        about: "white is free",
        stacked: true,
        ceiling: Ceiling::Column("memory.total"),
        ..spec(
            "system-memory",
            "Memory of the machine",
            "system",
            &[
                (&["memory.anon"], "programs", "memory"),
                (&["memory.cached"], "file cache", "cache"),
                (&["memory.slab"], "kernel", "kernel"),
            ],
        )
    },
    spec("swap", "Swapping", "system", &[(&["swap.in"], "in", "read"), (&["swap.out"], "out", "write")]),
    Spec {
        about: "faults that had to read a disk",
        ..spec("faults", "Major page faults", "processes", &[(&["faults.major"], "", "")])
    },
    Spec {
        about: "bytes that reached the disks on behalf of the process",
        ..spec(
            "process-io",
            "Disk traffic of each process",
            "processes",
            &[(&["read.throughput"], "read", "read"), (&["write.throughput"], "written", "write")],
        )
    },
    Spec {
        keys: 3,
        ..spec(
            "disk-throughput",
            "Disk throughput",
            "disks",
            &[(&["read.throughput"], "read", "read"), (&["write.throughput"], "written", "write")],
        )
    },
    Spec {
        about: "share of time with a request under way",
        ceiling: Ceiling::One,
        ..spec("disk-busy", "Disk busy", "disks", &[(&["busy"], "", "")])
    },
    Spec {
        keys: 3,
        about: "mean time a request took",
        ..spec(
            "disk-latency",
            "Disk latency",
            "disks",
            &[(&["read.latency"], "read", "read"), (&["write.latency"], "write", "write")],
        )
    },
    Spec {
        keys: 3,
        ..spec(
            "network",
            "Network",
            "network",
            &[(&["rx.throughput"], "in", "read"), (&["tx.throughput"], "out", "write")],
        )
    },
    spec(
        "network-trouble",
        "Network errors and drops",
        "network",
        &[(&["rx.errors", "tx.errors"], "errors", ""), (&["rx.drops", "tx.drops"], "drops", "")],
    ),
    spec(
        "tcp-trouble",
        "TCP trouble",
        "system",
        &[
            (&["tcp.retransmits"], "retransmits", ""),
            (&["tcp.resets"], "resets", ""),
            (&["tcp.failures"], "failed connects", ""),
            (&["tcp.listen.overflows", "tcp.listen.drops"], "listen queue full", ""),
        ],
    ),
    spec("process-threads", "Threads", "processes", &[(&["threads"], "", "")]),
    spec("process-fds", "Open files", "processes", &[(&["fds"], "", "")]),
    Spec {
        keys: 2,
        ..spec(
            "process-switches",
            "Context switches",
            "processes",
            &[(&["switches.voluntary"], "waited", ""), (&["switches.involuntary"], "pushed aside", "")],
        )
    },
    Spec {
        about: "tasks of the whole machine",
        ..spec(
            "run-queue",
            "Run queue",
            "system",
            &[
                (&["processes.running"], "running or ready", "user"),
                (&["processes.blocked"], "blocked on disk", "iowait"),
            ],
        )
    },
];

pub(super) fn charts(assembly: &Assembly<'_>) -> Charts {
    let mut charts = Charts::default();
    let tables: Vec<(&str, Vec<Readings<'_>>)> =
        assembly.capture.metrics.iter().map(|table| (table.name.as_str(), by_key(table))).collect();
    // Several charts draw the same key of the same table: their times are kept once.
    let mut grids: Vec<(&str, &[String], usize)> = Vec::new();
    for spec in SPECS {
        let Some((name, keys)) = tables.iter().find(|(name, _)| *name == spec.table) else { continue };
        let mut found: Vec<(&Readings<'_>, Vec<Drawn>)> =
            keys.iter().map(|key| (key, drawn(spec, key))).filter(|(_, lines)| !lines.is_empty()).collect();
        if found.is_empty() {
            continue;
        }
        found.order_by(|(_, a), (_, b)| peak(b).total_cmp(&peak(a)));
        if peak(&found[0].1) == 0.0 {
            charts.quiet.push(spec.title.to_owned());
            continue;
        }
        found.retain(|(_, lines)| peak(lines) > 0.0);
        let left = found.len().saturating_sub(spec.keys);
        found.truncate(spec.keys);
        let mut chart = Chart {
            id: spec.id,
            title: spec.title.to_owned(),
            unit: words::unit(found[0].1[0].unit),
            about: match left {
                0 => spec.about.to_owned(),
                left => format!(
                    "{}{}the {} largest of {}",
                    spec.about,
                    if spec.about.is_empty() { "" } else { "; " },
                    spec.keys,
                    spec.keys + left
                ),
            },
            stacked: spec.stacked,
            ceiling: ceiling(assembly, spec, found[0].0),
            lines: Vec::new(),
            merged: 1,
        };
        let many = found.len() > 1 || spec.lines.iter().all(|(_, label, _)| label.is_empty());
        for (readings, lines) in found {
            chart.merged = chart.merged.max(readings.merged);
            let known = grids.iter().find(|(table, key, _)| table == name && *key == readings.key);
            let grid = if let Some((_, _, grid)) = known {
                *grid
            } else {
                charts.grids.push(readings.times(assembly));
                grids.push((name, readings.key, charts.grids.len() - 1));
                charts.grids.len() - 1
            };
            for line in lines {
                chart.lines.push(Line {
                    label: label(spec.table, readings.key, line.label, many),
                    grid,
                    values: line.values,
                    role: if many && !matches!(line.role, "limit") { "" } else { line.role },
                    source: (
                        spec.table.to_owned(),
                        line.columns.iter().map(|column| (*column).to_owned()).collect(),
                        readings.key.join(" "),
                    ),
                });
            }
        }
        charts.charts.push(chart);
    }
    charts
}

struct Drawn {
    label: &'static str,
    role: &'static str,
    columns: Vec<&'static str>,
    unit: Unit,
    values: Vec<Option<f64>>,
}

/// The lines of one key; those without any reading are absent.
fn drawn(spec: &Spec, readings: &Readings<'_>) -> Vec<Drawn> {
    let mut lines = Vec::new();
    for (names, label, role) in spec.lines {
        let columns: Vec<(&'static str, (usize, Unit))> =
            names.iter().filter_map(|name| Some((*name, readings.column(name)?))).collect();
        let Some((_, (_, unit))) = columns.first() else { continue };
        let values = readings.values(&columns.iter().map(|(_, (index, _))| *index).collect::<Vec<_>>());
        if values.iter().any(Option::is_some) {
            let columns = columns.iter().map(|(name, _)| *name).collect();
            lines.push(Drawn { label, role, columns, unit: *unit, values });
        }
    }
    // A limit says nothing without what it limits.
    if lines.iter().all(|line| line.role == "limit") {
        lines.clear();
    }
    lines
}

/// The largest reading that is not a limit.
fn peak(lines: &[Drawn]) -> f64 {
    let values =
        lines.iter().filter(|line| line.role != "limit").flat_map(|line| line.values.iter().flatten());
    values.fold(0.0, |peak: f64, value| peak.max(value.abs()))
}

fn ceiling(assembly: &Assembly<'_>, spec: &Spec, readings: &Readings<'_>) -> Option<f64> {
    match spec.ceiling {
        Ceiling::None => None,
        Ceiling::One => Some(1.0),
        Ceiling::Cpus => Some(f64::from(assembly.capture.header.host.cpus)).filter(|cpus| *cpus > 0.0),
        Ceiling::Column(name) => {
            let (column, _) = readings.column(name)?;
            readings.values(&[column]).into_iter().flatten().reduce(f64::max).filter(|total| *total > 0.0)
        }
    }
}

/// `mariadbd 4711 read`, `nvme0n1`, `user`.
fn label(table: &str, key: &[String], label: &str, with_key: bool) -> String {
    let name = match (table, key) {
        ("processes", [pid, name, ..]) => format!("{name} {pid}"),
        // The last part of a control group's path tells them apart.
        ("cgroups", [path, ..]) => path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/").to_owned(),
        _ => key.join(" "),
    };
    match (with_key && !name.is_empty(), label.is_empty()) {
        (true, false) => format!("{name} {label}"),
        (true, true) => name,
        (false, _) => label.to_owned(),
    }
}
