//! Many uploads at once: how soon others are told, and what the lab needs for 200 that are slow.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use biopsy_deliver::{Link, Progress, SendError, Sender, proof};
use biopsy_testkit::{proc_usage, temp_dir};

use super::lab::{LabProcess, Parcel, listen};
use crate::bench::options::Options;
use crate::bench::statistics::{median, quantile};
use crate::bench::table::{Column, Table};
use crate::run::Outcome;

/// Uploads in flight, and how many are sent in all.
const IN_FLIGHT: usize = 50;
const ALL: usize = 200;
/// Each of them, and how fast: all of them together for some seconds.
const MEGABYTES: u64 = 4;
const BYTES_A_SECOND: u64 = 1 << 20;
/// Until when a notice has to be there.
const WITHIN: Duration = Duration::from_secs(60);

/// Slow senders, and what all of them together send in a second.
const SLOW: usize = 200;
const SLOW_BYTES_A_SECOND: usize = 1_000_000;
/// How long they are looked at.
const LOOK: Duration = Duration::from_secs(20);
/// Sizes of bundles, in megabytes, whose memory is compared.
const SMALL: u64 = 64;
const LARGE: u64 = 2048;

/// From the last byte of an upload, as the sender sees it, to the notice.
pub(super) fn notices(lab: &Path, options: &Options, table: &mut Table, column: &mut Column) -> Outcome {
    let all = if options.quick { IN_FLIGHT } else { ALL };
    let folder = temp_dir("bench-v");
    let (hook, told) = listen()?;
    let lab = LabProcess::start(lab, folder.path(), Some(hook), "1")?;
    let mut parcels = Vec::new();
    for number in 0..all {
        let link = lab.ask(&format!("case-{number}"))?;
        let parcel = Parcel::of_noise(&link, MEGABYTES, folder.path().join(format!("{number}.age")))?;
        parcels.push((number, link, parcel));
    }
    let left = std::sync::Mutex::new(parcels);
    let next = || left.lock().ok().and_then(|mut left| left.pop());
    let (tell, sent) = std::sync::mpsc::channel();
    let failed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT {
            let (tell, failed, next) = (tell.clone(), &failed, &next);
            scope.spawn(move || {
                while let Some((number, link, parcel)) = next() {
                    match last_byte(&link, parcel) {
                        Ok(at) => {
                            let _ = tell.send((format!("case-{number}"), at));
                        }
                        Err(error) => {
                            println!("V notices: {error}");
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    drop(tell);
    let sent: HashMap<String, Instant> = sent.iter().collect();
    let (mut seconds, until) = (Vec::new(), Instant::now() + WITHIN);
    while seconds.len() < sent.len() {
        let Ok(notice) = told.recv_timeout(until.saturating_duration_since(Instant::now())) else { break };
        if let Some(at) = sent.get(&notice.case).filter(|_| notice.event == "upload.completed") {
            seconds.push(notice.at.saturating_duration_since(*at).as_secs_f64());
        }
    }
    let missing = sent.len() - seconds.len();
    let (middle, p99) = (median(&seconds), quantile(&seconds, 0.99));
    println!(
        "V notices: {} uploads, {} failed, {missing} not told of; last byte to notice: median {middle:.2?} s, p99 {p99:.2?} s, longest {:.2?} s",
        sent.len(),
        failed.load(Ordering::Relaxed),
        quantile(&seconds, 1.0),
    );
    let is_right = missing == 0 && failed.load(Ordering::Relaxed) == 0;
    table.judge("V4", if is_right { p99 } else { Some(f64::INFINITY) });
    column.set("last byte to notice, median, s", middle);
    column.set("last byte to notice, 99th percentile, s", p99);
    Ok(())
}

/// Sends it; gives the moment when the lab had the last byte, which is a moment before it says so.
fn last_byte(link: &Link, mut parcel: Parcel) -> Outcome<Instant> {
    let mut sender = Sender::new(link, parcel.signer()?);
    sender.most_per_second = Some(BYTES_A_SECOND);
    let mut last = None;
    let mut watch = |progress: &Progress| {
        if matches!(progress, Progress::At { sent, of } if sent == of) {
            last.get_or_insert_with(Instant::now);
        }
        true
    };
    sender.send(&parcel.path, &mut parcel.state, &mut watch).map_err(|error| error.to_string())?;
    last.ok_or_else(|| "it was not sent".to_owned())
}

/// Memory of the lab with 200 slow uploads in flight, and with bundles of two sizes.
pub(super) fn slow(
    biopsy: &Path,
    lab: &Path,
    options: &Options,
    table: &mut Table,
    column: &mut Column,
) -> Outcome {
    let large = if options.quick { 2 * SMALL } else { LARGE };
    let mut peaks = Vec::new();
    for megabytes in [SMALL, large] {
        let folder = temp_dir("bench-v");
        let lab = LabProcess::start(lab, folder.path(), None, "0")?;
        let link = lab.ask("4711")?;
        let parcel = Parcel::of_noise(&link, megabytes, folder.path().join("sent.age"))?;
        let status = parcel.sending(biopsy, &link)?.status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("biopsy ended with {status}"));
        }
        peaks.push(proc_usage::peak_memory_mb(lab.pid()));
    }
    println!(
        "V slow: memory of the lab after a bundle of {SMALL} MiB {:.1} MB, of {large} MiB {:.1} MB",
        peaks[0], peaks[1]
    );
    table.judge("V5b", Some(peaks[1] / peaks[0]));
    column.set("memory of the lab after a small bundle, MB", Some(peaks[0]));
    column.set("memory of the lab after one of 2 GiB, MB", Some(peaks[1]));

    let folder = temp_dir("bench-v");
    let lab = LabProcess::start(lab, folder.path(), None, "0")?;
    let resting = proc_usage::resident_mb(lab.pid());
    let ends = Arc::new(AtomicBool::new(false));
    let passed = Arc::new(AtomicU32::new(0));
    let mut senders = Vec::new();
    for number in 0..SLOW {
        let link = lab.ask(&format!("case-{number}"))?;
        let parcel = Parcel::of_noise(&link, 1, folder.path().join(format!("{number}.age")))?;
        let (ends, passed) = (Arc::clone(&ends), Arc::clone(&passed));
        let port = lab.port();
        senders.push(std::thread::spawn(move || trickle(&link, parcel, port, &ends, &passed)));
    }
    let before = passed.load(Ordering::Relaxed);
    std::thread::sleep(if options.quick { LOOK / 4 } else { LOOK });
    let in_flight = senders.iter().filter(|sender| !sender.is_finished()).count();
    let (now, peak) = (proc_usage::resident_mb(lab.pid()), proc_usage::peak_memory_mb(lab.pid()));
    let cpu = proc_usage::cpu_seconds(lab.pid());
    let sent = passed.load(Ordering::Relaxed) - before;
    ends.store(true, Ordering::Relaxed);
    for sender in senders {
        if let Ok(Err(error)) = sender.join() {
            println!("V slow: {error}");
        }
    }
    println!(
        "V slow: {in_flight} uploads in flight, {sent} bytes taken meanwhile; the lab has {now:.1} MB ({resting:.1} before), {peak:.1} at most, \
         {cpu:.1} s of CPU in all"
    );
    table.judge("V5a", if in_flight == SLOW { Some(peak) } else { Some(f64::INFINITY) });
    column.set("memory of the lab with 200 slow uploads, MB", Some(peak));
    Ok(())
}

/// Begins an upload, and goes on byte by byte until it is ended.
fn trickle(link: &Link, mut parcel: Parcel, port: u16, ends: &AtomicBool, passed: &AtomicU32) -> Outcome {
    let signer = parcel.signer()?;
    let sender = Sender::new(link, parcel.signer()?);
    // There is a place for it then, and nothing was sent.
    let begun = sender
        .send(&parcel.path, &mut parcel.state, &mut |progress| !matches!(progress, Progress::At { .. }));
    if !matches!(begun, Err(SendError::Stopped)) {
        return Err(format!("an upload did not begin: {begun:?}"));
    }
    let bytes = std::fs::read(&parcel.path).map_err(|error| error.to_string())?;
    let path = parcel.state.upload.clone().unwrap_or_default();
    let header = |name: &str| (name == "upload-offset").then_some("0");
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nhost: lab\r\nauthorization: Bearer {}\r\n{}: {}\r\n{}: {}\r\nupload-offset: 0\r\n\
         content-type: application/offset+octet-stream\r\ncontent-length: {}\r\n\r\n",
        *link.secret.to_text(),
        proof::KEY,
        signer.key(),
        proof::PROOF,
        proof::sign(&signer, "PATCH", &path, header),
        bytes.len(),
    );
    let failed = |error: std::io::Error| format!("a slow upload: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.write_all(head.as_bytes()).map_err(failed)?;
    let step = SLOW_BYTES_A_SECOND / SLOW;
    for piece in bytes.chunks(step / 2) {
        if ends.load(Ordering::Relaxed) {
            return Ok(());
        }
        stream.write_all(piece).map_err(failed)?;
        passed.fetch_add(u32::try_from(piece.len()).unwrap_or(0), Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(500));
    }
    let mut answer = [0; 16];
    let count = stream.read(&mut answer).map_err(failed)?;
    Err(format!("a slow upload ended: {}", String::from_utf8_lossy(&answer[..count])))
}
