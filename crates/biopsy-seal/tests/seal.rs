//! What is sealed is read again, by us and by the age tool in Go; what was changed is not.

use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use biopsy_seal::{Identity, SealError, SealedFile, Sealer, SealingFile, UnsealError, is_sealed, seal_file};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

/// Bytes of a chunk, by the format.
const CHUNK: usize = 64 << 10;

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

fn sealed(plain: &[u8], to: &Identity) -> Vec<u8> {
    let mut sealer = Sealer::new(Vec::new(), &[to.recipient()]).unwrap();
    sealer.write_all(plain).unwrap();
    sealer.finish().unwrap()
}

fn opened(bytes: &[u8], identity: &Identity) -> Result<SealedFile<Cursor<Vec<u8>>>, UnsealError> {
    SealedFile::of(Cursor::new(bytes.to_vec()), Path::new("test.age"), identity)
}

#[test]
fn sizes_around_the_chunks_come_back() {
    let key = Identity::generate();
    for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 17] {
        let plain = noise(size);
        let bytes = sealed(&plain, &key);
        assert!(is_sealed(&bytes));
        let mut file = opened(&bytes, &key).unwrap();
        assert_eq!(file.plain_bytes(), size as u64);
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert_eq!(read, plain, "{size}");
        assert_eq!(file.seek(SeekFrom::Start(1 << 40)).unwrap(), size as u64, "behind the end is the end");
        assert_eq!(file.read(&mut [0; 8]).unwrap(), 0);
    }
}

#[test]
fn another_key_and_a_file_that_is_none_are_told_apart() {
    let key = Identity::generate();
    let bytes = sealed(b"secret", &key);
    assert!(matches!(opened(&bytes, &Identity::generate()), Err(UnsealError::OtherKey { .. })));
    assert!(matches!(opened(b"PK\x03\x04", &key), Err(UnsealError::Damaged { .. })));
    let endless = [b"age-encryption.org/v1\n".as_slice(), "-> x\nAAAA\n".repeat(200_000).as_bytes()].concat();
    assert!(matches!(opened(&endless, &key), Err(UnsealError::Damaged { .. })));
}

#[test]
fn what_is_sealed_to_several_is_opened_by_each_of_them_alone() {
    let keys = [(); 3].map(|()| Identity::generate());
    let to: Vec<_> = keys.iter().map(Identity::recipient).collect();
    let mut sealer = Sealer::new(Vec::new(), &to[..2]).unwrap();
    sealer.write_all(b"for two").unwrap();
    let bytes = sealer.finish().unwrap();
    for key in &keys[..2] {
        let mut read = String::new();
        opened(&bytes, key).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "for two");
    }
    assert!(matches!(opened(&bytes, &keys[2]), Err(UnsealError::OtherKey { .. })));
}

/// Counts what is read of it, and may not be read beyond 32 KiB: without a limit the library takes minutes for the rest.
struct Counted<'a>(Cursor<&'a [u8]>, &'a std::cell::Cell<usize>);

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.set(self.1.get() + count);
        assert!(self.1.get() <= 32 << 10, "{} of {} bytes were read", self.1.get(), self.0.get_ref().len());
        Ok(count)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn a_header_without_an_end_is_not_read_to_its_end() {
    let endless = [b"age-encryption.org/v1\n".as_slice(), "-> x\nAAAA\n".repeat(6000).as_bytes()].concat();
    let read = std::cell::Cell::new(0);
    let from = Counted(Cursor::new(&endless[..]), &read);
    let opened = SealedFile::of(from, Path::new("test.age"), &Identity::generate());
    assert!(matches!(opened, Err(UnsealError::Damaged { .. })));
    // 16 KiB, and what is read ahead.
    assert!(read.get() >= 16 << 10, "{} bytes were read", read.get());
}

#[test]
fn a_file_that_was_cut_off_is_refused_at_every_length() {
    let key = Identity::generate();
    let bytes = sealed(&noise(CHUNK + 100), &key);
    for length in (0..bytes.len()).step_by(997).chain(bytes.len() - 200..bytes.len()) {
        assert!(opened(&bytes[..length], &key).is_err(), "{length}");
    }
}

