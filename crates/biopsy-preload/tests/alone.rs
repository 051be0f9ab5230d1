//! The library in a program, and nobody who reads meanwhile: what the program does and says is what it does without.
#![cfg(target_arch = "x86_64")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use biopsy_preload::{HEADER_BYTES, Header, SHARED_BYTES, layout, library};
use biopsy_testkit::{Privilege, compile_c, require_all};
use rustix::fs::{MemfdFlags, memfd_create};

/// What the program says with the library, which is what it says without; and what the library has counted.
fn counted(program: &Path) -> (String, Header) {
    let memory = || File::from(memfd_create("biopsy-preload-test", MemfdFlags::empty()).unwrap());
    let (own, shared) = (memory(), memory());
    shared.set_len(SHARED_BYTES).unwrap();
    let number = |file: &File| u32::try_from(file.as_raw_fd()).unwrap();
    own.write_all_at(&library(number(&own), number(&shared)).unwrap(), 0).unwrap();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_sec;
    shared.write_all_at(&now.to_le_bytes(), (layout::WORD_BEAT * 8) as u64).unwrap();
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        said
    };
    let alone = run(&mut Command::new(program));
    let said = run(Command::new(program).env("LD_PRELOAD", format!("/proc/self/fd/{}", own.as_raw_fd())));
    assert_eq!(said, alone);
    let mut head = vec![0; HEADER_BYTES];
    shared.read_exact_at(&mut head, 0).unwrap();
    (said, Header::read(&head))
}

/// Each leaf of a tree of calls has a stack of its own: more than there is room for.
const MANY: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    static unsigned long count;
    static void *volatile used;
    __attribute__((noinline)) static void left(int depth);
    __attribute__((noinline)) static void right(int depth);
    static void both(int depth) { if (depth == 0) { used = malloc(8); free(used); count++; return; } left(depth - 1); right(depth - 1); }
    __attribute__((noinline)) static void left(int depth) { both(depth); __asm__ volatile(""); }
    __attribute__((noinline)) static void right(int depth) { both(depth); __asm__ volatile(""); }
    int main(void) { both(19); printf("%lu leaves\n", count); return 0; }"#;

#[test]
fn more_stacks_than_there_is_room_for_are_lost_and_counted() {
    if !require_all(&[Privilege::Cc]) {
        return;
    }
    let (said, header) = counted(&compile_c("many-stacks", MANY, &["-O1"]));
    assert_eq!(said, "524288 leaves\n");
    assert!(header.is_there && header.problem == 0, "{header:?}");
    let found = header.sites as u64 + header.lost;
    assert!(header.lost > 100_000 && header.sites > 100_000 && found > 524_288, "{header:?}");
}

/// Ends the process for opening a file, and allocates on a stack that was not seen before.
const SHUT_IN: &str = r#"
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <malloc.h>
    #include <pthread.h>
    #include <stddef.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    static void *volatile used;
    static void *thread(void *nothing) { for (int i = 0; i < 100000; i++) { used = malloc(i); free(used); } return nothing; }
    int main(void) {
        struct sock_filter rules[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof rules / sizeof *rules, rules };
        used = malloc(1);
        // Otherwise the C library itself opens a list of processors.
        mallopt(M_ARENA_MAX, 1);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
        pthread_t one;
        if (pthread_create(&one, 0, thread, 0)) return 3;
        pthread_join(one, 0);
        puts("lives");
        return 0;
    }"#;

#[test]
fn a_program_that_shuts_itself_in_is_not_ended_for_what_the_library_does() {
    if !require_all(&[Privilege::Cc]) {
        return;
    }
    let (said, header) = counted(&compile_c("shut-in", SHUT_IN, &["-O1"]));
    assert_eq!(said, "lives\n");
    assert!(header.is_there && header.sites >= 2 && header.lost == 0, "{header:?}");
}

/// Threads that allocate, children of the middle of it that allocate and execute, signals all the time, stacks of its own.
const BUSY: &str = r#"
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <ucontext.h>
    #include <unistd.h>
    static void on(int signal) { (void)signal; }
    static void *thread(void *nothing) {
        void *all[200];
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < 200; i++) all[i] = malloc(i * 37 + 1);
            for (int i = 0; i < 200; i++) { all[i] = realloc(all[i], 20000 - i * 50); if (!all[i]) abort(); }
            for (int i = 0; i < 200; i++) free(all[i]);
        }
        return nothing;
    }
    static ucontext_t home, other;
    static void *volatile used;
    static void visit(void) { for (int i = 0; i < 10; i++) { used = malloc(100); free(used); swapcontext(&other, &home); } }
    int main(void) {
        struct sigaction action = { .sa_handler = on, .sa_flags = SA_RESTART };
        sigaction(SIGALRM, &action, 0);
        ualarm(500, 500);
        int bad = 0;
        for (int round = 0; round < 10; round++) {
            pthread_t all[4];
            for (int i = 0; i < 4; i++) pthread_create(&all[i], 0, thread, 0);
            pid_t child = fork();
            if (child == 0) {
                ualarm(0, 0);
                for (int i = 0; i < 2000; i++) { used = malloc(i); free(used); }
                execl("/bin/true", "true", (char *)0);
                _exit(9);
            }
            for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
            int status = 1;
            while (waitpid(child, &status, 0) < 0) {}
            bad += status != 0;
        }
        getcontext(&other);
        other.uc_stack.ss_sp = malloc(64000);
        other.uc_stack.ss_size = 64000;
        other.uc_link = &home;
        makecontext(&other, visit, 0);
        for (int i = 0; i < 10; i++) swapcontext(&home, &other);
        ualarm(0, 0);
        printf("%d bad\n", bad);
        return 0;
    }"#;

#[test]
fn threads_children_signals_and_other_stacks_go_on() {
    if !require_all(&[Privilege::Cc]) {
        return;
    }
    let (said, header) = counted(&compile_c("busy-allocations", BUSY, &["-O1", "-pthread"]));
    assert_eq!(said, "0 bad\n");
    assert!(header.is_there && header.problem == 0 && header.lost == 0, "{header:?}");
    // Blocks of 20 kB at most, 200 of each of four threads; children have no part in it.
    assert!(header.live < 100_000 && (2_000_000..20_000_000).contains(&header.peak), "{header:?}");
}
