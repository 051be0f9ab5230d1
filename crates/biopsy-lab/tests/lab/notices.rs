//! Who is told, when, and that nobody is led to dial the inside.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use biopsy_deliver::certificate::Certificate;
use biopsy_deliver::state::State;
use biopsy_deliver::{Progress, Signed};
use biopsy_lab::notices::{Form, Hook, Mailer, Ways, mail, send_waiting, watch};
use biopsy_lab::place::now;
use biopsy_lab::{cases, delete};
use biopsy_seal::seal_file;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::support::{Running, send, sender};

/// A call that came: its head and body.
type Came = (String, String);

/// Answers calls, one after the other, with these; keeps what came.
fn listen(answers: Vec<String>) -> (u16, Receiver<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for (stream, answer) in listener.incoming().zip(answers) {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                if let Some((name, value)) = line.split_once(':') {
                    head.push_str(&format!("{}:{value}", name.to_ascii_lowercase()));
                }
                line.clear();
            }
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let text = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.get_mut().write_all(text.as_bytes()).unwrap();
            let _ = tell.send((head, String::from_utf8(body).unwrap()));
        }
    });
    (port, told)
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
}

fn hook(port: u16, form: Form, is_private_allowed: bool) -> Ways {
    let url = format!("http://localhost:{port}/hook");
    Ways { hook: Some(Hook { url, is_private_allowed, form }), mailer: None }
}

/// As if the pause were over.
fn wake(lab: &Running, table: &str) {
    let statement = format!("UPDATE {table} SET not_before = 0");
    lab.wait_for(sqlx::query(sqlx::AssertSqlSafe(statement)).execute(lab.lab.store.pool())).unwrap();
}

fn count(lab: &Running, statement: &'static str) -> i64 {
    let found = sqlx::query_as::<_, (i64,)>(statement).fetch_one(lab.lab.store.pool());
    lab.wait_for(found).unwrap().0
}

#[test]
fn a_webhook_is_signed_and_sent_until_it_is_taken() {
    let lab = Running::start_quiet();
    let link = lab.ask("4711");
    send(&link, b"the evidence", &lab.path("sent.age")).unwrap();
    let ok = || "204 No Content".to_owned();
    let (port, told) = listen(vec!["500 No".to_owned(), "500 No".to_owned(), ok(), ok()]);
    let ways = hook(port, Form::Standard, true);
    assert_eq!(lab.wait_for(send_waiting(&lab.lab, &ways)).unwrap(), 2, "started, completed");
    assert_eq!(lab.wait_for(send_waiting(&lab.lab, &ways)).unwrap(), 0, "not at once");
    wake(&lab, "outbox");
    assert_eq!(lab.wait_for(send_waiting(&lab.lab, &ways)).unwrap(), 2);
    wake(&lab, "outbox");
    assert_eq!(lab.wait_for(send_waiting(&lab.lab, &ways)).unwrap(), 0, "it was taken");
    let came: Vec<Came> = told.iter().take(4).collect();
    assert_eq!(
        header(&came[0].0, "webhook-id"),
        header(&came[2].0, "webhook-id"),
        "who gets it twice can tell"
    );
    let secret = lab.lab.webhook_secret().unwrap();
    for (head, body) in &came {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
        mac.update(
            format!("{}.{}.{body}", header(head, "webhook-id"), header(head, "webhook-timestamp")).as_bytes(),
        );
        let wanted = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        assert_eq!(header(head, "webhook-signature"), wanted);
        assert!(body.contains("\"case\":\"4711\"") && !body.contains("evidence"), "{body}");
    }
}

#[test]
fn a_chat_is_told_what_people_want_to_know() {
    let lab = Running::start_quiet();
    send(&lab.ask("4711"), b"the evidence", &lab.path("sent.age")).unwrap();
    let (port, told) = listen(vec!["200 OK".to_owned()]);
    lab.wait_for(send_waiting(&lab.lab, &hook(port, Form::Chat, true))).unwrap();
    let (_, body) = told.recv().unwrap();
    assert!(body.starts_with("{\"text\":\"*case 4711: received*"), "{body}");
    assert!(told.try_recv().is_err(), "that somebody began is told to nobody");
}

