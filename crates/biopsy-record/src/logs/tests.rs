//! Whole collections, over files of every unpleasant kind.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use biopsy_model::log::{LogFile, LogLevel};
use biopsy_model::{ClockPair, MonoNanos};
use biopsy_recording::{Limits, RecordingFolder};
use biopsy_redact::{Options, RedactionLog, Redactor};
use jiff::Timestamp;

use super::{Config, LogWatch, Summary};
use crate::masking::Masking;

const SECOND: i128 = 1_000_000_000;

/// A recording from 10:00:00 to 10:01:00 UTC on 21 November 2026, with a margin of ten seconds.
struct Fixture {
    folder: tempfile::TempDir,
    config: Config,
}

struct Taken {
    summary: Summary,
    files: Vec<LogFile>,
}

impl Fixture {
    fn new(patterns: &[&str]) -> Fixture {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("logs")).expect("a folder");
        let globs = patterns.iter().map(|name| format!("{}/logs/{name}", folder.path().display())).collect();
        let mut config = Config::new(globs, Vec::new());
        config.margin = Duration::from_secs(10);
        config.zone = Some("UTC".to_owned());
        Fixture { folder, config }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("logs").join(name)
    }

    /// Writes a file that was last modified at the end of the recording.
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        self.write_at(name, bytes, 60)
    }

    fn write_at(&self, name: &str, bytes: impl AsRef<[u8]>, second: i64) -> &Self {
        let mut file = File::create(self.path(name)).expect("create");
        file.write_all(bytes.as_ref()).expect("write");
        file.set_modified(SystemTime::from(moment(second))).expect("times");
        self
    }

    fn begin(&self) -> LogWatch {
        LogWatch::begin(self.config.clone())
    }

    fn collect(&self) -> Taken {
        self.finish(self.begin())
    }

    fn finish(&self, watch: LogWatch) -> Taken {
        let path = self.folder.path().join("recording");
        let recording = RecordingFolder::create(&path).expect("a new folder");
        let masking = masking();
        let summary = watch.collect(&pair(0), &pair(60), &recording, &masking).expect("there is room");
        let mut left = usize::MAX;
        let limits = Limits::default();
        let files = summary
            .logs
            .iter()
            .map(|log| {
                let file = File::open(path.join(&log.member)).expect("the member is there");
                let (file, warnings) =
                    biopsy_recording::logs::read_log(&log.member, file, &limits, &mut left);
                assert_eq!(warnings, []);
                assert_eq!(file.lines.len() as u64, log.records);
                file
            })
            .collect();
        Taken { summary, files }
    }
}

