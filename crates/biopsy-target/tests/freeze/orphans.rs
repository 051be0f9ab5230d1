//! The copy is nobody's child that the process knows of: it holds none of its files, ends with it, and is removed by init.

use std::net::TcpListener;
use std::process::Command;

use biopsy_image::{Absence, Image, MemoryExt, ReadError};
use biopsy_target::freeze::{FreezeOptions, Method, plan};
use biopsy_testkit::{Namespaces, Privilege, Signal, Survival, TargetProcess, compile_c, in_namespaces};

use crate::support::{
    PATIENCE, alone, assert_intact, assert_untraced, children, freeze_once, frozen, is_alive, is_orphaned,
    key, options, ready, start_registers, try_freeze, wait_until,
};

fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

fn compiled(name: &str, source: &str) -> TargetProcess {
    TargetProcess::spawn(Command::new(compile_c(name, source, &["-O1"])))
}

#[test]
fn the_copy_is_an_orphan_and_has_no_file_open() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["2"]);
    let survival = Survival::before(target.pid());
    assert!(is_orphaned(target.pid()), "the init of a machine removes orphans");
    let one = frozen(target.pid(), &options());
    let copy = one.child().unwrap().0;
    assert_ne!(parent(copy), target.pid());
    assert_eq!(children(target.pid()), []);
    assert_eq!(std::fs::read_dir(format!("/proc/{copy}/fd")).unwrap().count(), 0);
    assert!(one.release().reaped);
    assert!(!is_alive(copy));
    survival.assert_unharmed();
    assert_intact(&mut target);
    target.stop();
}

/// A port, and a lock of a file that is mapped: its open file lives as long as the mapping does, in each process.
const HOLDS: &str = r#"
#include "target.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    limit_own_life();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 5) != 0) return 2;
    getsockname(listener, (struct sockaddr *)&address, &length);
    int file = open(argv[argc - 1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096) != 0 || flock(file, LOCK_EX | LOCK_NB) != 0) return 2;
    mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(own, 0x66, 8192);
    printf("READY %d %d %lx\n", getpid(), ntohs(address.sin_port), (long)own);
    fflush(stdout);
    wait_for_stop();
}
"#;

#[test]
fn the_copy_ends_with_its_process_and_frees_what_that_held() {
    let _one = alone();
    if !ready() {
        return;
    }
    let folder = biopsy_testkit::temp_dir("holds");
    let path = folder.path().join("lock");
    let mut command = Command::new(compile_c("holds", HOLDS, &["-O1"]));
    command.arg(&path);
    let mut target = TargetProcess::spawn(command);
    let words: Vec<&str> = target.ready_line().split_ascii_whitespace().collect();
    let (port, own): (u16, u64) = (words[2].parse().unwrap(), u64::from_str_radix(words[3], 16).unwrap());
    let one = frozen(target.pid(), &options());
    let copy = one.child().unwrap().0;
    assert_eq!(one.read_u64(own).unwrap(), 0x6666_6666_6666_6666);
    assert!(!one.ended_with_process());
    target.signal(Signal::KILL);
    target.wait_for_exit(PATIENCE).expect("it was killed");
    wait_until("the copy ends with it", || !is_alive(copy));
    assert!(one.ended_with_process() && one.child().is_none() && !one.is_there());
    assert!(matches!(one.read_u64(own), Err(ReadError::Missing { why: Absence::Gone, .. })));
    assert!(one.written(own..own + 8192, &mut Vec::new()).is_err(), "never zeros");
    let file = std::fs::File::open(&path).unwrap();
    file.try_lock().expect("nobody has the lock any more");
    TcpListener::bind(("127.0.0.1", port)).expect("nobody has the port any more");
    assert!(one.release().reaped);
}

const SUBREAPER: &str = r#"
#include "target.h"
static volatile sig_atomic_t ended;
static void count(int signal) { (void)signal; ended++; }
int main(void) {
    limit_own_life();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return 2;
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    say_ready();
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) { printf("INTACT signals = %d\n", (int)ended); fflush(stdout); }
    return 0;
}
"#;

