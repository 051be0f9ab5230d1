//! One call to one server, into a file.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use biopsy_deliver::http::{self, Patience};

use crate::limits::Limits;

/// Bytes that are copied at once.
const PIECE: usize = 256 << 10;
/// How often it is said how far it is, after the first time.
const EVERY: Duration = Duration::from_secs(5);
/// What takes no longer is not worth a word.
const QUICK: Duration = Duration::from_secs(2);
/// Letters of what a server or the system says that are shown.
const WORDS: usize = 200;

/// How far a fetch is that takes long.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The module whose file it is.
    pub module: &'a str,
    /// The server.
    pub server: &'a str,
    /// Bytes that came.
    pub bytes: u64,
    /// Bytes that it has, where the server says so.
    pub of: Option<u64>,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    /// So many bytes were written.
    Bytes(u64),
    /// It does not have the file.
    Missing,
    /// It has something that is not taken, or said no.
    Refused(String),
    /// It cannot be reached, or does not answer: it is not asked again in this run.
    Unreachable(String),
    /// The file here could not be written.
    Here(io::Error),
}

/// Somebody who says how far a fetch is.
pub(crate) type Watch = fn(&Progress<'_>);

/// A server and how it is called.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    agent: ureq::Agent,
}

impl Server {
    pub(crate) fn new(url: String, limits: &Limits) -> Self {
        let patience = Patience { connect: limits.connect, send: limits.answer, answer: limits.answer };
        // Whoever was asked for privately does not send on to where others look on.
        let agent = http::config(&patience)
            .https_only(url.starts_with("https://"))
            .max_redirects(limits.redirects)
            .timeout_per_read(Some(limits.answer))
            .timeout_recv_body(Some(limits.whole))
            .build()
            .into();
        Self { url, agent }
    }

    /// Asks for a file by its path below the server's address, and writes at most `most` bytes of it.
    pub(crate) fn fetch(
        &self,
        path: &str,
        module: &str,
        limits: &Limits,
        most: u64,
        file: &mut File,
        watch: Watch,
    ) -> Answer {
        let url = format!("{}/{path}", self.url);
        let begun = Instant::now();
        let mut answer = match self.agent.get(&url).call() {
            Ok(answer) => answer,
            Err(ureq::Error::TooManyRedirects) => {
                return Answer::Refused(format!("it sends on more than {} times", limits.redirects));
            }
            Err(ureq::Error::RequireHttpsOnly(_)) => {
                return Answer::Refused("it sends on to an address that is not https".to_owned());
            }
            Err(error) => return Answer::Unreachable(words(&error.to_string())),
        };
        match answer.status().as_u16() {
            200 => {}
            404 | 410 => return Answer::Missing,
            status @ (429 | 500..=599) => return Answer::Unreachable(format!("it answers {status}")),
            status => return Answer::Refused(format!("it answers {status}")),
        }
        let length =
            answer.headers().get("content-length").and_then(|value| value.to_str().ok()?.parse().ok());
        let too_large =
            |size: u64| Answer::Refused(format!("the file has {size} bytes, {most} may be fetched"));
        if let Some(size) = length.filter(|size| *size > most) {
            return too_large(size);
        }
        let mut body = answer.body_mut().with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; PIECE];
        let (mut bytes, mut said) = (0_u64, None::<Instant>);
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let why = words(&error.to_string());
                    return Answer::Unreachable(format!("the answer broke off after {bytes} bytes: {why}"));
                }
            };
            bytes += count as u64;
            if bytes > most {
                return too_large(bytes);
            }
            if let Err(error) = file.write_all(&buffer[..count]) {
                return Answer::Here(error);
            }
            if begun.elapsed() > QUICK && said.is_none_or(|said| said.elapsed() > EVERY) {
                watch(&Progress { module, server: &self.url, bytes, of: length });
                said = Some(Instant::now());
            }
        }
        match length {
            Some(whole) if whole != bytes => {
                Answer::Unreachable(format!("the answer broke off after {bytes} of {whole} bytes"))
            }
            _ => Answer::Bytes(bytes),
        }
    }
}

/// Fit for a message: a server has a part in it.
fn words(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(WORDS).collect()
}