impl Taken {
    /// Texts of the only log.
    #[track_caller]
    fn texts(&self) -> Vec<&str> {
        assert_eq!(self.files.len(), 1, "{:?}", self.summary);
        self.files[0].lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[track_caller]
    fn message(&self, code: &str) -> &str {
        let warning = self.summary.warnings.iter().find(|warning| warning.code == code);
        &warning.unwrap_or_else(|| panic!("no `{code}` in {:?}", self.summary.warnings)).message
    }

    fn codes(&self) -> Vec<&str> {
        self.summary.warnings.iter().map(|warning| warning.code.as_str()).collect()
    }
}

fn masking() -> Masking {
    let redactor = Redactor::new(Options::default()).expect("random bytes");
    Masking::new(Arc::new(redactor), Arc::new(RedactionLog::new()))
}

/// A moment so many seconds after the start of the recording.
fn moment(second: i64) -> Timestamp {
    Timestamp::new(1_795_255_200 + second, 0).expect("in range")
}

fn pair(second: i64) -> ClockPair {
    ClockPair {
        mono: MonoNanos(u64::try_from(1_000 + second).expect("positive") * 1_000_000_000),
        wall_unix_nanos: moment(second).as_nanosecond(),
        utc_offset_seconds: 0,
        zone: "UTC".to_owned(),
    }
}

/// A line each second from `from` up to and without `to`.
fn lines(from: i64, to: i64) -> String {
    (from..to).map(|second| format!("{} INFO second {second}\n", moment(second))).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Seconds of the lines, in the order of time.
fn seconds(files: &[LogFile]) -> Vec<i64> {
    let mut seconds: Vec<i64> = files
        .iter()
        .flat_map(|file| &file.lines)
        .map(|line| line.text.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a second"))
        .collect();
    seconds.sort_unstable();
    seconds
}

#[test]
fn the_window_with_its_margin_on_the_clock_of_the_recording() {
    let fixture = Fixture::new(&["x.log"]);
    let taken = fixture.write("x.log", lines(-500, 500)).collect();
    assert_eq!(seconds(&taken.files), (-10..=70).collect::<Vec<_>>());
    let first = &taken.files[0].lines[0];
    assert_eq!((first.time, first.level), (Some(MonoNanos(990 * 1_000_000_000)), LogLevel::Info));
    assert_eq!(taken.files[0].source, fixture.path("x.log").display().to_string());
    assert_eq!(taken.files[0].assumed_zone, "", "every line says its zone");
}

#[test]
fn rotated_and_compressed_parts_make_one_whole() {
    let fixture = Fixture::new(&["x.log"]);
    fixture
        .write("x.log", lines(40, 61))
        .write_at("x.log.1", lines(20, 40), 40)
        .write_at("x.log.2.gz", gzip(lines(0, 20).as_bytes()), 20)
        .write_at("x.log.3.zst", zstd::encode_all(lines(-20, 0).as_bytes(), 1).expect("memory"), 0)
        .write_at("x.log.4", lines(-40, -20), -20)
        .write_at("other.log.1", lines(0, 10), 10);
    let taken = fixture.collect();
    assert_eq!(seconds(&taken.files), (-10..=60).collect::<Vec<_>>());
    assert_eq!(taken.files.len(), 4);
    assert_eq!(taken.codes(), Vec::<&str>::new());
}

#[test]
fn rotated_while_recording() {
    let fixture = Fixture::new(&["x.log"]);
    fixture.write("x.log", lines(-100, 5));
    let watch = fixture.begin();
    fs::rename(fixture.path("x.log"), fixture.path("x.log.1")).expect("rename");
    fixture.write("x.log", lines(5, 60));
    let taken = fixture.finish(watch);
    assert_eq!(seconds(&taken.files), (-10..60).collect::<Vec<_>>());
}

#[test]
fn deleted_while_recording() {
    let fixture = Fixture::new(&["*.log"]);
    fixture.write("x.log", lines(0, 5));
    let watch = fixture.begin();
    fs::remove_file(fixture.path("x.log")).expect("remove");
    let taken = fixture.finish(watch);
    assert_eq!(seconds(&taken.files), (0..5).collect::<Vec<_>>());
    assert!(taken.message("logs.gone").ends_with("it was read all the same"));
}

#[test]
fn stamps_in_the_local_zone_and_in_utc() {
    let mut fixture = Fixture::new(&["x.log"]);
    fixture.config.zone = Some("America/New_York".to_owned());
    let write = |zone: &str| -> String {
        let zone = jiff::tz::TimeZone::get(zone).expect("the time zone database is there");
        (0..=60)
            .map(|second| {
                format!(
                    "{} {second}\n",
                    moment(second).to_zoned(zone.clone()).strftime("%b %e %H:%M:%S host x:")
                )
            })
            .collect()
    };
    let taken = fixture.write("x.log", write("America/New_York")).collect();
    assert_eq!(seconds(&taken.files), (0..=60).collect::<Vec<_>>());
    assert_eq!(taken.files[0].assumed_zone, "America/New_York");
    fs::remove_dir_all(fixture.folder.path().join("recording")).expect("remove");
    let taken = fixture.write("x.log", write("UTC")).collect();
    assert_eq!(seconds(&taken.files), (0..=60).collect::<Vec<_>>());
    assert!(taken.files[0].assumed_zone.starts_with("UTC"));
    fs::remove_dir_all(fixture.folder.path().join("recording")).expect("remove");
    let taken = fixture.write("x.log", write("Asia/Tokyo")).collect();
    assert!(taken.files.is_empty());
    assert!(taken.message("logs.zone-unclear").contains("its time zone may be another one"));
    // What grew during the recording is inside all the same.
    fs::remove_dir_all(fixture.folder.path().join("recording")).expect("remove");
    let tokyo = write("Asia/Tokyo");
    fixture.write("x.log", &tokyo[..tokyo.len() / 2]);
    let watch = fixture.begin();
    let taken = fixture.write("x.log", &tokyo).finish(watch);
    assert!(seconds(&taken.files).ends_with(&[58, 59, 60]));
    assert!(taken.files[0].lines.iter().all(|line| line.time.is_none()));
}

#[test]
fn files_without_stamps_by_what_was_written() {
    let fixture = Fixture::new(&["*.out"]);
    fixture
        .write("a.out", "old line\n")
        .write("same.out", "nothing new\n")
        .write("cut.out", "a long old line\n");
    let watch = fixture.begin();
    fixture.write("a.out", "old line\nnew line\nERROR newer line\n");
    fixture.write("cut.out", "shorter\n").write("new.out", "all new\n");
    let taken = fixture.finish(watch);
    let mut texts: Vec<&str> =
        taken.files.iter().flat_map(|file| &file.lines).map(|line| line.text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["ERROR newer line", "all new", "new line", "shorter"]);
    assert!(taken.files.iter().flat_map(|file| &file.lines).all(|line| line.time.is_none()));
    assert!(taken.message("logs.nothing-in-window").contains("same.out"));
    assert!(taken.codes().contains(&"logs.untimed"));
}

#[test]
fn the_head_of_a_file_is_kept() {
    let fixture = Fixture::new(&["*.log"]);
    let head = "#Software: server\n#Fields: date time method\n";
    // Most of it is older than the recording.
    fixture.write("iis.log", format!("{head}{}", lines(-3000, 20)));
    fixture.write_at("old.log", format!("{head}{}", lines(-3000, -2000)), 60);
    let taken = fixture.collect();
    assert_eq!(taken.files.len(), 1, "no head without a line");
    assert_eq!(taken.files[0].lines[0].text, head.trim_end());
    assert_eq!(taken.files[0].lines[0].time, taken.files[0].lines[1].time);
}

#[test]
fn lines_without_stamps_after_an_old_stamp() {
    let fixture = Fixture::new(&["x.out"]);
    let old = format!("{} starting\nlistening\n", moment(-5_000));
    fixture.write("x.out", &old);
    let watch = fixture.begin();
    let taken = fixture.write("x.out", format!("{old}request failed\n  at x\n")).finish(watch);
    assert_eq!(taken.texts(), ["request failed\n  at x"]);
}

#[test]
fn secrets_are_masked() {
    let fixture = Fixture::new(&["x.log"]);
    let text = format!(
        "{} connecting: Server=db;Password=hunter2-secret;\n  password=hunter2-secret again\n",
        moment(5)
    );
    let taken = fixture.write("x.log", text).collect();
    assert!(!taken.texts()[0].contains("hunter2"), "{:?}", taken.texts());
    assert!(taken.texts()[0].contains("Server=db"));
}

#[test]
fn a_private_key_over_many_lines_is_masked() {
    let fixture = Fixture::new(&["x.out"]);
    fixture.write("x.out", "");
    let watch = fixture.begin();
    let start = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIB";
    let lines: Vec<String> =
        (0..20).map(|line| format!("{start}{}", "abcdefghijklmnop".repeat(1 + line % 2))).collect();
    let key =
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\nafter\n", lines.join("\n"));
    let taken = fixture.write("x.out", key).finish(watch);
    assert!(!taken.texts().join("\n").contains("MIIEvQ"), "{:?}", taken.texts());
    assert_eq!(taken.texts().last(), Some(&"after"));
}

#[test]
fn what_is_no_log_is_told_and_left_alone() {
    let fixture = Fixture::new(&["*", "none.log", "[", "*.zip"]);
    let status =
        std::process::Command::new("mkfifo").arg(fixture.path("fifo")).status().expect("mkfifo is there");
    assert!(status.success());
    let _socket = std::os::unix::net::UnixListener::bind(fixture.path("socket")).expect("a socket");
    symlink("/dev/zero", fixture.path("zero")).expect("link");
    symlink("nowhere", fixture.path("dangling")).expect("link");
    symlink(fixture.folder.path().join("outside.log"), fixture.path("outside")).expect("link");
    fs::write(fixture.folder.path().join("outside.log"), lines(0, 3)).expect("write");
    fixture
        .write("binary", b"\x7fELF\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04")
        .write("packed.xz", b"\xfd7zXZ\0")
        .write("broken.gz", &gzip(lines(0, 2_000).as_bytes())[..5_000])
        .write("not.gz", "no gzip at all")
        .write("good.log", lines(7, 8));
    let taken = fixture.collect();
    let all: Vec<&str> = taken.summary.warnings.iter().map(|warning| warning.message.as_str()).collect();
    let has = |text: &str| assert!(all.iter().any(|message| message.contains(text)), "{text} in {all:#?}");
    has("fifo` is not read: it is a FIFO, not a regular file");
    has("socket` is not read: it is a socket, not a regular file");
    has("zero` is not read: it is a device, not a regular file");
    has("dangling` is not read: it is a link that leads nowhere");
    has("outside` is a link: `");
    has("binary` is not read: it is not text");
    has("packed.xz` is not read: only gzip and zstd are unpacked");
    has("broken.gz` is damaged, and read as far as it goes: ");
    has("not.gz` is not read to its end: invalid gzip header");
    has("no file matches `");
    has("the pattern `");
    let sources: Vec<&str> = taken.files.iter().filter_map(|file| file.source.rsplit('/').next()).collect();
    for source in ["good.log", "outside", "broken.gz"] {
        assert!(sources.contains(&source), "{source} in {sources:?}");
    }
    assert_eq!(sources.len(), 3);
}

#[test]
fn one_line_of_a_hundred_megabytes() {
    let fixture = Fixture::new(&["x.log"]);
    let mut file = File::create(fixture.path("x.log")).expect("create");
    write!(file, "{} ERROR ", moment(1)).expect("write");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        file.write_all(&piece).expect("write");
    }
    write!(file, "\n{} INFO after\n", moment(2)).expect("write");
    file.set_modified(SystemTime::from(moment(60))).expect("times");
    let before = biopsy_sys::limits::peak_resident_bytes();
    let taken = fixture.collect();
    assert_eq!(taken.texts().len(), 1, "the line begins before what is taken of one source");
    assert!(taken.codes().contains(&"logs.limited"));
    assert!(biopsy_sys::limits::peak_resident_bytes() - before < 60 << 20);

    let mut fixture = Fixture::new(&["y.log"]);
    fixture.config.source_bytes = 200 << 20;
    fs::rename(file_path(&file), fixture.path("y.log"))
        .or_else(|_| fs::copy(file_path(&file), fixture.path("y.log")).map(drop))
        .expect("move");
    let taken = fixture.collect();
    assert_eq!(taken.texts().len(), 2);
    assert!(taken.texts()[0].ends_with("more bytes of this line left out]"));
    assert!(taken.message("logs.long-lines").starts_with("1 lines of"));
}

fn file_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("a path")
}

#[test]
fn the_newest_is_kept_within_the_limits() {
    let mut fixture = Fixture::new(&["x.log", "y.log.gz"]);
    let text = lines(0, 60);
    fixture.config.source_bytes = text.len() as u64 / 2;
    fixture.write("x.log", &text).write_at("y.log.gz", gzip(text.as_bytes()), 50);
    let taken = fixture.collect();
    for file in &taken.files {
        let seconds = seconds(std::slice::from_ref(file));
        assert_eq!(seconds.last(), Some(&59), "{}", file.source);
        assert!((28..=30).contains(&seconds.len()), "{}: {seconds:?}", file.source);
    }
    assert_eq!(taken.files.len(), 2);
    assert_eq!(taken.codes(), ["logs.limited", "logs.limited"]);

    let mut fixture = Fixture::new(&["*.log"]);
    fixture.config.total_bytes = text.len() as u64;
    fixture.write_at("old.log", &text, 50).write_at("new.log", &text, 60);
    let taken = fixture.collect();
    assert!(taken.files[0].source.ends_with("new.log"));
    assert!(taken.message("logs.limited").contains("old.log"));
}

#[test]
fn a_bomb_is_read_within_bounds() {
    let mut fixture = Fixture::new(&["x.log.gz"]);
    fixture.config.longest = Duration::from_secs(20);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(lines(0, 3).as_bytes()).expect("memory");
    let zeros = vec![b'0'; 1 << 20];
    for _ in 0..200 {
        encoder.write_all(&zeros).expect("memory");
    }
    let bomb = encoder.finish().expect("memory");
    assert!(bomb.len() < 4 << 20);
    let taken = fixture.write("x.log.gz", bomb).collect();
    // The zeros are one line, cut, that continues the last record.
    assert_eq!(taken.texts().len(), 3);
    assert!(taken.codes().contains(&"logs.long-lines"));
}

#[test]
fn utf_16_and_latin_1() {
    let fixture = Fixture::new(&["*.log"]);
    let wide: Vec<u8> =
        format!("\u{feff}{} WARN Grüße", moment(1)).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut latin = format!("{} INFO Gr", moment(2)).into_bytes();
    latin.extend(b"\xfc\xdfe\n");
    let taken = fixture.write("wide.log", wide).write("latin.log", latin).collect();
    let mut texts: Vec<&str> = taken.files.iter().map(|file| file.lines[0].text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["2026-11-21T10:00:01Z WARN Grüße", "2026-11-21T10:00:02Z INFO Grüße"]);
    assert!(taken.message("logs.not-utf8").contains("latin.log"));
}

#[test]
fn a_large_file_is_not_read_from_its_start() {
    let fixture = Fixture::new(&["x.log"]);
    let path = fixture.path("x.log");
    let file = File::create(&path).expect("create");
    // Hours of lines of 1,000 bytes before the window.
    let mut writer = std::io::BufWriter::new(file);
    let filler = "y".repeat(1_000);
    for second in -20_000..=60 {
        writeln!(writer, "{} {filler} {second}", moment(second)).expect("write");
    }
    let file = writer.into_inner().expect("flushed");
    file.set_modified(SystemTime::from(moment(60))).expect("times");
    let taken = fixture.collect();
    assert_eq!(seconds(&taken.files), (-10..=60).collect::<Vec<_>>());
}

#[test]
fn unreadable_files_are_told() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(&["x.log"]);
    fixture.write("x.log", lines(0, 5));
    fs::set_permissions(fixture.path("x.log"), fs::Permissions::from_mode(0o000)).expect("mode");
    if File::open(fixture.path("x.log")).is_ok() {
        // Root reads everything: nothing to test.
        return;
    }
    let taken = fixture.collect();
    assert!(taken.message("logs.not-read").contains("Permission denied"));
}