#[test]
fn a_sealed_file_has_its_name_when_it_is_whole_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("case.zip.age");
    let key = Identity::generate();
    let done = seal_file(&mut noise(300_000).as_slice(), &out, &[key.recipient()]).unwrap();
    assert_eq!(done.bytes, out.metadata().unwrap().len());
    assert!(seal_file(&mut &b"other"[..], &out, &[key.recipient()]).is_err());
    let mut broken = Broken;
    let other = folder.path().join("broken.zip.age");
    assert!(seal_file(&mut broken, &other, &[key.recipient()]).is_err());
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(names, ["case.zip.age"], "nothing is left of what failed");
    let mut plain = Vec::new();
    SealedFile::open(&out, &key).unwrap().read_to_end(&mut plain).unwrap();
    assert_eq!(plain, noise(300_000));
}

/// Gives some bytes, and asserts meanwhile that the folder is empty.
struct Looking<'a>(&'a std::path::Path, u32);

impl Read for Looking<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        assert_eq!(std::fs::read_dir(self.0).unwrap().count(), 0, "what is not whole has no name");
        self.1 += 1;
        buffer.fill(7);
        Ok(if self.1 > 9 { 0 } else { buffer.len() })
    }
}

#[test]
fn whoever_is_killed_while_sealing_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("case.zip.age");
    let done = seal_file(&mut Looking(folder.path(), 0), &out, &[Identity::generate().recipient()]).unwrap();
    assert!(done.bytes > 2_000_000, "{done:?}");
    assert_eq!(out.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

/// Gives some bytes, and then an error.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("the disk is gone"))
    }
}

#[test]
fn the_age_tool_opens_what_we_seal_and_we_open_what_it_seals() {
    if !biopsy_testkit::require_program("age", &["--version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let key = Identity::generate();
    std::fs::write(at("key"), key.secret_text().as_bytes()).unwrap();
    let plain = noise(5 * CHUNK + 3);
    std::fs::write(at("plain"), &plain).unwrap();
    seal_file(&mut plain.as_slice(), &at("ours.age"), &[key.recipient()]).unwrap();

    let theirs = Command::new("age").arg("-d").arg("-i").arg(at("key")).arg(at("ours.age")).output().unwrap();
    assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
    assert_eq!(theirs.stdout, plain);

    let recipient = key.recipient().to_string();
    let made =
        Command::new("age").args(["-r", &recipient, "-o"]).arg(at("theirs.age")).arg(at("plain")).status();
    assert!(made.unwrap().success());
    let mut read = Vec::new();
    let mut file = SealedFile::open(&at("theirs.age"), &Identity::of_file(&at("key")).unwrap()).unwrap();
    file.read_to_end(&mut read).unwrap();
    assert_eq!(read, plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_place_reads_as_in_the_plain_bytes(size in 0..4 * CHUNK, places in prop::collection::vec((0..5 * CHUNK, 1..3000_usize), 1..12)) {
        let key = Identity::generate();
        let plain = noise(size);
        let mut file = opened(&sealed(&plain, &key), &key).unwrap();
        for (at, length) in places {
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            let mut read = Vec::new();
            (&mut file).take(length as u64).read_to_end(&mut read).unwrap();
            let from = at.min(size);
            prop_assert_eq!(&read[..], &plain[from..(from + length).min(size)]);
        }
    }

    #[test]
    fn a_changed_byte_never_gives_other_bytes(at in 0..100_000_usize, by in 1..=255_u8) {
        let key = Identity::generate();
        let plain = noise(90_000);
        let mut bytes = sealed(&plain, &key);
        let at = at % bytes.len();
        bytes[at] = bytes[at].wrapping_add(by);
        if let Ok(mut file) = opened(&bytes, &key) {
            let mut read = Vec::new();
            if file.read_to_end(&mut read).is_ok() {
                prop_assert_eq!(&read, &plain);
            }
        }
    }
}

/// A file that an earlier version sealed, and its key: what was sealed stays readable for ever.
#[test]
fn what_was_sealed_long_ago_is_opened() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/sealed/small.age");
    let key: Identity =
        "AGE-SECRET-KEY-1ACU89T0FRFMPYU30RMTALT3PW2FHADR5XLCHR57JD8HASJQY2RGQUF4LLC".parse().unwrap();
    let mut read = String::new();
    let mut file = SealedFile::open(&golden, &key).unwrap();
    file.read_to_string(&mut read).unwrap();
    assert_eq!((read.as_str(), file.plain_bytes()), ("a sealed file for the fuzzer\n", 29));
}

#[test]
fn what_took_the_name_meanwhile_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("core.age");
    let key = Identity::generate().recipient();
    let mut file = SealingFile::create(&out, std::slice::from_ref(&key)).unwrap();
    file.write_all(b"sealed").unwrap();
    std::fs::write(&out, b"of another").unwrap();
    let error = file.finish().unwrap_err();
    assert!(matches!(&error, SealError::Write { path, source }
        if *path == out && source.kind() == ErrorKind::AlreadyExists));
    assert_eq!(std::fs::read(&out).unwrap(), b"of another");
    // A link that leads nowhere is something of that name, too; nothing is made where it leads.
    let link = folder.path().join("link.age");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
    let begun = SealingFile::create(&link, &[key]).unwrap_err();
    assert!(matches!(begun, SealError::Write { source, .. } if source.kind() == ErrorKind::AlreadyExists));
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["core.age", "link.age"], "nothing else is there");
}

