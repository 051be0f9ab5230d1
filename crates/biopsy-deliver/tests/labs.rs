//! Sending to labs that misbehave: what is sent goes to the lab of the link, what it says is believed as far as it is signed, and it ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use biopsy_deliver::link::{Link, Secret};
use biopsy_deliver::receipt::Receipt;
use biopsy_deliver::signed::{Fingerprint, Signed, Signer};
use biopsy_deliver::state::{State, digest, hexadecimal};
use biopsy_deliver::{SendError, Sender};

/// A call as it arrived.
#[derive(Clone, Debug)]
struct Call {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Status, headers, body.
type Reply = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// What a lab answers to a call.
type Answers = Box<dyn Fn(&Call) -> Reply + Send>;

/// A lab on this machine, which answers by a function of each call and of how many there were.
struct Lab {
    address: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Lab {
    fn that(answers: impl Fn(&Call, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        // It ends with the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let Some(call) = read_call(&mut reader) else { continue };
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(call.clone());
                    seen.len()
                };
                let (status, headers, body) = answers(&call, number);
                let mut text =
                    format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    text.push_str(&format!("{name}: {value}\r\n"));
                }
                let mut stream = reader.into_inner();
                let _ = stream.write_all(&[text.as_bytes(), b"\r\n", &body].concat());
            }
        });
        Self { address, calls }
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

fn read_call(reader: &mut impl BufRead) -> Option<Call> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Call { method, path, headers, body })
}

/// The lab's key, a link to it, and something to send.
struct Case {
    folder: tempfile::TempDir,
    lab_key: Signer,
    link: Link,
    contents: Vec<u8>,
}

impl Case {
    fn new(lab_key: Signer, address: &str) -> Self {
        let link = Link {
            lab: address.to_owned(),
            id: biopsy_deliver::encode([1; 16]),
            secret: Secret::generate(),
            signer: lab_key.key().fingerprint(),
            readers: Fingerprint::of("readers", &["b".to_owned()]),
        };
        let folder = tempfile::tempdir().unwrap();
        let contents: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        std::fs::write(folder.path().join("a.age"), &contents).unwrap();
        Self { folder, lab_key, link, contents }
    }

    fn send(&self) -> Result<Receipt, SendError> {
        let sealed = self.folder.path().join("a.age");
        let signer = Signer::generate();
        let (bytes, sha256) = digest(&mut self.contents.as_slice()).unwrap();
        let mut state = State::new(&self.link, &signer, bytes, sha256, vec!["yes".to_owned()]);
        let mut sender = Sender::new(&self.link, signer);
        sender.give_up_after = Duration::ZERO;
        let sent = sender.send(&sealed, &mut state, &mut |_| true);
        assert_eq!(std::fs::read(&sealed).unwrap(), self.contents, "what is sealed is kept, as it was");
        assert_eq!(State::receipt_of(&sealed).exists(), sent.is_ok());
        assert_eq!(State::path_of(&sealed).exists(), sent.is_err(), "what is known stays until it is over");
        sent
    }
}

fn receipt(contents: &[u8]) -> Receipt {
    let (bytes, sha256) = digest(&mut &*contents).unwrap();
    Receipt {
        request: biopsy_deliver::encode([1; 16]),
        case: "4711".to_owned(),
        bytes,
        sha256: hexadecimal(&sha256),
        received: 1,
        log_head: String::new(),
    }
}

fn signed(receipt: &Receipt, by: &Signer) -> Vec<u8> {
    Signed::new(receipt, by).unwrap().to_text().into_bytes()
}

fn plain(status: u16) -> Reply {
    (status, Vec::new(), Vec::new())
}

/// A lab that takes everything, and gives this receipt.
fn takes_all(call: &Call, received: &Mutex<Vec<u8>>, receipt: impl Fn(&[u8]) -> Vec<u8>) -> Reply {
    let mut received = received.lock().unwrap();
    match (call.method.as_str(), call.path.ends_with("/receipt")) {
        ("POST", _) => {
            (201, vec![("location", "https://elsewhere.example/api/uploads/u1".to_owned())], Vec::new())
        }
        ("HEAD", _) => (200, vec![("upload-offset", received.len().to_string())], Vec::new()),
        ("PATCH", _) => {
            assert_eq!(call.headers["upload-offset"], received.len().to_string());
            received.extend(&call.body);
            plain(204)
        }
        ("GET", true) => (200, Vec::new(), receipt(&received)),
        _ => plain(404),
    }
}

fn seed() -> Signer {
    Signer::of_seed(&[9; 32])
}

