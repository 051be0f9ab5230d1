//! What the frozen image says: memory of the moment, areas that fork does not carry, registers, modules.

use std::process::Command;

use biopsy_image::{Absence, Image, MemoryExt, ReadError};
use biopsy_target::freeze::{FreezeOptions, Method};
use biopsy_testkit::{Program, TargetProcess, compile_c};

use crate::support::{
    PATIENCE, alone, assert_intact, frozen, is_alive, options, ready, start_registers, try_freeze,
};

const AREAS: &str = r#"
#include "target.h"
#include <sys/mman.h>
static volatile uint64_t counter = 1;
static char *area(void) {
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 0x77, 8192);
    return memory;
}
static void *counts(void *memory) {
    volatile uint64_t *copy = memory;
    for (;;) { counter++; copy[0] = counter; copy[512] = counter; }
    return NULL;
}
int main(void) {
    limit_own_life();
    char *dont = area(), *wiped = area(), *none = area(), *counted = area();
    if (madvise(dont, 8192, MADV_DONTFORK) != 0 || madvise(wiped, 8192, MADV_WIPEONFORK) != 0) return 2;
    mprotect(none, 8192, PROT_NONE);
    start_thread(counts, counted);
    printf("READY %d %lx %lx %lx %lx %lx\n", getpid(), (long)dont, (long)wiped, (long)none, (long)counted, (long)&counter);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) { printf("INTACT\n"); fflush(stdout); }
    _exit(0);
}
"#;

#[test]
fn p4_p10_memory_is_of_one_moment_and_nothing_is_missing() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::spawn(Command::new(compile_c("areas", AREAS, &["-O1"])));
    let words: Vec<u64> = target
        .ready_line()
        .split_ascii_whitespace()
        .skip(2)
        .map(|word| u64::from_str_radix(word, 16).unwrap())
        .collect();
    let [dont, wiped, none, counted, counter] = words[..] else { panic!("{}", target.ready_line()) };
    let one = frozen(target.pid(), &options());

    // Left out by fork, read from the process itself, and marked so.
    for address in [dont, wiped] {
        assert_eq!(one.read_u64(address).unwrap(), 0x7777_7777_7777_7777);
        let mapping = biopsy_image::mapping::find(one.mappings(), address).unwrap();
        assert!(mapping.not_frozen, "{mapping:?}");
    }
    assert!(matches!(one.read_u64(none), Err(ReadError::Missing { why: Absence::Unreadable, .. })));
    assert!(matches!(one.read_u64(8), Err(ReadError::Missing { why: Absence::Unmapped, .. })));

    // One moment: the copies of the counter follow each other by one instruction.
    let first = [counter, counted, counted + 4096].map(|address| one.read_u64(address).unwrap());
    assert!(first[0] - first[1] <= 1 && first[1] - first[2] <= 1, "{first:?}");
    // It stays that moment, while the process counts on.
    assert_intact(&mut target);
    let again = [counter, counted, counted + 4096].map(|address| one.read_u64(address).unwrap());
    assert_eq!(first, again);
    // On a busy machine the thread that counts may have to wait for its turn.
    let begin = std::time::Instant::now();
    let mut live = [0; 8];
    while u64::from_le_bytes(live) <= first[0] {
        assert!(begin.elapsed() < PATIENCE, "the process runs on");
        let (tid, at) = (biopsy_model::Tid(target.pid()), biopsy_model::Avma(counter));
        biopsy_sys::memory::read(tid, at, &mut live).unwrap();
    }

    // What was written is found, by mapping; files are not taken for holes of zeros.
    let mut runs = Vec::new();
    one.written(0..u64::MAX, &mut runs).unwrap();
    assert!(runs.iter().any(|run| run.contains(&counted)) && runs.iter().any(|run| run.contains(&dont)));
    assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "by address, not touching");

    let executable = one.modules().iter().find(|module| module.path.ends_with(b"/areas")).unwrap();
    assert!(executable.is_elf);
    assert!(executable.build_id.is_some() || !cfg!(target_env = "gnu"));
    assert!(one.modules().iter().any(|module| module.path.windows(7).any(|part| part == b"libc.so")));
    assert_eq!(one.process().name, b"areas");
    assert!(one.release().reaped);
    target.stop();
}

