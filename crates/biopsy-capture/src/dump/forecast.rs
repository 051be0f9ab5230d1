//! What a dump would cost, known before anything is touched.

use biopsy_image::write::CoreKind;
use biopsy_model::Pid;
use biopsy_target::freeze::{self, FreezeError, FreezePlan, Method, ProcessPlan};
use biopsy_target::{FindError, Selector};

use crate::failure::{Failure, FailureKind};
use crate::place::{DISK_RESERVE, free_bytes};
use crate::target::Subject;
use crate::words::{pause_text, size};

use super::destination::Destination;
use super::plan::DumpPlan;

/// A compressed dump of ordinary memory has about this share of its size; text and pointers pack better, packed data not at all.
const USUAL_SHARE: f64 = 0.3;

/// What a dump would cost.
#[derive(Debug)]
pub struct Forecast<'a> {
    /// Of whom.
    pub subject: &'a Subject,
    /// How.
    pub dump: &'a DumpPlan,
    /// How each process is frozen, and what that costs.
    pub freeze: FreezePlan,
    /// What the dump takes.
    pub disk: Disk,
}

/// What the disk has, and what the dump will take, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// What it will probably be.
    pub expected: u64,
    /// What it could be at worst.
    pub most: u64,
    /// What is free; `None`: not a disk.
    pub free: Option<u64>,
}

impl<'a> Forecast<'a> {
    /// Plans for those processes that are still there; the target itself must be.
    pub(super) fn make(
        dump: &'a DumpPlan,
        subject: &'a Subject,
        destination: &Destination,
    ) -> Result<Self, Failure> {
        let freeze = plan_all(dump, subject)?;
        let disk = Disk::of(dump, &freeze, destination);
        Ok(Self { subject, dump, freeze, disk })
    }

    /// Refuses where it would do harm.
    ///
    /// # Errors
    /// A process cannot be frozen, or would stand still too long; or the disk would be full.
    pub fn check(&self) -> Result<(), Failure> {
        if let Some(refused) = self.freeze.processes.iter().find(|one| one.method == Method::Refused) {
            return Err(refusal(refused));
        }
        if self.freeze.predicted_pause > self.dump.max_pause {
            return Err(self.too_long());
        }
        self.disk.check()
    }

    fn too_long(&self) -> Failure {
        let predicted = self.freeze.predicted_pause;
        let message = format!(
            "the pause would be about {}, more than the {} that are allowed",
            pause_text(predicted),
            pause_text(self.dump.max_pause)
        );
        let collapse = if self.dump.collapse {
            ""
        } else {
            "`--collapse` makes huge pages of the heap first and the pause far shorter; "
        };
        let hint = format!(
            "{collapse}`--kind stacks` needs less; `--max-pause {}` allows it",
            pause_text(predicted.saturating_mul(2)).replace(' ', "")
        );
        Failure::new(FailureKind::Target, message).with_hint(Some(hint))
    }
}

fn plan_all(dump: &DumpPlan, subject: &Subject) -> Result<FreezePlan, Failure> {
    let mut keys = subject.keys();
    loop {
        match freeze::plan(&keys, &dump.freeze_options()) {
            Ok(mut plan) => {
                let target = keys.first().map(|key| key.pid);
                plan.processes.retain(|process| {
                    let pid = process.key.pid;
                    process.method != Method::Refused || Some(pid) == target || !has_ended(pid)
                });
                return Ok(plan);
            }
            Err(FreezeError::Ended { pid }) if keys.iter().skip(1).any(|key| key.pid == pid) => {
                keys.retain(|key| key.pid != pid);
            }
            Err(error) => return Err(freeze_failure(&error)),
        }
    }
}

/// Gone, or a zombie: there is no memory to dump.
fn has_ended(pid: Pid) -> bool {
    let found = biopsy_target::find(&Selector::Pid(pid));
    matches!(found, Err(FindError::NotFound { .. } | FindError::Zombie { .. }))
}

impl Disk {
    fn of(dump: &DumpPlan, plan: &FreezePlan, destination: &Destination) -> Self {
        let present: u64 = plan.processes.iter().map(|process| process.present_bytes).sum();
        let threads: u64 = plan.processes.iter().map(|process| u64::from(process.threads)).sum();
        let all = match dump.kind {
            CoreKind::Stacks => present.min(threads.saturating_mul(256 << 10).saturating_add(8 << 20)),
            _ => present,
        };
        let all =
            dump.max_bytes.map_or(all, |limit| all.min(limit.saturating_mul(plan.processes.len() as u64)));
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate"
        )]
        let usual = (all as f64 * USUAL_SHARE) as u64;
        let packed = !dump.minidump && !dump.raw;
        Self {
            expected: if packed { usual } else { all },
            most: all,
            free: destination.path().and_then(free_bytes),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        match self.free {
            Some(free) if free < self.expected.saturating_add(DISK_RESERVE) => {
                let message = format!(
                    "the disk has {} free, and the dump will need about {}",
                    size(free),
                    size(self.expected)
                );
                let hint =
                    "name another place with `--output`, or take less with `--kind stacks` or `--max-size`";
                Err(Failure::new(FailureKind::Output, message).with_hint(Some(hint)))
            }
            _ => Ok(()),
        }
    }
}

fn refusal(process: &ProcessPlan) -> Failure {
    let hint = process.checks.iter().find_map(|check| check.hint.clone());
    let message = format!("process {} is not dumped: {}", process.key.pid, process.why);
    Failure::new(FailureKind::Target, message).with_hint(hint)
}

/// A freeze that did not work, in words.
pub(crate) fn freeze_failure(error: &FreezeError) -> Failure {
    match error {
        FreezeError::NotPermitted { .. } => Failure::from_error(FailureKind::Permission, error).with_hint(
            Some("`biopsy doctor` says what this account may do, and the command that would allow more"),
        ),
        _ => Failure::from_error(FailureKind::Target, error).with_hint(more_patience(error)),
    }
}

/// What helps where threads got no processor to stop on: the time that is allowed is theirs, too.
pub(crate) fn more_patience(error: &FreezeError) -> Option<String> {
    let FreezeError::NotStopped { limit, .. } = error else { return None };
    let longer = limit.as_millis().saturating_mul(4);
    Some(format!(
        "each thread needs a processor to stop on: try again, or allow longer with `--max-pause {longer}ms`"
    ))
}
