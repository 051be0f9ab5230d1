//! What the threads of a process are doing, as far as `/proc` tells of threads that run on.

use biopsy_image::{Mapping, mapping};

use crate::list::MAX_THREADS;
use crate::process::proc_root::{ProcessDir, SMALL, is_gone};
use crate::process::stat::Stat;
use crate::process::status::Status;
use biopsy_model::Tid;

/// Threads whose stack pointers are looked at before giving up on finding a safe one.
const LOOKED_AT: u64 = 64;
/// Room below the stack pointer that a stack must have, as `freeze` asks for.
const ROOM: u64 = 20 << 10;
/// The largest inaccessible range that counts as the guard of a stack.
const LARGEST_GUARD: u64 = 64 << 10;

/// Threads by what matters to a freeze.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Threads {
    /// How many there are.
    pub(super) count: u64,
    /// In uninterruptible waits.
    pub(super) uninterruptible: u64,
    /// Stopped by a signal (job control).
    pub(super) stopped: u64,
    /// With seccomp in strict mode.
    pub(super) strict: u64,
    /// With seccomp filters.
    pub(super) filtered: u64,
    /// Most filters on one thread; 0 where the kernel does not tell (before Linux 5.9).
    pub(super) filters: u32,
    /// With a shadow stack.
    pub(super) shadow_stack: u64,
    /// Traced by a process: the first that was found.
    pub(super) tracer: u32,
    /// Why they could not be listed.
    pub(super) not_listed: Option<String>,
    /// Threads whose stack pointer was looked at.
    pub(super) looked_at: u64,
    /// Of these: on a stack that looks safe to write below.
    pub(super) on_safe_stack: u64,
}

impl Threads {
    pub(super) fn read(process: &ProcessDir, mappings: &[Mapping]) -> Self {
        let mut threads = Self::default();
        let tids = process.tids(MAX_THREADS).unwrap_or_else(|error| {
            threads.not_listed = (!is_gone(&error)).then(|| error.to_string());
            Vec::new()
        });
        for tid in tids {
            let Some(stat) =
                process.read(&format!("task/{tid}/stat"), SMALL).ok().and_then(|text| Stat::parse(&text))
            else {
                continue;
            };
            if stat.is_zombie() {
                continue;
            }
            threads.count += 1;
            threads.uninterruptible += u64::from(stat.state == b'D');
            threads.stopped += u64::from(stat.state == b'T');
            if let Ok(text) = process.read(&format!("task/{tid}/status"), SMALL) {
                threads.add_status(&Status::parse(&text));
            }
            if threads.on_safe_stack == 0 && threads.looked_at < LOOKED_AT {
                threads.look_at_stack(process, tid, mappings);
            }
        }
        threads
    }

    fn add_status(&mut self, status: &Status) {
        self.strict += u64::from(status.seccomp == Some(1));
        self.filtered += u64::from(status.seccomp == Some(2));
        self.filters = self.filters.max(status.seccomp_filters.unwrap_or(0));
        self.shadow_stack += u64::from(status.shadow_stack);
        if self.tracer == 0 {
            self.tracer = status.tracer;
        }
    }

    fn look_at_stack(&mut self, process: &ProcessDir, tid: Tid, mappings: &[Mapping]) {
        let Ok(text) = process.read(&format!("task/{tid}/syscall"), SMALL) else { return };
        if let Some(stack_pointer) = stack_pointer(&text) {
            self.looked_at += 1;
            self.on_safe_stack += u64::from(is_safe(mappings, stack_pointer));
        }
    }
}

/// `number arguments stack-pointer program-counter` of a thread that is in a system call, `-1 stack-pointer
/// program-counter` of another that waits, `running` of one that runs (proc_pid_syscall(5)).
fn stack_pointer(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let hex = text.split_ascii_whitespace().rev().nth(1)?.strip_prefix("0x")?;
    u64::from_str_radix(hex, 16).ok()
}

/// The part of the rule for safe stacks (`freeze::stack`) that can be told without registers: the kernel's own stack, or
/// a mapping behind a guard, with room.
fn is_safe(mappings: &[Mapping], stack_pointer: u64) -> bool {
    let Some(own) = mapping::find(mappings, stack_pointer) else { return false };
    let plain = own.is_anonymous() && own.protection.write && !own.shared;
    if !plain {
        return false;
    }
    if matches!(&own.backing, biopsy_image::Backing::Anonymous { label } if label == "[stack]") {
        return true;
    }
    let index = mappings.partition_point(|one| one.start < own.start);
    let guarded = index.checked_sub(1).and_then(|below| mappings.get(below)).is_some_and(|below| {
        below.end == own.start
            && !below.protection.read
            && !below.protection.write
            && below.size() <= LARGEST_GUARD
    });
    guarded && stack_pointer - own.start >= ROOM
}

#[cfg(test)]
mod tests {
    use biopsy_image::{Backing, Protection};

    use super::*;

    #[test]
    fn stack_pointers() {
        assert_eq!(
            stack_pointer(b"0 0x3 0x7f 0x20 0x7f 0xff 0x0 0x7ffc85910cc8 0x7f35fcca32ad\n"),
            Some(0x7ffc_8591_0cc8)
        );
        assert_eq!(stack_pointer(b"-1 0x7ffc85910cc8 0x7f35fcca32ad\n"), Some(0x7ffc_8591_0cc8));
        assert_eq!(stack_pointer(b"running\n"), None);
        assert_eq!(stack_pointer(b""), None);
    }

    fn memory(start: u64, end: u64, writable: bool, label: &str) -> Mapping {
        Mapping {
            start,
            end,
            protection: Protection { read: writable, write: writable, execute: false },
            shared: false,
            backing: Backing::Anonymous { label: label.to_owned() },
            not_frozen: false,
        }
    }

    #[test]
    fn stacks_behind_guards_are_safe_and_pieces_of_heap_are_not() {
        let mappings = [
            memory(0x1000, 0x2000, false, ""),
            memory(0x2000, 0x10_2000, true, ""),
            memory(0x40_0000, 0x80_0000, true, ""),
            memory(0x7000_0000, 0x7002_0000, true, "[stack]"),
        ];
        assert!(is_safe(&mappings, 0x10_0000));
        assert!(!is_safe(&mappings, 0x3000), "no room left");
        assert!(!is_safe(&mappings, 0x60_0000), "no guard below: a goroutine, a fiber");
        assert!(is_safe(&mappings, 0x7001_0000));
        assert!(!is_safe(&mappings, 0x9000_0000));
    }
}