#[test]
fn every_keeper_shows_its_own_seed() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["3"]);
    let one = frozen(target.pid(), &options());
    assert_eq!(one.threads().len(), 8);
    assert_eq!(one.threads()[0].tid.0, target.pid());
    for thread in one.threads() {
        let registers = thread.registers.expect("it stood still");
        let name = String::from_utf8_lossy(thread.name.as_deref().unwrap_or_default()).into_owned();
        let stack = biopsy_image::mapping::find(one.mappings(), registers.rsp).unwrap();
        assert!(stack.is_anonymous() && !stack.shared, "{name}");
        let code = biopsy_image::mapping::find(one.mappings(), registers.rip).unwrap();
        assert!(code.protection.execute, "{name}");
        if name.starts_with("keeper") && registers.r15.wrapping_sub(registers.rbx) == 12 {
            // In its loop, where all registers follow from one.
            assert_eq!(registers.r10, registers.rbx + 7, "{name}");
            // The red zone holds the same.
            assert_eq!(one.read_u64(registers.rsp - 24).unwrap() + 1, registers.rbx, "{name}");
        }
    }
    assert!(one.release().reaped);
    assert_intact(&mut target);
    target.stop();
}

/// Kilobytes behind a word of `smaps_rollup`.
fn rolled_up(pid: u32, word: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_else(|| panic!("{text}"));
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Pages that are read must stay those of the process: reading them with process_vm_readv gave the copy its own of each.
#[test]
fn p5_reading_the_copy_takes_no_memory() {
    let _one = alone();
    if !ready() {
        return;
    }
    for pages in ["small", "huge"] {
        let mut target = TargetProcess::start(Program::PauseProbe, &["64", "2", pages, "quiet"]);
        let one = frozen(target.pid(), &options());
        let child = one.child().unwrap().0;
        let (mut total, mut runs) = (0, Vec::new());
        one.written(0..u64::MAX, &mut runs).unwrap();
        let mut buffer = vec![0; 1 << 20];
        for run in runs {
            let mut at = run.start;
            while at < run.end {
                let read = one.read(at, &mut buffer).unwrap();
                total += read;
                at += read as u64;
            }
        }
        assert!(total >= 64 << 20, "{total}");
        let (own, shared) = (rolled_up(child, "Private_Dirty:"), rolled_up(child, "Shared_Dirty:"));
        assert!(shared >= 60 << 10, "{pages}: {shared} kB are shared, {own} kB are not");
        assert!(own < 4 << 10, "{pages}: {shared} kB are shared, {own} kB are not");
        assert!(one.release().reaped);
        target.stop();
    }
}

/// P10: a process is not made larger by being looked at. P5: the child goes first when memory runs short.
#[test]
fn p5_p10_the_child_is_marked_and_the_process_does_not_grow() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["single", "32"]);
    let pid = target.pid();
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap().to_owned();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    assert_intact(&mut target);
    let before = resident();
    let one = frozen(pid, &options());
    let child = one.child().unwrap();
    assert_eq!(std::fs::read_to_string(format!("/proc/{child}/oom_score_adj")).unwrap().trim(), "1000");
    let mut total = 0;
    let mut runs = Vec::new();
    one.written(0..u64::MAX, &mut runs).unwrap();
    let mut buffer = vec![0; 1 << 20];
    for run in runs {
        let mut at = run.start;
        while at < run.end {
            match one.read(at, &mut buffer) {
                Ok(read) => {
                    total += read;
                    at += read as u64;
                }
                Err(error) => panic!("{at:#x}: {error}"),
            }
        }
    }
    assert!(total >= 32 << 20, "{total}");
    assert!(one.release().reaped);
    // The frames took a few pages of stack, no more.
    assert!(resident() <= before + 64, "{before} kB, now {} kB", resident());
    assert_intact(&mut target);
    target.stop();
}

