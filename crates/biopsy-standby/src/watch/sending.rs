//! Results go straight to whoever has asked for them: a file has the links of open requests, and each takes one result.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_deliver::Link;
use biopsy_watch::sends::{LONGEST, Send, Sends};
use rustix::process::Signal;

use crate::whole;

/// What was sent and is on its way, in the watcher's folder.
const FILE: &str = "sends.json";
/// How long after one that failed the next is tried.
const REST: Duration = Duration::from_secs(60);

/// What is on its way.
pub(super) struct Sending {
    folder: PathBuf,
    program: PathBuf,
    sends: Sends,
    running: Option<(Child, Send)>,
    rests_until: Option<Instant>,
}

/// What became of a result.
pub(super) struct Sent {
    pub(super) file: PathBuf,
    pub(super) is_received: bool,
}

impl Sending {
    /// Goes on with what an earlier watcher has begun.
    pub(super) fn begin(folder: &Path, program: &Path) -> Self {
        let mut text = String::new();
        // There is none as a rule.
        let _ = File::open(folder.join(FILE))
            .and_then(|file| file.take(LONGEST as u64).read_to_string(&mut text));
        let mut sends = Sends::parse(&text);
        sends.begin();
        let (folder, program) = (folder.to_owned(), program.to_owned());
        Self { folder, program, sends, running: None, rests_until: None }
    }

    /// A result was made. `Ok(true)`: somebody gets it.
    pub(super) fn give(&mut self, links: &Path, result: &Path) -> Result<bool, String> {
        let links = read(links)?;
        let given = self.sends.give(result, links.iter().map(|(request, _)| request.as_str()));
        if given {
            self.write()?;
        }
        Ok(given)
    }

    /// Results that may not be removed.
    pub(super) fn on_their_way(&self) -> impl Iterator<Item = &Path> {
        self.sends.on_their_way()
    }

    /// Looks after the one that is being sent, and begins the next.
    pub(super) fn look_after(&mut self, links: Option<&Path>) -> Result<Option<Sent>, String> {
        if let Some((child, send)) = &mut self.running {
            let Ok(Some(status)) = child.try_wait() else { return Ok(None) };
            let (file, request) = (send.file.clone(), send.request.clone());
            self.running = None;
            if status.success() {
                self.sends.received(&request);
                // It was sealed to be sent; the result stays as it was, and the receipt beside it.
                let _ = std::fs::remove_file(sealed(&file));
            } else {
                self.rests_until = Some(Instant::now() + REST);
            }
            self.write()?;
            return Ok(Some(Sent { file, is_received: status.success() }));
        }
        let Some(links) = links.filter(|_| self.rests_until.is_none_or(|until| Instant::now() >= until))
        else {
            return Ok(None);
        };
        let Some(send) = self.sends.take_next() else { return Ok(None) };
        // Once read, it is known to `send` alone: command lines are everybody's.
        let found = read(links)?;
        let Some((_, link)) = found.iter().find(|(request, _)| *request == send.request) else {
            return Err(format!("`{}` has the link of {} no more", links.display(), send.request));
        };
        let mut command = Command::new(&self.program);
        command.args(["--until-parent-ends".to_owned(), std::process::id().to_string()]);
        command.arg("send").arg(&send.file).args(["--to", "-", "--yes", "--quiet"]);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("cannot send: {error}"))?;
        if let Some(mut input) = child.stdin.take() {
            // A pipe takes more than a line.
            let _ = writeln!(input, "{link}");
        }
        self.running = Some((child, send));
        Ok(None)
    }

    /// Asks the one that is being sent to end; the next watcher goes on with it.
    pub(super) fn finish(&mut self) {
        let Some((mut child, _)) = self.running.take() else { return };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // It is not waited for yet: its pid is nobody else's.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let _ = child.wait();
    }

    fn write(&self) -> Result<(), String> {
        let path = self.folder.join(FILE);
        whole::write(&path, &self.sends.to_text(), None)
            .map_err(|error| format!("cannot write down what is sent into `{}`: {error}", path.display()))
    }
}

/// Where `send` puts what it seals.
fn sealed(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".age");
    file.with_file_name(name)
}

/// The links of a file, one a line, by their request. Lines that begin with `#` are remarks.
fn read(path: &Path) -> Result<Vec<(String, String)>, String> {
    let text = biopsy_watch::file::read(path).map_err(|error| error.to_string())?.unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let one = |line: &str| match line.parse::<Link>() {
        Ok(link) => Ok((link.id, line.to_owned())),
        // The line is a secret, perhaps but for a letter.
        Err(error) => Err(format!("a line of `{}` is no link: {error}", path.display())),
    };
    lines.map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use biopsy_deliver::{Fingerprint, Secret};

    use super::*;

    fn link() -> String {
        let link = Link {
            lab: "https://lab.example".to_owned(),
            id: biopsy_deliver::encode([1; 16]),
            secret: Secret::generate(),
            signer: Fingerprint::of("signer", &["a".to_owned()]),
            readers: Fingerprint::of("readers", &["b".to_owned()]),
        };
        link.to_text().to_string()
    }

    /// A `biopsy` that writes down what it is told, and fails where the file says so.
    fn program(folder: &Path) -> PathBuf {
        let path = folder.join("biopsy");
        let script = "#!/bin/sh\nread link\necho \"$4 $link\" >> \"${0%/*}/told\"\ngrep -q bad \"$4\" && exit 7\ntouch \"$4.age\"\n";
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    fn wait(sending: &mut Sending, links: &Path) -> Sent {
        for _ in 0..1_000 {
            if let Some(sent) = sending.look_after(Some(links)).unwrap() {
                return sent;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing was sent");
    }

    #[test]
    fn each_link_takes_one_result_and_what_failed_is_tried_by_the_next_watcher() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path());
        let links = folder.path().join("links");
        let link = link();
        std::fs::write(&links, format!("# case 4711\n{link}\n")).unwrap();
        let result = folder.path().join("a.biopsy.zip");
        std::fs::write(&result, "bad").unwrap();
        let mut sending = Sending::begin(folder.path(), &program);
        assert_eq!(sending.give(&links, &result), Ok(true));
        assert_eq!(sending.give(&links, &folder.path().join("b.biopsy.zip")), Ok(false));
        assert!(!wait(&mut sending, &links).is_received);
        assert_eq!(sending.on_their_way().collect::<Vec<_>>(), [&result]);
        assert!(sending.look_after(Some(&links)).unwrap().is_none() && sending.running.is_none(), "it rests");

        std::fs::write(&result, "good").unwrap();
        let mut sending = Sending::begin(folder.path(), &program);
        let sent = wait(&mut sending, &links);
        assert!(sent.is_received && sent.file == result && !sealed(&result).exists() && result.exists());
        assert_eq!(sending.on_their_way().count(), 0);
        let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
        let line = format!("{} {link}", result.display());
        assert_eq!(told.lines().collect::<Vec<_>>(), [&line, &line]);
        let written = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(!written.contains('#'), "the secret of the link stays where it was: {written}");
        assert_eq!(Sending::begin(folder.path(), &program).give(&links, &result), Ok(false), "it is used");
    }

    #[test]
    fn a_bad_line_is_said_without_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let links = folder.path().join("links");
        std::fs::write(&links, "https://lab.example/r/secret#half").unwrap();
        let error = read(&links).unwrap_err();
        assert!(error.contains("is no link") && !error.contains("half"), "{error}");
        assert_eq!(read(&folder.path().join("none")), Ok(Vec::new()));
    }
}
