//! Links and uploads: what is taken, from whom, and what nobody is told.

use crate::support::{Running, noise, send, sender};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use biopsy_deliver::http::{Answer, Patience, call, config};
use biopsy_deliver::state::State;
use biopsy_deliver::{Link, Progress, Secret, SendError, Signer, proof};
use biopsy_lab::{cases, delete, requests};
use biopsy_seal::seal_file;
use sha2::{Digest as _, Sha256};

#[test]
fn what_is_sent_arrives_with_a_receipt_and_nothing_of_it_is_readable_in_the_storage() {
    let lab = Running::start();
    let link = lab.ask("4711");
    let mut plain = noise(3 << 20, 1);
    plain.extend_from_slice(b"the secret word is heliotrope");
    let receipt = send(&link, &plain, &lab.path("case.age")).unwrap();
    assert_eq!(receipt.case, "4711");
    assert!(State::receipt_of(&lab.path("case.age")).is_file());
    assert!(!State::path_of(&lab.path("case.age")).exists());

    let objects = lab.wait_for(cases::objects(&lab.lab, "4711")).unwrap();
    assert_eq!(objects.len(), 1);
    let kept = lab.stored(&objects[0].name);
    assert_eq!(kept, std::fs::read(lab.path("case.age")).unwrap(), "byte for byte");
    assert!(!objects[0].name.contains("4711"), "its name says nothing: {}", objects[0].name);
    let heads: Vec<(String,)> =
        lab.wait_for(sqlx::query_as("SELECT hash FROM log").fetch_all(lab.lab.store.pool())).unwrap();
    assert!(heads.iter().any(|(hash,)| *hash == receipt.log_head), "a line of the log: {receipt:?}");
    let secret: [u8; 32] = biopsy_deliver::decode(&link.secret.to_text()).unwrap();
    for name in ["lab/lab.db", "lab/lab.db-wal"] {
        let bytes = std::fs::read(lab.path(name)).unwrap_or_default();
        let text = link.secret.to_text();
        assert!(!bytes.windows(10).any(|part| part == b"heliotrope"), "{name}");
        assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "{name}");
        assert!(!bytes.windows(32).any(|part| part == secret), "the secret itself is in {name}");
        assert!(!bytes.windows(15).any(|part| part == b"AGE-SECRET-KEY-"), "{name}");
    }
}

fn refused(link: &Link) -> String {
    let error = sender(link).request(&mut |_: &Progress| true).unwrap_err();
    assert!(matches!(error, SendError::Refused), "{error}");
    raw(link, "GET", &format!("/api/requests/{}", link.id), &Signer::generate(), &[], None).words()
}

fn raw(
    link: &Link,
    method: &str,
    path: &str,
    signer: &Signer,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Answer {
    let agent = config(&Patience::default()).build().into();
    let bearer = format!("Bearer {}", *link.secret.to_text());
    let key = signer.key().to_string();
    let header = |name: &str| headers.iter().find(|(one, _)| *one == name).map(|(_, value)| *value);
    let proof = proof::sign(signer, method, path, header);
    let mut all = vec![("authorization", bearer.as_str()), (proof::KEY, &key), (proof::PROOF, &proof)];
    all.extend_from_slice(headers);
    call(&agent, method, &format!("{}{path}", link.lab), &all, body).unwrap()
}

#[test]
fn links_that_are_worth_nothing_get_one_answer() {
    let lab = Running::start();
    let good = lab.ask("1");
    let unknown = Link { id: biopsy_deliver::encode([7; 16]), ..good.clone() };
    let guessed = Link { secret: Secret::generate(), ..good.clone() };
    let expired = lab.ask_for("2", 0, 1 << 20);
    let revoked = lab.ask("3");
    lab.wait_for(requests::revoke(&lab.lab, &revoked.id, "test")).unwrap();
    let used = lab.ask("4");
    send(&used, b"mine", &lab.path("used.age")).unwrap();
    let deleted = lab.ask("5");
    lab.wait_for(delete::case(&lab.lab, "5", "test", "why not")).unwrap();
    let answers: Vec<String> = [&unknown, &guessed, &expired, &revoked, &used, &deleted].map(refused).into();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    sender(&good).request(&mut |_: &Progress| true).unwrap();
}

#[test]
fn of_two_who_have_the_link_one_may_send() {
    let lab = Running::start();
    let link = lab.ask("4711");
    let path = format!("/api/uploads?request={}", link.id);
    let create = |signer: &Signer, length: &str| {
        raw(&link, "POST", &path, signer, &[("upload-length", length)], Some(&[]))
    };
    let signers = [Signer::generate(), Signer::generate(), Signer::generate()];
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let all: Vec<_> = signers.iter().map(|signer| scope.spawn(|| create(signer, "10"))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let winners: Vec<usize> = (0..3).filter(|&at| answers[at].status == 201).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.status == 201 || answer.status == 404));
    // Who was first gets the same place as often as he asks; a thief of the link cannot even ask where it is.
    let first = &signers[winners[0]];
    let place = answers[winners[0]].header("location").unwrap();
    assert_eq!(create(first, "10").header("location"), Some(place));
    let thief = Signer::generate();
    assert_eq!(raw(&link, "HEAD", place, &thief, &[], None).status, 404);
    assert_eq!(raw(&link, "HEAD", place, first, &[], None).header("upload-offset"), Some("0"));
}

