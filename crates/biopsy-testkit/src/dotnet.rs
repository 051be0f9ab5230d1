//! .NET programs of known sickness and known truth, and the reference tools that say the same by other means.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::program::dotnet_targets;
use crate::skip::{REQUIRE_DOTNET, REQUIRE_LIVE, demand};
use crate::{TargetProcess, dotnet_run};

/// The runtimes the prebuilt targets are made for.
pub const DOTNET_RUNTIMES: [&str; 3] = ["net8.0", "net9.0", "net10.0"];

/// How long the server may take to answer a request that does not wait for anything.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A command that becomes one of the prebuilt targets; `None` where they are absent (see
/// [`crate::Privilege::DotNetTargets`]).
#[must_use]
pub fn dotnet_command(runtime: &str, target: &str, arguments: &[&str]) -> Option<Command> {
    let mut command = Command::new(dotnet_run()?);
    command.arg(runtime).arg(target).args(arguments);
    Some(command)
}

/// Starts one of the prebuilt targets (`holder`, `tentacle`, `variant`, `server`) and waits for its `READY`.
///
/// # Panics
///
/// Where the targets are absent or it does not get ready.
#[must_use]
pub fn dotnet_target(runtime: &str, target: &str, arguments: &[&str]) -> TargetProcess {
    let command = dotnet_command(runtime, target, arguments).expect("the .NET targets are there");
    TargetProcess::spawn(command)
}

/// Starts the program `Held` (`fixtures/dotnet/Held.cs`: threads that hold locks and stand still in every way that a reader of
/// stacks has to tell) on one of [`DOTNET_RUNTIMES`].
///
/// # Panics
///
/// Where the targets, whose runtimes it uses, are absent or it does not get ready.
#[must_use]
pub fn dotnet_held(runtime: &str, arguments: &[&str]) -> TargetProcess {
    fixture(runtime, "Held.dll", arguments)
}

/// Starts the program `Heaps` (`fixtures/dotnet/Heaps.cs`), whose heap keeps too much in one way, or not, on one of [`DOTNET_RUNTIMES`].
///
/// # Panics
///
/// As [`dotnet_held`].
#[must_use]
pub fn dotnet_heaps(runtime: &str, arguments: &[&str]) -> TargetProcess {
    fixture(runtime, "Heaps.dll", arguments)
}

/// Starts the program `Allocates` (`fixtures/dotnet/Allocates.cs`), which allocates as many bytes of each of some types, on one of
/// [`DOTNET_RUNTIMES`].
///
/// # Panics
///
/// As [`dotnet_held`].
#[must_use]
pub fn dotnet_allocates(runtime: &str, arguments: &[&str]) -> TargetProcess {
    fixture(runtime, "Allocates.dll", arguments)
}

/// A program of `fixtures/dotnet` on a runtime of the targets.
fn fixture(runtime: &str, file: &str, arguments: &[&str]) -> TargetProcess {
    let targets = dotnet_targets().expect("the .NET targets are there");
    let root = std::env::var_os("BIOPSY_DOTNET").map_or_else(
        || {
            let output = Command::new(targets.join("unpack")).output().expect("the targets can be unpacked");
            PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
        },
        PathBuf::from,
    );
    let settings = targets.join(format!("bin/{runtime}/holder/holder.runtimeconfig.json"));
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dotnet").join(file);
    let mut command = Command::new(root.join("dotnet"));
    command.env("DOTNET_ROOT", &root).arg("exec").arg("--runtimeconfig").arg(settings).arg(program);
    command.args(arguments);
    TargetProcess::spawn(command)
}

/// The ASP.NET Core server with its sick modes. Ends with this value.
#[derive(Debug)]
pub struct DotNetServer {
    target: TargetProcess,
    port: u16,
}

impl DotNetServer {
    /// Starts it on free ports.
    ///
    /// # Panics
    ///
    /// As [`dotnet_target`].
    #[must_use]
    pub fn start(runtime: &str, arguments: &[&str]) -> Self {
        Self::of(dotnet_target(runtime, "server", arguments))
    }

    /// Starts it with the server garbage collector, as servers with memory of their own run.
    ///
    /// # Panics
    ///
    /// As [`dotnet_target`].
    #[must_use]
    pub fn with_server_collector(runtime: &str) -> Self {
        let mut command = dotnet_command(runtime, "server", &[]).expect("the .NET targets are there");
        command.env("DOTNET_gcServer", "1");
        Self::of(TargetProcess::spawn(command))
    }