#[test]
fn all_is_sent_to_the_lab_of_the_link_whatever_place_it_names() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let there = Arc::clone(&received);
    let lab = Lab::that(move |call, _| takes_all(call, &there, |bytes| signed(&receipt(bytes), &seed())));
    let case = Case::new(seed(), &lab.address);
    let got = case.send().unwrap();
    assert_eq!(got.bytes, case.contents.len() as u64);
    assert_eq!(*received.lock().unwrap(), case.contents);
    let calls = lab.calls();
    assert!(calls.iter().all(|call| call.path.starts_with("/api/uploads")), "{calls:?}");
    assert!(calls.iter().all(|call| call.headers.contains_key("biopsy-proof")));
}

#[test]
fn a_piece_that_was_not_taken_is_sent_again_from_where_the_lab_is() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let lab = Lab::that(move |call, number| {
        // The first piece is half taken, and the answer says that something is wrong.
        if call.method == "PATCH" && number == 3 {
            received.lock().unwrap().extend(&call.body[..call.body.len() / 2]);
            return plain(460);
        }
        takes_all(call, &received, |bytes| signed(&receipt(bytes), &seed()))
    });
    let case = Case::new(seed(), &lab.address);
    let sealed = case.folder.path().join("a.age");
    let signer = Signer::generate();
    let (bytes, sha256) = digest(&mut case.contents.as_slice()).unwrap();
    let mut state = State::new(&case.link, &signer, bytes, sha256, Vec::new());
    let sender = Sender::new(&case.link, signer);
    assert!(sender.send(&sealed, &mut state, &mut |_| true).is_ok());
    let pieces: Vec<Call> = lab.calls().into_iter().filter(|call| call.method == "PATCH").collect();
    assert!(pieces.len() >= 2 && pieces[1].headers["upload-offset"] == "150000", "{}", pieces.len());
}

/// Sends four mebibytes of which all beginnings are known, changed at a place since they were sealed, to a lab that holds prefixes against what
/// it has; gives how it ended, and offset and checksum of each piece.
fn of_known_beginnings(changed: Option<usize>, refused: usize) -> (Result<Receipt, SendError>, Vec<String>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let refusals = Arc::new(Mutex::new(refused));
    let lab = Lab::that(move |call, _| {
        let mut reply = takes_prefixes(call, &received, &refusals);
        reply.1.push(("tus-checksum-algorithm", "sha256,sha256-prefix".to_owned()));
        reply
    });
    let mut case = Case::new(seed(), &lab.address);
    case.contents = (0..4_u64 << 20).map(|at| (at.wrapping_mul(31) >> 3) as u8).collect();
    let mut digesting = biopsy_seal::Digesting::default();
    digesting.update(&case.contents);
    let whole = digesting.finish();
    let sealed = case.folder.path().join("a.age");
    if let Some(at) = changed {
        case.contents[at] ^= 1;
    }
    std::fs::write(&sealed, &case.contents).unwrap();
    let signer = Signer::generate();
    let mut state = State::new(&case.link, &signer, whole.bytes, whole.sha256, Vec::new());
    state.know(&whole.beginnings);
    let sent = Sender::new(&case.link, signer).send(&sealed, &mut state, &mut |_| true);
    let pieces = lab.calls().into_iter().filter(|call| call.method == "PATCH");
    let shown = pieces.map(|call| {
        let kind = call.headers["upload-checksum"].split(' ').next().unwrap_or_default();
        format!("{} {kind}", call.headers["upload-offset"])
    });
    (sent, shown.collect())
}

/// A lab that takes a piece if its checksum is right; the first so many it refuses anyhow.
fn takes_prefixes(call: &Call, received: &Mutex<Vec<u8>>, refusals: &Mutex<usize>) -> Reply {
    if call.method == "PATCH" {
        let mut refusals = refusals.lock().unwrap();
        let all = [received.lock().unwrap().as_slice(), &call.body].concat();
        let (kind, wanted) = call.headers["upload-checksum"].split_once(' ').unwrap();
        let of = if kind == "sha256" { &call.body } else { &all };
        let is_right = STANDARD.encode(digest(&mut of.as_slice()).unwrap().1) == wanted;
        if !is_right || *refusals > 0 {
            *refusals = refusals.saturating_sub(1);
            return plain(460);
        }
    }
    takes_all(call, received, |bytes| signed(&receipt(bytes), &seed()))
}

#[test]
fn a_lab_that_takes_prefixes_is_told_what_was_known_when_it_was_sealed() {
    let (sent, pieces) = of_known_beginnings(None, 0);
    assert!(sent.is_ok(), "{sent:?}");
    for (at, kind) in pieces.iter().map(|piece| piece.split_once(' ').unwrap()) {
        assert_eq!((at.parse::<u64>().unwrap() % (1 << 20), kind), (0, "sha256-prefix"), "{pieces:?}");
    }
    // Something that was there before makes a prefix another one: then each piece is held against itself.
    let (sent, pieces) = of_known_beginnings(None, 1);
    assert!(sent.is_ok(), "{sent:?}");
    assert_eq!(pieces[0], "0 sha256-prefix");
    assert!(pieces[1..].iter().all(|piece| piece.ends_with(" sha256")), "{pieces:?}");
}