#[test]
fn pieces_that_lie_are_not_taken() {
    let lab = Running::start();
    let link = lab.ask_for("4711", 3600, 100);
    let signer = Signer::generate();
    let path = format!("/api/uploads?request={}", link.id);
    let create = |length: &str| raw(&link, "POST", &path, &signer, &[("upload-length", length)], Some(&[]));
    for (length, status) in [("101", 413), ("-1", 400), ("0", 400), ("99999999999999999999", 400), ("x", 400)]
    {
        assert_eq!(create(length).status, status, "{length}");
    }
    let place = create("10").header("location").unwrap().to_owned();
    let piece = |offset: &str, checksum: Option<&str>, body: &[u8]| {
        let mut headers =
            vec![("upload-offset", offset), ("content-type", "application/offset+octet-stream")];
        headers.extend(checksum.map(|checksum| ("upload-checksum", checksum)));
        raw(&link, "PATCH", &place, &signer, &headers, Some(body)).status
    };
    let zeros = "sha256 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    assert_eq!(piece("0", Some(zeros), b"12345"), 460);
    assert_eq!(piece("0", Some("md5 AAAA"), b"12345"), 400);
    assert_eq!(piece("5", None, b"12345"), 409, "nothing is there yet");
    assert_eq!(piece("0", None, b"12345678901"), 413, "more than was said");
    assert_eq!(piece("0", None, b"12345"), 204);
    assert_eq!(piece("0", None, b"12345"), 409, "that is there");
    assert_eq!(piece("5", None, b"67890"), 204);
    // A call that was changed on the way.
    let other = Signer::generate();
    let stolen = raw(&link, "PATCH", &place, &other, &[("upload-offset", "10")], Some(b""));
    assert_eq!(stolen.status, 404);
    for hostile in [
        "/api/uploads/../../lab.db",
        "/api/uploads/%2e%2e%2flab.db",
        "/api/requests/..%2f..%2fkeys",
        "/case/4711",
        "/",
    ] {
        let status = raw(&link, "GET", hostile, &signer, &[], None).status;
        // Pages lead to the login.
        assert!((400..500).contains(&status) || status == 303, "{hostile}: {status}");
    }
}

