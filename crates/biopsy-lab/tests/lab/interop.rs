//! Clients of others that speak tus 1.0: what they send arrives. And servers of others: what we send arrives there.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use biopsy_deliver::state::State;
use biopsy_deliver::{Link, Progress, Receipt, Secret, SendError, Sender, Signed, Signer, encode, random};
use biopsy_lab::cases;
use biopsy_seal::seal_file;
use biopsy_testkit::require_that;

use crate::support::{Running, noise, sender};

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/interop").join(name)
}

/// Seals, lets another client send it, and compares.
fn arrives(client: impl Fn(&Link, &Path) -> Command) {
    let lab = Running::start();
    let link = lab.ask("4711");
    let recipients = sender(&link).request(&mut |_: &Progress| true).unwrap().recipients().unwrap();
    let path = lab.path("sent.age");
    seal_file(&mut noise(3 << 20, 5).as_slice(), &path, &recipients).unwrap();
    let done = client(&link, &path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let objects = || lab.wait_for(cases::objects(&lab.lab, "4711")).unwrap();
    // The whole is read once more before it counts.
    for _ in 0..600 {
        if !objects().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(lab.stored(&objects()[0].name), std::fs::read(path).unwrap());
}

#[test]
fn tus_js_client_sends() {
    // A folder with `node_modules/tus-js-client`.
    let folder = std::env::var("TUS_JS_CLIENT").unwrap_or_default();
    if !require_that(
        Path::new(&folder).join("node_modules/tus-js-client").is_dir(),
        "needs tus-js-client of npm",
    ) {
        return;
    }
    arrives(|link, path| {
        let mut node = Command::new("node");
        node.arg(program("send.mjs")).args([&folder, &link.lab, &link.id, &*link.secret.to_text()]).arg(path);
        node
    });
}

#[test]
fn tuspy_sends_half_and_goes_on() {
    // A Python that has `tuspy` and `cryptography`.
    let python = std::env::var("TUSPY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import tusclient, cryptography"]).output();
    if !require_that(
        has.is_ok_and(|done| done.status.success()),
        "needs `tuspy` and `cryptography` of Python",
    ) {
        return;
    }
    arrives(|link, path| {
        let mut command = Command::new(&python);
        command.arg(program("send.py")).args([&link.lab, &link.id, &*link.secret.to_text()]).arg(path);
        command
    });
}

fn curl(link: &Link, path: &Path) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--fail-with-body", "--noproxy", "*", "-T"]).arg(path);
    curl.args(["-H", &format!("authorization: Bearer {}", *link.secret.to_text())]);
    curl.arg(format!("{}/api/requests/{}/file", link.lab, link.id));
    curl
}