#[test]
fn a_name_that_leads_to_the_inside_is_not_dialled_and_no_redirect_followed() {
    let lab = Running::start_quiet();
    lab.ask("4711");
    lab.wait_for(delete::case(&lab.lab, "4711", "test", "why not")).unwrap();
    let (inside, told_inside) = listen(vec!["200 OK".to_owned()]);
    lab.wait_for(send_waiting(&lab.lab, &hook(inside, Form::Standard, false))).unwrap();
    assert_eq!(count(&lab, "SELECT count(*) FROM outbox WHERE state = 'waiting' AND tries = 1"), 1);
    let (why,): (Option<String>,) =
        lab.wait_for(sqlx::query_as("SELECT error FROM outbox").fetch_one(lab.lab.store.pool())).unwrap();
    assert_eq!(why.as_deref(), Some("notices go by https"));
    let (outside, told) = listen(vec![format!("302 Found\r\nlocation: http://127.0.0.1:{inside}/")]);
    wake(&lab, "outbox");
    lab.wait_for(send_waiting(&lab.lab, &hook(outside, Form::Standard, true))).unwrap();
    told.recv().unwrap();
    assert!(told_inside.try_recv().is_err(), "nobody was there");
}

#[test]
fn nobody_near_is_spoken_to_by_https_either() {
    let lab = Running::start_quiet();
    lab.ask("4711");
    lab.wait_for(delete::case(&lab.lab, "4711", "test", "why not")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, dialled) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counting = Arc::clone(&dialled);
    // Whoever dials is counted before he sees that nobody speaks.
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            counting.fetch_add(1, Ordering::SeqCst);
        }
    });
    let send = |host: &str, is_private_allowed: bool| {
        wake(&lab, "outbox");
        let url = format!("https://{host}:{port}/hook");
        let hook = Some(Hook { url, is_private_allowed, form: Form::Standard });
        assert_eq!(lab.wait_for(send_waiting(&lab.lab, &Ways { hook, mailer: None })).unwrap(), 1);
        dialled.load(Ordering::SeqCst)
    };
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"] {
        assert_eq!(send(host, false), 0, "somebody was dialled: {host}");
    }
    assert!(send("localhost", true) > 0, "it would be seen");
}

#[test]
fn a_proxy_that_is_named_in_the_environment_is_not_asked() {
    const HOOK: &str = "BIOPSY_TEST_HOOK";
    // The environment is of a whole process: one of its own sends.
    if let Ok(port) = std::env::var(HOOK) {
        let lab = Running::start_quiet();
        lab.ask("4711");
        lab.wait_for(delete::case(&lab.lab, "4711", "test", "why not")).unwrap();
        lab.wait_for(send_waiting(&lab.lab, &hook(port.parse().unwrap(), Form::Standard, true))).unwrap();
        return;
    }
    let (port, told) = listen(vec!["200 OK".to_owned()]);
    let (proxy, told_proxy) = listen(vec!["502 No".to_owned(), "502 No".to_owned()]);
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let this = "notices::a_proxy_that_is_named_in_the_environment_is_not_asked";
    command.args(["--exact", this, "--nocapture"]).env(HOOK, port.to_string());
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy"] {
        command.env(name, format!("http://127.0.0.1:{proxy}"));
    }
    let done = command.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(told_proxy.try_recv().is_err(), "the proxy was asked");
    told.recv().unwrap();
}

#[test]
fn what_cannot_be_told_does_not_happen() {
    let lab = Running::start_quiet();
    lab.ask("4711");
    lab.wait_for(sqlx::query("DROP TABLE outbox").execute(lab.lab.store.pool())).unwrap();
    lab.wait_for(delete::case(&lab.lab, "4711", "test", "why not")).unwrap_err();
    assert_eq!(lab.wait_for(cases::find(&lab.lab, "4711")).unwrap().state, "asked", "both or none");
    lab.wait_for(cases::open(&lab.lab, "4711", "test", "it is readable")).unwrap();
}

/// A mail that came: who it is for, and all of it.
type Letter = (String, String);

/// Takes mail from so many connections.
fn take_mail(connections: usize) -> (u16, Receiver<Letter>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let _ = tell.send(talk(stream.unwrap()));
        }
    });
    (port, told)
}

fn talk(stream: TcpStream) -> Letter {
    let mut stream = BufReader::new(stream);
    let say = |stream: &mut BufReader<TcpStream>, text: &str| {
        stream.get_mut().write_all(format!("{text}\r\n").as_bytes()).unwrap()
    };
    say(&mut stream, "220 here");
    let (mut to, mut letter, mut line) = (String::new(), String::new(), String::new());
    while stream.read_line(&mut line).unwrap_or(0) > 0 {
        match line.split([' ', '\r']).next().unwrap_or_default() {
            "RCPT" => {
                to = line.trim_end().to_owned();
                say(&mut stream, "250 yes");
            }
            "DATA" => {
                say(&mut stream, "354 go on");
                line.clear();
                while stream.read_line(&mut line).unwrap() > 0 && line != ".\r\n" {
                    letter.push_str(&line);
                    line.clear();
                }
                say(&mut stream, "250 taken");
            }
            "QUIT" => break,
            _ => say(&mut stream, "250 yes"),
        }
        line.clear();
    }
    (to, letter)
}

