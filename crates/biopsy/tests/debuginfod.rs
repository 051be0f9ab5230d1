//! `--debuginfod`: names, files and lines of a stripped program whose debug file only a server has. The server is one in this process
//! that gives what lies in a folder, and Debian's `debuginfod` where that is installed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{Privilege, TargetProcess, compile_c, require_all, require_program, temp_dir};
use serde_json::Value;

const SOURCE: &str = r#"
#include "target.h"
static int counted;
static inline __attribute__((always_inline)) void wait_for_orders(void) { counted++; wait_for_stop(); }
VISIBLE static void open_the_shop(void) { wait_for_orders(); counted++; }
VISIBLE static void serve_the_town(void) { open_the_shop(); counted++; }
int main(void) { limit_own_life(); puts("READY"); fflush(stdout); serve_the_town(); return counted; }
"#;

/// A stripped program, its debug file, and a core of a process of it.
struct Shop {
    scratch: biopsy_testkit::TempDir,
    program: PathBuf,
    debug_file: PathBuf,
    core: PathBuf,
    hex: String,
}

/// Who writes the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writer {
    Biopsy,
    /// Without the text of files, as the kernel does.
    Gdb,
}

impl Shop {
    fn new(writer: Writer) -> Self {
        let scratch = temp_dir("debuginfod");
        let folder = fs::canonicalize(scratch.path()).unwrap();
        // Alone, it has all unwind information of its stack.
        let link = if writer == Writer::Gdb { "-static" } else { "-pie" };
        let whole = compile_c("shop", SOURCE, &["-O1", "-Wl,--build-id", link]);
        let (program, debug_file) = (folder.join("shop"), folder.join("away/shop.debug"));
        fs::create_dir(folder.join("away")).unwrap();
        run(Command::new("objcopy").arg("--only-keep-debug").args([&whole, &debug_file]));
        run(Command::new("strip").arg("-o").args([&program, &whole]));
        let mut target = TargetProcess::spawn(Command::new(&program));
        let core = folder.join("shop.core");
        let pid = target.pid().to_string();
        match writer {
            Writer::Biopsy => {
                let dump = ["dump", &pid, "--raw", "--quiet", "--output"];
                run(Command::new(env!("CARGO_BIN_EXE_biopsy")).args(dump).arg(&core));
            }
            Writer::Gdb => {
                let command = format!("generate-core-file {}", core.display());
                run(Command::new("gdb")
                    .args(["-q", "-batch", "-nx", "-p", &pid, "-ex", &command, "-ex", "detach"]));
            }
        }
        target.stop();
        let notes = run(Command::new("readelf").arg("-n").arg(&program));
        let notes = String::from_utf8(notes.stdout).unwrap();
        let hex = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap().to_owned();
        Self { scratch, program, debug_file, core, hex }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The debug file as it lies in a folder of them.
    fn put_below(&self, root: &Path) {
        let (first, rest) = self.hex.split_at(2);
        let folder = root.join(format!("usr/lib/debug/.build-id/{first}"));
        fs::create_dir_all(&folder).unwrap();
        fs::copy(&self.debug_file, folder.join(format!("{rest}.debug"))).unwrap();
    }

    fn analyze(&self, cache: &str, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_biopsy"));
        command.args(["analyze", "--json"]).arg(&self.core).args(more);
        command.env("XDG_CACHE_HOME", self.at(cache)).env_remove("DEBUGINFOD_URLS").output().unwrap()
    }
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// All frames: function, file, line, and whether it was inlined.
fn frames(report: &Value) -> Vec<(String, String, u64, bool)> {
    let text = |frame: &Value, key: &str| frame[key].as_str().unwrap_or_default().to_owned();
    let groups = report["dumps"][0]["groups"].as_array().expect("there are stacks");
    let frames = groups.iter().flat_map(|group| group["frames"].as_array().expect("of frames"));
    frames
        .map(|frame| {
            let line = frame["line"].as_u64().unwrap_or_default();
            let function = frame["function"].as_str().unwrap_or(frame["label"].as_str().unwrap_or_default());
            (function.to_owned(), text(frame, "file"), line, frame["inlined"] == true)
        })
        .collect()
}

/// Gives the debug file and the program to who has the build id, and tells what was asked for.
fn serve(shop: &Shop) -> (String, std::sync::mpsc::Receiver<String>) {
    let files = [("debuginfo", shop.debug_file.clone()), ("executable", shop.program.clone())];
    let files = files.map(|(kind, file)| (format!("/buildid/{}/{kind}", shop.hex), file));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
            let file = files.iter().find(|(of, _)| *of == path);
            let body = file.map(|(_, file)| fs::read(file).unwrap()).unwrap_or_default();
            let status = if body.is_empty() { 404 } else { 200 };
            let _ = asked.send(path);
            let _ = write!(
                stream,
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&body);
        }
    });
    (url, heard)
}

