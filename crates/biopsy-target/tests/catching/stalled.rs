//! Gates that are not easy to keep: somebody hangs in one, or the file system is not in the list of mounts.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_target::catch::{CatchOn, CatchOptions, Catcher, Way};
use biopsy_testkit::{Privilege, Survival, TargetProcess, compile_c, require_all};

use super::{LONG, key, next, said};

/// `go` starts a child whose execve has its arguments on a page that nobody answers for (userfaultfd) until `answer`.
const STALLS: &str = r#"
#include "target.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
static char *page;
static int faults, answer[2];
static void *answers(void *unused) {
    char byte;
    if (read(answer[0], &byte, 1) != 1) _exit(5);
    struct uffdio_zeropage zero = {.range = {(unsigned long)page, 4096}};
    ioctl(faults, UFFDIO_ZEROPAGE, &zero);
    return unused;
}
static void stall(void) {
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register area = {.range = {(unsigned long)page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &area)) _exit(4);
    start_thread(answers, NULL);
    syscall(SYS_execve, "/bin/true", page, environ);
    _exit(6);
}
int main(void) {
    char line[64];
    limit_own_life();
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pipe(answer)) return 2;
    printf("READY %d\n", getpid()), fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'g') {
            if (fork() == 0) stall();
            printf("STALLS\n"), fflush(stdout);
        } else if (line[0] == 'a') {
            int status = 0;
            (void)!write(answer[1], "x", 1);
            wait(&status);
            printf("EXECUTED %d\n", status), fflush(stdout);
        }
    }
    return 0;
}
"#;

#[test]
fn others_pass_while_one_hangs() {
    if !require_all(&[Privilege::Root, Privilege::Ptrace, Privilege::Cc]) {
        return;
    }
    let program = compile_c("stalls", STALLS, &[]);
    let mut target = TargetProcess::spawn(Command::new(program));
    let survival = Survival::before(target.pid());
    let options = CatchOptions::new("another-name", CatchOn::EXIT).below(key(target.pid()));
    let catcher = Catcher::new(&CatchOptions { way: Way::Gate, ..options }).unwrap();
    target.say("go");
    said(&target, "STALLS");
    // Its request has been let pass undecided, and it hangs in its call as it would without us.
    super::until("it is let pass", || catcher.statistics().unseen > 0);
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(Command::new("/bin/true").stdin(Stdio::null()).spawn().unwrap());
    }
    let begin = Instant::now();
    for other in &mut others {
        while other.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < LONG, "an execution waits for somebody else's");
            std::thread::yield_now();
        }
    }
    assert_eq!(target.next_line(Duration::ZERO), None, "it hangs all the time");
    target.say("answer");
    assert_eq!(said(&target, "EXECUTED"), "EXECUTED 0");
    catcher.finish();
    survival.assert_unharmed();
    target.stop();
}

/// Starts `/child` at each line.
const STARTS: &str = r#"
#include "target.h"
#include <sys/wait.h>
int main(int count, char **arguments) {
    char line[64];
    int status = 0;
    if (count > 1) return 7;
    limit_own_life();
    printf("READY %d\n", getpid()), fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (fork() == 0) execl("/child", "/child", "ends", NULL), _exit(6);
        wait(&status);
        printf("ENDED %d\n", status >> 8), fflush(stdout);
    }
    return arguments == NULL;
}
"#;

#[test]
fn a_root_that_is_no_mount_point_is_watched() {
    if !require_all(&[Privilege::Root, Privilege::Ptrace, Privilege::Cc]) {
        return;
    }
    let program = compile_c("starts", STARTS, &["-static"]);
    let root = biopsy_testkit::temp_dir("root");
    for name in ["parent", "child"] {
        std::fs::copy(&program, root.path().join(name)).unwrap();
    }
    let mut command = Command::new("chroot");
    command.arg(root.path()).arg("/parent");
    let mut target = TargetProcess::spawn(command);
    let survival = Survival::before(target.pid());
    let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", target.pid())).unwrap();
    assert_eq!(mounts, "", "its root is no mount point");
    let options = CatchOptions::new("child", CatchOn::EXIT).below(key(target.pid()));
    let mut catcher = Catcher::new(&CatchOptions { way: Way::Gate, ..options }).unwrap();
    target.say("go");
    assert_eq!(next(&mut catcher).exit_code(), Some(7));
    assert_eq!(said(&target, "ENDED"), "ENDED 7");
    catcher.finish();
    survival.assert_unharmed();
    target.stop();
}