#[test]
fn what_was_changed_since_it_was_sealed_is_found_at_its_piece() {
    for at in [0, 1 << 20, (4 << 20) - 1] {
        let (sent, shown) = of_known_beginnings(Some(at), 0);
        assert!(matches!(sent, Err(SendError::Changed(_))), "{at}: {sent:?}");
        let begins = |piece: &String| piece.split(' ').next().unwrap().parse::<usize>().unwrap();
        // The first piece is of a mebibyte, as nothing is known of the way.
        let expected = if at == 0 { 1 } else { 2 };
        assert!(begins(shown.last().unwrap()) <= at && shown.len() >= expected, "{at}: {shown:?}");
    }
}

#[test]
fn a_receipt_is_believed_for_these_bytes_and_of_this_lab_alone() {
    let contents: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let good = receipt(&contents);
    let stranger = Signer::generate();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("other bytes", signed(&Receipt { bytes: 5, ..good.clone() }, &seed())),
        ("another digest", signed(&Receipt { sha256: "ab".to_owned(), ..good.clone() }, &seed())),
        ("another request", signed(&Receipt { request: "x".to_owned(), ..good.clone() }, &seed())),
        ("another signer", signed(&good, &stranger)),
        ("no document", b"{}".to_vec()),
        ("nothing", Vec::new()),
        (
            "a document of another kind",
            b"{\"kind\":\"request\",\"document\":\"\",\"signer\":\"\",\"signature\":\"\"}".to_vec(),
        ),
        ("more than any", vec![b' '; 2 << 20]),
    ];
    for (what, answer) in cases {
        let received = Mutex::new(Vec::new());
        let lab = Lab::that(move |call, _| takes_all(call, &received, |_| answer.clone()));
        let case = Case::new(seed(), &lab.address);
        assert!(case.send().is_err(), "{what}");
        assert!(case.lab_key.key() == seed().key());
    }
}

/// Whatever a lab answers to each call: it ends, and not by sending for ever.
#[test]
fn answers_that_lead_nowhere_end() {
    let offset = |at: &str| (200, vec![("upload-offset", at.to_owned())], Vec::new());
    let place = |at: &str| (201, vec![("location", at.to_owned())], Vec::new());
    let labs: Vec<(&str, Answers)> = vec![
        ("refuses", Box::new(|_| plain(403))),
        (
            "is elsewhere",
            Box::new(|_| (302, vec![("location", "http://127.0.0.1:1/".to_owned())], Vec::new())),
        ),
        ("has trouble", Box::new(|_| plain(503))),
        ("names no place", Box::new(|_| plain(201))),
        ("names a place above", Box::new(move |_| place("/../../etc/"))),
        ("names a place with a question", Box::new(move |_| place("/api/uploads/x?y=z"))),
        (
            "is behind the end",
            Box::new(move |call| if call.method == "POST" { place("/u/1") } else { offset("99999999999") }),
        ),
        (
            "is nowhere",
            Box::new(move |call| if call.method == "POST" { place("/u/1") } else { offset("-1") }),
        ),
        (
            "forgets each place",
            Box::new(move |call| if call.method == "POST" { place("/u/1") } else { plain(404) }),
        ),
        (
            "takes nothing",
            Box::new(move |call| match call.method.as_str() {
                "POST" => place("/u/1"),
                "HEAD" => offset("0"),
                _ => plain(400),
            }),
        ),
    ];
    for (what, answers) in labs {
        let lab = Lab::that(move |call, _| answers(call));
        let case = Case::new(seed(), &lab.address);
        let error = case.send().expect_err(what).to_string();
        assert!(!error.contains(&**case.link.secret.to_text()), "{what}: {error}");
        assert!(lab.calls().len() < 12, "{what}: {} calls", lab.calls().len());
    }
}

#[test]
fn what_was_changed_since_it_was_sealed_is_not_sent() {
    let lab = Lab::that(|_, _| plain(500));
    let case = Case::new(seed(), &lab.address);
    let sealed: &Path = &case.folder.path().join("a.age");
    let signer = Signer::generate();
    let (bytes, sha256) = digest(&mut case.contents.as_slice()).unwrap();
    for changed in [&case.contents[1..], b"", &[case.contents.as_slice(), b"x"].concat()] {
        std::fs::write(sealed, changed).unwrap();
        let mut state = State::new(&case.link, &signer, bytes, sha256, Vec::new());
        let sender = Sender::new(&case.link, Signer::of_seed(&signer.seed()));
        let sent = sender.send(sealed, &mut state, &mut |_| true);
        assert!(matches!(sent, Err(SendError::Changed(_))));
    }
    assert!(lab.calls().is_empty());
}
