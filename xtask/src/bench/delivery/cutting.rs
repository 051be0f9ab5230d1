//! A way that is cut, and a sender and a lab that are killed, at random bytes of one upload.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_testkit::temp_dir;

use super::lab::{LabProcess, Parcel, listen};
use crate::bench::options::Options;
use crate::bench::table::{Column, Table};
use crate::run::Outcome;

/// Megabytes that are sent, cuts, kills of the sender and of the lab.
const WHOLE: (u64, usize, usize) = (1024, 100, 20);
const QUICK: (u64, usize, usize) = (64, 10, 2);
/// Until when it has to be there.
const WITHIN: Duration = Duration::from_secs(1800);

/// What happens when so many bytes have passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blow {
    Cut,
    KillSender,
    KillLab,
}

/// What is still to happen, and what passed until now.
struct Fate {
    /// The next one is the last.
    blows: Vec<(u64, Blow)>,
    passed: u64,
    sender: Option<Child>,
    lab: LabProcess,
}

type Shared = Arc<Mutex<Fate>>;

fn lock(fate: &Shared) -> std::sync::MutexGuard<'_, Fate> {
    fate.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends one file through all of it.
pub(super) fn measure(
    biopsy: &Path,
    lab: &Path,
    options: &Options,
    table: &mut Table,
    column: &mut Column,
) -> Outcome {
    let (megabytes, cuts, kills) = if options.quick { QUICK } else { WHOLE };
    let folder = temp_dir("bench-v");
    let (hook, told) = listen()?;
    let lab = LabProcess::start(lab, folder.path(), Some(hook), "0")?;
    let mut link = lab.ask("4711")?;
    let mut parcel = Parcel::of_noise(&link, megabytes, folder.path().join("sent.age"))?;
    let port = lab.port();
    let blows = blows(parcel.state.bytes, cuts, kills);
    let fate = Arc::new(Mutex::new(Fate { blows, passed: 0, sender: None, lab }));
    link.lab = format!("http://127.0.0.1:{}", way(port, &fate)?);
    parcel.state.lab.clone_from(&link.lab);
    // Saves the state; from here on the senders have it.
    let mut command = parcel.sending(biopsy, &link)?;
    command.args(["--patience", "120"]).stderr(std::process::Stdio::null());
    let began = Instant::now();
    let (mut sender_starts, mut lab_starts) = (0_u32, 0_u32);
    loop {
        if began.elapsed() > WITHIN {
            return Err("it was not there in time".to_owned());
        }
        let mut now = lock(&fate);
        if now.lab.pid() == 0 {
            now.lab.start_again()?;
            lab_starts += 1;
        }
        match now.sender.as_mut().map(|child| child.try_wait()) {
            Some(Ok(Some(status))) if status.success() => break,
            // Killed, or given up for a moment.
            None | Some(Ok(Some(_)) | Err(_)) => {
                now.sender = Some(command.spawn().map_err(|error| format!("cannot run biopsy: {error}"))?);
                sender_starts += 1;
            }
            Some(Ok(None)) => {}
        }
        drop(now);
        std::thread::sleep(Duration::from_millis(20));
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut now = lock(&fate);
    let kept = now.lab.kept();
    let is_same = kept.len() == 1 && parcel.is_same(&kept[0]);
    let receipt = biopsy_deliver::state::State::receipt_of(&parcel.path);
    // Notices are sent twice a second.
    std::thread::sleep(Duration::from_secs(3));
    let completed = told.try_iter().filter(|notice| notice.event == "upload.completed").count();
    // The threads of the way have it, too, and end with this program: nobody else ends it.
    now.lab.kill();
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = now.passed as f64 / parcel.state.bytes as f64;
    println!(
        "V cutting: {megabytes} MiB, {} blows left, sender started {sender_starts} times, lab {lab_starts} times again, {seconds:.1} s; \
         bytes sent {ratio:.4} times, equal {is_same}, receipts {}, told {completed} times",
        now.blows.len(),
        u32::from(receipt.is_file()),
    );
    let is_right = is_same && receipt.is_file() && completed == 1 && now.blows.is_empty();
    table.judge("V2a", Some(ratio));
    table.judge("V2b", Some(f64::from(u8::from(is_right))));
    column.set("bytes sent over a way that is cut, times their number", Some(ratio));
    column.set("the same, time, s", Some(seconds));
    Ok(())
}

/// All blows in the order of their bytes, the first one last. The same in each run.
fn blows(bytes: u64, cuts: usize, kills: usize) -> Vec<(u64, Blow)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    let each = [(Blow::Cut, cuts), (Blow::KillSender, kills), (Blow::KillLab, kills)];
    let mut all: Vec<(u64, Blow)> = each
        .into_iter()
        .flat_map(|(blow, count)| std::iter::repeat_n(blow, count))
        .map(|blow| (random() % bytes, blow))
        .collect();
    all.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    all
}

/// A way to the lab on which the blows fall; gives its port.
fn way(lab: u16, fate: &Shared) -> Outcome<u16> {
    let failed = |error: std::io::Error| format!("cannot listen: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let fate = Arc::clone(fate);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", lab)) else { continue };
            let fate = Arc::clone(&fate);
            std::thread::spawn(move || pass(client, server, &fate));
        }
    });
    Ok(port)
}

fn pass(mut client: TcpStream, mut server: TcpStream, fate: &Shared) {
    let (Ok(mut back_from), Ok(mut back_to)) = (server.try_clone(), client.try_clone()) else { return };
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = client.read(&mut buffer) {
        if count == 0 || server.write_all(&buffer[..count]).is_err() {
            break;
        }
        let mut now = lock(fate);
        now.passed += count as u64;
        if now.blows.last().is_none_or(|(at, _)| *at > now.passed) {
            continue;
        }
        match now.blows.pop() {
            Some((_, Blow::KillSender)) => {
                if let Some(mut sender) = now.sender.take() {
                    let _ = sender.kill();
                    let _ = sender.wait();
                }
            }
            Some((_, Blow::KillLab)) => now.lab.kill(),
            _ => {}
        }
        break;
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}
