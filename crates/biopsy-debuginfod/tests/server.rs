//! A client against servers of every kind: a small one in this process that answers as it is told.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use biopsy_debuginfod::{Client, Limits, Told, parse_servers};
use biopsy_elf::raw::PT_NOTE;
use biopsy_elf::testing::ElfBuilder;
use biopsy_stacks::symbols::{FilesElsewhere as _, Wanted};

const ID: [u8; 20] = [0xab; 20];

/// An ELF file with this build id, and so many bytes behind it.
fn debug_file(id: &[u8], more: usize) -> Vec<u8> {
    let mut note = Vec::new();
    biopsy_elf::put_note(&mut note, b"GNU", biopsy_elf::raw::NT_GNU_BUILD_ID, id);
    let mut bytes = ElfBuilder::new(0).segment(PT_NOTE, &note).build();
    bytes.resize(bytes.len() + more, 7);
    bytes
}

/// A server that answers each request with what `answer` makes of its path, and is asked until the end of the test.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                // One that never answers keeps only its own connection.
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let head: Vec<String> =
                        lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                    let Some(first) = head.first() else { return };
                    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                    noted.lock().unwrap().push(head.join("\n"));
                    answer(&path, &mut stream);
                });
            }
        });
        Self { url, asked }
    }

    fn of_status(status: u16) -> Self {
        Self::new(move |_, stream| {
            let _ = write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        })
    }

    fn giving(bytes: Vec<u8>) -> Self {
        Self::new(move |_, stream| whole(stream, &bytes))
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn whole(stream: &mut TcpStream, bytes: &[u8]) {
    let length = bytes.len();
    let _ = write!(stream, "HTTP/1.1 200 x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(bytes);
}

/// Limits of tests: what never comes is not waited for long.
fn limits() -> Limits {
    let soon = Duration::from_millis(300);
    Limits {
        connect: Duration::from_secs(5),
        answer: soon,
        whole: Duration::from_secs(60),
        ..Limits::default()
    }
}

fn client(urls: &str, folder: &Path, limits: Limits) -> Client {
    Client::new(parse_servers(urls).unwrap(), folder.to_owned(), limits, |_| {}).unwrap()
}

/// What became of one question.
fn ask(urls: &str, folder: &Path) -> (Option<PathBuf>, Told) {
    ask_within(urls, folder, Limits { answer: Duration::from_secs(20), ..limits() })
}

fn ask_within(urls: &str, folder: &Path, limits: Limits) -> (Option<PathBuf>, Told) {
    let client = client(urls, folder, limits);
    let found = client.get(&ID, Wanted::DebugFile, "/usr/lib/libshop.so");
    (found, client.told())
}

fn files_below(folder: &Path) -> Vec<String> {
    let inside = std::fs::read_dir(folder.join(".build-id/ab")).into_iter().flatten().flatten();
    let mut names: Vec<String> = inside.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_fetched_once_and_found_by_its_build_id_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let bytes = debug_file(&ID, 700_000);
    let server = Server::giving(bytes.clone());
    let (found, told) = ask(&server.url, &cache);
    let hex = "ab".repeat(19);
    let path = found.expect("it is there");
    assert_eq!(path, cache.join(format!(".build-id/ab/{hex}.debug")));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert!(
        told.missing.is_empty() && told.asked[0].contains("1 file by build id, and gave 1 (0.7 MiB)"),
        "{told:?}"
    );
    let asked = server.asked();
    assert!(asked[0].starts_with(&format!("GET /buildid/ab{hex}/debuginfo HTTP/1.1")), "{asked:?}");
    let words = asked[0].to_ascii_lowercase();
    assert!(
        !words.contains("libshop") && !words.contains("authorization") && !words.contains("cookie"),
        "{words}"
    );
    let (again, told) = ask("http://127.0.0.1:1", &cache);
    assert_eq!((again, told.asked), (Some(path), vec!["1 file had been fetched before".to_owned()]));
    assert_eq!(server.asked().len(), 1);
    let client = client(&server.url, &cache, limits());
    let program = client.get(&ID, Wanted::Program, "libshop.so").expect("a file of its own");
    assert_eq!(program, cache.join(format!(".build-id/ab/{hex}.program")));
    assert!(server.asked()[1].starts_with(&format!("GET /buildid/ab{hex}/executable HTTP/1.1")));
}

#[test]
fn the_next_server_is_asked_where_one_does_not_have_it_and_what_nobody_has_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let (none, nothing) = (Server::of_status(404), Server::of_status(410));
    let urls = format!("{} {}", none.url, nothing.url);
    let (found, told) = ask(&urls, &cache);
    assert_eq!(found, None);
    assert!(told.missing[0].starts_with("what debug files would tell of `libshop.so`:"), "{told:?}");
    let (_, told) = ask(&urls, &cache);
    assert!(told.missing[0].contains("within the last hour"), "{told:?}");
    assert_eq!((none.asked().len(), nothing.asked().len()), (1, 1), "they are not asked again");
    let server = Server::giving(debug_file(&ID, 10));
    let (found, told) = ask(&format!("{urls} {}", server.url), &cache);
    assert!(found.is_some() && told.missing.is_empty(), "{told:?}");
    assert_eq!(files_below(&cache), [format!("{}.debug", "ab".repeat(19))], "and nothing else is left");
}

#[test]
fn what_is_not_the_file_is_not_kept() {
    let other = debug_file(&[0xcd; 20], 10);
    let whole_file = debug_file(&ID, 5_000);
    let cut = whole_file.clone();
    let cases: Vec<(&str, Server)> = vec![
        ("has the build id cdcdcd", Server::giving(other)),
        ("is no ELF file", Server::giving(b"<html>please log in</html>".to_vec())),
        ("is no ELF file", Server::giving(Vec::new())),
        ("it answers 403", Server::of_status(403)),
        ("it answers 503", Server::of_status(503)),
        (
            "broke off",
            Server::new(move |_, stream| {
                let _ = write!(stream, "HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n", cut.len());
                let _ = stream.write_all(&cut[..3_000]);
            }),
        ),
        ("is not http", Server::new(|_, stream| drop(stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n")))),
    ];
    for (why, server) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (found, told) = ask(&server.url, folder.path().join("cache").as_path());
        assert_eq!(found, None, "{why}");
        let said = told.missing.join("\n");
        assert!(said.contains(why) || why == "is not http", "{why}: {said}");
        assert!(said.contains("`libshop.so`") && said.contains(&server.url), "{said}");
        assert_eq!(
            files_below(&folder.path().join("cache")),
            [""; 0],
            "{why}: nothing is left, and nothing is remembered"
        );
    }
}

#[test]
fn what_is_too_large_is_refused_before_it_is_taken_and_while_it_comes() {
    let small = Limits { file_bytes: 2_000_000, ..limits() };
    let claims = Server::new(|_, stream| {
        let _ = write!(stream, "HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n", u64::MAX / 2);
    });
    // Without a length, and without an end.
    let endless = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 x\r\nconnection: close\r\n\r\n");
        while stream.write_all(&[7; 64 << 10]).is_ok() {}
    });
    for server in [claims, endless] {
        let folder = tempfile::tempdir().unwrap();
        let (found, told) = ask_within(&server.url, folder.path().join("cache").as_path(), small.clone());
        assert_eq!(found, None);
        assert!(told.missing[0].contains("2000000 may be fetched"), "{told:?}");
        assert_eq!(files_below(&folder.path().join("cache")), [""; 0]);
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::giving(debug_file(&ID, 1_000_000));
    let run = Limits { run_bytes: 500_000, ..limits() };
    let (found, told) = ask_within(&server.url, folder.path().join("cache").as_path(), run);
    assert!(found.is_none() && told.missing[0].contains("500000 may be fetched"), "{told:?}");
}

#[test]
fn a_server_may_send_on_a_few_times_and_not_in_a_circle() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::giving(debug_file(&ID, 10));
    let target = server.url.clone();
    let sending = Server::new(move |path, stream| {
        let _ = write!(
            stream,
            "HTTP/1.1 302 x\r\nlocation: {target}{path}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
    });
    assert!(ask(&sending.url, folder.path().join("cache").as_path()).0.is_some());
    let circle = Server::new(|path, stream| {
        let _ = write!(
            stream,
            "HTTP/1.1 302 x\r\nlocation: {path}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
    });
    let (found, told) = ask(&circle.url, folder.path().join("other").as_path());
    assert!(found.is_none() && told.missing[0].contains("sends on more than 3 times"), "{told:?}");
    assert_eq!(circle.asked().len(), 4);
}

#[test]
fn one_that_does_not_answer_is_asked_once_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let silent = Server::new(|_, stream| {
        // Until the other side hangs up.
        let _ = std::io::Read::read(stream, &mut [0]);
    });
    let stuck = Server::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 5000\r\n\r\n12345");
        let _ = std::io::Read::read(stream, &mut [0]);
    });
    let none = Server::of_status(404);
    // Nobody listens there: the port was free a moment ago.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client =
        client(&format!("{} {} http://{closed} {}", silent.url, stuck.url, none.url), &cache, limits());
    for (number, module) in ["/one", "/two", "/three"].into_iter().enumerate() {
        assert_eq!(client.get(&[number as u8 + 1; 20], Wanted::DebugFile, module), None);
    }
    assert_eq!([&silent, &stuck, &none].map(|server| server.asked().len()), [1, 1, 3]);
    let told = client.told();
    assert_eq!(told.asked.len(), 4, "{told:?}");
    assert_eq!(
        told.asked.iter().filter(|line| line.contains("is not asked any more")).count(),
        3,
        "{told:?}"
    );
    let said = told.missing.join("\n");
    assert!(said.contains("`one`, `two`, `three`") && said.contains(&silent.url), "{said}");
    assert_eq!(client.get(&[1; 20], Wanted::DebugFile, "/one"), None, "nor is it asked for the same again");
    assert_eq!(none.asked().len(), 3);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]

    /// Whatever a server says, what is kept is the file with the build id, or nothing.
    #[test]
    fn any_answer_is_the_file_or_nothing(
        at in 0..6_000_usize, new in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..40), cut in 0..7_000_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let bytes = debug_file(&ID, 5_000);
        let mut answer = format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", bytes.len()).into_bytes();
        answer.extend(&bytes);
        let at = at % answer.len();
        let end = (at + new.len()).min(answer.len());
        answer[at..end].copy_from_slice(&new[..end - at]);
        answer.truncate(cut.max(20));
        let server = Server::new(move |_, stream| drop(stream.write_all(&answer)));
        let (found, told) = ask(&server.url, &cache);
        match found {
            Some(path) => {
                let kept = std::fs::read(path).unwrap();
                proptest::prop_assert!(kept.windows(20).any(|window| window == ID));
            }
            None => proptest::prop_assert!(!told.missing.is_empty() && !files_below(&cache).iter().any(|name| name.ends_with(".debug"))),
        }
    }
}
