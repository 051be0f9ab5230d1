//! The diagnostics protocol with real runtimes.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::io::Read;
use std::time::{Duration, Instant};

use biopsy_dotnet_ipc::{
    Client, DiagnosticPort, EventLevel, IpcError, NoSocket, Provider, ReversePort, Rundown, SessionConfig,
    Silence, TimeLimits,
};
use biopsy_model::Pid;
use biopsy_testkit::{
    DOTNET_RUNTIMES, Privilege, Signal, Survival, TargetProcess, at_once, dotnet_command, dotnet_target,
    require, temp_dir,
};

const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

/// A .NET process that idles.
fn idle(runtime: &str) -> TargetProcess {
    dotnet_target(runtime, "holder", &["--objects", "300"])
}

fn pid_of(target: &TargetProcess) -> Pid {
    Pid(target.pid())
}

/// A session of counters: something comes each second.
fn counters() -> SessionConfig {
    SessionConfig {
        buffer_mb: 4,
        rundown: Rundown::None,
        stacks: false,
        providers: vec![
            Provider::new("System.Runtime", u64::MAX, EventLevel::Critical)
                .with_arguments("EventCounterIntervalSec=1"),
        ],
    }
}

/// Threads that a runtime has for sessions, by name.
fn event_threads(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names = tasks.flatten().filter_map(|task| std::fs::read(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(b".NET EventPipe")).count()
}

/// The process as it is when nothing of an earlier conversation is left: the runtime closes its end a moment after we do.
fn at_rest(pid: u32) -> Survival {
    for _ in 0..100 {
        let survival = Survival::before(pid);
        std::thread::sleep(Duration::from_millis(50));
        if survival.differences().is_empty() {
            return survival;
        }
    }
    panic!("process {pid} does not come to rest");
}

/// Waits until something is so.
fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !check() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_version_says_who_it_is_and_streams_until_it_is_told_to_stop() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    at_once(DOTNET_RUNTIMES, |runtime| {
        let target = idle(runtime);
        let client = Client::of(pid_of(&target)).unwrap();
        let info = client.process_info().unwrap();
        let version = runtime.trim_start_matches("net").split('.').next().unwrap().to_owned();
        assert!(info.version.as_deref().unwrap().starts_with(&version), "{runtime}: {info:?}");
        assert_eq!(
            (info.own_pid, info.os.as_str(), info.arch.as_str()),
            (target.pid().into(), "Linux", "x64")
        );
        assert_eq!(info.entry_assembly.as_deref(), Some("holder"));

        // The first session of a process leaves threads and files of its own behind: the second one is compared.
        for round in 0..2 {
            let survival = (round == 1).then(|| at_rest(target.pid()));
            let threads = event_threads(target.pid());
            let mut session = client.start_session(&counters()).unwrap();
            let expected = match runtime {
                "net8.0" => 2,
                "net9.0" => 4,
                _ => 5,
            };
            assert_eq!(session.form(), expected, "{runtime}");
            let control = session.control().unwrap();
            let reader = std::thread::spawn(move || {
                let mut bytes = Vec::new();
                session.read_to_end(&mut bytes).unwrap();
                bytes
            });
            eventually("the session's thread", || event_threads(target.pid()) > threads);
            control.stop(Duration::from_secs(10)).unwrap();
            let bytes = reader.join().unwrap();
            assert!(bytes.starts_with(b"Nettrace\x14\0\0\0!FastSerialization.1"), "{runtime}");
            assert_eq!(bytes.last(), Some(&1), "{runtime}: the end is written too");
            eventually("the end of the session's thread", || event_threads(target.pid()) == threads);
            if let Some(survival) = survival {
                // The runtime closes its end of the session a moment after we do.
                eventually("the process as before", || survival.differences().is_empty());
                survival.assert_unharmed();
            }
        }
        drop(target);
    });
}

#[test]
fn a_session_ends_with_its_socket() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    at_once(DOTNET_RUNTIMES, |runtime| {
        let target = idle(runtime);
        let client = Client::of(pid_of(&target)).unwrap();
        let threads = event_threads(target.pid());
        let mut session = client.start_session(&counters()).unwrap();
        session.read_exact(&mut [0; 32]).unwrap();
        eventually("the session's thread", || event_threads(target.pid()) > threads);
        drop(session);
        eventually("the end of the session", || event_threads(target.pid()) == threads);
    });
}

#[test]
fn one_that_is_stopped_is_diagnosed_and_not_waited_for() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    let target = idle("net8.0");
    let limits = TimeLimits { answer: Duration::from_millis(300), ..TimeLimits::default() };
    let client = Client::of(pid_of(&target)).unwrap().with_limits(limits);
    target.signal(Signal::STOP);
    eventually("the stop", || {
        std::fs::read_to_string(format!("/proc/{}/stat", target.pid()))
            .is_ok_and(|stat| stat.contains(") T "))
    });
    let asked = client.process_info();
    target.signal(Signal::CONT);
    let error = asked.unwrap_err();
    assert!(matches!(&error, IpcError::Silent { why: Silence::Stopped, .. }), "{error}: {error:?}");
    assert!(error.hint().unwrap().contains("CONT"));
    client.with_limits(TimeLimits::default()).process_info().unwrap();
}

