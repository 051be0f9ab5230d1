//! A lab of its own on loopback, and sealed files to send to it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use biopsy_deliver::state::{State, digest};
use biopsy_deliver::{Link, Progress, Sender, Signer};
use biopsy_seal::seal_file;

use crate::run::{Outcome, output_of};

/// A lab that is ended with its value.
pub(super) struct LabProcess {
    program: PathBuf,
    data: PathBuf,
    port: u16,
    hook: Option<u16>,
    workers: &'static str,
    child: Option<Child>,
}

impl LabProcess {
    /// In a folder below this one, at a port that is free.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        hook: Option<u16>,
        workers: &'static str,
    ) -> Outcome<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .map_err(|error| format!("no port is free: {error}"))?
            .port();
        let (program, data) = (program.to_owned(), folder.join("lab"));
        let mut lab = Self { program, data, port, hook, workers, child: None };
        lab.start_again()?;
        Ok(lab)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--data").arg(&self.data).stdin(Stdio::null());
        command
    }

    /// At the same port, with the same folder; waits until it listens.
    pub(super) fn start_again(&mut self) -> Outcome {
        let mut command = self.command();
        command.args(["serve", "--workers", self.workers, "--listen", &format!("127.0.0.1:{}", self.port)]);
        if let Some(hook) = self.hook {
            command.args(["--webhook-private", "--webhook", &format!("http://127.0.0.1:{hook}/")]);
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| format!("cannot run biopsy-lab: {error}"))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            let _ = BufReader::new(output).read_line(&mut line);
        }
        self.child = Some(child);
        match line.contains("listening") {
            true => Ok(()),
            false => Err(format!("the lab says `{}` instead of where it listens", line.trim())),
        }
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// A request for a file.
    pub(super) fn ask(&self, case: &str) -> Outcome<Link> {
        let address = format!("http://127.0.0.1:{}", self.port);
        let mut command = self.command();
        command.args(["request", "new", "--case", case, "--recipe", "file", "--address", &address]);
        let said = output_of(&mut command)?;
        let line = said.lines().next().unwrap_or_default();
        line.parse().map_err(|error| format!("the lab's link is none: {error}"))
    }

    /// Sizes of all that is kept.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.data.join("objects"));
        entries.map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
    }
}

impl Drop for LabProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A file that is sealed to a link's readers, and what `biopsy send` goes on from.
pub(super) struct Parcel {
    pub(super) path: PathBuf,
    pub(super) state: State,
}

impl Parcel {
    /// Seals so many megabytes of noise.
    pub(super) fn of_noise(link: &Link, megabytes: u64, path: PathBuf) -> Outcome<Self> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot seal `{}`: {error}", path.display());
        let sender = Sender::new(link, Signer::generate());
        let request = sender.request(&mut |_: &Progress| true).map_err(|error| failed(&error))?;
        let recipients = request.recipients().map_err(|error| failed(&error))?;
        let mut noise = File::open("/dev/urandom").map_err(|error| failed(&error))?.take(megabytes << 20);
        let sealed = seal_file(&mut noise, &path, &recipients).map_err(|error| failed(&error))?;
        let mut state = State::new(link, sender.signer(), sealed.bytes, sealed.sha256, Vec::new());
        state.know(&sealed.beginnings);
        Ok(Self { path, state })
    }

    /// The key that sends it.
    pub(super) fn signer(&self) -> Outcome<Signer> {
        self.state.signer().map_err(|error| error.to_string())
    }

    /// `biopsy send` that goes on with it.
    pub(super) fn sending(&self, biopsy: &Path, link: &Link) -> Outcome<Command> {
        self.state.save(&self.path).map_err(|error| format!("`{}`: {error}", self.path.display()))?;
        let mut command = Command::new(biopsy);
        command.args(["send", "unused", "--quiet", "--yes", "--to", &*link.to_text(), "--output"]);
        command.arg(&self.path).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    }

    /// Whether a file has the bytes that were sent.
    pub(super) fn is_same(&self, file: &Path) -> bool {
        let read = File::open(file).and_then(|mut file| digest(&mut file));
        let hexadecimal = |bytes: [u8; 32]| biopsy_deliver::state::hexadecimal(&bytes);
        read.is_ok_and(|(bytes, sha256)| {
            bytes == self.state.bytes && hexadecimal(sha256) == self.state.sha256
        })
    }
}

/// A notice that came, and when.
pub(super) struct Notice {
    pub(super) at: Instant,
    pub(super) event: String,
    pub(super) case: String,
}

/// Takes notices at a port of its own.
pub(super) fn listen() -> Outcome<(u16, Receiver<Notice>)> {
    let failed = |error: std::io::Error| format!("cannot listen: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                if let Some(notice) = take(stream) {
                    let _ = tell.send(notice);
                }
            });
        }
    });
    Ok((port, told))
}

fn take(stream: TcpStream) -> Option<Notice> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line).ok()? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let at = Instant::now();
    stream
        .get_mut()
        .write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .ok()?;
    let body: serde_json::Value = serde_json::from_slice(&body).ok()?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    Some(Notice { at, event: text(&body["type"]), case: text(&body["data"]["case"]) })
}
