//! Fetches what was sent for a case that its lab cannot read, as it was sealed: for whoever has a key. It goes on where it was cut, and what was fetched is
//! what the customer sent, by its digest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::http::{self, Patience};
use crate::link::is_private;
use crate::state::{digest, hexadecimal};

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Others could look on, and the token is worth something.
    #[error("`{0}` is no address that a token goes to: it begins with https://, or is on this machine")]
    NotPrivate(String),
    /// The lab does not give it.
    #[error("the lab does not give it (it answers {status}): {words}")]
    Refused {
        /// The status.
        status: u16,
        /// Why, in its words.
        words: String,
    },
    /// There is no answer for too long.
    #[error("the lab cannot be reached: {0}")]
    Unreachable(String),
    /// What came is not what was sent.
    #[error("what the lab gave is not what was sent: its digest is another")]
    OtherBytes,
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What is fetched, and from where.
#[derive(Debug)]
pub struct Fetch<'a> {
    /// The lab: `https://lab.example`.
    pub lab: &'a str,
    /// The case.
    pub case: &'a str,
    /// A token of the lab.
    pub token: &'a str,
    /// How long there may be no byte.
    pub give_up_after: Duration,
}

#[derive(Deserialize)]
struct Problem {
    error: String,
}

impl Fetch<'_> {
    /// Writes it to a new file; gives its size.
    ///
    /// # Errors
    /// [`FetchError`]: then there is no file.
    pub fn to(&self, path: &Path) -> Result<u64, FetchError> {
        let lab = self.lab.trim_end_matches('/');
        let is_web = lab.starts_with("https://") || lab.starts_with("http://");
        if !is_web || !is_private(lab) || lab.contains('@') {
            return Err(FetchError::NotPrivate(lab.to_owned()));
        }
        let failed = |source| FetchError::Io { path: path.to_owned(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let fetched = self.all(&format!("{lab}/lab/v1/cases/{}/sent", self.case), &mut file, path);
        if fetched.is_err() {
            // It is of no use in part: nothing else has its name.
            let _ = fs::remove_file(path);
        }
        fetched
    }

    fn all(&self, url: &str, file: &mut File, path: &Path) -> Result<u64, FetchError> {
        let failed = |source| FetchError::Io { path: path.to_owned(), source };
        let agent = http::config(&Patience::default()).build().into();
        let (mut at, mut tag) = (0, String::new());
        let mut last = Instant::now();
        let mut pause = Duration::from_millis(200);
        loop {
            let before = at;
            let why = match self.piece(&agent, url, file, &mut at, &mut tag) {
                Ok(true) => break,
                Ok(false) => "the connection was cut".to_owned(),
                Err(Trouble::Passing(why)) => why,
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Here(source)) => return Err(failed(source)),
            };
            if at > before {
                last = Instant::now();
                pause = Duration::from_millis(200);
            }
            if last.elapsed() > self.give_up_after {
                return Err(FetchError::Unreachable(why));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(15));
        }
        file.sync_all().map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let (bytes, sha256) = digest(file).map_err(failed)?;
        if tag.trim_matches('"') != hexadecimal(&sha256) {
            return Err(FetchError::OtherBytes);
        }
        Ok(bytes)
    }

    /// One call: from where it is to the end, or to a cut. True: that was all.
    fn piece(
        &self,
        agent: &ureq::Agent,
        url: &str,
        file: &mut File,
        at: &mut u64,
        tag: &mut String,
    ) -> Result<bool, Trouble> {
        let mut call = ureq::http::Request::builder()
            .method("GET")
            .uri(url)
            .header("authorization", format!("Bearer {}", self.token));
        if *at > 0 {
            call = call.header("range", format!("bytes={at}-")).header("if-range", tag.as_str());
        }
        let passing = |error: ureq::Error| Trouble::Passing(error.to_string());
        let call = call.body(()).map_err(|error| passing(error.into()))?;
        let mut answer = agent.run(call).map_err(passing)?;
        let status = answer.status().as_u16();
        match status {
            // From the beginning: the first time, or because it is another file by now.
            200 => *at = 0,
            206 if *at > 0 => {}
            429 | 502..=504 => return Err(Trouble::Passing(format!("it answers {status}"))),
            _ => {
                let body = answer.body_mut().with_config().limit(64 << 10).read_to_vec().unwrap_or_default();
                let said = serde_json::from_slice(&body).map(|problem: Problem| problem.error);
                let said = said.unwrap_or_default();
                let words = said.chars().filter(|one| !one.is_control()).take(300).collect();
                return Err(Trouble::Final(FetchError::Refused { status, words }));
            }
        }
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let (given, length) = (header("etag").map(str::to_owned), header("content-length"));
        let length: Option<u64> = length.and_then(|length| length.parse().ok());
        let (Some(given), Some(length)) = (given, length) else {
            return Err(Trouble::Passing("it does not say what it gives".to_owned()));
        };
        if *at > 0 && given != *tag {
            return Err(Trouble::Final(FetchError::OtherBytes));
        }
        *tag = given;
        let end = at.saturating_add(length);
        file.set_len(*at).and_then(|()| file.seek(SeekFrom::Start(*at))).map_err(Trouble::Here)?;
        let mut body = answer.body_mut().with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; 256 << 10];
        loop {
            match body.read(&mut buffer) {
                Ok(0) => return Ok(*at == end),
                Ok(count) => {
                    file.write_all(&buffer[..count]).map_err(Trouble::Here)?;
                    *at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::Passing(error.to_string())),
            }
        }
    }
}

