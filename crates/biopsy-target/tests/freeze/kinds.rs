//! Programs of all kinds: static, without usable instructions, with many threads, of other runtimes, trees.

use std::process::Command;

use biopsy_image::{Image, MemoryExt};
use biopsy_target::freeze::{FreezeError, FreezeWarning, Stage};
use biopsy_testkit::{
    Privilege, Program, Survival, TargetProcess, compile_c, require, require_program, require_that, temp_dir,
};

use crate::support::{
    alone, assert_intact, assert_untraced, children, freeze_once, frozen, options, ready, try_freeze,
};

#[test]
fn static_program() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::start(Program::StaticRegisters, &["2"]);
    let survival = Survival::before(target.pid());
    for _ in 0..20 {
        freeze_once(target.pid(), &options());
    }
    assert_intact(&mut target);
    survival.assert_unharmed();
    target.stop();
}

/// Static musl programs are like this one: no rt_sigreturn. A stub is written into unused padding, and removed.
#[test]
fn program_without_usable_instructions() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::start(Program::NoGadgets, &[]);
    let pid = target.pid();
    let survival = Survival::before(pid);
    for _ in 0..10 {
        let one = frozen(pid, &options());
        let [FreezeWarning::StubWritten { address }] = *one.warnings() else {
            panic!("{:?}", one.warnings())
        };
        assert_eq!(one.read_u32(address).unwrap() & 0xff_ffff, 0xc3_050f, "it is in the frozen memory");
        assert!(one.release().reaped);
        let mut bytes = [1; 32];
        biopsy_sys::memory::read(biopsy_model::Tid(pid), biopsy_model::Avma(address), &mut bytes).unwrap();
        assert_eq!(bytes, [0; 32], "and gone afterwards");
        assert_intact(&mut target);
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn musl_program() {
    let _one = alone();
    if !ready() || !require_program("musl-gcc", &["--version"]) {
        return;
    }
    let folder = temp_dir("musl");
    let source = folder.path().join("idle.c");
    let text = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"READY %d\\n\", getpid()); fflush(stdout); \
        char c; while (read(0, &c, 1) > 0) if (c == '\\n') { puts(\"INTACT\"); fflush(stdout); } return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let program = folder.path().join("musl-idle");
    let built = Command::new("musl-gcc").args(["-static", "-O2", "-o"]).arg(&program).arg(&source).status();
    assert!(built.is_ok_and(|status| status.success()));
    let mut target = TargetProcess::spawn(Command::new(&program));
    for _ in 0..10 {
        assert!(frozen(target.pid(), &options()).release().reaped);
        assert_intact(&mut target);
    }
    target.stop();
}

#[test]
fn two_hundred_threads() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::start(Program::ManyThreads, &["200"]);
    let survival = Survival::before(target.pid());
    let one = frozen(target.pid(), &options());
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap().count();
    assert_eq!(one.threads().len(), tasks);
    assert!(one.threads().iter().all(|thread| thread.registers.is_some() && !thread.extended.is_empty()));
    assert!(one.release().reaped);
    for _ in 0..5 {
        freeze_once(target.pid(), &options());
    }
    survival.assert_unharmed();
    target.stop();
}