const SHARED: &str = r#"
#define _GNU_SOURCE
#include "target.h"
#include <sys/mman.h>
int main(void) {
    limit_own_life();
    // 5,000 bytes of a file, and what is in the rest of its last page.
    int file = memfd_create("odd", 0);
    if (ftruncate(file, 5000) != 0) return 2;
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(shared, 0x55, 8192);
    char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(own, 0x66, 8192);
    printf("READY %d %lx %lx\n", getpid(), (long)shared, (long)own);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) { printf("INTACT\n"); fflush(stdout); }
    _exit(0);
}
"#;

#[test]
fn thawed_it_has_what_is_in_files_and_needs_no_process() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::spawn(Command::new(compile_c("shared", SHARED, &["-O1"])));
    let words = target.ready_line().split_ascii_whitespace().skip(2);
    let words: Vec<u64> = words.map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
    let [shared, own] = words[..] else { panic!("{}", target.ready_line()) };
    let one = frozen(target.pid(), &options());
    assert_eq!(one.read_u64(own).unwrap(), 0x6666_6666_6666_6666);
    let libc = one.modules().iter().find(|module| module.path.windows(7).any(|part| part == b"libc.so"));
    let libc = libc.unwrap().start;
    let before = one.read_up_to(libc, 4096).unwrap();

    let child = one.child().unwrap();
    assert!(one.thaw(), "all files can be opened");
    assert!(one.thaw(), "the second time nothing is left to do");
    assert!(!is_alive(child.0), "the child is gone, or init has not removed it yet");
    assert!(!one.is_there());
    assert_intact(&mut target);
    assert!(matches!(one.read_u64(own), Err(ReadError::Missing { why: Absence::Gone, .. })));
    target.stop();

    assert_eq!(one.read_up_to(libc, 4096).unwrap(), before);
    let mut bytes = [0; 8192];
    one.read_exact(shared, &mut bytes).unwrap();
    assert!(bytes == [0x55; 8192], "the rest of the last page too");
    let mut runs = Vec::new();
    one.written(shared..shared + 8192, &mut runs).unwrap();
    assert_eq!(runs, vec![shared..shared + 8192]);
    assert!(one.written(own..own + 8192, &mut Vec::new()).is_err());
    assert!(one.release().reaped);
}

/// Of four pages that it is to bring itself it has brought the first.
const SERVED: &str = r#"
#include "target.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
int main(void) {
    limit_own_life();
    char *area = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own[0] = 'o';
    char page[4096] __attribute__((aligned(4096)));
    memset(page, 'p', sizeof page);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register all = {.range = {(unsigned long)area, 16384}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct uffdio_copy first = {.dst = (unsigned long)area, .src = (unsigned long)page, .len = 4096};
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &all)) return 2;
    if (ioctl(faults, UFFDIO_COPY, &first)) return 3;
    printf("READY %d %lx %lx\n", getpid(), (long)area, (long)own);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) { printf("INTACT\n"); fflush(stdout); }
    _exit(0);
}
"#;

