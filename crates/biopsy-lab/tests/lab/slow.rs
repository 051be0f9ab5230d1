//! Whoever says nothing, or next to nothing, holds nothing for long.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use biopsy_deliver::state::State;
use biopsy_deliver::{Progress, proof};
use biopsy_seal::seal_file;

use crate::support::{Running, sender};

/// What the lab says before it closes the connection; it has to close it.
fn until_closed(lab: &Running, said: &[u8]) -> String {
    let mut stream = TcpStream::connect(lab.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(said).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the lab closes the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let lab = Running::start_impatient(Duration::from_millis(300));
    until_closed(&lab, b"");
    until_closed(&lab, b"GET / HTTP/1.1\r\nhost: lab\r\n");
    let link = lab.ask("4711");
    let sender = sender(&link);
    let recipients = sender.request(&mut |_: &Progress| true).unwrap().recipients().unwrap();
    let sealed = seal_file(&mut &[7; 3 << 20][..], &lab.path("sent.age"), &recipients).unwrap();
    let mut state = State::new(&link, sender.signer(), sealed.bytes, sealed.sha256, Vec::new());
    let mut steps = 0;
    let mut until = |_: &Progress| {
        steps += 1;
        steps < 2
    };
    sender.send(&lab.path("sent.age"), &mut state, &mut until).unwrap_err();
    // A piece of which a few bytes come, and then nothing.
    let (path, at) = (state.upload.clone().unwrap(), (1 << 20).to_string());
    let header = |name: &str| (name == "upload-offset").then_some(at.as_str());
    let call = format!(
        "PATCH {path} HTTP/1.1\r\nhost: lab\r\nauthorization: Bearer {}\r\n{}: {}\r\n{}: {}\r\nupload-offset: {at}\r\n\
         content-type: application/offset+octet-stream\r\ncontent-length: 1000\r\nconnection: close\r\n\r\nfew",
        *link.secret.to_text(),
        proof::KEY,
        sender.signer().key(),
        proof::PROOF,
        proof::sign(sender.signer(), "PATCH", &path, header),
    );
    let answer = until_closed(&lab, call.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // What came is kept, and the sender goes on.
    sender.send(&lab.path("sent.age"), &mut state, &mut |_: &Progress| true).unwrap();
}

#[test]
fn a_head_has_a_limit() {
    let lab = Running::start();
    let long = format!("GET / HTTP/1.1\r\nhost: lab\r\nx: {}\r\n\r\n", "a".repeat(1 << 20));
    let mut stream = TcpStream::connect(lab.address).unwrap();
    let _ = stream.write_all(long.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
}
