//! Containers, other users, odd folders for temporary files.

use biopsy_testkit::{
    PACKAGED_DOTNET, Privilege, Survival, TargetProcess, packaged_dotnet_command,
    packaged_dotnet_in_container, require_all, temp_dir, two_dotnet_runtimes,
};

use crate::support::{biopsy, capture, said, succeed};

const LIVE: &[Privilege] = &[Privilege::Root, Privilege::Perf, Privilege::Bpf, Privilege::DotNet31];

/// Its file system is one that we do not see, its pid 1, its user another, and so is its `/tmp`.
#[test]
fn in_a_container_as_another_user() {
    if !require_all(LIVE) || !require_all(&[Privilege::Namespaces, Privilege::OtherUser]) {
        return;
    }
    for version in PACKAGED_DOTNET {
        let Some(target) = packaged_dotnet_in_container(version, &["leak=1"]) else { continue };
        let pid = target.pid().to_string();
        assert!(!std::path::Path::new("/mnt/sick").exists(), "its files are its own");
        let listed = succeed(&mut biopsy(&["ps", "--json"]));
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let listed = listed.to_string();
        assert!(listed.contains(&format!("\"pid\":{pid},")), "{version}");
        // What the first session leaves behind is there before.
        drop(capture(target.pid(), 1, &[]));
        let survival = Survival::before(target.pid()).threads_may_change().files_may_change();

        let captured = capture(target.pid(), 2, &[]);
        let runtime = captured.runtime();
        let label = runtime["label"].as_str().unwrap();
        assert!(label.starts_with(&format!(".NET {version}.")), "{version}: {label}");
        // A thread throws four times a second.
        assert!(runtime["exceptions_total"].as_u64().unwrap() > 0, "{version}: {runtime:#}");
        let functions = captured.report["functions"].to_string();
        assert!(functions.contains("Sick.Hot.Burn"), "{version}: {}\n{functions}", captured.warnings());

        // From memory, once: the container is the same for all.
        if version == "9" {
            let stacks = succeed(&mut biopsy(&["stacks", &pid]));
            assert!(
                String::from_utf8_lossy(&stacks.stdout).contains("Sick.Program.ThrowAndCatch"),
                "{version}"
            );
            let folder = temp_dir("container");
            let file = folder.path().join("heap.gcdump");
            let mut command = biopsy(&["snapshot", &pid, "--output"]);
            let snapshot = succeed(command.arg(&file));
            assert!(said(&snapshot).contains("Sick.LeakyOrder"), "{version}: {}", said(&snapshot));
            let dump = folder.path().join("dump");
            let mut command = biopsy(&["dump", &pid, "--kind", "stacks", "--for", "20s", "--output"]);
            let dumped = succeed(command.arg(&dump).args(["--on", "exception:FormatException"]));
            assert!(said(&dumped).contains("System.FormatException"), "{version}: {}", said(&dumped));
        }
        survival.assert_unharmed();
    }
}

/// A folder for sockets that is relative, and one that is not there at all.
#[test]
fn odd_folders_for_temporary_files() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("odd");
    for (value, found) in [(".", true), ("/nowhere/at/all", false)] {
        let Some((mut command, _)) = packaged_dotnet_command("9", &["leak=1"]) else { return };
        command.env("TMPDIR", value).current_dir(folder.path());
        let target = TargetProcess::spawn(command);
        // Long enough that a socket which is not there yet is not only late.
        let captured = capture(target.pid(), if found { 1 } else { 12 }, &[]);
        if found {
            assert!(captured.runtime()["label"].as_str().unwrap().starts_with(".NET 9"), "`{value}`");
        } else {
            assert!(captured.warnings().contains("/nowhere/at/all"), "{}", captured.warnings());
        }
        drop(target);
    }
}

/// Both are read from memory; events come from the one that has the socket, and that is said.
#[test]
fn two_runtimes_in_one_process() {
    if !require_all(LIVE) || !require_all(&[Privilege::Cc, Privilege::DotNetTargets]) {
        return;
    }
    let Some(target) = two_dotnet_runtimes() else { return };
    let pid = target.pid().to_string();
    drop(capture(target.pid(), 1, &[]));
    let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
    let captured = capture(target.pid(), 2, &[]);
    let runtime = captured.runtime();
    assert!(runtime["label"].as_str().unwrap().starts_with(".NET 8."), "{runtime:#}");
    assert!(runtime["exceptions_total"].as_u64().unwrap() > 0, "{runtime:#}");
    assert!(captured.warnings().contains("2 .NET runtimes"), "{}", captured.warnings());
    let output = succeed(&mut biopsy(&["stacks", &pid]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(".NET 8.") && text.contains(".NET 10."), "{text}");
    // The same program on both.
    assert!(
        text.matches("Sick.Program.ThrowAndCatch").count() >= 2 || text.contains("2 ×  thrower"),
        "{text}"
    );
    survival.assert_unharmed();
}