/// Each piece by what all of the upload up to its end is, with others between, and without what the lab remembers of it.
#[test]
fn pieces_are_held_against_all_that_came_before() {
    let lab = Running::start();
    let (link, signer) = (lab.ask("4711"), Signer::generate());
    let path = format!("/api/uploads?request={}", link.id);
    let whole = b"abcdefghij";
    let digest = |bytes: &[u8]| STANDARD.encode(Sha256::digest(bytes));
    let of_whole = biopsy_deliver::state::hexadecimal(&Sha256::digest(whole));
    let metadata = format!("sha256 {}", STANDARD.encode(of_whole));
    let headers = [("upload-length", "10"), ("upload-metadata", metadata.as_str())];
    let place = raw(&link, "POST", &path, &signer, &headers, Some(&[]));
    let place = place.header("location").unwrap().to_owned();
    let head = raw(&link, "HEAD", &place, &signer, &[], None);
    assert_eq!(head.header("tus-checksum-algorithm"), Some("sha256,sha256-prefix"));
    let piece = |from: usize, to: usize, checksum: &str| {
        let offset = from.to_string();
        let headers = [
            ("upload-offset", offset.as_str()),
            ("upload-checksum", checksum),
            ("content-type", "application/offset+octet-stream"),
        ];
        raw(&link, "PATCH", &place, &signer, &headers, Some(&whole[from..to])).status
    };
    let prefix = |bytes: &[u8]| format!("sha256-prefix {}", digest(bytes));
    assert_eq!(piece(0, 3, &prefix(b"abd")), 460);
    assert_eq!(piece(0, 3, &prefix(b"abc")), 204);
    assert_eq!(piece(3, 5, &prefix(b"de")), 460, "of the piece alone");
    assert_eq!(piece(3, 5, &prefix(b"abcde")), 204, "what was refused is not counted");
    // The lab does not know of all any more, and reads it.
    assert_eq!(piece(5, 7, &format!("sha256 {}", digest(b"fg"))), 204);
    assert_eq!(piece(7, 9, &prefix(b"hi")), 460);
    assert_eq!(piece(7, 10, &prefix(whole)), 204);
    let receipt = || raw(&link, "GET", &format!("{place}/receipt"), &signer, &[], None).status;
    while receipt() == 202 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(receipt(), 200);
}

#[test]
fn nothing_is_given_out_to_whoever_has_the_link() {
    let lab = Running::start();
    let (link, signer) = (lab.ask("4711"), Signer::generate());
    let path = format!("/api/uploads?request={}", link.id);
    let create = |length: &str| raw(&link, "POST", &path, &signer, &[("upload-length", length)], Some(&[]));
    let place = create("10").header("location").unwrap().to_owned();
    assert_eq!(create("9").status, 400, "one upload each");
    assert_eq!(create("11").status, 400, "one upload each");
    let headers = [("upload-offset", "0"), ("content-type", "application/offset+octet-stream")];
    assert_eq!(raw(&link, "PATCH", &place, &signer, &headers, Some(b"12345")).status, 204);
    // Not to its own sender either.
    assert_eq!(raw(&link, "GET", &place, &signer, &[], None).status, 405);
    let file = format!("/api/requests/{}/file", link.id);
    assert_eq!(raw(&link, "GET", &file, &signer, &[], None).status, 405);
}

#[test]
fn a_call_is_taken_as_its_sender_signed_it() {
    let lab = Running::start();
    let (link, signer) = (lab.ask("4711"), Signer::generate());
    let path = format!("/api/uploads?request={}", link.id);
    let created = raw(&link, "POST", &path, &signer, &[("upload-length", "10")], Some(&[]));
    let place = created.header("location").unwrap().to_owned();
    let agent = config(&Patience::default()).build().into();
    let bearer = format!("Bearer {}", *link.secret.to_text());
    // Whoever has the link and has seen the sender's key, which each call shows.
    let key = signer.key().to_string();
    let status = |proof: &str, offset: &str| {
        let all = [
            ("authorization", bearer.as_str()),
            (proof::KEY, key.as_str()),
            (proof::PROOF, proof),
            ("upload-offset", offset),
            ("content-type", "application/offset+octet-stream"),
        ];
        call(&agent, "PATCH", &format!("{}{place}", link.lab), &all, Some(b"12345")).unwrap().status
    };
    let at = |text: &'static str| move |name: &str| (name == "upload-offset").then_some(text);
    let other = proof::sign(&Signer::generate(), "PATCH", &place, at("0"));
    assert_eq!(status(&other, "0"), 404, "by another");
    let of_head = proof::sign(&signer, "HEAD", &place, at("0"));
    assert_eq!(status(&of_head, "0"), 404, "of another call");
    let of_elsewhere = proof::sign(&signer, "PATCH", "/api/uploads/other", at("0"));
    assert_eq!(status(&of_elsewhere, "0"), 404, "of another upload");
    let of_later = proof::sign(&signer, "PATCH", &place, at("5"));
    assert_eq!(status(&of_later, "0"), 404, "of another place");
    assert_eq!(status("", "0"), 404, "of nothing");
    assert_eq!(status(&proof::sign(&signer, "PATCH", &place, at("0")), "0"), 204);
}

