//! What a process uses at one moment.

use std::path::{Path, PathBuf};
use std::time::Instant;

use biopsy_model::ProcessKey;
use biopsy_target::identity::ticks_per_second;

use super::comparison::Quantity;
use super::error::WatchError;
use super::pressure::{Shares, Stalls};
use crate::metrics::parse::parse_stat;
use crate::metrics::procfile::{Buffer, ProcFile};

/// Most descriptors that are counted by listing them, on kernels before 6.2.
const LISTED: usize = 1 << 20;

/// Values of one moment; `None`: could not be read, or is not known yet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Reading {
    pub(super) at: Instant,
    /// Per cent of one core since the reading before.
    pub(super) cpu: Option<f64>,
    /// Resident bytes.
    pub(super) memory: Option<f64>,
    /// Resident bytes more than at the first reading; below zero where it has shrunk.
    pub(super) growth: Option<f64>,
    pub(super) threads: Option<f64>,
    pub(super) descriptors: Option<f64>,
    /// Per cent of the time since the reading before.
    pub(super) pressure: Shares,
}

impl Reading {
    pub(super) fn of(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Cpu => self.cpu,
            Quantity::Memory => self.memory,
            Quantity::Growth => self.growth,
            Quantity::Threads => self.threads,
            Quantity::Descriptors => self.descriptors,
            Quantity::Pressure(resource) => self.pressure.get(resource as usize).copied().flatten(),
        }
    }
}

/// Reads one process again and again. The open file stays with that process: a pid that is given away again is no
/// danger.
#[derive(Debug)]
pub(super) struct Reader {
    folder: PathBuf,
    stat: ProcFile,
    start_ticks: u64,
    buffer: Buffer,
    before: Option<(Instant, u64)>,
    first_memory: Option<f64>,
    wants_descriptors: bool,
    stalls: Stalls,
}

impl Reader {
    /// One that reads at least these, and what costs nothing.
    ///
    /// # Errors
    /// [`WatchError::Pressure`].
    pub(super) fn new(key: &ProcessKey, quantities: &[Quantity]) -> Result<Self, WatchError> {
        let folder = PathBuf::from(format!("/proc/{}", key.pid));
        let resources = quantities.iter().filter_map(|quantity| match quantity {
            Quantity::Pressure(resource) => Some(*resource),
            _ => None,
        });
        let stalls = Stalls::open(Path::new("/proc"), key.pid, resources)
            .map_err(|(path, source)| WatchError::Pressure { path, source })?;
        Ok(Self {
            stat: ProcFile::new(folder.join("stat"), true),
            folder,
            start_ticks: key.start_ticks,
            buffer: Buffer::default(),
            before: None,
            first_memory: None,
            wants_descriptors: quantities.contains(&Quantity::Descriptors),
            stalls,
        })
    }

    /// A reading; `None`: the process has ended.
    #[expect(
        clippy::cast_precision_loss,
        reason = "ticks, bytes and counts of one process are far below 2^53"
    )]
    pub(super) fn read(&mut self) -> Option<Reading> {
        let descriptors = self.wants_descriptors.then(|| self.count_descriptors()).flatten();
        let at = Instant::now();
        let stat = parse_stat(self.stat.read_single(&mut self.buffer).ok()?)?;
        let ended = matches!(stat.state, b'Z' | b'X' | b'x') && stat.threads <= 1;
        if stat.start != self.start_ticks || ended {
            return None;
        }
        let ticks = stat.user.saturating_add(stat.system);
        let cpu = self.before.and_then(|(then, before)| {
            let elapsed = at.duration_since(then).as_secs_f64();
            let seconds = ticks.saturating_sub(before) as f64 / ticks_per_second() as f64;
            (elapsed > 0.0).then(|| seconds / elapsed * 100.0)
        });
        self.before = Some((at, ticks));
        let pressure = self.stalls.read(at, &mut self.buffer);
        let memory = stat.resident_pages as f64 * rustix::param::page_size() as f64;
        let first = *self.first_memory.get_or_insert(memory);
        Some(Reading {
            at,
            cpu,
            memory: Some(memory),
            growth: Some(memory - first),
            threads: Some(stat.threads as f64),
            descriptors: descriptors.map(|count| count as f64),
            pressure,
        })
    }

    /// Since Linux 6.2 the size of the folder is the number of its entries.
    fn count_descriptors(&self) -> Option<u64> {
        let folder = self.folder.join("fd");
        match std::fs::metadata(&folder).ok()?.len() {
            0 => {
                let entries = std::fs::read_dir(folder).ok()?;
                entries.take(LISTED).map(|entry| entry.ok().map(|_| 1)).sum::<Option<u64>>()
            }
            count => Some(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::Pid;
    use biopsy_target::ProcRoot;
    use biopsy_target::identity::key_of;

    use super::*;

    #[test]
    fn this_process_uses_something() {
        let key = key_of(&ProcRoot::live(), Pid(std::process::id())).unwrap();
        let mut reader = Reader::new(&key, &[Quantity::Descriptors]).unwrap();
        let first = reader.read().unwrap();
        assert_eq!(first.cpu, None, "nothing to compare with yet");
        assert!(first.memory.unwrap() > 1e5);
        assert!(first.threads.unwrap() >= 1.0);
        assert_eq!(first.growth, Some(0.0), "it has not grown since itself");
        let touched = vec![1_u8; 32 << 20];
        let held: Vec<std::fs::File> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let second = reader.read().unwrap();
        assert!(second.cpu.is_some());
        assert!(second.growth.unwrap() > 16e6, "{} bytes were written meanwhile", touched.len());
        assert!(second.descriptors.unwrap() >= 50.0);
        drop(held);
    }

    #[test]
    fn another_process_of_the_same_pid_is_the_end() {
        let mut key = key_of(&ProcRoot::live(), Pid(std::process::id())).unwrap();
        key.start_ticks += 1;
        assert_eq!(Reader::new(&key, &[]).unwrap().read(), None);
    }
}