/// Orphans come back to it: it gets no child that it would have to know of, and no signal.
#[test]
fn of_a_subreaper_the_copy_is_a_child_that_sends_no_signal() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = compiled("subreaper", SUBREAPER);
    let one = frozen(target.pid(), &options());
    assert_eq!(parent(one.child().unwrap().0), target.pid());
    assert!(one.release().reaped);
    freeze_once(target.pid(), &options());
    assert!(assert_intact(&mut target).ends_with("= 0"));
    target.stop();
}

/// What runs as the first process of a container was not asked whether it wants orphans.
#[test]
fn of_the_first_process_of_a_namespace_the_copy_is_a_child() {
    let _one = alone();
    if !ready() {
        return;
    }
    if !biopsy_testkit::require(Privilege::Namespaces) {
        return;
    }
    let program = Command::new(compile_c("subreaper", SUBREAPER, &["-O1"]));
    let mut target = TargetProcess::spawn(in_namespaces(Namespaces::PidAndMount, &program));
    let pid = target.pid();
    assert!(!is_orphaned(pid));
    let one = frozen(pid, &options());
    assert_eq!(parent(one.child().unwrap().0), pid);
    assert!(one.release().reaped);
    assert_eq!(children(pid), []);
    assert!(assert_intact(&mut target).ends_with("= 0"));
    target.stop();
}

const NAMESPACED: &str = r#"
#include "target.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
int main(int argc, char **argv) {
    limit_own_life();
    int clock = argc > 1 && strcmp(argv[1], "time") == 0;
    if (unshare(clock ? CLONE_NEWTIME : CLONE_NEWPID) != 0) return 2;
    say_ready();
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (clock) {
            int file = open("/proc/self/timens_offsets", O_WRONLY);
            if (write(file, "monotonic 100 0\n", 16) != 16) { printf("REFUSED %s\n", strerror(errno)); fflush(stdout); continue; }
        }
        pid_t child = fork();
        if (child == 0) _exit(7);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child) printf("REFUSED %s\n", strerror(errno));
        else printf("INTACT %d\n", WEXITSTATUS(status));
        fflush(stdout);
    }
    return 0;
}
"#;

/// The first process of a new pid namespace is its init: with its end the namespace is closed. The first of a new clock
/// fixes its offsets.
#[test]
fn a_process_with_a_new_namespace_for_its_children_has_no_copy_among_them() {
    let _one = alone();
    if !ready() {
        return;
    }
    for kind in ["pid", "time"] {
        let mut command = Command::new(compile_c("namespaced", NAMESPACED, &["-O1"]));
        command.arg(kind);
        let mut target = TargetProcess::spawn(command);
        let error = try_freeze(&[target.pid()], &options()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("namespace for its children"), "{error}");
        let copied = FreezeOptions { allow_stop_and_copy: true, ..options() };
        let mut all = try_freeze(&[target.pid()], &copied).unwrap();
        let one = all.pop().unwrap();
        assert_eq!(one.method(), Method::StopAndCopy);
        drop(one);
        assert!(assert_intact(&mut target).ends_with('7'), "{kind}: it can have a child");
        target.stop();
    }
}

/// Forbids one system call, by number, with an errno.
const FILTERED: &str = r#"
#include "target.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
int main(int argc, char **argv) {
    limit_own_life();
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        say_ready();
        char line[64];
        while (fgets(line, sizeof line, stdin) != NULL) { printf("AGAIN\n"); fflush(stdout); }
        return 0;
    }
    if (argc > 1) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(argv[1]), 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 38),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 2;
    }
    char *own = malloc(1 << 20);
    memset(own, 0x66, 1 << 20);
    printf("READY %d %lx\n", getpid(), (long)own);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "exec", 4) == 0) execl("/proc/self/exe", "again", "again", NULL);
        printf("INTACT\n");
        fflush(stdout);
    }
    return 0;
}
"#;

fn filtered(argument: Option<&str>) -> (TargetProcess, u64) {
    let mut command = Command::new(compile_c("filtered", FILTERED, &["-O1"]));
    command.args(argument);
    let target = TargetProcess::spawn(command);
    let own = target.ready_line().split_ascii_whitespace().nth(2).unwrap();
    let own = u64::from_str_radix(own, 16).unwrap();
    (target, own)
}

