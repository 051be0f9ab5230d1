//! Clients of others that speak tus 1.0: what they send arrives.

use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_deliver::{Link, Progress, Receipt, Secret, Signed};
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
