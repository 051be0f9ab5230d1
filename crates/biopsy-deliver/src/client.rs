//! Sending a sealed file by tus 1.0 (<https://tus.io/protocols/resumable-upload>): pieces with a checksum each, from where the lab
//! says that it is, as often as it takes.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::SendBody;

use crate::error::SendError;
use crate::http::{self, Answer, Patience, call_with};
use crate::link::Link;
use crate::pace::{LARGEST_PIECE, PieceSize, Progress, SMALLEST_PIECE, Trouble, Verb};
use crate::pieces::{Checksum, Contents};
use crate::proof;
use crate::receipt::Receipt;
use crate::request::Request;
use crate::signed::{Signed, Signer};
use crate::state::{State, write_whole};

/// The checksum of a piece that says what all of the upload up to its end is.
const PREFIX: &str = "sha256-prefix";
/// The call that sends a piece ...
const PATCH: &str = "PATCH";
/// ... and the header of a POST that stands for it, where something on the way lets no other through (tus 1.0).
const OVERRIDE: &str = "x-http-method-override";
/// Where the lab takes uploads.
const UPLOADS: &str = "/api/uploads";

/// The way to one lab, for one link.
#[derive(Debug)]
pub struct Sender<'a> {
    link: &'a Link,
    signer: Signer,
    agent: ureq::Agent,
    /// How long there may be no progress before it is given up.
    pub give_up_after: Duration,
    /// Most bytes in a second.
    pub most_per_second: Option<u64>,
}

impl<'a> Sender<'a> {
    /// With the key that began to send, or a new one.
    #[must_use]
    pub fn new(link: &'a Link, signer: Signer) -> Self {
        let agent = http::config(&Patience::default()).build().into();
        Self { link, signer, agent, give_up_after: Duration::from_secs(300), most_per_second: None }
    }

