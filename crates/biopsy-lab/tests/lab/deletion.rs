//! A case that was deleted cannot be read, not from yesterday's back-up either.

use std::path::Path;

use crate::back_ends;
use crate::support::{Running, send};
use biopsy_deliver::certificate::verify;
use biopsy_deliver::state::{State, hexadecimal};
use biopsy_lab::store::Store;
use biopsy_lab::{Lab, LabError, audit, cases, delete, open};
use sha2::{Digest as _, Sha256};

/// A program that writes down what it was started with, and what the key is.
const READER: &str = "#!/bin/sh\nfor word in \"$@\"; do last=$word; done\n{ echo \"$1\"; echo \"$3\"; cat \"$2\" | wc -c; cat \"$last\"; } > \"$0.out\"\n";

#[test]
fn what_was_sent_is_read_where_it_is_and_no_more_once_it_is_deleted() {
    use std::os::unix::fs::PermissionsExt as _;
    let running = Running::start();
    let link = running.ask("4711");
    let program = running.path("reader");
    std::fs::write(&program, READER).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let words = ["heap".into(), "--holders".into()];
    let error = running.wait_for(open::with(&running.lab, &program, "4711", &words, "test")).unwrap_err();
    assert!(error.to_string().contains("nothing was sent"), "{error}");
    send(&link, b"the evidence", &running.path("sent.age")).unwrap();
    let sealed = std::fs::metadata(running.path("sent.age")).unwrap().len();
    assert!(running.wait_for(open::with(&running.lab, &program, "4711", &words, "test")).unwrap().success());
    let key = running.wait_for(cases::open(&running.lab, "4711", "test", "to compare")).unwrap();
    let seen = std::fs::read_to_string(running.path("reader.out")).unwrap();
    assert_eq!(seen, format!("heap\n--holders\n{sealed}\n{}", *key.secret_text()));
    let reads = running.wait_for(audit::newest(&running.lab.store, 2)).unwrap();
    assert!(reads.iter().any(|line| line.what == "read" && line.detail == "what was sent, by `heap`"));
    running.wait_for(delete::case(&running.lab, "4711", "test", "it has served")).unwrap();
    let error = running.wait_for(open::with(&running.lab, &program, "4711", &[], "test")).unwrap_err();
    assert!(matches!(error, LabError::Deleted(_)), "{error}");
}

fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_back_up_of_database_and_storage_does_not_hold_a_case_that_was_deleted_since() {
    let running = Running::start();
    let (gone, living) = (running.ask("gone"), running.ask("living"));
    send(&gone, b"the evidence", &running.path("gone.age")).unwrap();
    send(&living, b"other evidence", &running.path("living.age")).unwrap();
    let lab = &running.lab;
    running.wait_for(cases::open(lab, "gone", "analyst", "report.html")).unwrap();
    running.wait_for(lab.store.forget()).unwrap();
    let names = |case: &str| running.wait_for(cases::objects(lab, case)).unwrap().remove(0).name;
    let (of_gone, of_living) = (names("gone"), names("living"));
    copy(&running.path("lab"), &running.path("back-up"));
    let backed_up = back_ends::back_up(&running.path("lab"));

    let certificate = running.wait_for(delete::case(lab, "gone", "test", "it has served")).unwrap();
    let receipt = std::fs::read(State::receipt_of(&running.path("gone.age"))).unwrap();
    let verified = verify(certificate.as_bytes(), Some(gone.signer), Some(&receipt)).unwrap();
    assert!(verified.is_known_signer);
    assert_eq!(verified.certificate.reads.len(), 1);
    let other = std::fs::read(State::receipt_of(&running.path("living.age"))).unwrap();
    assert!(verify(certificate.as_bytes(), None, Some(&other)).is_err());
    assert_eq!(
        running.wait_for(delete::case(lab, "gone", "test", "again")).unwrap(),
        certificate,
        "it is deleted once"
    );

    // The living one is read as before; the other one is not, and its files are gone.
    running.wait_for(cases::open(lab, "living", "analyst", "test")).unwrap();
    let error = running.wait_for(cases::open(lab, "gone", "analyst", "test")).unwrap_err();
    assert!(matches!(error, LabError::Deleted(_)), "{error}");
    assert!(running.is_stored(&of_living) && !running.is_stored(&of_gone));

    // Yesterday's database and storage with today's keys, as whoever restores a back-up has them: it does not even open, and no key is
    // destroyed by trying.
    copy(&running.path("lab.keys"), &running.path("back-up.keys"));
    let keys_before = std::fs::read_dir(running.path("back-up.keys")).unwrap().count();
    let error = running.wait_for(Lab::open_with(&running.path("back-up"), None, &backed_up)).unwrap_err();
    assert!(matches!(error, LabError::OlderThanKeys(_)), "{error}");
    assert_eq!(std::fs::read_dir(running.path("back-up.keys")).unwrap().count(), keys_before);

    // And whoever goes around that has wraps, and no key to them.
    let store = match &backed_up.database {
        None => running.wait_for(Store::open(&running.path("back-up/lab.db"))).unwrap(),
        Some(url) => running.wait_for(Store::open_server(url)).unwrap(),
    };
    let wraps: Vec<(String, Vec<u8>)> =
        running.wait_for(sqlx::query_as("SELECT id, wrap FROM cases").fetch_all(store.pool())).unwrap();
    assert_eq!(wraps.len(), 2, "both are there");
    for (case, wrap) in wraps {
        let error = lab.keys.unwrap(&case, &wrap).unwrap_err();
        assert!(matches!(error, LabError::KeyGone { .. }), "{case}: {error}");
    }
    assert_eq!(running.wait_for(audit::check(&lab.store)).unwrap().map(|lines| lines > 5), Ok(true));
}

