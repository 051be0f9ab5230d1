//! Sending a sealed file by tus 1.0 (<https://tus.io/protocols/resumable-upload>): pieces with a checksum each, from where the lab
//! says that it is, as often as it takes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ureq::SendBody;

use crate::encode::random;
use crate::http::{self, Answer, Patience, call_with};
use crate::link::Link;
use crate::pieces::{Checksum, Contents};
use crate::proof;
use crate::receipt::Receipt;
use crate::request::Request;
use crate::signed::{Signed, SignedError, Signer};
use crate::state::{State, write_whole};

/// Pieces: small where the way is bad, so that a cut costs little.
const SMALLEST_PIECE: u64 = 128 << 10;
const LARGEST_PIECE: u64 = 32 << 20;
/// Where even those take too long, as on a way that is slow and cut after a while, they get smaller down to this.
const TINIEST_PIECE: u64 = 8 << 10;
/// The first one of a sender: nothing is known of the way yet.
const FIRST_PIECE: u64 = 1 << 20;
/// A piece is at most this share of what went through since the way was cut last. A cut costs half a piece on average: with 1/12, a
/// twenty-fourth of what is sent is sent again, however often it is cut.
const SHARE_OF_UNCUT: u64 = 12;
/// A piece that took longer is followed by a smaller one.
const SLOW: Duration = Duration::from_secs(4);
/// A piece that took no longer is followed by one of twice its size, as long as nothing was cut: of such a way little can be lost.
const FAST: Duration = Duration::from_millis(25);
/// A piece that took no longer may be larger again than the tiniest.
const QUICK: Duration = Duration::from_secs(1);
/// Longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// The checksum of a piece that says what all of the upload up to its end is.
const PREFIX: &str = "sha256-prefix";
/// The call that sends a piece ...
const PATCH: &str = "PATCH";
/// ... and the header of a POST that stands for it, where something on the way lets no other through (tus 1.0).
const OVERRIDE: &str = "x-http-method-override";
/// Tries in a row after which the other of the two is tried.
const TRIES_OF_ONE: u32 = 3;
/// Where the lab takes uploads.
const UPLOADS: &str = "/api/uploads";

/// What goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// So many bytes are on the lab's disk.
    At {
        /// How many.
        sent: u64,
        /// Of how many.
        of: u64,
    },
    /// The way was cut; it is tried again.
    Again {
        /// Why.
        why: String,
        /// In how many milliseconds.
        in_milliseconds: u64,
    },
}

/// Why something was not sent. The sealed file is kept in each case.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The lab knows no such request, or it is over; it does not say which.
    #[error(
        "the lab does not take it: there is no such request, or it is over, used by somebody else, or revoked"
    )]
    Refused,
    /// It is too large.
    #[error("the lab takes at most {most} bytes for this request, and it has {bytes}")]
    TooLarge {
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        most: u64,
    },
    /// The lab answers something that it should not.
    #[error("the lab answered {status} to {call}: {words}")]
    Answer {
        /// Which call.
        call: &'static str,
        /// The status.
        status: u16,
        /// The first words of the answer.
        words: String,
    },
    /// There is no answer for too long.
    #[error("the lab cannot be reached: {0}")]
    Unreachable(String),
    /// A document of the lab is not to be believed.
    #[error("what the lab says cannot be believed ({what})")]
    NotBelieved {
        /// Of what.
        what: &'static str,
        /// Why not.
        source: SignedError,
    },
    /// The keys are not those of the link.
    #[error(
        "the request is for other keys than the link says: do not send anything, and ask whoever gave you the link"
    )]
    OtherReaders,
    /// The receipt is for something else.
    #[error("the receipt is for other bytes than were sent")]
    OtherReceipt,
    /// The sealed file is not what it was.
    #[error("`{}` was changed since it was sealed", .0.display())]
    Changed(PathBuf),
    /// The sealed file, or what is known of it, cannot be read or written.
    #[error("cannot read or write `{}`", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Whoever watches asked to stop.
    #[error("stopped")]
    Stopped,
}

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
                Ok(answer) if is_forbidden(answer.status) && verb.was_forbidden() => continue,
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
        let mut trouble = Trouble { first: Duration::from_millis(10), ..Trouble::default() };
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

/// How pieces are sent. There are proxies that know of no PATCH: they say so, or cut the connection.
#[derive(Debug, Default)]
struct Verb {
    is_post: bool,
    /// Whether PATCH, and whether POST, was forbidden since a piece went through.
    forbidden: [bool; 2],
}

