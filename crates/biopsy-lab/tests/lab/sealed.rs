//! Sealed mode: the lab takes in, keeps, gives out and deletes what it has no key to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use biopsy_deliver::certificate::verify;
use biopsy_deliver::fetch::{Fetch, FetchError};
use biopsy_deliver::state::State;
use biopsy_lab::people::{Role, Roles, token};
use biopsy_lab::store::Store;
use biopsy_lab::{LabError, cases, delete, open, readers, work};
use biopsy_seal::{Identity, SealedFile, UnsealError};

use crate::back_ends;
use crate::pages::entered;
use crate::support::{Running, noise, send};

const CLEAR: &[u8] = b"the evidence that nobody of the lab may read";

/// A lab that seals new cases to two keys.
fn sealing() -> (Running, [Identity; 2]) {
    let running = Running::start();
    let own = [Identity::generate(), Identity::generate()];
    let readers = own.each_ref().map(Identity::recipient);
    running.wait_for(readers::set(&running.lab, &readers, "test")).unwrap();
    (running, own)
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all
}

fn plain(path: &Path, identity: &Identity) -> Result<Vec<u8>, UnsealError> {
    let mut bytes = Vec::new();
    let mut file = SealedFile::open(path, identity)?;
    std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
    Ok(bytes)
}

#[test]
fn nothing_that_the_lab_has_opens_what_was_sent() {
    let (running, own) = sealing();
    let lab = &running.lab;
    let link = running.ask("4711");
    let sent = running.path("sent.age");
    let plain_bytes = [CLEAR, &noise(300_000, 3)].concat();
    let receipt = send(&link, &plain_bytes, &sent).unwrap();
    // Nobody tries to read it.
    assert!(!running.wait_for(work::do_one(lab)).unwrap());
    let case = running.wait_for(cases::find(lab, "4711")).unwrap();
    assert!(case.is_sealed() && case.state == "received", "{case:?}");
    let objects = running.wait_for(cases::objects(lab, "4711")).unwrap();
    let kinds: Vec<&str> = objects.iter().map(|object| object.kind.as_str()).collect();
    assert_eq!(kinds, ["sent"]);
    // The key of the case opens the outer seal, and what is within is what was sent, sealed.
    let outer = running.wait_for(cases::open(lab, "4711", "test", "to look")).unwrap();
    let held = running.held(&objects[0].name);
    let within = running.path("within.age");
    std::fs::write(&within, plain(held.as_ref(), &outer).unwrap()).unwrap();
    assert_eq!(std::fs::read(&within).unwrap(), std::fs::read(&sent).unwrap());
    // Every key that there is in the lab: neither this one, nor any that could be read from its files.
    let mut keys = vec![outer];
    for path in files(&running.path("lab")).into_iter().chain(files(&running.path("lab.keys"))) {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(CLEAR.len()).any(|part| part == CLEAR), "{}", path.display());
        keys.extend(Identity::of_file(&path).ok());
    }
    for key in &keys {
        assert!(matches!(plain(&within, key), Err(UnsealError::OtherKey { .. })));
    }
    for key in &own {
        assert_eq!(plain(&within, key).unwrap(), plain_bytes);
    }
    // What arrived is there once, with the outer seal alone.
    let arrived: Vec<PathBuf> = files(&running.path("lab/objects"));
    assert!(arrived.len() <= 1 && plain(&within, &own[0]).is_ok(), "{arrived:?}");
    let error = running.wait_for(open::with(lab, Path::new("/bin/true"), "4711", &[], "test")).unwrap_err();
    assert!(matches!(error, LabError::Sealed(_)), "{error}");
    // What is known without a key.
    let (browser, _) = entered(&running, "ada", &[Role::Analyst]);
    let page = browser.get("/case/4711").body;
    for shown in [&*receipt.sha256, &own[1].recipient().to_string(), "biopsy open 4711 --from", "biopsy 0."] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert_eq!(browser.get("/case/4711/report").status, 400);
}