    fn of(target: TargetProcess) -> Self {
        let port = target.ready_line().split_ascii_whitespace().nth(2).and_then(|word| word.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port in `{}`", target.ready_line()));
        Self { target, port }
    }

    /// Starts it ill.
    ///
    /// # Panics
    ///
    /// As [`dotnet_target`].
    #[must_use]
    pub fn sick(runtime: &str, mode: &str) -> Self {
        Self::start(runtime, &["--sick", mode])
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.target.pid()
    }

    /// Its port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process.
    #[must_use]
    pub fn target(&self) -> &TargetProcess {
        &self.target
    }

    /// Switches a sick mode on.
    ///
    /// # Panics
    ///
    /// Where the server does not answer with success.
    pub fn fall_ill(&self, mode: &str) {
        let (status, body) = self.request("POST", &format!("/sick/{mode}")).expect("the server answers");
        assert!((200..300).contains(&status), "POST /sick/{mode}: {status} {body}");
    }

    /// Switches a sick mode off.
    ///
    /// # Panics
    ///
    /// Where the server does not answer with success.
    pub fn recover(&self, mode: &str) {
        let (status, body) = self.request("DELETE", &format!("/sick/{mode}")).expect("the server answers");
        assert!((200..300).contains(&status), "DELETE /sick/{mode}: {status} {body}");
    }

    /// `GET`: status and body.
    ///
    /// # Errors
    ///
    /// What the socket said; a server that does not answer within 30 seconds is a time-out.
    pub fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        self.request("GET", path)
    }

    /// A request without a body: status and body of the answer.
    ///
    /// # Errors
    ///
    /// As [`DotNetServer::get`].
    pub fn request(&self, method: &str, path: &str) -> std::io::Result<(u16, String)> {
        let mut socket = self.send(method, path)?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        let mut answer = Vec::new();
        // A server that closes at once may reset the connection behind its answer.
        match socket.read_to_end(&mut answer) {
            Err(error) if answer.is_empty() => return Err(error),
            _ => {}
        }
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok((status, body.to_owned()))
    }

    /// Sends a request and does not wait for the answer, which may never come: keep the socket.
    ///
    /// # Errors
    ///
    /// What the socket said.
    pub fn send(&self, method: &str, path: &str) -> std::io::Result<TcpStream> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        write!(
            socket,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )?;
        Ok(socket)
    }

    /// Puts it under load: `threads` connections asking for `path` for `seconds`. What it prints at its end is JSON with
    /// requests per second and latencies.
    ///
    /// # Panics
    ///
    /// Where the load generator cannot be started.
    #[must_use]
    pub fn load(&self, runtime: &str, path: &str, threads: u32, seconds: u32) -> DotNetLoad {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let (threads, seconds) = (threads.to_string(), seconds.to_string());
        let arguments = ["load", "--url", &url, "--threads", &threads, "--seconds", &seconds];
        let mut command = dotnet_command(runtime, "server", &arguments).expect("the .NET targets are there");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        DotNetLoad { child: Some(command.spawn().expect("the load generator starts")) }
    }

    /// Ends it as a service manager would.
    ///
    /// # Panics
    ///
    /// Where it does not end, or with another code than 0.
    pub fn stop(mut self) {
        self.target.signal(crate::Signal::TERM);
        self.target.stop();
    }
}

/// A running load generator. Dropping it kills it.
#[derive(Debug)]
pub struct DotNetLoad {
    child: Option<Child>,
}