impl Verb {
    fn went_through(&mut self) {
        self.forbidden = [false; 2];
    }

    /// Goes over to the other one; `false` if that was forbidden, too.
    fn was_forbidden(&mut self) -> bool {
        self.forbidden[usize::from(self.is_post)] = true;
        self.is_post = !self.is_post;
        self.forbidden != [true; 2]
    }

    /// After so many tries that nothing came of.
    fn was_cut(&mut self, tries: u32) {
        let is_time = tries % TRIES_OF_ONE == TRIES_OF_ONE - 1;
        self.is_post ^= is_time && !self.forbidden[usize::from(!self.is_post)];
    }
}

/// How large the next piece is.
#[derive(Clone, Debug)]
struct PieceSize {
    /// What went through since the way was cut.
    uncut: u64,
    /// Least and most, by what is known of the way.
    least: u64,
    most: u64,
    /// What is least where it is bad.
    smallest: u64,
    /// It was cut once.
    is_cut: bool,
}

impl PieceSize {
    fn first() -> Self {
        let (least, most, smallest) = (FIRST_PIECE, LARGEST_PIECE, SMALLEST_PIECE);
        Self { uncut: 0, least, most, smallest, is_cut: false }
    }

    fn bytes(&self) -> u64 {
        (self.uncut / SHARE_OF_UNCUT).clamp(self.least, self.most)
    }

    fn went_through(&mut self, bytes: u64, took: Duration) {
        self.uncut = self.uncut.saturating_add(bytes);
        // On a slow way a piece would take longer than proxies wait.
        if took > SLOW {
            self.least = self.smallest;
            self.most = (bytes / 2).max(self.smallest);
        } else {
            self.most = (self.most * 2).min(LARGEST_PIECE);
            if took <= QUICK {
                self.smallest = (self.smallest * 2).min(SMALLEST_PIECE);
            }
            if took <= FAST && !self.is_cut {
                self.least = self.least.max(bytes * 2).min(self.most);
            }
        }
    }

    fn was_cut(&mut self, took: Duration) {
        // It was not lost at a bad moment: whatever cuts it waits no longer.
        if took > SLOW {
            self.smallest = (self.smallest / 2).max(TINIEST_PIECE);
        }
        (self.uncut, self.least, self.is_cut) = (0, self.smallest, true);
    }
}

/// How long there was no progress.
struct Trouble {
    since: Option<Instant>,
    tries: u32,
    /// The first pause; each one is twice as long as the one before.
    first: Duration,
}

impl Default for Trouble {
    fn default() -> Self {
        Self { since: None, tries: 0, first: Duration::from_millis(200) }
    }
}

