//! Six servers that nobody here wrote the heart of, each under a light load.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use biopsy_testkit::{DotNetServer, MariaDb, TempDir, temp_dir};

use crate::run::Outcome;

/// Between two requests of the load.
const PACE: Duration = Duration::from_millis(2);
const READY_WITHIN: Duration = Duration::from_secs(60);
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A running server. Ends with this value.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    /// What is dumped.
    pub(crate) pid: u32,
    /// What is dumped with all below it.
    pub(crate) tree: u32,
    pub(crate) is_dotnet: bool,
    asks: Box<dyn Fn() -> Outcome + Send>,
    _kept: Vec<Box<dyn Send>>,
}

type Start = fn() -> Outcome<Server>;

pub(crate) const ALL: &[(&str, Start)] = &[
    (".NET 8", || dotnet(".NET 8", "net8.0")),
    (".NET 10", || dotnet(".NET 10", "net10.0")),
    ("MariaDB", mariadb),
    ("redis", redis),
    ("nginx", nginx),
    ("JVM", jvm),
];

impl Server {
    /// Whether it answers.
    pub(crate) fn ask(&self) -> Outcome {
        (self.asks)()
    }

    /// Its processes that are looked at.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut pids = vec![self.pid, self.tree];
        pids.dedup();
        pids
    }
}

const HTTP: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn dotnet(name: &'static str, runtime: &str) -> Outcome<Server> {
    let server = DotNetServer::start(runtime, &[]);
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (pid, port) = (server.pid(), server.port());
    let load = Load::start(port, request);
    Ok(Server {
        name,
        pid,
        tree: pid,
        is_dotnet: true,
        asks: Box::new(move || asked(port, request, "HTTP/1.1 200")),
        _kept: vec![Box::new(load), Box::new(server)],
    })
}

fn mariadb() -> Outcome<Server> {
    let server = Arc::new(MariaDb::start()?);
    let asked = Arc::clone(&server);
    let load = Load::of(move |stopped| {
        while !stopped.load(Ordering::Relaxed) && asked.questions().is_ok() {
            std::thread::sleep(PACE);
        }
    });
    let (pid, asked) = (server.pid(), Arc::clone(&server));
    Ok(Server {
        name: "MariaDB",
        pid,
        tree: pid,
        is_dotnet: false,
        asks: Box::new(move || asked.questions().map(drop)),
        _kept: vec![Box::new(load), Box::new(server)],
    })
}

fn redis() -> Outcome<Server> {
    let (folder, port) = (temp_dir("kills-redis"), free_port()?);
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()]);
    let child = started(command, folder.path())?;
    of_port("redis", child, folder, port, "SET a 1\r\n", "+OK", Ok)
}

fn nginx() -> Outcome<Server> {
    let (folder, port) = (temp_dir("kills-nginx"), free_port()?);
    let at = folder.path().display();
    let settings = format!(
        "daemon off; worker_processes 2; pid {at}/pid; error_log {at}/error.log; events {{ }}\n\
         http {{ access_log off; client_body_temp_path {at}/1; proxy_temp_path {at}/2; fastcgi_temp_path {at}/3;\n\
         uwsgi_temp_path {at}/4; scgi_temp_path {at}/5; keepalive_requests 1000000;\n\
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"ok\"; }} }} }}\n"
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, settings).map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&file);
    let child = started(command, folder.path())?;
    // A worker: it is what answers.
    of_port("nginx", child, folder, port, HTTP, "HTTP/1.1 200", |pid| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let worker = children.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        worker.ok_or_else(|| "nginx has no worker".to_owned())
    })
}

const JAVA: &str = r#"
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
public class Kills {
    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
        server.createContext("/", exchange -> {
            byte[] body = ("ok " + new byte[64 << 10].length).getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }
}
"#;

fn jvm() -> Outcome<Server> {
    let (folder, port) = (temp_dir("kills-java"), free_port()?);
    let source = folder.path().join("Kills.java");
    std::fs::write(&source, JAVA).map_err(|error| format!("cannot write `{}`: {error}", source.display()))?;
    let mut command = Command::new("java");
    command.args(["-Xmx128m", "-XX:-UsePerfData"]).arg(&source).arg(port.to_string());
    let child = started(command, folder.path())?;
    of_port("JVM", child, folder, port, HTTP, "HTTP/1.1 200", Ok)
}

/// A child of this program that ends with it.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // Not SIGKILL: the workers of nginx outlive a master that is killed. It may have ended by itself.
        biopsy_testkit::send_signal(self.0.id(), biopsy_testkit::Signal::TERM);
        let _ = self.0.wait();
    }
}

fn started(command: Command, folder: &Path) -> Outcome<Started> {
    let mut wrapper = Command::new("setpriv");
    wrapper.args(["--pdeathsig", "TERM", "--"]).arg(command.get_program()).args(command.get_args());
    wrapper.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    wrapper.spawn().map(Started).map_err(|error| format!("cannot run {command:?}: {error}"))
}

fn of_port(
    name: &'static str,
    child: Started,
    folder: TempDir,
    port: u16,
    request: &'static str,
    answer: &'static str,
    target: impl Fn(u32) -> Outcome<u32>,
) -> Outcome<Server> {
    let deadline = Instant::now() + READY_WITHIN;
    while let Err(error) = asked(port, request, answer) {
        if Instant::now() > deadline {
            return Err(format!("{name} does not answer: {error}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let tree = child.0.id();
    let pid = target(tree)?;
    let load = Load::start(port, request);
    Ok(Server {
        name,
        pid,
        tree,
        is_dotnet: false,
        asks: Box::new(move || asked(port, request, answer)),
        _kept: vec![Box::new(load), Box::new(child), Box::new(folder)],
    })
}

fn free_port() -> Outcome<u16> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    socket.map(|address| address.port()).map_err(|error| format!("no port is free: {error}"))
}

/// One request on a connection of its own.
fn asked(port: u16, request: &str, answer: &str) -> Outcome {
    let ask = || {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        socket.write_all(request.as_bytes())?;
        let mut bytes = [0; 1024];
        let read = socket.read(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..read]).into_owned())
    };
    let said = ask().map_err(|error: std::io::Error| error.to_string())?;
    if said.starts_with(answer) { Ok(()) } else { Err(format!("it answered {said:?}")) }
}

/// One connection that asks again and again, anew when it breaks.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(port: u16, request: &'static str) -> Self {
        // Whether it answers is for those to say who look after a kill.
        Self::of(move |stopped| drop(ask_on(port, request, stopped)))
    }

    /// Makes requests until it is told to stop; anew when they fail.
    fn of(requests: impl Fn(&AtomicBool) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                requests(&stopped);
                std::thread::sleep(PACE);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

fn ask_on(port: u16, request: &str, stopped: &AtomicBool) -> std::io::Result<()> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut bytes = [0; 4096];
    while !stopped.load(Ordering::Relaxed) {
        socket.write_all(request.as_bytes())?;
        if socket.read(&mut bytes)? == 0 {
            break;
        }
        std::thread::sleep(PACE);
    }
    Ok(())
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and would harm nothing if it did.
            let _ = thread.join();
        }
    }
}