#[test]
fn the_wall_clock_was_set() {
    let fixture = Fixture::new(&["x.log"]);
    fixture.write("x.log", lines(0, 5));
    let recording = RecordingFolder::create(fixture.folder.path().join("r")).expect("a new folder");
    let mut end = pair(60);
    end.wall_unix_nanos += 3_600 * SECOND;
    let summary = fixture.begin().collect(&pair(0), &end, &recording, &masking()).expect("there is room");
    let message =
        summary.warnings.iter().find(|warning| warning.code == "logs.clock-step").map(|w| w.message.as_str());
    assert!(message.is_some_and(|message| message.contains("3600000 ms")), "{message:?}");
}

#[test]
fn a_full_disk_is_handed_up() {
    let fixture = Fixture::new(&["x.log"]);
    fixture.write("x.log", lines(0, 60));
    // `/dev/full` in the place of the log's member: every write fails.
    let path = fixture.folder.path().join("r");
    let recording = RecordingFolder::create(&path).expect("a new folder");
    fs::remove_dir(Path::new(&path)).expect("remove");
    let result = fixture.begin().collect(&pair(0), &pair(60), &recording, &masking());
    assert!(result.is_err(), "{result:?}");
}

#[test]
fn a_journal_is_taken_and_a_missing_one_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let mut fixture = Fixture::new(&[]);
    let program = fixture.folder.path().join("journalctl");
    let micros = moment(5).as_microsecond();
    let line = format!(
        r#"{{"__REALTIME_TIMESTAMP":"{micros}","PRIORITY":"3","MESSAGE":"password=hunter2-secret"}}"#
    );
    fs::write(&program, format!("#!/bin/sh\necho '{line}'\n")).expect("write");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("mode");
    fixture.config.journal_units = vec!["db.service".to_owned()];
    fixture.config.journalctl = program;
    let taken = fixture.collect();
    assert_eq!(taken.files[0].source, "journal:db.service");
    assert_eq!(taken.files[0].lines[0].level, LogLevel::Error);
    assert_eq!(taken.files[0].lines[0].time, Some(MonoNanos(1_005 * 1_000_000_000)));
    assert!(!taken.texts()[0].contains("hunter2"));

    fs::remove_dir_all(fixture.folder.path().join("recording")).expect("remove");
    fixture.config.journalctl = PathBuf::from("/nowhere/journalctl");
    let taken = fixture.collect();
    assert_eq!(
        taken.message("logs.journal"),
        "the journal of `db.service` is not read: there is no `journalctl` on this machine"
    );
}

#[test]
fn the_last_lines_can_be_seen_beforehand() {
    let fixture = Fixture::new(&["*.log", "*.txt"]);
    let lines: String = (0..12).map(|number| format!("line {number}\n")).collect();
    fixture.write("a.log", format!("{lines}login password=Xk9mQ2vL7pRt ok\n"));
    fixture.write("b.log", b"\x7fELF\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04");
    let masking = masking();
    let previews = fixture.begin().preview(&masking);
    let [a, b, none] = &previews[..] else { panic!("{previews:?}") };
    let lines = a.lines.as_ref().expect("lines");
    assert!(a.source.ends_with("/logs/a.log") && lines.len() == 10, "{a:?}");
    assert_eq!((lines[8].text.as_str(), lines[8].rules.len()), ("line 11", 0));
    assert!(lines[9].text.starts_with("login password=[redacted:password:"), "{a:?}");
    assert_eq!(lines[9].rules, ["password"]);
    assert!(b.lines.is_err() && none.lines.is_err(), "{previews:?}");
}
