//! Detection in made-up processes.

use biopsy_model::process::RuntimeKind;

use super::evidence::leading_version;
use super::*;
use crate::fake_proc::FakeProc;

#[track_caller]
fn check(proc: &FakeProc, pid: u32, kind: RuntimeKind, version: Option<&str>, entry: Option<&str>) {
    let runtime = detect_seen(&proc.seen(pid));
    assert_eq!((runtime.kind, runtime.version.as_deref(), runtime.entry.as_deref()), (kind, version, entry));
}

#[test]
fn dotnet() {
    let proc = FakeProc::new();
    proc.process(10, "dotnet")
        .command("dotnet /opt/server.dll")
        .maps("/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.31/libcoreclr.so")
        .write();
    check(&proc, 10, RuntimeKind::DotNet, Some("8.0.31"), Some("server.dll"));
    // Self-contained: the runtime lies beside the application. The link of a fake process is its path outside.
    let exe = proc.path().join("roots/11/opt/app/App");
    let config =
        br#"{"runtimeOptions":{"includedFrameworks":[{"name":"Microsoft.NETCore.App","version":"9.0.20"}]}}"#;
    proc.process(11, "App")
        .exe("/opt/app/App", b"")
        .maps("/opt/app/libcoreclr.so")
        .file(&format!("{}.runtimeconfig.json", exe.display()), config)
        .write();
    check(&proc, 11, RuntimeKind::DotNet, Some("9.0.20"), Some("App.dll"));
}

#[test]
fn jvm() {
    let proc = FakeProc::new();
    proc.process(10, "java")
        .command("java -jar /srv/app.jar")
        .maps("/opt/jdk/lib/server/libjvm.so")
        .file("/opt/jdk/release", b"JAVA_VERSION=\"21.0.2\"\n")
        .write();
    check(&proc, 10, RuntimeKind::Jvm, Some("21.0.2"), Some("app.jar"));
    // No `release` file: the version stays unknown.
    proc.process(11, "launcher").command("launcher Main").maps("/x/lib/server/libjvm.so").write();
    check(&proc, 11, RuntimeKind::Jvm, None, Some("Main"));
}

#[test]
fn go_and_native() {
    let proc = FakeProc::new();
    let mut info = b"\xff Go buildinf:\x08\x02".to_vec();
    info.resize(32, 0);
    info.extend_from_slice(b"\x08go1.22.1");
    let program = crate::process::elf::tests::with_section(".go.buildinfo", &info);
    proc.process(10, "caddy").exe("/usr/bin/caddy", &program).write();
    check(&proc, 10, RuntimeKind::Go, Some("1.22.1"), None);
    proc.process(11, "nginx").write();
    check(&proc, 11, RuntimeKind::Native, None, None);
}

#[test]
fn scripted() {
    let proc = FakeProc::new();
    proc.process(10, "python3.11").command("python3 /srv/app.py").write();
    check(&proc, 10, RuntimeKind::Python, Some("3.11"), Some("app.py"));
    proc.process(11, "uwsgi").command("uwsgi --x").maps("/usr/lib/libpython3.9.so.1.0").write();
    check(&proc, 11, RuntimeKind::Python, Some("3.9"), None);
    let text = b"x https://nodejs.org/download/release/v20.20.2/node-v20.20.2-headers.tar.gz";
    let program = crate::process::elf::tests::with_section(".rodata", text);
    proc.process(12, "node").exe("/usr/bin/node", &program).command("node /srv/a.js").write();
    check(&proc, 12, RuntimeKind::Node, Some("20.20.2"), Some("a.js"));
    proc.process(13, "perl").command("perl /srv/a.pl").write();
    check(&proc, 13, RuntimeKind::OtherInterpreter, None, Some("a.pl"));
}

#[test]
fn nothing_is_told_of_zombies_and_strangers() {
    let proc = FakeProc::new();
    proc.process(10, "app").state('Z', 1).write();
    check(&proc, 10, RuntimeKind::Unknown, None, None);
    proc.process(11, "app").write();
    std::fs::remove_file(proc.path().join("proc/11/maps")).unwrap();
    check(&proc, 11, RuntimeKind::Unknown, None, None);
    // Names agree: believed.
    proc.process(12, "java").command("/usr/bin/java Main").write();
    std::fs::remove_file(proc.path().join("proc/12/maps")).unwrap();
    check(&proc, 12, RuntimeKind::Jvm, None, Some("Main"));
}

#[test]
fn versions() {
    assert_eq!(leading_version("8.0.31/libcoreclr.so").as_deref(), Some("8.0.31"));
    assert_eq!(leading_version("10.0.0-rc.1.25451.107/x").as_deref(), Some("10.0.0-rc.1.25451.107"));
    assert_eq!(leading_version("3.11").as_deref(), Some("3.11"));
    assert_eq!(leading_version("3.11.so").as_deref(), Some("3.11"));
    assert_eq!(leading_version("3"), None);
    assert_eq!(leading_version("..1"), None);
    assert_eq!(leading_version(""), None);
}

#[test]
fn we_are_native() {
    assert_eq!(detect(Pid(std::process::id())).kind, RuntimeKind::Native);
    assert_eq!(detect(Pid(u32::MAX >> 1)).kind, RuntimeKind::Unknown);
}