impl DotNetLoad {
    /// Waits for its end and returns its JSON.
    ///
    /// # Panics
    ///
    /// Where it failed.
    #[must_use]
    pub fn finish(mut self) -> String {
        let child = self.child.take().expect("it is finished once");
        let output = child.wait_with_output().expect("the load generator can be waited for");
        assert!(output.status.success(), "the load generator ended with {:?}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for DotNetLoad {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs one of the reference tools (`clrmd-truth`, `nettrace-check`, `gcdump-check`, `dotnet-trace` ...); `None` where they are absent,
/// which is printed.
///
/// # Panics
///
/// Where they are absent and `BIOPSY_REQUIRE_DOTNET=1`.
#[must_use]
pub fn dotnet_peer(tool: &str, arguments: &[&str]) -> Option<Output> {
    Some(dotnet_peer_command(tool, arguments)?.output().expect("the reference tool starts"))
}

/// The command of [`dotnet_peer`], for those that run beside something.
///
/// # Panics
///
/// As [`dotnet_peer`].
#[must_use]
pub fn dotnet_peer_command(tool: &str, arguments: &[&str]) -> Option<Command> {
    let run = dotnet_targets().and_then(|targets| Some(targets.parent()?.join("peers/run")));
    let run = demand(REQUIRE_DOTNET, &format!("the reference tool {tool}"), run.filter(|run| run.exists()))?;
    let mut command = Command::new(run);
    command.arg(tool).args(arguments);
    Some(command)
}

/// The program `Odd` (`fixtures/dotnet/Odd.cs`, see there for the arguments) on one of [`DOTNET_RUNTIMES`]; `None` where they are
/// absent.
#[must_use]
pub fn dotnet_odd(runtime: &str, arguments: &[&str]) -> Option<Command> {
    let of_holder = dotnet_targets()?.join(format!("bin/{runtime}/holder/holder.runtimeconfig.json"));
    let root = demanded_dotnet_root()?;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?.join("fixtures/dotnet/Odd.dll");
    let mut command = Command::new(root.join("dotnet"));
    command
        .env("DOTNET_ROOT", root)
        .args(["exec", "--runtimeconfig"])
        .arg(of_holder)
        .arg(program)
        .args(arguments);
    Some(command)
}

/// Programs that bring their runtime along, in folders of their own; the target `variant` in each.
pub const PUBLISHED_DOTNET: [&str; 4] =
    ["net10.0/single-file", "net10.0/trimmed", "net8.0/single-file-trimmed", "net8.0/trimmed"];

/// One of [`PUBLISHED_DOTNET`]; `None` where it is absent, which is printed.
///
/// # Panics
///
/// Where it is absent and `BIOPSY_REQUIRE_DOTNET=1`.
#[must_use]
pub fn published_dotnet(folder: &str, arguments: &[&str]) -> Option<Command> {
    let program = dotnet_root().map(|root| root.join("variants").join(folder).join("variant"));
    let program = demand(REQUIRE_DOTNET, folder, program.filter(|program| program.exists()))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

/// Versions of .NET that `fixtures/dotnet/make-targets` puts the program `Sick` on, made from public packages: 3.1.23, 9.0.7 (all
/// files beside the program) and 10.0.9 (trimmed, one file).
pub const PACKAGED_DOTNET: [&str; 3] = ["3.1", "9", "10"];

/// The program `Sick` on one of [`PACKAGED_DOTNET`]; `None` where it was not made.
#[must_use]
pub fn packaged_dotnet(version: &str) -> Option<PathBuf> {
    let program = packaged_dotnet_folder().join(format!("net{version}/sick"));
    program.exists().then_some(program)
}

/// [`packaged_dotnet`], for a test that cannot do without.
fn demanded_packaged_dotnet(version: &str) -> Option<PathBuf> {
    demand(REQUIRE_LIVE, &format!("the program Sick on .NET {version}"), packaged_dotnet(version))
}

/// Starts the program `Sick` (see its source for the arguments) on one of [`PACKAGED_DOTNET`], at a free port, and returns it
/// with the port; `None` where it was not made, which is printed.
///
/// # Panics
///
/// Where it does not get ready, or was not made and `BIOPSY_REQUIRE_LIVE=1`.
#[must_use]
pub fn packaged_dotnet_target(version: &str, arguments: &[&str]) -> Option<(TargetProcess, u16)> {
    let (command, port) = packaged_dotnet_command(version, arguments)?;
    Some((TargetProcess::spawn(command), port))
}

/// The command of [`packaged_dotnet_target`], for those who start it in some other place.
///
/// # Panics
///
/// Where there is no free port, or it was not made and `BIOPSY_REQUIRE_LIVE=1`.
#[must_use]
pub fn packaged_dotnet_command(version: &str, arguments: &[&str]) -> Option<(Command, u16)> {
    let mut command = Command::new(demanded_packaged_dotnet(version)?);
    let port = free_port();
    command.arg(format!("port={port}")).args(arguments);
    Some((command, port))
}

/// HttpListener takes no port 0; nobody else is given this one soon after it was free.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// The program `Sick` as in a container: pid and mount namespaces of its own, its files where nobody else sees them, an own
/// empty `/tmp`, the user 65534. Needs root; `None` where it was not made.
///
/// # Panics
///
/// Where it does not get ready.
#[must_use]
pub fn packaged_dotnet_in_container(version: &str, arguments: &[&str]) -> Option<TargetProcess> {
    let folder = demanded_packaged_dotnet(version)?.parent()?.to_path_buf();
    let script = "mount --bind \"$0\" /mnt && mount -t tmpfs -o mode=1777 tmpfs /tmp && cd / && \
        exec setpriv --reuid=65534 --regid=65534 --clear-groups -- /mnt/sick \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(folder).arg(format!("port={}", free_port())).args(arguments);
    shell.env_remove("TMPDIR");
    Some(TargetProcess::spawn(crate::in_namespaces(crate::Namespaces::PidAndMount, &shell)))
}

/// Starts the program `Many` (see its source), which has `methods` methods and some with odd names, on "3.1" or one of
/// [`DOTNET_RUNTIMES`]. It ends when its standard input is closed. The folder is that of its files. `None`: that runtime is not
/// there.
///
/// # Panics
///
/// Where it does not get ready.
#[must_use]
pub fn dotnet_with_many_methods(runtime: &str, methods: u32) -> Option<(TargetProcess, crate::TempDir)> {
    let (root, framework) = match runtime {
        "3.1" => {
            (demanded_packaged_dotnet("3.1")?.with_file_name("runtime/dotnetcore2/bin"), "3.1.0".to_owned())
        }
        newer => (demanded_dotnet_root()?, format!("{}.0", newer.trim_start_matches("net"))),
    };
    let folder = crate::temp_dir("many");
    let program = folder.path().join("many.dll");
    let compiled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dotnet/Many.dll");
    std::fs::copy(compiled, &program).expect("the program can be copied");
    let settings = format!(
        r#"{{"runtimeOptions":{{"framework":{{"name":"Microsoft.NETCore.App","version":"{framework}"}}}}}}"#
    );
    std::fs::write(program.with_extension("runtimeconfig.json"), settings)
        .expect("its settings can be written");
    let mut command = Command::new(root.join("dotnet"));
    command.arg(&program).arg(format!("methods={methods}"));
    command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
    Some((TargetProcess::spawn(command), folder))
}

/// One process with the runtimes of .NET 8 and of .NET 10, each of which runs the program `Sick`. Of the two, only the first has a
/// diagnostics socket. `None`: the runtimes are not there.
///
/// # Panics
///
/// Where it does not get ready.
#[must_use]
pub fn two_dotnet_runtimes() -> Option<TargetProcess> {
    let frameworks = demanded_dotnet_root()?.join("shared/Microsoft.NETCore.App");
    let of = |version: &str| -> Option<PathBuf> {
        let mut entries = std::fs::read_dir(&frameworks).ok()?.flatten();
        Some(entries.find(|entry| entry.file_name().to_string_lossy().starts_with(version))?.path())
    };
    let mut command = Command::new(crate::compile_c("two-runtimes", TWO_RUNTIMES, &["-ldl"]));
    command.arg(of("8.")?).arg(of("10.")?);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dotnet/Sick.dll"));
    let target = TargetProcess::spawn(command);
    // Each says so.
    let second = target.line_starting_with("READY", Duration::from_secs(60));
    assert!(second.is_some_and(|line| line.contains(" 10.")), "the second runtime runs, too");
    Some(target)
}

const TWO_RUNTIMES: &str = include_str!("../programs/two-runtimes.c");

/// [`dotnet_root`], for a test that cannot do without.
fn demanded_dotnet_root() -> Option<PathBuf> {
    demand(REQUIRE_DOTNET, "the runtimes of the .NET targets", dotnet_root())
}

/// The folder with `dotnet` that the prebuilt targets run on; `None` where they are absent.
#[must_use]
pub fn dotnet_root() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("BIOPSY_DOTNET") {
        return Some(PathBuf::from(folder));
    }
    let output = Command::new(dotnet_targets()?.join("unpack")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let folder = Path::new(text.trim());
    folder.join("dotnet").exists().then(|| folder.to_path_buf())
}

/// Where `./x test` lets them be made: `BIOPSY_DOTNET_PACKAGES`, or in the build folder.
pub(crate) fn packaged_dotnet_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("BIOPSY_DOTNET_PACKAGES") {
        return PathBuf::from(folder);
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/testkit-dotnet")
}