/// A page that somebody is to bring (userfaultfd) and has not is not zeros: nobody knows what it will be.
#[test]
fn pages_that_are_not_brought_yet_are_missing_and_never_zeros() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::spawn(Command::new(compile_c("served", SERVED, &["-O1"])));
    let words = target.ready_line().split_ascii_whitespace().skip(2);
    let words: Vec<u64> = words.map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
    let [area, own] = words[..] else { panic!("{}", target.ready_line()) };
    let copied = FreezeOptions { allow_stop_and_copy: true, ..options() };
    let one = try_freeze(&[target.pid()], &copied).unwrap().pop().unwrap();
    assert_eq!(one.method(), Method::StopAndCopy);
    let mut bytes = [0; 4096];
    one.read_exact(area, &mut bytes).unwrap();
    assert!(bytes == [b'p'; 4096]);
    for page in 1..4 {
        let read = one.read(area + page * 4096, &mut bytes);
        assert!(matches!(read, Err(ReadError::Missing { why: Absence::Unreadable, .. })), "{page}: {read:?}");
    }
    let mut runs = Vec::new();
    one.written(area..area + 16384, &mut runs).unwrap();
    assert_eq!(
        (runs.len(), &runs[0]),
        (1, &(area..area + 16384)),
        "a core says of them that they are missing"
    );
    // What nobody brings is zeros until it is written.
    one.read_exact(own, &mut [0; 1]).unwrap();
    let mut bytes = [1; 4096];
    one.read_exact(own + 4096, &mut bytes).unwrap();
    assert!(bytes == [0; 4096]);
    drop(one);
    target.stop();
}

const KINDS: &str = r#"
#include "target.h"
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
static char *area(int flags, int file, int protection) {
    char *start = mmap(NULL, 8192, protection, flags, file, 0);
    return start == MAP_FAILED ? NULL : start;
}
int main(void) {
    limit_own_life();
    const int both = PROT_READ | PROT_WRITE;
    char *kept = area(MAP_PRIVATE | MAP_ANONYMOUS, -1, both);
    memset(kept, 'k', 8192);
    madvise(kept, 8192, MADV_DONTFORK);
    char *wiped = area(MAP_PRIVATE | MAP_ANONYMOUS, -1, both);
    memset(wiped, 'w', 8192);
    madvise(wiped, 8192, MADV_WIPEONFORK);
    char *secret = NULL;
    int file = (int)syscall(447 /* memfd_secret */, 0);
    if (file >= 0 && ftruncate(file, 8192) == 0) secret = area(MAP_SHARED, file, both);
    if (secret != NULL) memset(secret, 's', 8192);
    struct perf_event_attr event = {.size = sizeof event, .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
    int ring = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
    char *device = ring >= 0 ? area(MAP_SHARED, ring, both) : NULL;
    printf("READY %d %lx %lx %lx %lx\n", getpid(), (long)kept, (long)wiped, (long)secret, (long)device);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) { printf("INTACT\n"); fflush(stdout); }
    _exit(0);
}
"#;

/// What a fork leaves out or wipes is read from the process, and said to be of another moment; what nobody may read is
/// missing. Nothing of it is ever zeros.
#[test]
fn what_a_copy_does_not_have_is_read_elsewhere_or_missing() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::spawn(Command::new(compile_c("kinds", KINDS, &["-O1"])));
    let words = target.ready_line().split_ascii_whitespace().skip(2);
    let words: Vec<u64> = words.map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
    let [kept, wiped, secret, device] = words[..] else { panic!("{}", target.ready_line()) };
    let one = frozen(target.pid(), &options());
    for (address, letter) in [(kept, b'k'), (wiped, b'w')] {
        let mut bytes = [0; 8192];
        one.read_exact(address, &mut bytes).unwrap();
        assert!(bytes == [letter; 8192], "{}", char::from(letter));
        let mapping = one.mappings().iter().find(|mapping| mapping.contains(address)).unwrap();
        assert!(mapping.not_frozen, "{}", char::from(letter));
    }
    // Where the kernel has none of it, there is nothing to look at.
    for address in [secret, device].into_iter().filter(|&address| address != 0) {
        let read = one.read(address, &mut [0; 8]);
        assert!(matches!(read, Err(ReadError::Missing { why: Absence::Unreadable, .. })), "{read:?}");
    }
    target.signal(biopsy_testkit::Signal::KILL);
    target.wait_for_exit(PATIENCE).expect("it was killed");
    for address in [kept, wiped] {
        let read = one.read(address, &mut [0; 8]);
        assert!(matches!(read, Err(ReadError::Missing { .. })), "gone with the process: {read:?}");
    }
    one.release();
}
