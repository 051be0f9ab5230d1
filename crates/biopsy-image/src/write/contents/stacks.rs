//! The used parts of stacks, what is at thread pointers, and the locks that are waited for.

use super::super::{Class, CoreKind};
use super::wanted::Wanted;
use crate::{Image, PAGE_SIZE, Thread, mapping};

/// Leaf functions keep data this far below the stack pointer (System V ABI for AMD64, 3.2.2).
const RED_ZONE: u64 = 128;
/// More of a stack than this is not taken whatever the size of its mapping: Go's stacks lie in its heap.
const MOST: u64 = 16 * 1024 * 1024;
/// A stack pointer at most this far below a mapping is of a thread that has overflowed its stack.
const GUARD: u64 = 256 * 1024;
/// Around the thread pointer: thread locals of the executable and libraries below, glibc's `struct pthread` above.
pub const AROUND_THREAD_POINTER: u64 = 4096;

/// `futex` and `futex_wait` of `asm/unistd_64.h`: what is waited for is the first argument.
const FUTEX_CALLS: [u64; 2] = [202, 455];
/// A futex is a member of a lock: glibc's mutex has its owner 8 bytes behind it, its rwlock 24 bytes.
const AROUND_FUTEX: u64 = 64;

/// Adds what is needed of all threads.
pub(super) fn find(image: &dyn Image, kind: CoreKind, wanted: &mut Wanted) {
    for thread in image.threads() {
        find_of_one(image, kind, thread, wanted);
    }
}

fn find_of_one(image: &dyn Image, kind: CoreKind, thread: &Thread, wanted: &mut Wanted) {
    let Some(registers) = &thread.registers else { return };
    let mappings = image.mappings();
    let sp = registers.rsp;
    let inside = mapping::find(mappings, sp).filter(|one| one.protection.read);
    if let Some(stack) = inside {
        let start = (sp.saturating_sub(RED_ZONE) / PAGE_SIZE * PAGE_SIZE).max(stack.start);
        wanted.add(start, stack.end.saturating_sub(start).min(MOST), Class::Stacks);
    } else {
        let above = mappings.partition_point(|one| one.start <= sp);
        let near = mappings
            .get(above..)
            .and_then(|rest| rest.iter().find(|one| one.protection.read))
            .filter(|one| one.start - sp <= GUARD);
        if let Some(stack) = near {
            wanted.add(stack.start, stack.size().min(MOST), Class::Stacks);
        }
    }
    // Private memory is in the other kinds anyway.
    if kind == CoreKind::Stacks && registers.fs_base != 0 {
        let start = registers.fs_base.saturating_sub(AROUND_THREAD_POINTER);
        wanted.add(start, 2 * AROUND_THREAD_POINTER, Class::Stacks);
    }
    // The lock that it waits for: who holds it is written in it.
    if kind == CoreKind::Stacks && registers.system_call().is_some_and(|number| FUTEX_CALLS.contains(&number))
    {
        wanted.add(registers.rdi.saturating_sub(AROUND_FUTEX), 2 * AROUND_FUTEX, Class::Stacks);
    }
    // The instructions that were running, for those who look at registers in the dump of a stack.
    if kind == CoreKind::Stacks {
        wanted.add(registers.rip.saturating_sub(128), 256, Class::Modules);
    }
}