impl Trouble {
    /// Waits before the next try, longer each time.
    fn pause(
        &mut self,
        give_up_after: Duration,
        why: String,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<(), SendError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= give_up_after {
            return Err(SendError::Unreachable(why));
        }
        let pause = self.first.saturating_mul(1 << self.tries.min(12)).min(LONGEST_PAUSE);
        // Many that were cut off at once do not come back at once.
        let pause = pause.mul_f64(0.5 + f64::from(random::<1>()[0]) / 512.0);
        self.tries += 1;
        let in_milliseconds = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        if !watch(&Progress::Again { why, in_milliseconds }) {
            return Err(SendError::Stopped);
        }
        std::thread::sleep(pause);
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent in all of a file, by the bytes of the file, where the way is cut each time so many bytes have passed.
    fn sent_again(cuts: &[u64], whole: u64) -> f64 {
        let mut cuts = cuts.iter().copied();
        let (mut size, mut at, mut passed, mut until) = (PieceSize::first(), 0, 0, cuts.next());
        while at < whole {
            let length = size.bytes().min(whole - at);
            match until {
                Some(left) if left < length => {
                    passed += left;
                    size.was_cut(Duration::ZERO);
                    until = cuts.next();
                }
                _ => {
                    passed += length;
                    at += length;
                    until = until.map(|left| left - length);
                    size.went_through(length, Duration::ZERO);
                }
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = passed as f64 / whole as f64;
        ratio
    }

    #[test]
    fn a_slow_way_that_is_cut_after_a_while_gets_pieces_that_fit() {
        // 2 kB a second, and nothing lasts longer than a minute: 128 KiB never get through.
        let (rate, longest) = (2_000, Duration::from_secs(60));
        let (mut size, mut sent, mut tries) = (PieceSize::first(), 0, 0);
        while sent < 1 << 20 {
            tries += 1;
            assert!(tries < 200, "{sent} bytes in {tries} pieces");
            let took = Duration::from_millis(size.bytes() * 1000 / rate);
            if took > longest {
                size.was_cut(longest);
            } else {
                sent += size.bytes();
                size.went_through(size.bytes(), took);
            }
        }
        // On a way that is quick again they are as large as before.
        (0..8).for_each(|_| size.went_through(TINIEST_PIECE, Duration::from_millis(50)));
        size.was_cut(Duration::ZERO);
        assert_eq!(size.bytes(), SMALLEST_PIECE);
    }

    #[test]
    fn what_lets_no_patch_through_gets_a_post_and_what_lets_neither_is_no_way() {
        let mut verb = Verb::default();
        assert!(!verb.is_post && verb.was_forbidden() && verb.is_post, "it is forbidden");
        (0..10).for_each(|tries| verb.was_cut(tries));
        assert!(verb.is_post, "what was forbidden is not tried again because something was cut");
        assert!(!verb.was_forbidden(), "both are");
        let mut verb = Verb::default();
        (0..3).for_each(|tries| verb.was_cut(tries));
        assert!(verb.is_post, "it is cut without a word");
        verb.went_through();
        assert!(verb.is_post);
    }

    #[test]
    fn cuts_cost_a_small_share_of_what_is_sent() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 16) % below
        };
        let whole = 1 << 30;
        // A hundred and forty at random places, and as many that come in threes.
        let apart: Vec<u64> = (0..140).map(|_| random(2 * whole / 140)).collect();
        assert!(sent_again(&apart, whole) < 1.08, "{}", sent_again(&apart, whole));
        let together: Vec<u64> =
            (0..140).map(|at| if at % 3 == 0 { random(6 * whole / 140) } else { random(1 << 20) }).collect();
        assert!(sent_again(&together, whole) < 1.08, "{}", sent_again(&together, whole));
        assert!((sent_again(&[], whole) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn pieces_grow_where_nothing_is_cut_and_shrink_where_it_is_slow() {
        let mut size = PieceSize::first();
        let (mut at, mut count) = (0, 0);
        while at < 1 << 30 {
            let length = size.bytes();
            size.went_through(length, FAST + Duration::from_millis(1));
            (at, count) = (at + length, count + 1);
        }
        assert!(count < 120 && size.bytes() == LARGEST_PIECE, "{count} pieces");
        for _ in 0..10 {
            size.went_through(size.bytes(), Duration::from_secs(5));
        }
        assert_eq!(size.bytes(), SMALLEST_PIECE);
        size.was_cut(Duration::ZERO);
        size.went_through(SMALLEST_PIECE, Duration::ZERO);
        assert_eq!(size.bytes(), SMALLEST_PIECE, "it grows with what goes through, not at once");
    }

    #[test]
    fn where_a_piece_takes_no_time_the_next_one_is_twice_as_large_until_something_is_cut() {
        let mut size = PieceSize::first();
        for times in 1..10 {
            size.went_through(size.bytes(), FAST);
            assert_eq!(size.bytes(), (FIRST_PIECE << times).min(LARGEST_PIECE));
        }
        // It has become slow: what is least gives way.
        size.went_through(size.bytes(), SLOW + FAST);
        size.went_through(size.bytes(), FAST);
        assert!(size.bytes() <= LARGEST_PIECE);
        size.was_cut(Duration::ZERO);
        size.went_through(SMALLEST_PIECE, Duration::ZERO);
        assert_eq!(size.bytes(), SMALLEST_PIECE);
    }

    proptest::proptest! {
        /// Whatever happens on the way, a piece has a size.
        #[test]
        fn a_piece_is_within_its_bounds(steps in proptest::collection::vec((0..9_000_u64, 0..6_u8), 0..60)) {
            let mut size = PieceSize::first();
            for (milliseconds, what) in steps {
                match what {
                    0 => size.was_cut(Duration::from_millis(milliseconds)),
                    _ => size.went_through(size.bytes(), Duration::from_millis(milliseconds / u64::from(what * what))),
                }
                proptest::prop_assert!((TINIEST_PIECE..=LARGEST_PIECE).contains(&size.bytes()));
            }
        }
    }
}
