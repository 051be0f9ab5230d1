//! What is sealed is read again, by us and by the age tool in Go; what was changed is not.

use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use biopsy_seal::{Identity, SealedFile, Sealer, SealingFile, UnsealError, is_sealed, seal_file};
use proptest::prelude::*;

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
