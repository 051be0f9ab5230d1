//! Threads that ask a server, each on a connection of its own, one request after the other.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::proc_usage::cpu_seconds;

/// When a request was answered, and how long it took.
pub type Answered = (Instant, Duration);

/// One window of time in which a load went on.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Requests answered a second.
    pub per_second: f64,
    /// Seconds of CPU of the server for each of them.
    pub cpu_per_request: f64,
    /// The same with those of the clients, which are this process: where all CPUs are in use, this is what decides how many are answered,
    /// whatever others do meanwhile.
    pub all_cpu_per_request: f64,
}

/// A load that goes on until it is stopped.
#[derive(Debug)]
pub struct Askers {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Vec<Answered>>>,
}

impl Askers {
    /// Asks for `path` at a port of the loopback interface. `kept`: remembers each answer; otherwise they are counted.
    #[must_use]
    pub fn start(port: u16, path: &str, connections: u32, kept: bool) -> Self {
        Self::with(port, path, connections, kept, 0)
    }

    /// The same, where each answer costs the client so much CPU time, as it does where the client is a program and no loop.
    #[must_use]
    pub fn start_working(port: u16, path: &str, connections: u32, work: Duration) -> Self {
        Self::with(port, path, connections, false, rounds_of(work))
    }

    fn with(port: u16, path: &str, connections: u32, kept: bool, work: u32) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let threads = (0..connections).map(|_| {
            let (stop, count, request) = (Arc::clone(&stop), Arc::clone(&count), request.clone());
            std::thread::spawn(move || ask(port, &request, &stop, &count, kept, work).unwrap_or_default())
        });
        Self { threads: threads.collect(), stop, count }
    }

    /// Requests that were answered so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What is answered, and what each answer costs the server `pid`, in so much time from now on.
    #[must_use]
    pub fn window(&self, pid: u32, length: Duration) -> Window {
        let own = std::process::id();
        let (began, count) = (Instant::now(), self.count());
        let (server, clients) = (cpu_seconds(pid), cpu_seconds(own));
        std::thread::sleep(length);
        #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
        let requests = (self.count() - count).max(1) as f64;
        let (server, clients) = (cpu_seconds(pid) - server, cpu_seconds(own) - clients);
        Window {
            per_second: requests / began.elapsed().as_secs_f64(),
            cpu_per_request: server / requests,
            all_cpu_per_request: (server + clients) / requests,
        }
    }

    /// Ends it; what was remembered, connection by connection.
    #[must_use]
    pub fn stop(self) -> Vec<Answered> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

fn ask(
    port: u16,
    request: &str,
    stop: &AtomicBool,
    count: &AtomicU64,
    kept: bool,
    work: u32,
) -> std::io::Result<Vec<Answered>> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut answered = Vec::new();
    let mut answer = Vec::new();
    let mut part = [0; 16 << 10];
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        socket.write_all(request.as_bytes())?;
        answer.clear();
        while !is_whole(&answer) {
            match socket.read(&mut part)? {
                0 => return Ok(answered),
                count => answer.extend_from_slice(&part[..count]),
            }
        }
        count.fetch_add(1, Ordering::Relaxed);
        calculate(work);
        if kept {
            answered.push((Instant::now(), asked.elapsed()));
        }
    }
    Ok(answered)
}

/// Rounds of [`calculate`] that take so long on this machine: the best of some tries, as others may run meanwhile.
fn rounds_of(work: Duration) -> u32 {
    const TRY: u32 = 200_000;
    let tries = (0..20).map(|_| {
        let began = Instant::now();
        calculate(TRY);
        began.elapsed()
    });
    let best = tries.min().unwrap_or_default().as_secs_f64().max(1e-9);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousand")]
    let rounds = (f64::from(TRY) * work.as_secs_f64() / best) as u32;
    rounds
}

fn calculate(rounds: u32) {
    let mut value = 1_u64;
    for round in 0..rounds {
        value = std::hint::black_box(value.wrapping_mul(31).wrapping_add(u64::from(round)));
    }
    std::hint::black_box(value);
}

/// Whether an answer has come to its end: as long as its head says, or to its last chunk.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) => body.len() >= length,
        None => body.ends_with("0\r\n\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_where_they_say() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"));
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"));
    }
}