fn mailer(port: u16) -> Ways {
    let mailer = Mailer::new(&format!("smtp://127.0.0.1:{port}"), "Lab <lab@lab.example>", None).unwrap();
    Ways { hook: None, mailer: Some(mailer) }
}

#[test]
fn a_customer_who_asks_for_it_is_told_that_it_arrived_and_that_it_is_gone() {
    let lab = Running::start_quiet();
    lab.wait_for(mail::tell(&lab.lab, &["support@lab.example".to_owned()])).unwrap();
    let link = lab.ask("4711");
    let sender = sender(&link);
    let go_on = &mut |_: &Progress| true;
    let recipients = sender.request(go_on).unwrap().recipients().unwrap();
    let sealed = seal_file(&mut &b"the evidence"[..], &lab.path("sent.age"), &recipients).unwrap();
    let mut state = State::new(&link, sender.signer(), sealed.bytes, sealed.sha256, Vec::new());
    state.contact = Some("ada@customer.example".to_owned());
    sender.send(&lab.path("sent.age"), &mut state, go_on).unwrap();
    // The mail server is down for a while: nothing is lost.
    assert_eq!(lab.wait_for(send_waiting(&lab.lab, &mailer(1))).unwrap(), 2);
    assert_eq!(count(&lab, "SELECT count(*) FROM mails WHERE state = 'waiting' AND tries = 1"), 2);
    wake(&lab, "mails");
    let (port, told) = take_mail(2);
    lab.wait_for(send_waiting(&lab.lab, &mailer(port))).unwrap();
    let mut letters: Vec<Letter> = told.iter().take(2).collect();
    letters.sort();
    assert!(
        letters[0].0.contains("<ada@customer.example>")
            && letters[0].1.contains("Subject: case 4711: received"),
        "{letters:?}"
    );
    assert!(
        letters[1].0.contains("<support@lab.example>")
            && letters[1].1.contains("From: Lab <lab@lab.example>"),
        "{letters:?}"
    );
    assert_eq!(count(&lab, "SELECT count(*) FROM mails"), 0, "what was sent is forgotten");

    lab.wait_for(delete::case(&lab.lab, "4711", "test", "it has served")).unwrap();
    assert_eq!(count(&lab, "SELECT count(*) FROM contacts"), 0, "so is the address");
    let (port, told) = take_mail(2);
    lab.wait_for(send_waiting(&lab.lab, &mailer(port))).unwrap();
    let letters: Vec<Letter> = told.iter().take(2).collect();
    let (_, letter) = letters.iter().find(|(to, _)| to.contains("ada@")).unwrap();
    let attached =
        letter.split("Content-Type: application/json").nth(1).unwrap().split("\r\n\r\n").nth(1).unwrap();
    let attached = attached.split("\r\n--").next().unwrap();
    assert!(letter.contains("Content-Transfer-Encoding: quoted-printable"), "{letter}");
    let certificate = attached.replace("=\r\n", "").replace("=0A", "\n").replace("=3D", "=");
    let kept = lab.wait_for(cases::find(&lab.lab, "4711")).unwrap().certificate.unwrap();
    assert_eq!(certificate.trim(), kept.trim(), "{letter}");
    let signed = Signed::<Certificate>::parse(certificate.trim().as_bytes()).unwrap();
    assert_eq!(signed.verify().unwrap().0.case, "4711");
}

#[test]
fn an_upload_that_stands_still_and_a_case_that_will_go_are_told_once() {
    let lab = Running::start_quiet();
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
    let told = |event: &'static str| {
        let all: Vec<(String,)> =
            lab.wait_for(sqlx::query_as("SELECT event FROM outbox").fetch_all(lab.lab.store.pool())).unwrap();
        all.iter().filter(|(one,)| one == event).count()
    };
    lab.wait_for(watch(&lab.lab)).unwrap();
    assert_eq!(told("upload.stalled"), 0, "it is a moment ago");
    let set = |statement: &'static str, at: i64| {
        lab.wait_for(sqlx::query(statement).bind(at).execute(lab.lab.store.pool())).unwrap();
    };
    set("UPDATE uploads SET touched = $1", now() - 3600);
    set("UPDATE cases SET kept_until = $1", now() + 3600);
    lab.wait_for(watch(&lab.lab)).unwrap();
    lab.wait_for(watch(&lab.lab)).unwrap();
    assert_eq!((told("upload.stalled"), told("retention.warning")), (1, 1));
    // It went on, and stands still again.
    set("UPDATE uploads SET touched = $1", now() - 1900);
    lab.wait_for(watch(&lab.lab)).unwrap();
    assert_eq!(told("upload.stalled"), 2);
}
