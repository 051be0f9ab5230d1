//! A way that is cut, a sender and a lab that are killed: what arrives is what was sent, once.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Running, noise};
use biopsy_deliver::state::State;
use biopsy_deliver::{Link, Progress, SendError, Sender};
use biopsy_lab::cases;
use biopsy_seal::seal_file;

/// A way to the lab that is cut after so many bytes of each connection, again and again.
struct Way {
    port: u16,
    passed: Arc<AtomicU64>,
    cuts: Arc<AtomicU64>,
}

impl Way {
    fn to(lab: u16, most_cuts: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (passed, cuts) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let way = Self { port, passed: Arc::clone(&passed), cuts: Arc::clone(&cuts) };
        std::thread::spawn(move || {
            let mut state = 12_345_u64;
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(("127.0.0.1", lab)) else { continue };
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let is_cut = cuts.load(Ordering::SeqCst) < most_cuts;
                let left = if is_cut { state >> 43 } else { u64::MAX };
                let (passed, cuts) = (Arc::clone(&passed), Arc::clone(&cuts));
                std::thread::spawn(move || pass(client, server, left, &passed, &cuts));
            }
        });
        way
    }
}

fn pass(client: TcpStream, server: TcpStream, mut left: u64, passed: &AtomicU64, cuts: &AtomicU64) {
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let (mut client, mut server) = (client, server);
    let mut buffer = [0; 16 << 10];
    while let Ok(count) = client.read(&mut buffer) {
        if count == 0 {
            break;
        }
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        passed.fetch_add(count as u64, Ordering::SeqCst);
        if server.write_all(&buffer[..count]).is_err() {
            break;
        }
        left -= count as u64;
        if left == 0 {
            cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn begin(running: &Running, link: &Link, bytes: usize) -> (std::path::PathBuf, State) {
    let sender = crate::support::sender(link);
    let recipients = sender.request(&mut |_: &Progress| true).unwrap().recipients().unwrap();
    let path = running.path("big.age");
    let sealed = seal_file(&mut noise(bytes, 3).as_slice(), &path, &recipients).unwrap();
    let mut state = State::new(link, sender.signer(), sealed.bytes, sealed.sha256, Vec::new());
    state.know(&sealed.beginnings);
    (path, state)
}

fn arrived(running: &Running, path: &std::path::Path) {
    let objects = running.wait_for(cases::objects(&running.lab, "4711")).unwrap();
    assert_eq!(objects.len(), 1, "it arrived once");
    assert_eq!(running.stored(&objects[0].name), std::fs::read(path).unwrap());
}

#[test]
fn a_way_that_is_cut_again_and_again_delivers_each_byte() {
    let running = Running::start();
    let mut link = running.ask("4711");
    let (path, mut state) = begin(&running, &link, 24 << 20);
    let way = Way::to(running.address.port(), 40);
    link.lab = format!("http://127.0.0.1:{}", way.port);
    state.lab.clone_from(&link.lab);
    let sender = Sender::new(&link, state.signer().unwrap());
    let receipt = sender.send(&path, &mut state, &mut |_: &Progress| true).unwrap();
    assert_eq!(receipt.bytes, path.metadata().unwrap().len());
    arrived(&running, &path);
    let (passed, cuts) = (way.passed.load(Ordering::SeqCst), way.cuts.load(Ordering::SeqCst));
    // Pieces that are cut are sent again from where the lab says; whole pieces are not.
    assert!(cuts > 5 && passed < receipt.bytes * 3, "{cuts} cuts, {passed} of {} bytes", receipt.bytes);
}

#[test]
fn a_sender_that_is_killed_goes_on_from_what_is_on_its_disk() {
    let running = Running::start();
    let link = running.ask("4711");
    let (path, state) = begin(&running, &link, 24 << 20);
    state.save(&path).unwrap();
    for killed_at in [0, 1, 2, 3] {
        // All that the next one knows is in the file.
        let mut state = State::load(&path).unwrap().unwrap();
        let sender = Sender::new(&link, state.signer().unwrap());
        let mut steps = 0;
        let mut until = |_: &Progress| {
            steps += 1;
            steps <= killed_at
        };
        let error = sender.send(&path, &mut state, &mut until).unwrap_err();
        assert!(matches!(error, SendError::Stopped), "{error}");
    }
    let mut state = State::load(&path).unwrap().unwrap();
    assert!(state.is_of(&link));
    let sender = Sender::new(&link, state.signer().unwrap());
    let mut first = None;
    let mut watch = |progress: &Progress| {
        if let Progress::At { sent, .. } = progress {
            first.get_or_insert(*sent);
        }
        true
    };
    sender.send(&path, &mut state, &mut watch).unwrap();
    assert!(first.unwrap() > 0, "it did not begin again");
    arrived(&running, &path);
}

#[test]
fn a_lab_that_is_killed_again_and_again_loses_nothing_that_it_acknowledged() {
    let running = Running::start();
    let link = running.ask("4711");
    let (path, mut state) = begin(&running, &link, 24 << 20);
    let sending = std::thread::spawn({
        let (link, path) = (link.clone(), path.clone());
        // The folder moves with the lab; the file stays where it is.
        let kept = tempfile::tempdir().unwrap();
        let own = kept.path().join("big.age");
        std::fs::copy(&path, &own).unwrap();
        move || {
            let mut sender = Sender::new(&link, state.signer().unwrap());
            sender.most_per_second = Some(8 << 20);
            let mut highest = 0;
            let mut watch = |progress: &Progress| {
                if let Progress::At { sent, .. } = progress {
                    assert!(*sent >= highest, "what was acknowledged is gone: {sent} after {highest}");
                    highest = *sent;
                }
                true
            };
            let receipt = sender.send(&own, &mut state, &mut watch).unwrap();
            drop(kept);
            receipt
        }
    });
    let mut running = running;
    for pause in [300, 150, 450, 250, 350] {
        std::thread::sleep(Duration::from_millis(pause));
        let (folder, port) = running.kill();
        running = Running::start_in(folder, port);
    }
    let receipt = sending.join().unwrap();
    assert_eq!(receipt.bytes, path.metadata().unwrap().len());
    arrived(&running, &path);
}