/// Why a call was not the last.
enum Trouble {
    /// It may go better.
    Passing(String),
    /// It will not.
    Final(FetchError),
    /// The file is the trouble.
    Here(io::Error),
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;

    use sha2::{Digest as _, Sha256};

    use super::*;

    /// A lab that hangs up after so many bytes of each answer; gives its address and the ranges that it was asked for.
    fn cutting(bytes: Vec<u8>, tag: String, after: usize) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let (mut asked, mut given) = (Vec::new(), 0);
            while given < bytes.len() {
                let (mut stream, _) = listener.accept().unwrap();
                let mut from = 0;
                for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                    let line = line.unwrap().to_ascii_lowercase();
                    if let Some(range) = line.strip_prefix("range: bytes=") {
                        from = range.trim_end_matches('-').parse().unwrap();
                        asked.push(range.to_owned());
                    }
                    if line.is_empty() {
                        break;
                    }
                }
                let status = if from > 0 { "206 x" } else { "200 x" };
                given = bytes.len().min(from + after);
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\netag: \"{tag}\"\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    bytes.len() - from
                )
                .unwrap();
                stream.write_all(&bytes[from..given]).unwrap();
            }
            asked
        });
        (address, serving)
    }

    fn fetched(lab: &str, path: &Path) -> Result<u64, FetchError> {
        Fetch { lab, case: "4711", token: "t", give_up_after: Duration::from_secs(20) }.to(path)
    }

    #[test]
    fn it_goes_on_where_it_was_cut_and_takes_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("4711.sealed");
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let right = hexadecimal(&Sha256::digest(&bytes));
        let (lab, serving) = cutting(bytes.clone(), right.clone(), 40_000);
        assert_eq!(fetched(&lab, &path).unwrap(), 100_000);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(serving.join().unwrap(), ["40000-", "80000-"]);
        assert!(matches!(fetched(&lab, &path), Err(FetchError::Io { .. })), "it is there already");
        fs::remove_file(&path).unwrap();
        let (lab, _) = cutting(bytes, hexadecimal(&Sha256::digest(b"other")), 100_000);
        assert!(matches!(fetched(&lab, &path), Err(FetchError::OtherBytes)));
        assert!(!path.exists());
        for lab in ["http://lab.example", "ftp://lab.example", "http://127.0.0.1:1@lab.example"] {
            assert!(matches!(fetched(lab, &path), Err(FetchError::NotPrivate(_))), "{lab}");
        }
    }
}
