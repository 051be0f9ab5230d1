//! The `disks` table, from `/proc/diskstats` (Documentation/admin-guide/iostats.rst of the kernel).

use std::path::{Path, PathBuf};

use biopsy_model::MonoNanos;
use rustc_hash::FxHashMap;

use super::parse::{lines, number, words};
use super::procfile::{Buffer, ProcFile};
use super::rate::Counter;
use super::sink::{Emitter, Row};
use super::tables::DISKS;

/// Sectors of this file are 512 bytes whatever the device has.
const SECTOR: f64 = 512.0;

/// Devices beyond this many are not recorded.
const MOST_DEVICES: usize = 256;

/// Collector of the `disks` table.
#[derive(Debug)]
pub(crate) struct Disks {
    stats: ProcFile,
    blocks: PathBuf,
    /// By device name; `None`: a partition.
    devices: FxHashMap<String, Option<Device>>,
}

#[derive(Debug, Default)]
struct Device {
    /// Fields 1 to 17 of the file, as far as the kernel has them.
    fields: [Counter; 17],
}

impl Disks {
    pub(crate) fn new(proc_root: &Path, sys_root: &Path) -> Disks {
        Disks {
            stats: ProcFile::new(proc_root.join("diskstats"), true),
            blocks: sys_root.join("block"),
            devices: FxHashMap::default(),
        }
    }

    pub(crate) fn read(&mut self, time: MonoNanos, buffer: &mut Buffer, out: &mut Emitter<'_>) {
        let text = self.stats.read_ok(buffer).unwrap_or_default();
        for line in lines(text) {
            let mut words = words(line).skip(2);
            let Some(name) = words.next().and_then(|name| std::str::from_utf8(name).ok()) else { continue };
            let mut fields: [Option<u64>; 17] = [None; 17];
            for (field, word) in fields.iter_mut().zip(words) {
                *field = number(word);
            }
            // Loop devices and RAM disks that nobody uses.
            if fields.iter().all(|field| field.unwrap_or(0) == 0) {
                continue;
            }
            if !self.devices.contains_key(name) {
                if self.devices.len() >= MOST_DEVICES {
                    continue;
                }
                let whole = is_whole_device(&self.blocks, name);
                self.devices.insert(name.to_owned(), whole.then(Device::default));
            }
            if let Some(Some(device)) = self.devices.get_mut(name) {
                out.emit(time, &[name], &device.row(&fields, time));
            }
        }
    }
}

impl Device {
    fn row(&mut self, now: &[Option<u64>; 17], time: MonoNanos) -> Row {
        let mut rates: [Option<f64>; 17] = [None; 17];
        for ((rate, counter), value) in rates.iter_mut().zip(&mut self.fields).zip(now) {
            *rate = counter.rate(*value, time);
        }
        // In the order of the kernel's document: reads, merged, sectors, ms; writes, merged, sectors, ms;
        // in flight, busy ms, weighted ms; discards, merged, sectors, ms; flushes, ms.
        let [reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, _, busy, weighted, ..] =
            rates;
        let [.., flushes, flush_ms] = rates;
        let mut row = Row::new(&DISKS);
        row.set("read.throughput", read_sectors.map(|rate| rate * SECTOR));
        row.set("write.throughput", write_sectors.map(|rate| rate * SECTOR));
        row.set("read.iops", reads);
        row.set("write.iops", writes);
        row.set("read.latency", latency(read_ms, reads));
        row.set("write.latency", latency(write_ms, writes));
        row.set("flush.iops", flushes);
        row.set("flush.latency", latency(flush_ms, flushes));
        row.set("busy", busy.map(|ms| (ms / 1000.0).min(1.0)));
        row.set("queue", weighted.map(|ms| ms / 1000.0));
        row.set_count("in-flight", now.get(8).copied().flatten());
        row
    }
}

/// Mean milliseconds of the requests that ended in the interval; none ended: none.
fn latency(ms_per_second: Option<f64>, per_second: Option<f64>) -> Option<f64> {
    let (ms, count) = (ms_per_second?, per_second?);
    (count > 0.0).then(|| ms / count)
}

/// Partitions are folders inside their device's; where `/sys` is not there every line counts as a device.
fn is_whole_device(blocks: &Path, name: &str) -> bool {
    // A slash in a device's name is a `!` in `/sys` (cciss/c0d0).
    !blocks.is_dir() || blocks.join(name.replace('/', "!")).exists()
}