#[test]
fn curl_sends_a_sealed_file_and_gets_the_receipt() {
    if !require_that(Command::new("curl").arg("--version").output().is_ok(), "needs curl") {
        return;
    }
    arrives(curl);

    let lab = Running::start();
    let link = lab.ask("4711");
    let sent = |path: &Path| {
        let done = curl(&link, path).output().unwrap();
        (done.status.success(), String::from_utf8(done.stdout).unwrap())
    };
    // What is in clear is not kept, nor what is cut; and the link is good afterwards.
    let clear = lab.path("clear");
    std::fs::write(&clear, b"password=hunter2").unwrap();
    let (went, words) = sent(&clear);
    assert!(!went && words.contains("not sealed"), "{words}");
    let recipients = sender(&link).request(&mut |_: &Progress| true).unwrap().recipients().unwrap();
    let path = lab.path("sent.age");
    seal_file(&mut noise(2 << 20, 5).as_slice(), &path, &recipients).unwrap();
    let cut = curl(&link, &path).args(["--limit-rate", "100k", "--max-time", "1"]).output().unwrap();
    assert!(!cut.status.success());
    let kept = || {
        let names = std::fs::read_dir(lab.path("lab/objects")).unwrap();
        names.map(|name| name.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    for _ in 0..600 {
        if kept() == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(kept(), 0);
    // The link is free once the lab has noticed.
    let mut last = sent(&path);
    for _ in 0..100 {
        if last.0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        last = sent(&path);
    }
    let (went, receipt) = last;
    assert!(went, "{receipt}");
    let receipt = Signed::<Receipt>::parse(receipt.as_bytes()).unwrap().verify().unwrap().0;
    assert_eq!((receipt.case.as_str(), receipt.bytes), ("4711", std::fs::metadata(&path).unwrap().len()));
    // Once: neither again nor by another.
    assert!(!sent(&path).0);
    let stranger = Link { secret: Secret::generate(), ..link.clone() };
    assert!(!curl(&stranger, &path).output().unwrap().status.success());
}

/// A server that ends with this value.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Our client sends to a server of others, which is killed and started again on the way; what it has in the end is what was sent.
fn takes(server: impl Fn(u16, &Path) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let uploads = folder.path().join("uploads");
    std::fs::create_dir(&uploads).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = || {
        let server =
            Other(server(port, &uploads).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server does not listen");
    };
    let path = folder.path().join("sent.age");
    let identity = biopsy_seal::Identity::generate();
    let sealed = seal_file(&mut noise(12 << 20, 7).as_slice(), &path, &[identity.recipient()]).unwrap();
    let key = Signer::generate().key().fingerprint();
    let lab = format!("http://127.0.0.1:{port}");
    let link =
        Link { lab, id: encode(random::<16>()), secret: Secret::generate(), signer: key, readers: key };
    let mut sender = Sender::new(&link, Signer::generate());
    sender.give_up_after = Duration::from_secs(60);
    // One piece a second: it is not done before the server is killed.
    sender.most_per_second = Some(2 << 20);
    let mut state =
        State::new(&link, sender.signer(), sealed.bytes, sealed.sha256, vec!["agreed".to_owned()]);
    let (mut running, mut kills, mut again) = (Some(start()), 0, 0);
    let sent = sender.send(&path, &mut state, &mut |progress| {
        match progress {
            Progress::At { sent, .. } if *sent > 3 << 20 && kills == 0 => {
                running = None;
                kills = 1;
            }
            Progress::Again { .. } => {
                again += 1;
                if running.is_none() {
                    running = Some(start());
                }
            }
            Progress::At { .. } => {}
        }
        true
    });
    // All of it is there; a receipt is what labs alone give.
    assert!(matches!(sent, Err(SendError::Refused | SendError::Answer { .. })), "{sent:?}");
    assert!(kills == 1 && again > 0, "{kills} {again}");
    let wanted = std::fs::read(&path).unwrap();
    let mut kept =
        std::fs::read_dir(&uploads).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    assert!(kept.any(|bytes| bytes == wanted));
}

#[test]
fn we_send_to_the_server_of_tus_in_node() {
    // A folder with `node_modules/@tus/server` and `@tus/file-store`.
    let folder = std::env::var("TUS_JS_CLIENT").unwrap_or_default();
    let is_there = ["server", "file-store"]
        .iter()
        .all(|name| Path::new(&folder).join("node_modules/@tus").join(name).is_dir());
    if !require_that(is_there, "needs @tus/server and @tus/file-store of npm") {
        return;
    }
    takes(|port, uploads| {
        let mut node = Command::new("node");
        node.arg(program("server.mjs")).args([&folder, &port.to_string()]).arg(uploads);
        node
    });
}

#[test]
#[ignore = "needs tusd, which no registry of packages has: TUSD=PROGRAM cargo nextest run --workspace --run-ignored only we_send_to_tusd"]
fn we_send_to_tusd() {
    let tusd = std::env::var("TUSD").unwrap_or_else(|_| "tusd".to_owned());
    takes(|port, uploads| {
        let mut server = Command::new(&tusd);
        server.args(["-host", "127.0.0.1", "-port", &port.to_string(), "-base-path", "/api/uploads/"]);
        server.arg("-upload-dir").arg(uploads);
        server
    });
}