    /// The key of this sender.
    #[must_use]
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// What is asked for. It is the lab's that gave the link, and for the keys that the link says.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn request(&self, watch: &mut dyn FnMut(&Progress) -> bool) -> Result<Request, SendError> {
        let path = format!("/api/requests/{}", self.link.id);
        let answer = self.persistently(watch, |sender| sender.call("GET", &path, &[], None))?;
        let text = match answer.status {
            200 => answer.body,
            _ => return Err(refused("the request", &answer)),
        };
        let not_believed = |source| SendError::NotBelieved { what: "the request", source };
        let (request, _) = Signed::<Request>::parse(&text)
            .and_then(|signed| signed.verify_by(self.link.signer))
            .map_err(not_believed)?;
        if request.id != self.link.id || request.readers_fingerprint() != self.link.readers {
            return Err(SendError::OtherReaders);
        }
        Ok(request)
    }

    /// Sends a sealed file, or what is left of it, and keeps the receipt beside it.
    ///
    /// # Errors
    /// [`SendError`]. What is known is kept beside the file: the next call goes on from there.
    pub fn send(
        &self,
        sealed: &Path,
        state: &mut State,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Receipt, SendError> {
        let failed = |source| SendError::Io { path: sealed.to_owned(), source };
        let as_sealed = state.clone();
        let contents = Contents::open(sealed, &as_sealed).map_err(failed)?;
        let bytes = state.bytes;
        if !contents.is_as_long().map_err(failed)? {
            return Err(SendError::Changed(sealed.to_owned()));
        }
        state.save(sealed).map_err(failed)?;
        let mut is_anew = false;
        let (receipt, text) = loop {
            let upload = match &state.upload {
                Some(upload) => upload.clone(),
                None => {
                    is_anew = true;
                    let upload = self.create(state, watch)?;
                    state.upload = Some(upload.clone());
                    state.save(sealed).map_err(failed)?;
                    upload
                }
            };
            let sent = self.send_pieces(&contents, bytes, &upload, watch);
            match sent.and_then(|()| self.receipt(&upload, watch)) {
                // The place of an earlier run has expired, or what was there was refused: another one is asked for, once.
                Err(SendError::Refused) if !is_anew => state.upload = None,
                other => break other?,
            }
        };
        if receipt.request != self.link.id || receipt.bytes != bytes || receipt.sha256 != state.sha256 {
            return Err(SendError::OtherReceipt);
        }
        let kept = State::receipt_of(sealed);
        write_whole(&kept, text.as_bytes()).map_err(|source| SendError::Io { path: kept, source })?;
        State::remove(sealed);
        Ok(receipt)
    }

    /// Asks for a place. The lab gives the same one to the same key as often as it asks.
    fn create(&self, state: &State, watch: &mut dyn FnMut(&Progress) -> bool) -> Result<String, SendError> {
        let length = state.bytes.to_string();
        let consent = serde_json::to_string(&state.consent).unwrap_or_default();
        let pair = |name: &str, value: &str| format!("{name} {}", STANDARD.encode(value));
        let mut metadata = format!("{},{}", pair("sha256", &state.sha256), pair("consent", &consent));
        metadata.push_str(&format!(",{}", pair("program", concat!("biopsy ", env!("CARGO_PKG_VERSION")))));
        if let Some(contact) = &state.contact {
            metadata.push_str(&format!(",{}", pair("contact", contact)));
        }
        let headers = [("upload-length", length.as_str()), ("upload-metadata", metadata.as_str())];
        let answer = self.persistently(watch, |sender| {
            let path = format!("{UPLOADS}?request={}", sender.link.id);
            sender.call("POST", &path, &headers, Some(&[]))
        })?;
        match answer.status {
            201 => {}
            413 => {
                let most = answer.header("tus-max-size").and_then(|most| most.parse().ok()).unwrap_or(0);
                return Err(SendError::TooLarge { bytes: state.bytes, most });
            }
            _ => return Err(refused("the upload", &answer)),
        }
        // It may be a whole address. Only its path is used: what is sent goes to the lab of the link.
        let location = answer.header("location").unwrap_or_default();
        let id = location.rsplit('/').next().unwrap_or_default();
        let is_id =
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !is_id {
            let words = "no place to send to".to_owned();
            return Err(SendError::Answer { call: "the upload", status: answer.status, words });
        }
        Ok(format!("{UPLOADS}/{id}"))
    }

    /// Each byte is read once, as it goes out, where the lab holds pieces against what was known when the file was sealed. The last piece
    /// of a file that was changed since is not taken.
    fn send_pieces(
        &self,
        contents: &Contents<'_>,
        bytes: u64,
        upload: &str,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<(), SendError> {
        let Place { mut at, mut takes_prefixes } = self.offset(upload, watch)?;
        let failed = |source| SendError::Io { path: contents.path.to_owned(), source };
        let changed = || SendError::Changed(contents.path.to_owned());
        let mut size = PieceSize::first();
        let mut trouble = Trouble::default();
        let mut verb = Verb::default();
        let most =
            self.most_per_second.map_or(LARGEST_PIECE, |most| most.clamp(SMALLEST_PIECE, LARGEST_PIECE));
        while at < bytes {
            if !watch(&Progress::At { sent: at, of: bytes }) {
                return Err(SendError::Stopped);
            }
            let end = contents.end_of_piece(at, size.bytes().min(most));
            // Whoever holds the pieces alone against something takes any file.
            if end == bytes && !takes_prefixes && contents.was_changed().map_err(failed)? {
                return Err(changed());
            }
            let checksum = match contents.checksum(at, end, takes_prefixes).map_err(failed)? {
                Checksum::OfPrefix(sha256) => format!("{PREFIX} {}", STANDARD.encode(sha256)),
                Checksum::OfPiece(sha256) => format!("sha256 {}", STANDARD.encode(sha256)),
            };
            let (offset, length) = (at.to_string(), (end - at).to_string());
            let headers = [
                ("upload-offset", offset.as_str()),
                ("upload-checksum", checksum.as_str()),
                ("content-length", length.as_str()),
                ("content-type", "application/offset+octet-stream"),
            ];
            let began = Instant::now();
            let mut piece = contents.piece(at, end);
            let why = match self.send_piece(&verb, upload, &headers, SendBody::from_reader(&mut piece)) {
                Ok(answer) if answer.status == 204 => {
                    trouble = Trouble::default();
                    verb.went_through();
                    size.went_through(end - at, began.elapsed());
                    self.hold_back(end - at, began.elapsed());
                    at = end;
                    continue;
                }
                // What was sent before was changed since, here or there, or something on the way changes bytes.
                Ok(answer) if answer.status == 460 && takes_prefixes => {
                    if contents.was_changed().map_err(failed)? {
                        return Err(changed());
                    }
                    // The lab finds at the end what is wrong with what it has, and asks for all of it.
                    takes_prefixes = false;
                    "the lab has other bytes".to_owned()
                }
                Ok(answer) if is_passing(answer.status) => format!("the lab answered {}", answer.status),
                Ok(answer) if is_forbidden(answer.status) => match verb.was_forbidden() {
                    true => continue,
                    false => {
                        return Err(SendError::Blocked { status: answer.status, words: answer.words() });
                    }
                },
                Ok(answer) => return Err(refused("a piece", &answer)),
                Err(_) if !contents.is_as_long().map_err(failed)? => return Err(changed()),
                Err(error) => error.to_string(),
            };
            size.was_cut(began.elapsed());
            verb.was_cut(trouble.tries);
            trouble.pause(self.give_up_after, why, watch)?;
            at = self.offset(upload, watch)?.at;
        }
        watch(&Progress::At { sent: bytes, of: bytes });
        Ok(())
    }

    /// How much is on the lab's disk.
    fn offset(&self, upload: &str, watch: &mut dyn FnMut(&Progress) -> bool) -> Result<Place, SendError> {
        let answer = self.persistently(watch, |sender| sender.call("HEAD", upload, &[], None))?;
        let checksums = answer.header("tus-checksum-algorithm").unwrap_or_default();
        let takes_prefixes = checksums.split(',').any(|name| name.trim() == PREFIX);
        match (answer.status, answer.header("upload-offset").and_then(|at| at.parse().ok())) {
            (200 | 204, Some(at)) => Ok(Place { at, takes_prefixes }),
            _ => Err(refused("the upload", &answer)),
        }
    }

    fn receipt(
        &self,
        upload: &str,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<(Receipt, String), SendError> {
        let path = format!("{upload}/receipt");
        // It is there in a moment, most of the time.
        let mut trouble = Trouble::with_pause(Duration::from_millis(10));
        loop {
            let answer = self.persistently(watch, |sender| sender.call("GET", &path, &[], None))?;
            match answer.status {
                200 => {
                    let not_believed = |source| SendError::NotBelieved { what: "the receipt", source };
                    let (receipt, _) = Signed::<Receipt>::parse(&answer.body)
                        .and_then(|signed| signed.verify_by(self.link.signer))
                        .map_err(not_believed)?;
                    return Ok((receipt, String::from_utf8_lossy(&answer.body).into_owned()));
                }
                // It still reads what it got.
                202 => trouble.pause(self.give_up_after, "the lab checks what it got".to_owned(), watch)?,
                _ => return Err(refused("the receipt", &answer)),
            }
        }
    }

    /// A call that is made again while there is no answer, or one that passes.
    fn persistently(
        &self,
        watch: &mut dyn FnMut(&Progress) -> bool,
        make: impl Fn(&Self) -> Result<Answer, ureq::Error>,
    ) -> Result<Answer, SendError> {
        let mut trouble = Trouble::default();
        loop {
            let why = match make(self) {
                Ok(answer) if is_passing(answer.status) => format!("the lab answered {}", answer.status),
                Ok(answer) => return Ok(answer),
                Err(error) => error.to_string(),
            };
            trouble.pause(self.give_up_after, why, watch)?;
        }
    }

    /// One call, with the secret and the proof.
    fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Answer, ureq::Error> {
        match body {
            Some(body) => self.call_with(method, path, headers, body),
            None => self.call_with(method, path, headers, ()),
        }
    }

    /// A piece, by PATCH or as a POST that says so.
    fn send_piece(
        &self,
        verb: &Verb,
        upload: &str,
        headers: &[(&str, &str)],
        piece: SendBody<'_>,
    ) -> Result<Answer, ureq::Error> {
        if !verb.is_post {
            return self.call_with(PATCH, upload, headers, piece);
        }
        let headers = [headers, &[(OVERRIDE, PATCH)]].concat();
        self.call_with("POST", upload, &headers, piece)
    }

    /// The same with any body.
    fn call_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl ureq::AsSendBody,
    ) -> Result<Answer, ureq::Error> {
        let secret = self.link.secret.to_text();
        let bearer = zeroize::Zeroizing::new(format!("Bearer {}", *secret));
        let key = self.signer.key().to_string();
        let header = |name: &str| headers.iter().find(|(one, _)| *one == name).map(|(_, value)| *value);
        let proof = proof::sign(&self.signer, header(OVERRIDE).unwrap_or(method), path, header);
        let mut all = vec![
            ("tus-resumable", "1.0.0"),
            ("authorization", bearer.as_str()),
            (proof::KEY, key.as_str()),
            (proof::PROOF, proof.as_str()),
        ];
        all.extend_from_slice(headers);
        call_with(&self.agent, method, &format!("{}{path}", self.link.lab), &all, body)
    }

    /// Keeps to the rate that was wished.
    fn hold_back(&self, sent: u64, took: Duration) {
        if let Some(most) = self.most_per_second.filter(|&most| most > 0) {
            let wanted = Duration::from_millis(sent.saturating_mul(1000) / most);
            std::thread::sleep(wanted.saturating_sub(took));
        }
    }
}

/// Where an upload goes on.
struct Place {
    at: u64,
    takes_prefixes: bool,
}

/// Answers after which it is worth to try again: another place of the file, a checksum that was wrong, a lock, too much at once, a
/// server or something before it that has trouble.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 409 | 423 | 429 | 460 | 500 | 502 | 503 | 504 | 507)
}

/// What a proxy answers to a call that it does not let through; the lab answers none of these to a piece.
fn is_forbidden(status: u16) -> bool {
    matches!(status, 403 | 405 | 501)
}

fn refused(call: &'static str, answer: &Answer) -> SendError {
    match answer.status {
        401 | 403 | 404 | 410 => SendError::Refused,
        status => SendError::Answer { call, status, words: answer.words() },
    }
}