/// Debian's server, ended with the value.
struct Debuginfod(Child);

impl Drop for Debuginfod {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Debuginfod {
    /// Serves a folder, and has scanned it when this returns.
    fn serving(folder: &Path, hex: &str) -> (Self, String) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("debuginfod")
            .args(["-d", ":memory:", "-p", &port.to_string(), "-F"])
            .arg(folder)
            .env_remove("DEBUGINFOD_URLS")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (server, begun) = (Self(child), Instant::now());
        while !Self::has(port, hex) {
            assert!(begun.elapsed() < Duration::from_secs(60), "debuginfod does not find the file");
            std::thread::sleep(Duration::from_millis(100));
        }
        (server, format!("http://127.0.0.1:{port}"))
    }

    fn has(port: u16, hex: &str) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
        let _ =
            write!(stream, "GET /buildid/{hex}/debuginfo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let mut first = String::new();
        let _ = BufReader::new(stream).read_line(&mut first);
        first.contains(" 200 ")
    }
}

#[test]
fn a_server_gives_the_names_files_and_lines_that_a_folder_gives() {
    if !require_all(&[Privilege::Cc, Privilege::Ptrace]) {
        return;
    }
    let shop = Shop::new(Writer::Biopsy);
    let (with, without) = (shop.at("with"), shop.at("without"));
    fs::create_dir_all(&without).unwrap();
    shop.put_below(&with);
    let folder = |path: &Path| path.to_str().unwrap().to_owned();
    let wanted = frames(&report(&shop.analyze("unused", &["--symbols", &folder(&with)])));
    let named: BTreeSet<&str> = wanted.iter().map(|(label, ..)| label.as_str()).collect();
    for name in ["open_the_shop", "serve_the_town", "wait_for_orders", "main"] {
        assert!(named.contains(name), "{name} is missing: {wanted:?}");
    }
    let has_place = |(label, file, line, _): &(String, String, u64, bool)| {
        label == "serve_the_town" && file.ends_with("shop.c") && *line == 6
    };
    assert!(wanted.iter().any(has_place), "{wanted:?}");
    let plain = report(&shop.analyze("unused", &["--symbols", &folder(&without)]));
    assert!(!frames(&plain).iter().any(|(label, ..)| label == "open_the_shop"), "{plain:#}");
    assert!(!shop.at("unused").exists(), "nothing is kept where nothing is asked");

    let (url, heard) = serve(&shop);
    let debuginfod = format!("--debuginfod={url}");
    let output = shop.analyze("cache", &["--symbols", &folder(&without), &debuginfod]);
    assert_eq!(frames(&report(&output)), wanted);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("note: {url} was asked for")) && said.contains("gave 1 ("), "{said}");
    let asked: Vec<String> = heard.try_iter().collect();
    assert!(asked.contains(&format!("/buildid/{}/debuginfo", shop.hex)), "{asked:?}");
    let hexadecimal = |path: &str| {
        let hex = path
            .strip_prefix("/buildid/")
            .and_then(|rest| rest.strip_suffix("/debuginfo").or(rest.strip_suffix("/executable")));
        hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    assert!(asked.iter().all(|path| hexadecimal(path)), "nothing but build ids: {asked:?}");
    assert_eq!(asked.len(), asked.iter().collect::<BTreeSet<_>>().len(), "each once: {asked:?}");

    // What was fetched and what nobody has is known: nobody is asked, and what is missing is said.
    let again = shop.analyze("cache", &[&debuginfod, "--symbols", &folder(&without)]);
    assert_eq!(frames(&report(&again)), wanted);
    assert_eq!(heard.try_iter().count(), 0);
    let missing = report(&again)["undetermined"].to_string();
    if asked.len() > 1 {
        assert!(missing.contains("would tell") && missing.contains(&url), "{missing}");
    }
    // Without a folder the program's own file is not opened, and its names come all the same.
    let alone = report(&shop.analyze("cache", &[&debuginfod]));
    assert!(frames(&alone).iter().any(has_place), "{:#?}", frames(&alone));

    // By the environment, after a server that is not there.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_biopsy"))
        .args(["analyze", "--json", "--debuginfod"])
        .arg(&shop.core)
        .env("XDG_CACHE_HOME", shop.at("third"))
        .env("DEBUGINFOD_URLS", format!("http://{closed} {url}"))
        .output()
        .unwrap();
    assert!(frames(&report(&output)).iter().any(has_place));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("it is not asked any more"), "{said}");

    if !require_program("debuginfod", &["--version"]) {
        return;
    }
    let (_server, url) = Debuginfod::serving(&shop.at("away"), &shop.hex);
    let fourth = shop.analyze("fourth", &["--symbols", &folder(&without), &format!("--debuginfod={url}")]);
    assert_eq!(frames(&report(&fourth)), wanted, "as Debian's debuginfod gives it");
}