#[test]
fn no_port_is_explained() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    // Not .NET at all.
    let error = DiagnosticPort::find(Pid(std::process::id())).unwrap_err();
    assert!(matches!(error, IpcError::NoSocket { why: NoSocket::NoRuntime, .. }), "{error}");
    let error = DiagnosticPort::find(Pid(u32::MAX)).unwrap_err();
    assert!(matches!(error, IpcError::Ended { .. }), "{error}");
    // Switched off.
    let mut command = dotnet_command("net8.0", "holder", &["--objects", "300"]).unwrap();
    command.env("DOTNET_EnableDiagnostics", "0");
    let target = TargetProcess::spawn(command);
    let error = DiagnosticPort::find(pid_of(&target)).unwrap_err();
    assert!(error.to_string().contains("DOTNET_EnableDiagnostics=0"), "{error}");
    drop(target);
    // A folder that is too long for a socket's name.
    let folder = temp_dir("ipc");
    let long = folder.path().join("x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    let mut command = dotnet_command("net9.0", "holder", &["--objects", "300"]).unwrap();
    command.env("TMPDIR", &long);
    let target = TargetProcess::spawn(command);
    let error = DiagnosticPort::find(pid_of(&target)).unwrap_err();
    assert!(matches!(error, IpcError::NoSocket { why: NoSocket::FolderTooLong { .. }, .. }), "{error}");
}

#[test]
fn the_folder_is_the_one_that_the_process_sees() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    let folder = temp_dir("ipc");
    // Spaces, and as long as a runtime can have it: longer than what fits beside `/proc/PID/root`.
    let room = 107 - "/dotnet-diagnostic-1234567-1234567890-socket".len() - folder.path().as_os_str().len();
    let odd = folder.path().join(format!("a b{}", "y".repeat(room.saturating_sub(4))));
    std::fs::create_dir(&odd).unwrap();
    let mut command = dotnet_command("net10.0", "holder", &["--objects", "300"]).unwrap();
    command.env("TMPDIR", &odd);
    let target = TargetProcess::spawn(command);
    // Sockets of other starts of the same pid lie beside it.
    let stale = odd.join(format!("dotnet-diagnostic-{}-17-socket", target.pid()));
    drop(std::os::unix::net::UnixListener::bind(&stale));
    let client = Client::of(pid_of(&target)).unwrap();
    assert_eq!(client.port().path().parent(), Some(odd.as_path()));
    client.process_info().unwrap();
    // Without its own, the one that is left belongs to an earlier process.
    std::fs::rename(client.port().path(), folder.path().join("away")).unwrap();
    match DiagnosticPort::find(pid_of(&target)) {
        Err(IpcError::NoSocket { why: NoSocket::Stale { .. } | NoSocket::Starting, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn somebody_else_at_the_socket_is_refused() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    let folder = temp_dir("ipc");
    let mut command = dotnet_command("net8.0", "holder", &["--objects", "300"]).unwrap();
    command.env("TMPDIR", folder.path());
    let target = TargetProcess::spawn(command);
    let client = Client::of(pid_of(&target)).unwrap();
    let path = client.port().path().to_owned();
    std::fs::remove_file(&path).unwrap();
    let _impostor = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = client.process_info().unwrap_err();
    let IpcError::WrongOwner { found_pid, .. } = &error else { panic!("{error}: {error:?}") };
    assert_eq!(*found_pid, std::process::id());
}

#[test]
fn a_starting_runtime_waits_until_it_is_let_go() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    at_once(DOTNET_RUNTIMES, |runtime| {
        let folder = temp_dir("ipc");
        let port = ReversePort::listen(folder.path(), |_| ()).unwrap();
        let mut command = dotnet_command(runtime, "holder", &["--objects", "300"]).unwrap();
        command.env("DOTNET_DiagnosticPorts", port.variable(true));
        let started = std::thread::spawn(move || TargetProcess::spawn(command));
        let arrival = port.next(Duration::from_secs(60)).expect("the runtime connects");
        let client = Client::of(arrival.pid).unwrap();
        assert_eq!(client.process_info().unwrap().cookie, arrival.cookie);
        client.set_variable("DOTNET_DiagnosticPorts", &port.variable(false)).unwrap();
        // Loads of assemblies: the first ones are those of the runtime itself.
        let mut session = client
            .start_session(&SessionConfig {
                buffer_mb: 16,
                rundown: Rundown::None,
                stacks: false,
                providers: vec![Provider::new(RUNTIME, 0x8, EventLevel::Informational)],
            })
            .unwrap();
        assert!(!started.is_finished(), "{runtime}: it waits");
        let pid = arrival.pid;
        arrival.resume(Duration::from_secs(10)).unwrap();
        let target = started.join().unwrap();
        assert_eq!(target.pid(), pid.0);
        let control = session.control().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            session.read_to_end(&mut bytes).unwrap();
            bytes
        });
        control.stop(Duration::from_secs(10)).unwrap();
        let bytes = reader.join().unwrap();
        let wide: Vec<u8> = "System.Private.CoreLib".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(bytes.windows(wide.len()).any(|window| window == wide), "{runtime}: from the beginning");
    });
}
