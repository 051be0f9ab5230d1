//! Files and folders, written again.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::LazyLock;

use biopsy_redact::{BundleKey, Options, Redactor};
use biopsy_redact_files::{RewriteError, Rewritten, beside, check, find, rewrite, rewrite_one};

const SECRET: &str = "Xk9mQ2vL7pRt";

/// The rules are compiled once.
fn redactor() -> Redactor {
    static RULES: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(Options::default()).unwrap());
    RULES.for_bundle(BundleKey::from_bytes([7; 32]))
}

fn again(input: &Path, output: &Path) -> Result<Rewritten, RewriteError> {
    rewrite(&redactor(), input, find(input)?, output, &|| false)
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

fn gunzipped(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn what_one_file_teaches_is_masked_in_all_of_them_packed_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("logs");
    fs::create_dir_all(input.join("old")).unwrap();
    // The first in order of names knows nothing; the last one teaches.
    fs::write(input.join("a.log"), format!("retry with {SECRET}\r\nnext line\r\n")).unwrap();
    fs::write(input.join("old/b.log.gz"), gzipped(format!("x {SECRET} y\n").as_bytes())).unwrap();
    fs::write(input.join("c.log.zst"), zstd::encode_all(format!("z {SECRET}\n").as_bytes(), 1).unwrap())
        .unwrap();
    let wide: Vec<u8> = format!("\u{feff}w {SECRET}\r\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(input.join("d.log"), wide).unwrap();
    fs::write(input.join("e.conf"), format!("db_password={SECRET}\n")).unwrap();
    fs::write(input.join("f.bin"), [0x7f, b'E', b'L', b'F', 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", input.join("g.link")).unwrap();
    fs::write(input.join(format!("h-{SECRET}.log")), "a name\n").unwrap();
    let output = folder.path().join("clean");
    let rewritten = again(&input, &output).unwrap();
    assert_eq!(rewritten.files.len(), 6);
    let left_out: Vec<String> =
        rewritten.left_out.iter().map(|left| left.name.display().to_string()).collect();
    assert_eq!(left_out, ["f.bin", "g.link"]);
    let a = fs::read_to_string(output.join("a.log")).unwrap();
    assert!(a.starts_with("retry with [redacted:") && a.ends_with("\r\nnext line\r\n"), "{a}");
    let masked = a.split_whitespace().nth(2).unwrap().rsplit(':').next().unwrap().to_owned();
    let texts = [
        gunzipped(&output.join("old/b.log.gz")),
        String::from_utf8(zstd::decode_all(fs::File::open(output.join("c.log.zst")).unwrap()).unwrap())
            .unwrap(),
        fs::read_to_string(output.join("e.conf")).unwrap(),
    ];
    for text in texts {
        assert!(!text.contains(SECRET) && text.contains(&masked), "one pseudonym everywhere: {text}");
    }
    let wide = fs::read(output.join("d.log")).unwrap();
    let units: Vec<u16> = wide.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let wide = String::from_utf16(&units).unwrap();
    assert!(wide.starts_with("\u{feff}w [redacted:") && wide.ends_with("\r\n"), "{wide:?}");
    let names: Vec<String> = fs::read_dir(&output)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().all(|name| !name.contains(SECRET)), "{names:?}");
    assert!(fs::read_to_string(input.join("a.log")).unwrap().contains(SECRET), "the input stays as it is");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn archives_keep_their_members() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("logs.zip");
    let mut writer = zip::ZipWriter::new(fs::File::create(&input).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    let members: [(&str, Vec<u8>); 4] = [
        ("early.log", format!("again {SECRET}\n").into_bytes()),
        ("packed.log.gz", gzipped(format!("Password={SECRET};x=1\n").as_bytes())),
        ("inner.zip", b"PK\x03\x04".to_vec()),
        ("program", vec![0; 64]),
    ];
    for (name, bytes) in &members {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
    let output = folder.path().join("clean.zip");
    let rewritten = again(&input, &output).unwrap();
    assert_eq!(rewritten.left_out.len(), 2, "{rewritten:?}");
    let mut archive = zip::ZipArchive::new(fs::File::open(&output).unwrap()).unwrap();
    assert_eq!(archive.file_names().map(Result::unwrap).collect::<Vec<_>>(), ["early.log", "packed.log.gz"]);
    let mut early = String::new();
    archive.by_name("early.log").unwrap().read_to_string(&mut early).unwrap();
    assert!(early.starts_with("again [redacted:"), "{early}");
    let mut packed = Vec::new();
    archive.by_name("packed.log.gz").unwrap().read_to_end(&mut packed).unwrap();
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("Password=[redacted:password:") && text.ends_with(";x=1\n"), "{text}");
}

#[test]
fn nothing_is_written_over_into_or_half() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    fs::write(input.join("a.log"), "x\n").unwrap();
    let exists = again(&input, folder.path()).unwrap_err();
    assert!(matches!(exists, RewriteError::Exists { .. }), "{exists}");
    let inside = again(&input, &input.join("clean")).unwrap_err();
    assert!(matches!(inside, RewriteError::Inside { .. }), "{inside}");
    let missing = again(&folder.path().join("none"), &folder.path().join("out")).unwrap_err();
    assert!(matches!(missing, RewriteError::Read { .. }), "{missing}");
    let damaged = folder.path().join("damaged.gz");
    let whole = gzipped(&b"line\n".repeat(1000));
    fs::write(&damaged, &whole[..whole.len() - 9]).unwrap();
    let error = again(&damaged, &folder.path().join("out")).unwrap_err();
    assert!(matches!(error, RewriteError::Unpack { .. }), "{error}");
    let bomb = folder.path().join("bomb.zst");
    fs::write(&bomb, zstd::encode_all(&vec![b'\n'; 64 << 20][..], 1).unwrap()).unwrap();
    let error = again(&bomb, &folder.path().join("out")).unwrap_err();
    assert!(matches!(error, RewriteError::Unpack { .. }), "{error}");
    assert!(!folder.path().join("out").exists());
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    assert!(matches!(again(&fifo, &folder.path().join("out")).unwrap_err(), RewriteError::NoFile { .. }));
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["bomb.zst", "damaged.gz", "fifo", "in"], "nothing unfinished stays");
}

#[test]
fn whoever_stops_it_finds_nothing_left() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.log");
    fs::write(&input, "line\n".repeat(200_000)).unwrap();
    for after in [0, 1, 7, 20, 25] {
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) >= after;
        let output = folder.path().join("out.log");
        let stopped = rewrite(&redactor(), &input, find(&input).unwrap(), &output, &stop).unwrap_err();
        assert!(matches!(stopped, RewriteError::Stopped), "{stopped}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_check_names_lines_and_rules_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("a.log.gz");
    fs::write(&input, gzipped(format!("start\nlogin password={SECRET} ok\nend\n").as_bytes())).unwrap();
    let mut seen: Vec<(String, biopsy_redact_files::Marked)> = Vec::new();
    let left_out = check(&redactor(), &find(&input).unwrap(), |file, marked| {
        seen.push((file.display().to_string(), marked))
    })
    .unwrap();
    assert!(left_out.is_empty());
    assert_eq!(seen.len(), 1);
    let (file, marked) = &seen[0];
    assert_eq!(
        (file.as_str(), marked.line, marked.hits[0].rule.as_str()),
        (input.to_str().unwrap(), 2, "password")
    );
    assert!(marked.text.starts_with("login password=[redacted:password:") && marked.text.ends_with("] ok"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    /// Whatever the bytes are: a result or an error, and text without secrets comes back as it was.
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..4096), cut in 0usize..200) {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in");
        let mut packed = gzipped(&bytes);
        packed.truncate(packed.len().saturating_sub(cut));
        for content in [&bytes, &packed] {
            fs::write(&input, content).unwrap();
            let output = folder.path().join("out");
            if again(&input, &output).is_ok() && output.exists() {
                fs::remove_file(&output).unwrap();
            }
        }
    }
}

#[test]
fn a_place_that_nobody_named_is_beside_what_is_read() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::write(at("app.log"), "x").unwrap();
    fs::write(at(".env"), "x").unwrap();
    fs::create_dir(at("logs.d")).unwrap();
    for (from, to) in
        [("app.log", "app.redacted.log"), (".env", ".env.redacted"), ("logs.d", "logs.d.redacted")]
    {
        assert_eq!(beside(&at(from)), at(to), "{from}");
    }
}

#[test]
fn one_file_is_passed_on_without_a_name_and_a_folder_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let [log, program] = ["a.log", "b.bin"].map(|name| folder.path().join(name));
    fs::write(&log, format!("x {SECRET} y\ndb_password={SECRET}\n")).unwrap();
    fs::write(&program, [0x7f, b'E', b'L', b'F', 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let one = |input: &Path| rewrite_one(&redactor(), input, find(input)?, &|| false);
    let mut text = String::new();
    one(&log).unwrap().read_to_string(&mut text).unwrap();
    assert!(text.starts_with("x [redacted:") && text.ends_with("]\n") && !text.contains(SECRET), "{text}");
    let refused = one(folder.path()).unwrap_err();
    assert!(matches!(refused, RewriteError::Folder) && refused.hint().is_some(), "{refused}");
    let left = one(&program).unwrap_err().to_string();
    assert!(left.contains("b.bin` is left out: "), "{left}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
}
