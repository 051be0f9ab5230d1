//! Whoever says nothing, or next to nothing, holds nothing for long.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use biopsy_deliver::state::State;
use biopsy_deliver::{Link, Progress, Sender, proof};
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
    let (call, mut state) = begun(&lab, &link, &sender);
    // A piece of which a few bytes come, and then nothing.
    let answer = until_closed(&lab, format!("{call}few").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // What came is kept, and the sender goes on.
    sender.send(&lab.path("sent.age"), &mut state, &mut |_: &Progress| true).unwrap();
}

#[test]
fn who_trickles_is_not_waited_for() {
    let lab = Running::start_impatient(Duration::from_millis(300));
    let link = lab.ask("4711");
    let sender = sender(&link);
    let (call, _) = begun(&lab, &link, &sender);
    let mut stream = TcpStream::connect(lab.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut writing = stream.try_clone().unwrap();
    writing.write_all(call.as_bytes()).unwrap();
    // Never silent for as long as is allowed, and for longer than a piece of that size may take.
    std::thread::spawn(move || {
        while writing.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let (mut answer, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..count]);
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "no 408: {answer:?}");
}

#[test]
fn so_many_are_served_at_once_and_others_wait() {
    let lab = Running::start_with_room_for(2);
    let connect = || TcpStream::connect(lab.address).unwrap();
    let held = [connect(), connect()];
    let mut third = connect();
    third.write_all(b"GET /login HTTP/1.1\r\nhost: lab\r\nconnection: close\r\n\r\n").unwrap();
    third.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert!(third.read(&mut [0; 1]).is_err(), "one too many was served");
    drop(held);
    third.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = String::new();
    third.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// An upload of which a mebibyte is there, and the head of a call with the next piece, of a thousand bytes.
fn begun(lab: &Running, link: &Link, sender: &Sender<'_>) -> (String, State) {
    let recipients = sender.request(&mut |_: &Progress| true).unwrap().recipients().unwrap();
    let sealed = seal_file(&mut &[7; 3 << 20][..], &lab.path("sent.age"), &recipients).unwrap();
    let mut state = State::new(link, sender.signer(), sealed.bytes, sealed.sha256, Vec::new());
    let mut steps = 0;
    let mut until = |_: &Progress| {
        steps += 1;
        steps < 2
    };
    sender.send(&lab.path("sent.age"), &mut state, &mut until).unwrap_err();
    let (path, at) = (state.upload.clone().unwrap(), (1 << 20).to_string());
    let header = |name: &str| (name == "upload-offset").then_some(at.as_str());
    let call = format!(
        "PATCH {path} HTTP/1.1\r\nhost: lab\r\nauthorization: Bearer {}\r\n{}: {}\r\n{}: {}\r\nupload-offset: {at}\r\n\
         content-type: application/offset+octet-stream\r\ncontent-length: 1000\r\nconnection: close\r\n\r\n",
        *link.secret.to_text(),
        proof::KEY,
        sender.signer().key(),
        proof::PROOF,
        proof::sign(sender.signer(), "PATCH", &path, header),
    );
    (call, state)
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