/// Goroutines run on small pieces of heap: a frame below their stack pointer would overwrite what lies there (P2).
#[test]
fn p2_go_program() {
    let _one = alone();
    if !ready() || !require_program("go", &["version"]) {
        return;
    }
    let folder = temp_dir("go");
    let source = folder.path().join("main.go");
    std::fs::write(&source, GO).unwrap();
    let program = folder.path().join("go-target");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(&source);
    build.env("HOME", folder.path()).env("GOCACHE", folder.path().join("cache")).env("CGO_ENABLED", "0");
    build.env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off").current_dir(folder.path());
    assert!(build.output().is_ok_and(|output| output.status.success()));
    let mut target = TargetProcess::spawn(Command::new(&program));
    let mut done = 0;
    for _ in 0..40 {
        match try_freeze(&[target.pid()], &options()) {
            Ok(all) => {
                for one in all {
                    let report = one.release();
                    assert!(report.reaped, "{report:?}");
                    done += 1;
                }
            }
            // No thread happened to be on a stack that may be written to.
            Err(FreezeError::NoSafeThread { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
        assert_intact(&mut target);
    }
    assert!(done >= 20, "{done} of 40: the signal stacks of its threads are nearly always free");
    assert_eq!(children(target.pid()), []);
    // The frames on its signal stacks bring its threads home, too.
    for stage in 0..Stage::ALL.len() {
        crate::kills::die_at(stage, &mut target);
    }
    let gone = (0..20).any(|_| {
        if let Ok(all) = try_freeze(&[target.pid()], &options()) {
            drop(all);
        }
        children(target.pid()).is_empty()
    });
    assert!(gone, "what the dead left behind goes with the next freeze");
    assert_intact(&mut target);
    assert_untraced(target.pid());
    target.stop();
}

/// Goroutines that check what they hold, deep and shallow, and a heap that is collected all the time.
const GO: &str = r#"
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"time"
)

func sum(depth int, seed uint64) uint64 {
	var local [16]uint64
	for i := range local {
		local[i] = seed + uint64(i)
	}
	if depth > 0 {
		sum(depth-1, seed+1)
	}
	for i := range local {
		if local[i] != seed+uint64(i) {
			fmt.Println("BROKEN")
			os.Exit(11)
		}
	}
	return local[0]
}

func worker(number int) {
	for round := uint64(0); ; round++ {
		sum(int(round%30), uint64(number)<<32+round)
		_ = make([]byte, 1000)
		if round%2000 == 0 {
			time.Sleep(time.Microsecond)
		}
	}
}

func main() {
	go func() {
		time.Sleep(10 * time.Minute)
		os.Exit(3)
	}()
	for i := 0; i < 4; i++ {
		go worker(i)
	}
	go func() {
		for {
			runtime.GC()
			time.Sleep(5 * time.Millisecond)
		}
	}()
	fmt.Printf("READY %d\n", os.Getpid())
	reader := bufio.NewReader(os.Stdin)
	for {
		if _, err := reader.ReadString('\n'); err != nil {
			os.Exit(0)
		}
		fmt.Println("INTACT")
	}
}
"#;

/// A stack whose guard is not a mapping of its own, as the C library makes them from 2.42 on.
#[test]
fn p2_guards_inside_of_a_mapping() {
    let _one = alone();
    if !ready() {
        return;
    }
    let program = compile_c("inner-guard", INNER_GUARD, &["-O1"]);
    let mut target = TargetProcess::spawn(Command::new(program));
    let supported = !target.ready_line().contains("unsupported");
    if !require_that(supported, "needs MADV_GUARD_INSTALL, which this kernel (before 6.13) lacks") {
        return;
    }
    for _ in 0..20 {
        freeze_once(target.pid(), &options());
        assert_intact(&mut target);
    }
    target.stop();
}

const INNER_GUARD: &str = r#"
#include "target.h"
#include <sys/mman.h>
#include <sys/syscall.h>

// All threads' stacks are one mapping. The main thread computes, and so is not the one that is chosen.
static char *stacks;

static void *body(void *argument) {
    (void)argument;
    char line[64];
    for (;;) {
        if (argument) { pause(); continue; }
        ssize_t got = read(0, line, sizeof line);
        if (got == 0) _exit(0);
        if (got < 0) _exit(20);
        printf("INTACT\n");
        fflush(stdout);
    }
}

int main(void) {
    limit_own_life();
    size_t size = 256 << 10;
    stacks = mmap(NULL, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int supported = 1;
    for (int i = 0; i < 4; i++)
        if (madvise(stacks + i * size, 4096, 102 /* MADV_GUARD_INSTALL */) != 0) supported = 0;
    for (long i = 0; i < 4; i++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stacks + i * size + 4096, size - 4096);
        pthread_t thread;
        if (pthread_create(&thread, &attributes, body, (void *)i) != 0) _exit(2);
    }
    printf("READY %d%s\n", getpid(), supported ? "" : " unsupported");
    fflush(stdout);
    for (volatile uint64_t count = 0;; count++) {}
}
"#;

#[test]
fn parent_and_three_children_in_one_window() {
    let _one = alone();
    if !ready() {
        return;
    }
    let program = compile_c("family", FAMILY, &["-O1"]);
    let mut target = TargetProcess::spawn(Command::new(program));
    let pid = target.pid();
    let mut pids = vec![pid];
    pids.extend(
        target.ready_line().split_ascii_whitespace().skip(2).map(|word| word.parse::<u32>().unwrap()),
    );
    assert_eq!(pids.len(), 4);
    for _ in 0..10 {
        let all = try_freeze(&pids, &options()).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(all.len(), 4);
        // All four add to one shared counter, each in turn: in one moment, no two copies differ by more than one turn.
        for (one, pid) in all.iter().zip(&pids) {
            assert_eq!(one.key().pid.0, *pid);
            assert_eq!(one.threads().first().unwrap().tid.0, *pid);
        }
        for one in all {
            assert!(one.release().reaped);
        }
        assert_intact(&mut target);
    }
    // One that nobody planned for is named.
    let last = pids.pop().expect("four");
    let all = try_freeze(&pids, &options()).unwrap_or_else(|error| panic!("{error:?}"));
    let unborn = FreezeWarning::BornMeanwhile { pid: biopsy_model::Pid(last) };
    assert_eq!(all[0].warnings(), [unborn]);
    drop(all);
    for pid in &pids {
        assert_untraced(*pid);
    }
    assert_eq!(children(pid).len(), 3);
    target.stop();
}

const FAMILY: &str = r#"
#include "target.h"
#include <sys/wait.h>

int main(void) {
    limit_own_life();
    pid_t children[3];
    int ends[2];
    if (pipe(ends) != 0) return 2;
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            close(ends[1]);
            char byte;
            while (read(ends[0], &byte, 1) > 0) {}
            _exit(0);
        }
    }
    printf("READY %d %d %d %d\n", getpid(), children[0], children[1], children[2]);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        int status;
        if (waitpid(-1, &status, WNOHANG) != 0) return 21;
        printf("INTACT\n");
        fflush(stdout);
    }
    return 0;
}
"#;

#[test]
fn dotnet_server() {
    let _one = alone();
    if !ready() || !require(Privilege::DotNetTargets) {
        return;
    }
    let Some(run) = biopsy_testkit::dotnet_run() else { return };
    let mut command = Command::new(run);
    command.args(["net10.0", "server"]);
    let mut target = TargetProcess::spawn(command);
    for _ in 0..20 {
        freeze_once(target.pid(), &options());
    }
    assert!(target.is_running());
    assert_untraced(target.pid());
}
