//! `trace --launch --allocations=full` of programs that are not as others: a server with an allocator of its own kind, programs that bring
//! parts of an allocator along, and those that are refused.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use biopsy_testkit::{Privilege, as_user, compile_c, compile_cpp, require_all, require_that, temp_dir};
use serde_json::Value;

use crate::support::{analyze, biopsy, complaint, said};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf];

fn tracing(file: &Path, program: &[&str]) -> Command {
    let mut command = biopsy(["trace", "--launch", "--allocations=full", "--quiet", "-o"]);
    command.arg(file).arg("--").args(program);
    command
}

fn recorded(program: &Path) -> Value {
    let folder = temp_dir("allocations-own");
    let file = folder.path().join("r.biopsy.zip");
    let output = tracing(&file, &[program.to_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("done"), "{}", said(&output));
    analyze(&file)
}

fn bytes_of(report: &Value, function: &str) -> Option<u64> {
    let sites = report["allocations"]["sites"].as_array()?;
    sites.iter().find(|site| site["function"] == function)?["allocated_bytes"].as_u64()
}

/// A place in the file system for a command that is on the path.
fn find(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|path| path.join(program))
        .find(|path| path.is_file())
}

/// One command, and the first line of the answer.
fn ask(socket: &mut BufReader<UnixStream>, words: &[&str]) -> String {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    socket.get_mut().write_all(bytes.as_bytes()).unwrap();
    let mut line = String::new();
    socket.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Redis under load: it does its work, what it keeps is counted, and what it gives back is not kept.
#[test]
fn redis_is_counted_from_its_start() {
    if !require_all(LIVE) {
        return;
    }
    let Some(server) = find("redis-server") else {
        let _ = require_that(false, "redis-server is not installed");
        return;
    };
    const KEYS: usize = 2000;
    const BYTES: usize = 1000;
    let folder = temp_dir("allocations-redis");
    let (file, path) = (folder.path().join("r.biopsy.zip"), folder.path().join("s"));
    let (path, at) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
    let server = server.to_str().unwrap();
    let mut command =
        tracing(&file, &[server, "--port", "0", "--unixsocket", path, "--save", "", "--dir", at]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("ready to accept")));
    assert!(ready.is_some(), "it does not start");
    let rest = std::thread::spawn(move || lines.count());
    let mut socket = BufReader::new(UnixStream::connect(path).unwrap());
    let value = "v".repeat(BYTES);
    for number in 0..2 * KEYS {
        assert_eq!(ask(&mut socket, &["SET", &format!("key{number}"), &value]), "+OK");
    }
    for number in KEYS..2 * KEYS {
        assert_eq!(ask(&mut socket, &["DEL", &format!("key{number}")]), ":1");
    }
    assert_eq!(ask(&mut socket, &["DBSIZE"]), format!(":{KEYS}"));
    // It ends by itself, with what it has.
    socket.get_mut().write_all(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n").unwrap();
    assert!(child.wait().unwrap().success());
    rest.join().unwrap();
    let report = analyze(&file);
    let all = &report["allocations"];
    let number = |field: &str| all[field].as_u64().unwrap_or_else(|| panic!("{field}: {all}"));
    assert_eq!(all["exact"], true, "{all}");
    let value = (KEYS * BYTES) as u64;
    assert!(number("allocated_bytes") >= 2 * value && number("peak_bytes") >= 2 * value, "{all}");
    // Redis alone has less than this beside what it was given.
    let kept = number("kept_bytes");
    assert!(
        (value..value + (8 << 20)).contains(&kept) && number("peak_bytes") >= kept + value / 2,
        "{kept} {value}"
    );
    assert!(number("calls") >= 4 * KEYS as u64);
}

/// `new` of its own, by malloc, and one from a pool that nobody sees.
const OWN_NEW: &str = r#"
    #include <cstdio>
    #include <cstdlib>
    #include <new>
    static char pool[1 << 20]; static size_t at;
    void *operator new(size_t size) { void *block = malloc(size); if (!block) abort(); return block; }
    void *operator new[](size_t size) { void *block = pool + at; at += (size + 15) & ~15ul; return block; }
    void operator delete(void *block) noexcept { free(block); }
    void operator delete(void *block, size_t) noexcept { free(block); }
    void operator delete[](void *) noexcept {}
    void operator delete[](void *, size_t) noexcept {}
    struct Order { char bytes[120]; };
    static Order *volatile order; static char *volatile text;
    __attribute__((noinline)) void orders() { for (int i = 0; i < 1000; i++) { order = new Order; delete order; } order = new Order; }
    __attribute__((noinline)) void texts() { for (int i = 0; i < 1000; i++) { text = new char[100]; delete[] text; } }
    int main() { orders(); texts(); puts("done"); return order == nullptr; }"#;

#[test]
fn a_program_with_its_own_new_is_counted_where_that_calls_malloc() {
    if !require_all(LIVE) {
        return;
    }
    let report = recorded(&compile_cpp("own-new", OWN_NEW, &["-O1"]));
    let all = &report["allocations"];
    let sites = all["sites"].as_array().unwrap_or_else(|| panic!("{all}"));
    let of_new: u64 = sites
        .iter()
        .filter(|site| site["stack"].to_string().contains("orders"))
        .filter_map(|site| site["allocated_bytes"].as_u64())
        .sum();
    assert_eq!(of_new, 1001 * 120, "{sites:?}");
    assert!(!sites.iter().any(|site| site["stack"].to_string().contains("texts")), "{sites:?}");
}

/// An allocator that the program contains: it comes before any library.
const OWN_MALLOC: &str = r#"
    #include <stdio.h>
    #include <string.h>
    #include <unistd.h>
    static char pool[8 << 20] __attribute__((aligned(16))); static size_t at;
    void *malloc(size_t size) { at = (at + 15) & ~15ul; void *block = pool + at; at += size; return at > sizeof pool ? 0 : block; }
    void free(void *block) { (void)block; }
    void *calloc(size_t count, size_t size) { return malloc(count * size); }
    void *realloc(void *old, size_t size) { void *block = malloc(size); if (old && block) memcpy(block, old, size); return block; }
    static void *volatile used;
    int main(void) { for (int i = 0; i < 1000; i++) used = malloc(100); return write(1, "done\n", 5) != 5; }"#;

#[test]
fn a_program_with_its_own_malloc_runs_and_that_nothing_was_seen_is_told() {
    if !require_all(LIVE) {
        return;
    }
    let report = recorded(&compile_c("own-malloc", OWN_MALLOC, &["-O1", "-fno-builtin", "-rdynamic"]));
    assert_eq!(bytes_of(&report, "main"), None);
    let told = report["warnings"].as_array().unwrap().iter().any(|one| {
        one["code"] == "allocations.not-counted"
            && one["message"].to_string().contains("allocator of its own")
    });
    assert!(told, "{:#}", report["warnings"]);
}

#[test]
fn musl_and_what_is_linked_with_it_statically_is_refused() {
    if !require_all(LIVE) {
        return;
    }
    let Some(compiler) = find("musl-gcc") else {
        let _ = require_that(false, "musl-gcc is not installed");
        return;
    };
    let folder = temp_dir("allocations-musl");
    let source = folder.path().join("musl.c");
    std::fs::write(&source, "#include <stdlib.h>\nint main(void) { return malloc(1) == 0; }\n").unwrap();
    for (flag, expected) in [("-static", "linked statically"), ("-O1", "C library musl")] {
        let program = folder.path().join(format!("musl{flag}"));
        let status = Command::new(&compiler).args([flag, "-o"]).args([&program, &source]).status().unwrap();
        assert!(status.success());
        let said = complaint(&mut tracing(&folder.path().join("r.zip"), &[program.to_str().unwrap()]));
        assert!(said.contains(expected), "{said}");
    }
}

/// Whoever has fewer rights than the file gives: the loader loads nothing else into such a program.
#[test]
fn a_program_with_capabilities_of_its_own_is_refused_to_who_has_fewer() {
    if !require_all(&[Privilege::Root, Privilege::Cc, Privilege::OtherUser]) {
        return;
    }
    let Some(setcap) = find("setcap") else {
        let _ = require_that(false, "setcap is not installed");
        return;
    };
    use std::os::unix::fs::PermissionsExt;
    let folder = temp_dir("allocations-capable");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let (program, own) = (folder.path().join("capable"), folder.path().join("biopsy"));
    std::fs::copy(compile_c("capable", "int main(void) { return 0; }", &[]), &program).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_biopsy"), &own).unwrap();
    let status = Command::new(setcap).arg("cap_net_raw+ep").arg(&program).status().unwrap();
    if !require_that(status.success(), "temporary files are on a file system that keeps no capabilities") {
        return;
    }
    let mut command = Command::new(&own);
    command.args(["trace", "--launch", "--allocations=full", "--quiet", "-o"]);
    command.arg(folder.path().join("r.zip")).arg("--").arg(&program).env("NO_COLOR", "1");
    let said = complaint(&mut as_user(65534, &command));
    assert!(said.contains("has capabilities of its own"), "{said}");
}

/// The kernel's setting is of the whole machine: the file in its place is, in a namespace of mounts, another one.
#[test]
fn where_reserved_memory_counts_as_used_nothing_is_counted() {
    if !require_all(&[Privilege::Root, Privilege::Cc, Privilege::Namespaces]) {
        return;
    }
    let folder = temp_dir("allocations-overcommit");
    let setting = folder.path().join("overcommit");
    std::fs::write(&setting, "2\n").unwrap();
    let program = compile_c("not-counted-2", "int main(void) { return 0; }", &[]);
    let traced = tracing(&folder.path().join("r.zip"), &[program.to_str().unwrap()]);
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c"]);
    command.arg("mount --bind \"$0\" /proc/sys/vm/overcommit_memory && exec \"$@\"").arg(&setting);
    command.arg(traced.get_program()).args(traced.get_args()).env("NO_COLOR", "1");
    let said = complaint(&mut command);
    assert!(said.contains("`vm.overcommit_memory` is 2"), "{said}");
}
