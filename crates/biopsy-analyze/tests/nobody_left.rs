//! Threads at a condition that nobody is left to signal, told from those that somebody may.

use std::process::{Command, Stdio};

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::{DumpFacts, LockKind, Nobody};
use biopsy_image::{Limits, open};
use biopsy_stacks::image::{Options, walk};
use biopsy_testkit::{Privilege, TargetProcess, compile_c, require_all};

const NEEDED: &[Privilege] = &[Privilege::Cc, Privilege::Gdb, Privilege::Ptrace];
const SOURCE: &str = include_str!("../../biopsy-testkit/programs/conditions.c");

/// How many threads nobody is left to wake.
fn left_alone(program: &std::path::Path, mode: &str) -> usize {
    let mut command = Command::new(program);
    command.arg(mode);
    let target = TargetProcess::spawn(command);
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("core");
    let mut gcore = Command::new("gcore");
    gcore.arg("-o").arg(&prefix).arg(target.pid().to_string()).stdin(Stdio::null());
    let output = gcore.output().expect("gcore");
    let core = folder.path().join(format!("core.{}", target.pid()));
    assert!(core.exists(), "gcore: {}", String::from_utf8_lossy(&output.stderr));
    let opened = open(&core, &Limits::default()).expect("a core of gdb opens");
    let stacks = walk(&*opened.image, &Options { roots: vec!["/".into()], ..Options::default() });
    let analysis = analyze_dump(&*opened.image, &stacks, &DumpFacts::of(&opened));
    let waits = analysis.threads.iter().filter_map(|thread| thread.lock.as_ref());
    assert_eq!(
        waits.filter(|lock| lock.kind == LockKind::Condition).count(),
        3,
        "{mode}: three wait for room"
    );
    let alone = analysis.stuck.iter().filter(|stuck| stuck.nobody == Nobody::IsLeft);
    alone.map(|stuck| stuck.waiters.len()).sum()
}

#[test]
fn who_could_signal_is_looked_for_in_the_code_ahead() {
    if !require_all(NEEDED) {
        return;
    }
    for flags in [&["-O0"][..], &["-O2"], &["-O2", "-s"], &["-O2", "-fno-plt"]] {
        let program = compile_c("conditions", SOURCE, flags);
        let found = |mode| left_alone(&program, mode);
        assert_eq!(found("nobody"), 3, "{flags:?}: all others sleep for ever");
        assert_eq!(found("slowly"), 0, "{flags:?}: one comes to take");
        assert_eq!(found("pointer"), 0, "{flags:?}: one calls what is not known");
        assert_eq!(found("starts"), 0, "{flags:?}: one starts threads");
    }
}
