//! What stands between a customer and a lab: proxies that let no PATCH through, and those that keep a whole call before they pass it on.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use biopsy_deliver::state::State;
use biopsy_deliver::{Progress, SendError, Sender};
use biopsy_lab::cases;
use biopsy_seal::seal_file;

use crate::support::{Running, noise, sender};

/// What a proxy does with a PATCH.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patches {
    Pass,
    /// An answer of its own, with this status.
    Answer(u16),
    Cut,
}

/// A proxy that reads each call to its end, and each answer, before it passes them on.
struct Proxy {
    port: u16,
    /// The verbs that came.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn before(lab: u16, patches: Patches, posts_too: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let seen = Arc::clone(&all);
                std::thread::spawn(move || serve(client, lab, patches, posts_too, &seen));
            }
        });
        Self { port, seen }
    }

    fn verbs(&self, of: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|verb| *verb == of).count()
    }
}

/// Serves one connection until it ends.
fn serve(client: TcpStream, lab: u16, patches: Patches, posts_too: bool, seen: &Mutex<Vec<String>>) {
    let (mut from, mut to) = (BufReader::new(client.try_clone().unwrap()), client);
    while let Some((head, body)) = call(&mut from) {
        let verb = head.split(' ').next().unwrap_or_default().to_owned();
        let is_piece = verb == "PATCH" || posts_too && head.contains("x-http-method-override");
        seen.lock().unwrap().push(verb);
        match patches {
            Patches::Cut if is_piece => break,
            Patches::Answer(status) if is_piece => {
                let words = "<html>not allowed here</html>";
                let answer =
                    format!("HTTP/1.1 {status} No\r\ncontent-length: {}\r\n\r\n{words}", words.len());
                if to.write_all(answer.as_bytes()).is_err() {
                    break;
                }
                continue;
            }
            _ => {}
        }
        let mut server = TcpStream::connect(("127.0.0.1", lab)).unwrap();
        let head = head.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
        let mut answer = Vec::new();
        let passed = server.write_all(head.as_bytes()).and_then(|()| server.write_all(&body));
        if passed.and_then(|()| server.read_to_end(&mut answer)).is_err() || to.write_all(&answer).is_err() {
            break;
        }
        // The lab said that its connection ends; so does this one.
        break;
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Head and body of the next call.
fn call(from: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        (from.read_line(&mut head).ok()? > 0).then_some(())?;
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    from.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Sends through such a proxy.
fn through(patches: Patches, posts_too: bool) -> (Result<(), SendError>, Proxy) {
    let lab = Running::start();
    let mut link = lab.ask("4711");
    let proxy = Proxy::before(lab.address.port(), patches, posts_too);
    let first = sender(&link);
    let recipients = first.request(&mut |_: &Progress| true).unwrap().recipients().unwrap();
    let path = lab.path("sent.age");
    let sealed = seal_file(&mut noise(3 << 20, 9).as_slice(), &path, &recipients).unwrap();
    let mut state = State::new(&link, first.signer(), sealed.bytes, sealed.sha256, Vec::new());
    state.know(&sealed.beginnings);
    link.lab = format!("http://127.0.0.1:{}", proxy.port);
    state.lab.clone_from(&link.lab);
    let through = Sender::new(&link, state.signer().unwrap());
    let sent = through.send(&path, &mut state, &mut |_: &Progress| true);
    if sent.is_ok() {
        let objects = lab.wait_for(cases::objects(&lab.lab, "4711")).unwrap();
        assert_eq!(lab.stored(&objects[0].name), std::fs::read(&path).unwrap());
    }
    (sent.map(|_| ()), proxy)
}

#[test]
fn what_keeps_each_call_before_it_passes_it_on_costs_time_alone() {
    let (sent, proxy) = through(Patches::Pass, false);
    sent.unwrap();
    assert!(proxy.verbs("PATCH") > 1 && proxy.verbs("POST") == 1);
}

#[test]
fn what_lets_no_patch_through_gets_posts() {
    for patches in [Patches::Answer(405), Patches::Answer(403), Patches::Answer(501), Patches::Cut] {
        let (sent, proxy) = through(patches, false);
        sent.unwrap();
        let patched = proxy.verbs("PATCH");
        assert!((1..=3).contains(&patched), "it was tried {patched} times");
    }
}

#[test]
fn where_neither_gets_through_it_is_said() {
    for status in [403, 405, 501] {
        let (sent, proxy) = through(Patches::Answer(status), true);
        let error = sent.unwrap_err();
        let SendError::Blocked { status: told, words } = &error else { panic!("{error}") };
        assert!(*told == status && words.contains("not allowed here"), "{error}");
        assert_eq!(proxy.verbs("PATCH"), 1);
    }
}
