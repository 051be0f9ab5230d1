//! The tree and its words, on made-up processes.

use biopsy_model::process::Runtime;
use biopsy_model::{BootId, ProcessKey};
use biopsy_target::Usage;

use super::*;

const PLAIN: Terminal = Terminal { width: Some(80), colour: false, unicode: true };

fn access(allowed: &Allowed) -> Access {
    Access { trace: allowed.clone(), metrics: allowed.clone(), memory: allowed.clone() }
}

fn row(pid: u32, parent: u32, command: &str) -> Row {
    let arguments: Vec<String> = if command.contains(": ") {
        vec![command.to_owned()]
    } else {
        command.split(' ').map(str::to_owned).collect()
    };
    let info = ProcessInfo {
        key: ProcessKey { boot_id: BootId(String::new()), pid: Pid(pid), start_ticks: 5 },
        parent: Pid(parent),
        name: arguments[0].clone(),
        exe: format!("/usr/bin/{}", arguments[0]),
        exe_deleted: false,
        command_line: arguments,
        uid: 0,
        runtime: Runtime { kind: RuntimeKind::Native, version: None, entry: None },
        ns_pid: None,
        cgroup: "/".to_owned(),
        container_id: None,
        unit: None,
    };
    let usage = Usage { resident_bytes: 12 << 20, threads: 3, up_seconds: 7500.0, cpu_seconds: 1.0 };
    let process = Surveyed {
        info,
        is_kernel_thread: false,
        is_zombie: false,
        user: "root".to_owned(),
        usage,
        access: access(&Allowed::Full),
    };
    Row { process, cores: Some(0.5), events: None }
}

fn dotnet(mut row: Row) -> Row {
    row.process.info.runtime = Runtime {
        kind: RuntimeKind::DotNet,
        version: Some("8.0.31".to_owned()),
        entry: Some("server.dll".to_owned()),
    };
    row
}

fn render(rows: &[Row], terminal: Terminal) -> String {
    tree_text(rows, terminal)
}

#[test]
fn the_tree() {
    let rows = [
        row(1, 0, "init"),
        dotnet(row(20, 1, "dotnet /opt/server.dll --port 1")),
        row(21, 20, "calamari run"),
        row(30, 1, "nginx: master process"),
        row(40, 999, "orphan"),
    ];
    let expected = "\
PID  USER  CPU  MEMORY  THREADS     UP  RUNTIME      CAPTURE  PROCESS
  1  root  50%  12 MiB        3  2h05m  native       all      init
 20  root  50%  12 MiB        3  2h05m  .NET 8.0.31  all      ├─ dotnet server.dll --port 1
 21  root  50%  12 MiB        3  2h05m  native       all      │  └─ calamari run
 30  root  50%  12 MiB        3  2h05m  native       all      └─ nginx: master process
 40  root  50%  12 MiB        3  2h05m  native       all      orphan

CPU over 0.2 s; 100% is one processor
";
    assert_eq!(render(&rows, Terminal { width: Some(120), ..PLAIN }), expected);
    let narrow = render(&rows, PLAIN);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(!narrow.contains("USER") || !narrow.contains(" UP "), "{narrow}");
    assert!(narrow.contains("├─ dotnet server.dll"));
    assert!(render(&rows, Terminal { unicode: false, ..PLAIN }).is_ascii());
}

#[test]
fn reasons_are_numbered_once() {
    let mut rows = [row(1, 0, "a"), row(2, 0, "b"), row(3, 0, "c")];
    let stranger =
        Allowed::No { why: "it belongs to another user".to_owned(), hint: Some("`sudo biopsy`".to_owned()) };
    rows[0].process.access = access(&stranger);
    rows[1].process.access = access(&stranger);
    rows[2].process.access.trace = Allowed::Limited { why: "no kernel frames".to_owned(), hint: None };
    let text = render(&rows, PLAIN);
    assert_eq!(text.matches("nothing (1)").count(), 2, "{text}");
    assert_eq!(text.matches("part (2)").count(), 1, "{text}");
    assert!(text.contains("\n(1) no trace, no metrics, no memory: it belongs to another user\n"), "{text}");
    assert!(text.contains("\n(2) trace limited: no kernel frames\nmore: `sudo biopsy`\n"), "{text}");
}

#[test]
fn names_do_not_command_the_terminal() {
    let mut odd = row(1, 0, "x");
    odd.process.info.name = "a\u{1b}[31m\nb".to_owned();
    odd.process.info.command_line = vec!["x".to_owned(), "\u{202e}gnp.exe".to_owned()];
    let text = render(&[odd], Terminal { width: Some(100), ..PLAIN });
    assert!(text.contains("a\\u{1b}[31m\\nb \\u{202e}gnp.exe"), "{text}");
}

#[test]
fn circles_and_zombies() {
    let mut rows = [row(2, 3, "a"), row(3, 2, "b"), row(4, 4, "c")];
    rows[2].process.is_zombie = true;
    let text = render(&rows, PLAIN);
    assert_eq!(text.lines().filter(|line| line.contains("native")).count(), 3, "{text}");
    assert!(text.contains("c (ended)"), "{text}");
}

#[test]
fn json_is_one_document() {
    let rows = [dotnet(row(20, 1, "dotnet a.dll"))];
    let value = serde_json::to_value(json::document(&rows, CPU_INTERVAL)).unwrap();
    let process = &value["processes"][0];
    assert_eq!(value["schema"], 1);
    assert_eq!(process["pid"], 20);
    assert_eq!(process["runtime"], "dotnet");
    assert_eq!(process["runtime_version"], "8.0.31");
    assert_eq!(process["capture"]["trace"]["allowed"], "full");
    assert_eq!(process["cpu_cores"], 0.5);
}

#[test]
fn a_runtime_that_cannot_be_asked_is_said() {
    let mut silent = dotnet(row(7, 1, "dotnet server.dll"));
    silent.events =
        Some(Allowed::No { why: "it was started with `DOTNET_EnableDiagnostics=0`".to_owned(), hint: None });
    let text = render(&[silent], Terminal { width: None, colour: false, unicode: false });
    assert!(text.contains("no runtime events: it was started with `DOTNET_EnableDiagnostics=0`"), "{text}");
}