#[test]
fn a_wrap_opens_its_own_case_alone() {
    let running = Running::start();
    running.ask("one");
    running.ask("other");
    let find = |id: &str| running.wait_for(cases::find(&running.lab, id)).unwrap();
    let (one, other) = (find("one"), find("other"));
    let opened = running.lab.keys.unwrap("one", one.wrap.as_ref().unwrap()).unwrap();
    assert_eq!(opened.recipient().to_string(), one.key);
    assert!(running.lab.keys.unwrap("one", other.wrap.as_ref().unwrap()).is_err(), "of another case");
    let mut changed = one.wrap.unwrap();
    for at in 0..changed.len() {
        changed[at] ^= 1;
        assert!(running.lab.keys.unwrap("one", &changed).is_err(), "{at}");
        changed[at] ^= 1;
    }
}

#[test]
fn a_change_of_keys_that_was_cut_off_leaves_all_that_lives_readable() {
    let running = Running::start();
    running.ask("one");
    let lab = &running.lab;
    let names = || {
        let all = std::fs::read_dir(running.path("lab.keys")).unwrap();
        all.filter(|one| one.as_ref().unwrap().file_name().to_string_lossy().starts_with("kek-")).count()
    };
    // Before the transaction was on the disk.
    running.wait_for(async {
        let mut within = lab.store.begin().await.unwrap();
        let _ = lab.keys.change(&mut within).await.unwrap();
        within.rollback().await.unwrap();
    });
    assert_eq!(names(), 2);
    let again = running.opened_again();
    assert_eq!(names(), 1, "the one that nothing is wrapped with is gone");
    running.wait_for(cases::open(&again, "one", "test", "test")).unwrap();
    // And after it, before the old key was destroyed.
    running.wait_for(async {
        let mut within = lab.store.begin().await.unwrap();
        let _ = lab.keys.change(&mut within).await.unwrap();
        within.commit().await.unwrap();
    });
    assert_eq!(names(), 2);
    let again = running.opened_again();
    assert_eq!(names(), 1);
    running.wait_for(cases::open(&again, "one", "test", "test")).unwrap();
}

#[test]
fn a_log_that_was_changed_is_noticed() {
    let running = Running::start();
    running.ask("one");
    running.ask("two");
    let check = || running.wait_for(audit::check(&running.lab.store)).unwrap();
    assert_eq!(check(), Ok(2));
    let change = |text: &'static str| {
        running.wait_for(sqlx::query(text).execute(running.lab.store.pool())).unwrap();
    };
    change("UPDATE log SET who = 'nobody' WHERE number = 1");
    assert_eq!(check(), Err(1));
    // Whoever knows how a line is digested writes the first one with a digest of its own; those behind it are of another.
    let (time, of, detail): (i64, String, String) = running
        .wait_for(
            sqlx::query_as("SELECT time, of, detail FROM log WHERE number = 1")
                .fetch_one(running.lab.store.pool()),
        )
        .unwrap();
    let mut sha256 = Sha256::new();
    for field in ["", "1", &time.to_string(), "nobody", "asked", &of, &detail] {
        sha256.update(format!("{}:{field},", field.len()));
    }
    let rewritten = sqlx::query("UPDATE log SET hash = $1 WHERE number = 1")
        .bind(hexadecimal(&sha256.finalize()))
        .execute(running.lab.store.pool());
    running.wait_for(rewritten).unwrap();
    assert_eq!(check(), Err(2), "it was written again with a digest of its own");
    change("DELETE FROM log WHERE number = 1");
    assert_eq!(check(), Err(1));
}

#[test]
fn a_case_whose_time_is_up_deletes_itself_and_others_stay() {
    let running = Running::start();
    let lab = &running.lab;
    for case in ["over", "later", "asked"] {
        let link = running.ask(case);
        if case != "asked" {
            send(&link, b"the evidence", &running.path(&format!("{case}.age"))).unwrap();
        }
    }
    let state = |case: &str| running.wait_for(cases::find(lab, case)).unwrap();
    assert!(state("over").kept_until.is_some(), "what was sent has an end");
    let set = sqlx::query("UPDATE cases SET kept_until = 1 WHERE id = 'over'").execute(lab.store.pool());
    running.wait_for(set).unwrap();
    running.wait_for(delete::those_whose_time_is_up(lab)).unwrap();
    let states = ["over", "later", "asked"].map(|case| state(case).state);
    assert_eq!(states, ["deleted", "received", "asked"], "its time is up");
    let certificate = state("over").certificate.unwrap();
    assert_eq!(verify(certificate.as_bytes(), None, None).unwrap().certificate.by, "lab");
}