#[test]
fn whoever_has_a_key_and_may_read_fetches_it_as_it_was_sent() {
    let (running, own) = sealing();
    let lab = &running.lab;
    let sent = running.path("sent.age");
    let plain_bytes = noise(1_500_000, 9);
    send(&running.ask("4711"), &plain_bytes, &sent).unwrap();
    let token = |name: &str, role: Role| {
        running.wait_for(token::make(lab, name, &Roles(vec![role]), 3600, "test")).unwrap()
    };
    let (reader, asker) = (token("reader", Role::Analyst), token("asker", Role::Intake));
    let address = format!("http://{}", running.address);
    let fetch = |case: &str, token: &str, name: &str| {
        let fetch = Fetch { lab: &address, case, token, give_up_after: Duration::from_secs(30) };
        let path = running.path(name);
        fetch.to(&path).map(|_| path)
    };
    let fetched = fetch("4711", &reader, "fetched").unwrap();
    assert_eq!(std::fs::read(&fetched).unwrap(), std::fs::read(&sent).unwrap());
    assert_eq!(plain(&fetched, &own[0]).unwrap(), plain_bytes);
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut rest = agent
        .get(format!("{address}/lab/v1/cases/4711/sent"))
        .header("authorization", format!("Bearer {reader}"))
        .header("range", "bytes=1000000-")
        .call()
        .unwrap();
    assert_eq!(rest.status(), 206);
    assert_eq!(rest.body_mut().read_to_vec().unwrap(), std::fs::read(&sent).unwrap()[1_000_000..]);
    let refused = |result: Result<PathBuf, FetchError>| match result.unwrap_err() {
        FetchError::Refused { status, words } => (status, words),
        other => panic!("{other}"),
    };
    assert_eq!(refused(fetch("4711", &asker, "x")).0, 403);
    assert_eq!(refused(fetch("4711", "none", "x")).0, 401);
    assert_eq!(refused(fetch("none", &reader, "x")).0, 404);
    running.wait_for(readers::set(lab, &[], "test")).unwrap();
    let link = running.ask("4712");
    assert_eq!(refused(fetch("4712", &reader, "x")).0, 400);
    // A case that is there stays as it is, and a new one is the lab's to read.
    assert!(running.wait_for(cases::find(lab, "4711")).unwrap().is_sealed());
    send(&link, &plain_bytes, &running.path("other.age")).unwrap();
    assert!(!running.wait_for(cases::find(lab, "4712")).unwrap().is_sealed());
    let reads = running.wait_for(biopsy_lab::audit::of_case(&lab.store, "4711")).unwrap();
    assert!(reads.iter().any(|line| line.who == "token:reader" && line.detail == "what was sent, sealed"));
}

#[test]
fn a_sealed_case_that_was_deleted_is_gone_from_back_ups_for_those_with_keys_too() {
    let (running, own) = sealing();
    let lab = &running.lab;
    let sent = running.path("sent.age");
    send(&running.ask("4711"), CLEAR, &sent).unwrap();
    running.wait_for(lab.store.forget()).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([running.path("lab"), running.path("back-up")])
        .status()
        .unwrap();
    assert!(copied.success());
    let backed_up = back_ends::back_up(&running.path("lab"));
    let name = running.wait_for(cases::objects(lab, "4711")).unwrap().remove(0).name;
    let kept = std::fs::read(running.held(&name)).unwrap();
    let certificate = running.wait_for(delete::case(lab, "4711", "test", "it has served")).unwrap();
    let receipt = std::fs::read(State::receipt_of(&sent)).unwrap();
    let verified = verify(certificate.as_bytes(), None, Some(&receipt)).unwrap().certificate;
    let keys = own.each_ref().map(|key| key.recipient().to_string());
    assert_eq!(verified.sealed_to, keys);
    assert!(verified.limits.contains("while it was arriving"), "{}", verified.limits);
    assert!(!running.is_stored(&name));
    // Yesterday's storage is opened by no key of the vendor's: the seal around it is the case's, whose key is gone.
    let old = running.path("old.age");
    std::fs::write(&old, kept).unwrap();
    for key in &own {
        assert!(matches!(plain(&old, key), Err(UnsealError::OtherKey { .. })));
    }
    let store = match &backed_up.database {
        None => running.wait_for(Store::open(&running.path("back-up/lab.db"))).unwrap(),
        Some(url) => running.wait_for(Store::open_server(url)).unwrap(),
    };
    let (wrap,): (Vec<u8>,) =
        running.wait_for(sqlx::query_as("SELECT wrap FROM cases").fetch_one(store.pool())).unwrap();
    assert!(matches!(lab.keys.unwrap("4711", &wrap), Err(LabError::KeyGone { .. })));
}
