//! Files that were packed to hide, or by habit: what cannot be looked into is never written again, and is named.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::LazyLock;

use biopsy_redact::{BundleKey, Options, Redactor};
use biopsy_redact_files::{RewriteError, Rewritten, find, rewrite};
use proptest::prelude::*;

const SECRET: &str = "Xk9mQ2vL7pRt";

fn redactor() -> Redactor {
    static RULES: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(Options::default()).unwrap());
    RULES.for_bundle(BundleKey::from_bytes([7; 32]))
}

fn again(input: &Path, output: &Path) -> Result<Rewritten, RewriteError> {
    rewrite(&redactor(), input, find(input)?, output, &|| false)
}

fn text() -> Vec<u8> {
    format!("a line\ndb_password={SECRET}\n").into_bytes()
}

/// What is not text, with the secret in it.
fn binary() -> Vec<u8> {
    [b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".as_slice(), &text(), &[0, 1, 2, 3]]
        .concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn zip(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// All bytes of a file, unpacked as often as it is packed.
fn all_of(bytes: &[u8], depth: u32, seen: &mut Vec<u8>) {
    seen.extend_from_slice(bytes);
    let mut unpacked = Vec::new();
    let is_unpacked = match bytes {
        _ if depth == 0 => false,
        [0x1f, 0x8b, ..] => flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut unpacked).is_ok(),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            zstd::Decoder::new(bytes).and_then(|mut text| text.read_to_end(&mut unpacked)).is_ok()
        }
        [b'P', b'K', ..] => {
            let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
            for index in 0..archive.len() {
                let mut member = Vec::new();
                archive.by_index(index).unwrap().read_to_end(&mut member).unwrap();
                all_of(&member, depth - 1, seen);
            }
            false
        }
        _ => false,
    };
    if is_unpacked {
        all_of(&unpacked, depth - 1, seen);
    }
}

fn has_secret(path: &Path) -> bool {
    let mut seen = Vec::new();
    if path.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| has_secret(&entry.unwrap().path()));
    }
    all_of(&fs::read(path).unwrap(), 5, &mut seen);
    seen.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

/// In whichever way something is packed twice, or is no text once it is unpacked.
#[test]
fn what_is_inside_of_what_is_packed_is_looked_into_or_left_out() {
    let packed: [(&str, Vec<u8>, bool); 12] = [
        ("text.gz", gzip(&text()), true),
        ("text.zst", zstd(&text()), true),
        ("text.zip", zip(&[("a", text())]), true),
        ("text-gz.zip", zip(&[("a.gz", gzip(&text()))]), true),
        ("twice.gz", gzip(&gzip(&text())), false),
        ("twice.zst", zstd(&zstd(&text())), false),
        ("zst.gz", gzip(&zstd(&text())), false),
        ("zip.gz", gzip(&zip(&[("a", text())])), false),
        ("binary.gz", gzip(&binary()), false),
        ("binary.zst", zstd(&binary()), false),
        ("empty.gz", gzip(b""), true),
        ("plain.log", text(), true),
    ];
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    for (name, bytes, _) in &packed {
        fs::write(input.join(name), bytes).unwrap();
    }
    let output = folder.path().join("out");
    let rewritten = again(&input, &output).unwrap();
    assert!(!has_secret(&output));
    for (name, _, is_text) in &packed {
        assert_eq!(output.join(name).exists(), *is_text, "{name}");
        let left_out = rewritten.left_out.iter().find(|left| left.name == Path::new(name));
        assert_eq!(left_out.is_some(), !is_text, "{name}: {left_out:?}");
        // Named itself, it is an error and no file.
        let alone = folder.path().join("alone");
        assert_eq!(again(&input.join(name), &alone).is_ok(), *is_text, "{name}");
        assert_eq!(alone.exists(), *is_text, "{name}");
        let _ = fs::remove_file(alone);
    }
}

#[test]
fn members_that_cannot_be_looked_into_are_left_out_and_the_others_written() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("a.zip");
    let members = [
        ("1.log", text()),
        ("2.gz", gzip(&gzip(&text()))),
        ("3.gz", gzip(&binary())),
        ("4.zip", zip(&[("x", text())])),
        ("5.bin", binary()),
        ("6.zst", zstd(&text())),
    ];
    fs::write(&input, zip(&members)).unwrap();
    let output = folder.path().join("b.zip");
    let rewritten = again(&input, &output).unwrap();
    assert!(!has_secret(&output));
    let left_out: Vec<String> =
        rewritten.left_out.iter().map(|left| left.name.display().to_string()).collect();
    assert_eq!(left_out, ["2.gz", "3.gz", "4.zip", "5.bin"]);
    let archive = zip::ZipArchive::new(fs::File::open(&output).unwrap()).unwrap();
    let mut names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, ["1.log", "6.zst"]);
}

/// Names with different secrets in them are different files afterwards.
#[test]
fn names_that_are_masked_stay_apart() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    for secret in [SECRET, "Zq4wN8bT1yKs"] {
        fs::write(input.join(format!("{secret}.log")), format!("db_password={secret}\n")).unwrap();
    }
    let output = folder.path().join("out");
    let rewritten = again(&input, &output).unwrap();
    assert_eq!(rewritten.files.len(), 2);
    assert_eq!(fs::read_dir(&output).unwrap().count(), 2);
    assert!(
        !has_secret(&output)
            && rewritten.files.iter().all(|file| !file.name.to_string_lossy().contains("Zq4w"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever is packed how: a result has no secret in it, or there is none.
    #[test]
    fn no_packing_hides_a_secret(
        wraps in prop::collection::vec(0..3_u8, 0..4),
        inner in any::<bool>(),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = if inner { text() } else { binary() };
        for wrap in &wraps {
            bytes = match wrap {
                0 => gzip(&bytes),
                1 => zstd(&bytes),
                _ => zip(&[("member", bytes)]),
            };
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()).max(1));
        }
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        fs::write(&input, bytes).unwrap();
        let rewritten = again(&input, &output);
        if output.exists() {
            prop_assert!(!has_secret(&output), "{:?} {:?}", wraps, rewritten);
        }
        if let Ok(rewritten) = rewritten {
            prop_assert!(!rewritten.files.is_empty() || !rewritten.left_out.is_empty());
        }
    }
}