/// A core without the text of its files has no unwind information: a server has it.
#[test]
fn a_core_without_text_has_its_stacks_by_the_program_that_a_server_has() {
    if !require_all(&[Privilege::Cc, Privilege::Ptrace, Privilege::Gdb]) {
        return;
    }
    let shop = Shop::new(Writer::Gdb);
    let functions =
        |report: &Value| -> Vec<String> { frames(report).into_iter().map(|(label, ..)| label).collect() };
    let without = functions(&report(&shop.analyze("unused", &[])));
    assert!(!without.iter().any(|function| function == "main"), "{without:?}");
    let (url, heard) = serve(&shop);
    let output = shop.analyze("cache", &[&format!("--debuginfod={url}")]);
    let found = report(&output);
    let with = functions(&found);
    let own = ["open_the_shop", "serve_the_town", "main"];
    let at = |name: &str| with.iter().position(|function| function == name);
    let places: Vec<usize> = own.iter().filter_map(|name| at(name)).collect();
    assert!(places.len() == 3 && places.is_sorted(), "{with:?}");
    let asked: Vec<String> = heard.try_iter().collect();
    assert!(asked.contains(&format!("/buildid/{}/executable", shop.hex)), "{asked:?}");
    let modules = found["dumps"][0]["modules"].to_string();
    assert!(modules.contains("fetched by its build id"), "{modules}");
}

#[test]
fn nobody_is_asked_unless_the_command_line_says_so_and_says_whom() {
    let scratch = temp_dir("nobody");
    let core = scratch.path().join("none.core");
    fs::write(&core, b"\x7fELF").unwrap();
    let complaint = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_biopsy"))
            .arg("analyze")
            .args(arguments)
            .arg(&core)
            .env("XDG_CACHE_HOME", scratch.path())
            .env_remove("DEBUGINFOD_URLS")
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = complaint(&["--debuginfod"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("no debuginfod server is named") && said.contains("`DEBUGINFOD_URLS` is not set"),
        "{said}"
    );
    let (code, said) = complaint(&["--debuginfod=ftp://x"]);
    assert!(code == Some(2) && said.contains("is no address of a debuginfod server"), "{said}");
    let (code, said) = complaint(&["--debuginfod=https://me:geheim@x"]);
    assert!(
        code == Some(2) && !said.contains("geheim") && said.contains("nothing but build ids is sent"),
        "{said}"
    );
}
