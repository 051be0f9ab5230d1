//! Finding in made-up process lists.

use proptest::prelude::*;

use super::*;
use crate::fake_proc::{ELF_32, FakeProc};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn look(proc: &FakeProc, text: &str) -> Result<u32, FindError> {
    find_in(&proc.root(), &Selector::parse(text).unwrap()).map(|target| target.info.key.pid.0)
}

#[track_caller]
fn found(proc: &FakeProc, text: &str, pid: u32) {
    assert_eq!(look(proc, text), Ok(pid), "{text}");
}

#[test]
fn by_every_kind_of_name() {
    let proc = FakeProc::new();
    proc.process(10, "dotnet").command("/usr/bin/dotnet exec /opt/Octopus.Server.dll run").write();
    proc.process(11, "Octopus.Tentacle").comm("Octopus.Tentac").write();
    proc.process(12, "java").command("java -cp x com.example.Main").write();
    proc.process(13, "node").comm("MainThread").command("node /srv/api.js").write();
    proc.process(14, "python3.11").command("python3 -m http.server").write();
    proc.process(15, "nginx").cgroup("/system.slice/web.service").write();
    proc.process(16, "redis-server")
        .comm("redis-server")
        .cgroup(&format!("/docker/{ID}"))
        .inner_pid(1)
        .write();
    proc.process(17, "Acme.Service").command("Acme.Service").write();

    for (text, pid) in [
        ("10", 10),
        ("dotnet", 10),
        ("Octopus.Server.dll", 10),
        ("Octopus.Server", 10),
        ("octopus.server", 10),
        ("Octopus.Tentacle", 11),
        ("octopus.tentacle.dll", 11),
        ("com.example.Main", 12),
        ("Main", 12),
        ("api.js", 13),
        ("api", 13),
        ("MainThread", 13),
        ("http.server", 14),
        ("python3", 14),
        ("web.service", 15),
        ("web", 15),
        (&ID[..12], 16),
        (ID, 16),
        ("Acme.Service", 17),
    ] {
        found(&proc, text, pid);
    }
}

#[test]
fn a_tree_means_its_root_and_two_trees_are_ambiguous() {
    let proc = FakeProc::new();
    proc.process(20, "nginx").title("nginx: master process nginx").write();
    proc.process(21, "nginx").title("nginx: worker process").parent(20).write();
    proc.process(22, "nginx").title("nginx: worker process").parent(20).write();
    let target = find_in(&proc.root(), &Selector::parse("nginx").unwrap()).unwrap();
    assert_eq!(target.info.key.pid, Pid(20));
    assert_eq!(target.others, [Pid(21), Pid(22)]);

    // Through a process of another name in between.
    proc.process(23, "sh").parent(22).write();
    proc.process(24, "nginx").parent(23).write();
    found(&proc, "nginx", 20);

    proc.process(30, "nginx").write();
    let Err(FindError::Ambiguous { candidates, .. }) = look(&proc, "nginx") else { panic!("not ambiguous") };
    assert_eq!(candidates.len(), 5);
    let text = look(&proc, "nginx").unwrap_err().to_string();
    assert!(text.starts_with("5 processes match `nginx`\n     20  root"), "{text}");
}

#[test]
fn parents_that_contradict_each_other_end() {
    let proc = FakeProc::new();
    proc.process(20, "a").parent(21).write();
    proc.process(21, "a").parent(20).write();
    assert!(matches!(look(&proc, "a"), Err(FindError::Ambiguous { .. })));
}

#[test]
fn the_init_of_a_container_is_meant() {
    let proc = FakeProc::new();
    let cgroup = format!("/system.slice/docker-{ID}.scope");
    proc.process(20, "app").cgroup(&cgroup).inner_pid(1).write();
    proc.process(21, "worker").cgroup(&cgroup).inner_pid(7).parent(20).write();
    proc.process(22, "sh").cgroup(&cgroup).inner_pid(30).write();
    found(&proc, &ID[..16], 20);
    // By name it is the one with the name.
    found(&proc, "sh", 22);
}

#[test]
fn what_cannot_be_captured_is_said() {
    let proc = FakeProc::new();
    proc.process(2, "kthreadd").no_exe().write();
    std::fs::write(
        proc.path().join("proc/2/stat"),
        "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0\n",
    )
    .unwrap();
    proc.process(20, "gone").state('Z', 1).no_exe().write();
    proc.process(21, "half").state('Z', 4).no_exe().write();
    proc.process(22, "old").exe("/usr/bin/old", ELF_32).write();
    proc.process(23, "worker").thread_of(22).write();
    proc.process(std::process::id(), "biopsy").write();

    assert!(matches!(look(&proc, "2"), Err(FindError::KernelThread { .. })));
    assert!(matches!(look(&proc, "kthreadd"), Err(FindError::KernelThread { .. })));
    assert!(matches!(look(&proc, "gone"), Err(FindError::Zombie { living_threads: 0, .. })));
    assert!(matches!(look(&proc, "21"), Err(FindError::Zombie { living_threads: 3, .. })));
    assert!(matches!(look(&proc, "old"), Err(FindError::Not64Bit { pid: Pid(22), .. })));
    assert!(matches!(look(&proc, "23"), Err(FindError::IsThread { pid: Pid(22), tid: Pid(23), .. })));
    assert!(matches!(look(&proc, "biopsy"), Err(FindError::Myself { .. })));
    assert_eq!(
        look(&proc, "gone").unwrap_err().to_string(),
        "process 20 (`gone`) has ended already (zombie)"
    );
}

#[test]
fn the_living_are_preferred_to_zombies_and_kernel_threads() {
    let proc = FakeProc::new();
    proc.process(20, "app").state('Z', 1).no_exe().write();
    proc.process(21, "app").write();
    found(&proc, "app", 21);
}

#[test]
fn near_misses_are_suggested() {
    let proc = FakeProc::new();
    proc.process(20, "mariadbd").write();
    proc.process(21, "redis-server").inner_pid(7).write();
    let error = look(&proc, "mariadb").unwrap_err();
    assert_eq!(error.to_string(), "no process matches `mariadb`");
    assert_eq!(error.hint().unwrap(), "similar names: `mariadbd` (pid 20)");
    let error = look(&proc, "7").unwrap_err();
    assert_eq!(error.to_string(), "there is no process 7");
    assert!(error.hint().unwrap().contains("21 (`redis-server`)"), "{:?}", error.hint());
    assert_eq!(look(&proc, "zzzzzz").unwrap_err().hint().unwrap(), "`biopsy ps` lists the processes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever bytes a program is called, it is found by the name that `ps` shows, and nothing it is called
    /// reaches the terminal as a command.
    #[test]
    fn any_name_is_found(name in proptest::collection::vec(any::<u8>().prop_filter("no NUL, no slash", |b| *b != 0 && *b != b'/'), 1..40)) {
        prop_assume!(name != b"." && name != b"..");
        let proc = FakeProc::new();
        proc.process(20, &name).write();
        proc.process(21, &name).write();
        let shown = String::from_utf8_lossy(&name).into_owned();
        prop_assume!(matches!(Selector::parse(&shown), Ok(Selector::Name(text)) if text == shown));
        let error = look(&proc, &shown).unwrap_err();
        prop_assert!(matches!(error, FindError::Ambiguous { .. }), "{error:?}");
        let text = error.to_string();
        prop_assert_eq!(text.lines().count(), 3);
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    }
}