#[test]
fn what_a_filter_forbids_is_done_without() {
    let _one = alone();
    if !ready() {
        return;
    }
    const PRCTL: &str = "157";
    const CLOSE_RANGE: &str = "436";
    let (mut target, _) = filtered(Some(PRCTL));
    let one = frozen(target.pid(), &options());
    assert_eq!(parent(one.child().unwrap().0), target.pid(), "nobody can say whether it wants orphans");
    assert!(one.release().reaped);
    assert_eq!(children(target.pid()), []);
    assert_intact(&mut target);
    target.stop();

    let (mut target, _) = filtered(Some(CLOSE_RANGE));
    let one = frozen(target.pid(), &options());
    let copy = one.child().unwrap().0;
    assert_ne!(parent(copy), target.pid());
    assert!(std::fs::read_dir(format!("/proc/{copy}/fd")).unwrap().count() >= 3, "it shares them");
    // What the process closes by executing another program stays open in a copy that shares them: so that one ends.
    target.say("exec");
    wait_until("the copy ends", || !is_alive(copy));
    assert!(one.ended_with_process());
    assert!(one.release().reaped);
    assert!(target.ask("", "AGAIN", PATIENCE).is_some());
    target.stop();
}

/// It is another program from then on, and its copy is of the one before.
#[test]
fn a_process_executes_another_program_while_its_copy_lives() {
    let _one = alone();
    if !ready() {
        return;
    }
    let (mut target, own) = filtered(None);
    let one = frozen(target.pid(), &options());
    target.say("exec");
    assert!(target.line_starting_with("READY", PATIENCE).is_some());
    assert_eq!(one.read_u64(own).unwrap(), 0x6666_6666_6666_6666);
    assert!(one.release().reaped);
    assert!(target.ask("", "AGAIN", PATIENCE).is_some());
    assert_untraced(target.pid());
    assert_eq!(children(target.pid()), []);
    target.stop();
}

const WAITS: &str = r#"
#include "target.h"
#include <signal.h>
#include <sys/wait.h>
static int ends[2];
static void *waits(void *unused) {
    (void)unused;
    pid_t child = vfork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        char byte;
        (void)!read(ends[0], &byte, 1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("VFORK-ENDED\n");
    fflush(stdout);
    return NULL;
}
int main(int argc, char **argv) {
    limit_own_life();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (pipe(ends) != 0) return 2;
    if (argc > 1) {
        start_thread(waits, NULL);
        usleep(200000);
    }
    say_ready();
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "end", 3) == 0) (void)!write(ends[1], "x", 1);
        if (strncmp(line, "wait", 4) == 0) { printf("WAITS\n"); fflush(stdout); waits(NULL); }
    }
    return 0;
}
"#;

/// While one process is released, for which none of its threads can be had for seconds, a thread of another one stops late.
#[test]
fn threads_that_stop_late_are_let_go_while_another_process_is_released() {
    let _one = alone();
    if !ready() {
        return;
    }
    let program = compile_c("waits", WAITS, &["-O1"]);
    let mut command = Command::new(&program);
    command.arg("at once");
    let mut late = TargetProcess::spawn(command);
    let mut busy = TargetProcess::spawn(Command::new(&program));
    let mut all = try_freeze(&[late.pid(), busy.pid()], &options()).unwrap();
    let (of_busy, of_late) = (all.pop().unwrap(), all.pop().unwrap());
    // Its only thread waits in the kernel from now on: nobody can be led through `wait4`.
    assert!(busy.ask("wait", "WAITS", PATIENCE).is_some());
    wait_until("it waits", || crate::support::state(busy.pid()) == Some('D'));
    let release = std::thread::spawn(move || of_busy.release());
    late.say("end");
    assert!(late.line_starting_with("VFORK-ENDED", PATIENCE).is_some());
    assert!(!release.is_finished(), "it was let go meanwhile");
    release.join().unwrap();
    assert!(of_late.release().reaped);
    assert_untraced(late.pid());
    late.stop();
    drop(busy);
}

#[test]
fn the_plan_says_which_it_is() {
    let target = key(std::process::id());
    if ready() {
        assert!(plan(&[target], &options()).unwrap().processes[0].orphan);
    }
}