#[test]
fn room_is_promised_once() {
    let lab = Running::start();
    let stat = rustix::fs::statvfs(lab.folder.path()).unwrap();
    // Twice as much as is there, whatever others do to the disk meanwhile.
    let most = stat.f_bavail.saturating_mul(stat.f_frsize) * 2 / 3;
    let begin = |link: &Link, signer: &Signer| {
        let path = format!("/api/uploads?request={}", link.id);
        raw(link, "POST", &path, signer, &[("upload-length", &most.to_string())], Some(&[])).status
    };
    let (first, second) = (lab.ask_for("1", 3600, most), lab.ask_for("2", 3600, most));
    let (one, other) = (Signer::generate(), Signer::generate());
    assert_eq!(begin(&first, &one), 201);
    assert_eq!(begin(&second, &other), 507, "nothing of the first is there yet, and its room is taken");
    assert_eq!(begin(&first, &one), 201, "who has a place keeps it");
    // With the first case, its place goes.
    lab.wait_for(delete::case(&lab.lab, "1", "test", "why not")).unwrap();
    assert_eq!(begin(&second, &other), 201);
}

#[test]
fn a_whole_that_is_another_than_was_said_is_refused() {
    let lab = Running::start();
    let link = lab.ask("4711");
    let sender = sender(&link);
    let mut go_on = |_: &Progress| true;
    let recipients = sender.request(&mut go_on).unwrap().recipients().unwrap();
    let path = lab.path("x.age");
    let sealed = seal_file(&mut &b"evidence"[..], &path, &recipients).unwrap();
    let mut state = State::new(&link, sender.signer(), sealed.bytes, sealed.sha256, Vec::new());
    let mut other = std::fs::read(&path).unwrap();
    *other.last_mut().unwrap() ^= 1;
    std::fs::write(&path, other).unwrap();
    let sent = sender.send(&path, &mut state, &mut go_on);
    assert!(matches!(sent, Err(SendError::Changed(_))), "it was not looked at: {sent:?}");
    // A sender that does not look: each piece is as its checksum says, and the whole is another.
    let link = lab.ask("4712");
    let metadata = format!("sha256 {}", STANDARD.encode("00".repeat(32)));
    let headers = [("upload-length", "5"), ("upload-metadata", metadata.as_str())];
    let at = format!("/api/uploads?request={}", link.id);
    let place = raw(&link, "POST", &at, sender.signer(), &headers, Some(&[]));
    let place = place.header("location").unwrap().to_owned();
    let headers = [("upload-offset", "0"), ("content-type", "application/offset+octet-stream")];
    assert_eq!(raw(&link, "PATCH", &place, sender.signer(), &headers, Some(b"12345")).status, 204);
    let receipt = || raw(&link, "GET", &format!("{place}/receipt"), sender.signer(), &[], None).status;
    let mut status = receipt();
    while status == 202 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        status = receipt();
    }
    assert_eq!(status, 404, "the lab read it once more");
    assert!(lab.wait_for(cases::objects(&lab.lab, "4712")).unwrap().is_empty());
}

#[test]
fn a_lab_that_changes_the_keys_is_found_out() {
    let lab = Running::start();
    let link = lab.ask("4711");
    let mine = biopsy_seal::Identity::generate().recipient().to_string();
    let (document,): (String,) = lab
        .wait_for(sqlx::query_as("SELECT document FROM requests").fetch_one(lab.lab.store.pool()))
        .unwrap();
    let signed = biopsy_deliver::Signed::<biopsy_deliver::Request>::parse(document.as_bytes()).unwrap();
    let mut request = signed.verify().unwrap().0;
    request.readers[0].key = mine;
    let put = |document: String| {
        lab.wait_for(
            sqlx::query("UPDATE requests SET document = $1").bind(document).execute(lab.lab.store.pool()),
        )
        .unwrap();
    };
    // By the lab's own key, as whoever took it over has it; and by another.
    put(biopsy_deliver::Signed::new(&request, &lab.lab.signer).unwrap().to_text());
    let error = sender(&link).request(&mut |_: &Progress| true).unwrap_err();
    assert!(matches!(error, SendError::OtherReaders), "{error}");
    put(biopsy_deliver::Signed::new(&request, &Signer::generate()).unwrap().to_text());
    let error = sender(&link).request(&mut |_: &Progress| true).unwrap_err();
    assert!(matches!(error, SendError::NotBelieved { .. }), "{error}");
}