#[test]
fn nothing_is_sealed_to_nobody_or_where_there_is_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    assert!(seal_file(&mut &b"secret"[..], &folder.path().join("a.age"), &[]).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let nowhere = folder.path().join("no/such/a.age");
    let error = seal_file(&mut &b"secret"[..], &nowhere, &[Identity::generate().recipient()]).unwrap_err();
    assert!(error.to_string().contains("no/such/a.age"), "{error}");
}

/// Somebody who is interrupted by signals, and gives as little at once as he likes, is read to his end.
struct Interrupted<'a>(&'a [u8], bool);

impl Read for Interrupted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(ErrorKind::Interrupted.into());
        }
        let most = buffer.len().min(1234);
        self.0.read(&mut buffer[..most])
    }
}

#[test]
fn signals_while_reading_lose_nothing_and_the_digest_is_that_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.age");
    let key = Identity::generate();
    let plain = noise(2 << 20);
    let done = seal_file(&mut Interrupted(&plain, false), &out, &[key.recipient()]).unwrap();
    let bytes = std::fs::read(&out).unwrap();
    let sha256 = |bytes: &[u8]| <[u8; 32]>::from(Sha256::digest(bytes));
    assert_eq!((done.bytes, done.sha256), (bytes.len() as u64, sha256(&bytes)));
    let step = usize::try_from(done.beginnings.step()).unwrap();
    let expected: Vec<[u8; 32]> =
        (1..=bytes.len() / step).map(|number| sha256(&bytes[..number * step])).collect();
    assert_eq!(done.beginnings.all(), expected);
    let mut read = Vec::new();
    SealedFile::open(&out, &key).unwrap().read_to_end(&mut read).unwrap();
    assert!(read == plain);
}

#[test]
fn a_place_is_said_from_the_start_the_end_or_here() {
    let key = Identity::generate();
    let mut file = opened(&sealed(&noise(CHUNK + 10), &key), &key).unwrap();
    let size = CHUNK as u64 + 10;
    for (to, place) in [
        (SeekFrom::End(0), size),
        (SeekFrom::End(-1), size - 1),
        (SeekFrom::Current(-9), size - 10),
        (SeekFrom::Current(i64::MAX), size),
        (SeekFrom::End(i64::MAX), size),
        (SeekFrom::Start(u64::MAX), size),
        (SeekFrom::Start(3), 3),
        (SeekFrom::Current(0), 3),
    ] {
        assert_eq!(file.seek(to).unwrap(), place, "{to:?}");
    }
    for before in [SeekFrom::Current(-4), SeekFrom::End(i64::MIN), SeekFrom::End(-(size as i64) - 1)] {
        assert_eq!(file.seek(before).unwrap_err().kind(), ErrorKind::InvalidInput, "{before:?}");
    }
    assert_eq!(file.stream_position().unwrap(), 3, "who was refused is where he was");
}

#[test]
fn what_is_sealed_piece_by_piece_is_there_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("core.age");
    let key = Identity::generate();
    let plain = noise(3 * CHUNK + 5);
    let names = || std::fs::read_dir(folder.path()).unwrap().count();
    let mut given_up = SealingFile::create(&out, &[key.recipient()]).unwrap();
    given_up.write_all(&plain).unwrap();
    drop(given_up);
    assert_eq!(names(), 0, "nothing is left of what was given up");
    let mut file = SealingFile::create(&out, &[key.recipient()]).unwrap();
    for piece in plain.chunks(1000) {
        file.write_all(piece).unwrap();
        file.flush().unwrap();
    }
    assert!(!out.exists(), "it has no name before its end");
    file.finish().unwrap();
    assert_eq!(names(), 1);
    assert_eq!(out.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut read = Vec::new();
    SealedFile::open(&out, &key).unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read, plain);
    assert!(SealingFile::create(&out, &[key.recipient()]).is_err(), "nothing is overwritten");
}
