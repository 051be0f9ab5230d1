//! A private MariaDB server under sysbench: a real server, without frame pointers, that switches threads a lot.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{send_signal, temp_dir};

const SERVER: &str = "/usr/sbin/mariadbd";
const READY_WITHIN: Duration = Duration::from_secs(120);
const STOP_WITHIN: Duration = Duration::from_secs(60);

/// A server of its own: own data in a temporary folder, reachable by a socket in there, nothing of a system service is
/// used or touched. Ends with its guard, and with the process that started it.
#[derive(Debug)]
pub struct MariaDb {
    child: Child,
    folder: TempDir,
}

impl MariaDb {
    /// Starts a server with an empty database `sbtest`.
    ///
    /// # Errors
    ///
    /// What went wrong, with the end of the server's log.
    pub fn start() -> Result<Self, String> {
        let folder = temp_dir("mariadb");
        let data = folder.path().join("data");
        let log = folder.path().join("server.log");
        let log_file =
            File::create(&log).map_err(|error| format!("cannot make `{}`: {error}", log.display()))?;
        let mut install = Command::new("mariadb-install-db");
        install.arg("--no-defaults").arg(option("--datadir", &data));
        install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
        run_quietly(as_own_user(&mut install))?;

        // `setpriv --pdeathsig` becomes the server and makes the kernel end it when its starter dies.
        let mut server = Command::new("setpriv");
        server.args(["--pdeathsig", "KILL", "--", SERVER, "--no-defaults", "--skip-networking"]);
        server.arg(option("--datadir", &data)).arg(option("--socket", &folder.path().join("socket")));
        server.arg(option("--pid-file", &folder.path().join("pid"))).arg("--innodb-buffer-pool-size=128M");
        // Ctrl-C on the terminal is for the recorder.
        as_own_user(&mut server).process_group(0);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
        let child = server.spawn().map_err(|error| format!("cannot run {server:?}: {error}"))?;
        let mut started = Self { child, folder };
        started.wait_until_ready().map_err(|error| format!("{error}; its log ends: {}", end_of(&log)))?;
        started.query("CREATE DATABASE sbtest")?;
        Ok(started)
    }

    /// Pid of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Statements answered since the start, by the server's own count.
    ///
    /// # Errors
    ///
    /// What the client said.
    pub fn questions(&self) -> Result<u64, String> {
        let text = self.query("SHOW GLOBAL STATUS LIKE 'Questions'")?;
        text.split_ascii_whitespace()
            .nth(1)
            .and_then(|count| count.parse().ok())
            .ok_or_else(|| format!("the server answered {text:?}"))
    }

    /// Fills the table that sysbench works on.
    ///
    /// # Errors
    ///
    /// What sysbench said.
    pub fn prepare_load(&self) -> Result<(), String> {
        run_quietly(self.sysbench().arg("prepare"))
    }

    /// Starts `sysbench oltp_read_write` with 8 threads for at most `seconds`.
    ///
    /// # Errors
    ///
    /// Where it cannot be started.
    pub fn load(&self, seconds: u64) -> Result<Sysbench, String> {
        let mut wrapper = Command::new("setpriv");
        wrapper.args(["--pdeathsig", "KILL", "--"]);
        let sysbench = self.sysbench();
        wrapper.arg(sysbench.get_program()).args(sysbench.get_args());
        wrapper.args(["--threads=8", "--report-interval=1", "--percentile=99"]);
        wrapper.arg(format!("--time={seconds}")).arg("run");
        wrapper.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = wrapper.spawn().map_err(|error| format!("cannot run {wrapper:?}: {error}"))?;
        let stdout = child.stdout.take().ok_or("stdout is a pipe")?;
        let started = Instant::now();
        let intervals = std::thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .filter_map(|line| Some((Instant::now(), latency_p99(&line)?)))
                .collect()
        });
        Ok(Sysbench { child, started, intervals: Some(intervals) })
    }

    fn sysbench(&self) -> Command {
        let mut command = Command::new("sysbench");
        command.arg("oltp_read_write").arg(option("--mysql-socket", &self.folder.path().join("socket")));
        command.args(["--mysql-user=root", "--mysql-db=sbtest", "--tables=1", "--table-size=20000"]);
        command
    }

    fn query(&self, statement: &str) -> Result<String, String> {
        let mut client = Command::new("mariadb");
        client.arg("--no-defaults").arg(option("--socket", &self.folder.path().join("socket")));
        client.args(["--user=root", "--batch", "--skip-column-names", "--execute", statement]);
        let output = client.output().map_err(|error| format!("cannot run {client:?}: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended with {status}"));
            }
            match self.query("SELECT 1") {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// The load generator. Dropping it ends it.
#[derive(Debug)]
pub struct Sysbench {
    child: Child,
    started: Instant,
    intervals: Option<std::thread::JoinHandle<Vec<(Instant, f64)>>>,
}

impl Sysbench {
    /// When it was started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Ends it; for each second the time of its report and the 99th percentile of the latency in milliseconds.
    #[must_use]
    pub fn stop(mut self) -> Vec<(Instant, f64)> {
        end(&mut self.child);
        self.intervals.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sysbench {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// `[ 3s ] thds: 8 tps: 1024.9 qps: ... lat (ms,99%): 16.41 err/s: ...`
fn latency_p99(line: &str) -> Option<f64> {
    line.split_once("lat (ms,99%): ")?.1.split_ascii_whitespace().next()?.parse().ok()
}

/// MariaDB refuses to run as root unless it is told to.
fn as_own_user(command: &mut Command) -> &mut Command {
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    command
}

fn option(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}

fn run_quietly(command: &mut Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().to_string_lossy()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{command:?} ended with {}: {}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn end_of(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(2000)..]).into_owned()
}

/// Asks a child to end, waits, and kills it if it does not.
fn end(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    send_signal(child.id(), Signal::TERM);
    let deadline = Instant::now() + STOP_WITHIN;
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}
