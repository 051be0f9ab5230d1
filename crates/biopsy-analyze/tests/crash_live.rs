//! Programs that throw what nobody catches: the thrower is the place, and type and text are those of the program.

use std::path::Path;
use std::process::{Command, Stdio};

use biopsy_analyze::analyze_image;
use biopsy_analyze::dump::{Crash, DumpAnalysis, DumpFacts};
use biopsy_image::{Limits, open};
use biopsy_testkit::{Privilege, compile_c, compile_cpp, require_all, require_program, temp_dir};

const ORDERS: &str = r#"
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace shop {
struct BadOrder : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct Plain {
    int code;
};
struct Named : std::exception {
    const char *what() const noexcept override { return "a text that is made when it is asked for"; }
};
}

[[gnu::noinline]] static int place_order(const std::string &mode, const std::vector<int> &lines) {
    if (mode == "derived") throw shop::BadOrder("an order without lines");
    if (mode == "library") return lines.at(7);
    if (mode == "number") throw 7;
    if (mode == "plain") throw shop::Plain{7};
    if (mode == "named") throw shop::Named();
    return 0;
}

[[gnu::noinline]] static void handled(int times) {
    for (int i = 0; i < times; i++) {
        try { throw std::logic_error("this one is caught"); } catch (const std::exception &) {}
    }
}

int main(int, char **arguments) {
    handled(3);
    return place_order(arguments[1], {1, 2, 3});
}
"#;

/// A core of the program at the signal that it dies of, analysed.
fn crash_of(program: &Path, arguments: &[&str]) -> DumpAnalysis {
    // Go makes a panic of the second.
    crash_beside("SIGURG SIGSEGV", program, arguments)
}

/// The same; `passed` are signals that it deals with.
fn crash_beside(passed: &str, program: &Path, arguments: &[&str]) -> DumpAnalysis {
    let handle = format!("handle {passed} nostop noprint pass");
    let folder = temp_dir("crash");
    let core = folder.path().join("core");
    let output = Command::new("gdb")
        .args(["-q", "-batch", "-nx", "-ex", &handle, "-ex", "run", "-ex"])
        .arg(format!("generate-core-file {}", core.display()))
        .args(["-ex", "kill", "--args"])
        .arg(program)
        .args(arguments)
        .env("GOTRACEBACK", "crash")
        .stdin(Stdio::null())
        .output()
        .expect("gdb");
    assert!(core.exists(), "gdb: {}", String::from_utf8_lossy(&output.stderr));
    let opened = open(&core, &Limits::default()).expect("a core of gdb opens");
    let redact = |text: &str| text.replace("without", "*******");
    let facts = DumpFacts { redact: Some(&redact), ..DumpFacts::of(&opened) };
    analyze_image(&*opened.image, &vec!["/".into()].into(), &facts)
}

/// The function, type and text.
fn said(crash: &Crash) -> (String, Option<&str>, Option<&str>) {
    let thrown = crash.thrown.as_ref();
    let place = crash.place.as_ref().map(|place| place.function.clone()).unwrap_or_default();
    (
        place,
        thrown.and_then(|thrown| thrown.type_name.as_deref()),
        thrown.and_then(|thrown| thrown.message.as_deref()),
    )
}

#[test]
fn exceptions_of_cpp_have_a_thrower_a_type_and_a_text() {
    if !require_all(&[Privilege::Cc, Privilege::Gdb, Privilege::Ptrace])
        || !require_program("c++", &["--version"])
    {
        return;
    }
    let out_of_range = "vector::_M_range_check: __n (which is 7) >= this->size() (which is 3)";
    let table = [
        ("derived", "shop::BadOrder", Some("an order ******* lines")),
        ("library", "std::out_of_range", Some(out_of_range)),
        ("number", "int", None),
        ("plain", "shop::Plain", None),
        ("named", "shop::Named", None),
    ];
    for flags in [&["-O2"][..], &["-O2", "-s"], &["-O2", "-static"]] {
        let program = compile_cpp("orders", ORDERS, flags);
        for (mode, type_name, text) in table {
            let analysis = crash_of(&program, &[mode]);
            let crash = analysis.crash.as_ref().expect("a crash");
            let (place, thrown, message) = said(crash);
            assert_eq!((thrown, message), (Some(type_name), text), "{mode} {flags:?}");
            let own = if flags.contains(&"-s") { "orders+0x" } else { "place_order" };
            assert!(place.starts_with(own) || place == "main", "{mode} {flags:?}: {place}");
            let title = &analysis.findings[0].title;
            assert!(title.ends_with(&format!("a C++ exception was not caught: `{type_name}`")), "{title}");
        }
    }
}

#[test]
fn a_panic_of_go_has_its_function_and_text() {
    if !require_all(&[Privilege::Gdb, Privilege::Ptrace]) || !require_program("go", &["version"]) {
        return;
    }
    const SOURCE: &str = r#"
package main

import "errors"

//go:noinline
func placeOrder(lines []int) int {
    if len(lines) == 0 {
        panic(errors.New("an order without lines"))
    }
    return lines[7]
}

func main() { println(placeOrder(make([]int, len(os_args())))) }

//go:noinline
func os_args() []string { return nil }
"#;
    let folder = temp_dir("go-crash");
    let (source, program) = (folder.path().join("orders.go"), folder.path().join("orders"));
    std::fs::write(&source, SOURCE).expect("a source file");
    for flags in ["", "-s -w"] {
        let mut build = Command::new("go");
        build.args(["build", "-ldflags", flags, "-o"]).arg(&program).arg(&source);
        build.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
        build.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache")).env("GOFLAGS", "");
        let output = build.output().expect("the compiler runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let analysis = crash_of(&program, &[]);
        let (place, _, message) = said(analysis.crash.as_ref().expect("a crash"));
        assert_eq!((&*place, message), ("main.placeOrder", Some("an order ******* lines")), "{flags}");
    }
}

#[test]
fn go_says_that_nobody_can_go_on_and_how_a_map_was_misused() {
    if !require_all(&[Privilege::Gdb, Privilege::Ptrace]) || !require_program("go", &["version"]) {
        return;
    }
    const SOURCE: &str = r#"package main

import ("os"; "sync")

var m sync.Mutex

//go:noinline
func transfer() { m.Lock(); m.Lock() }

//go:noinline
func put(stock map[string]int) { stock["a"] = 1 }

func main() {
    if os.Args[1] == "asleep" { transfer() } else { put(nil) }
}
"#;
    let folder = temp_dir("go-ends");
    let (source, program) = (folder.path().join("stock.go"), folder.path().join("stock"));
    std::fs::write(&source, SOURCE).expect("a source file");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(&source);
    build.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    build.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache")).env("GOFLAGS", "");
    let output = build.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (mode, place, reason) in [
        ("asleep", "main.transfer", "all goroutines are asleep: a deadlock"),
        ("put", "main.put", "a Go panic: something was put into a map that is nil"),
    ] {
        let title = crash_of(&program, &[mode]).findings[0].title.clone();
        assert!(title.contains(place) && title.ends_with(reason), "{title}");
    }
}

#[test]
fn a_return_address_that_was_overwritten_is_told_from_a_bad_pointer() {
    if !require_all(&[Privilege::Cc, Privilege::Gdb, Privilege::Ptrace]) {
        return;
    }
    const SOURCE: &str = r#"
#include <string.h>
__attribute__((noinline)) void parse_name(const char *text, int length) {
    volatile char name[8];
    for (int at = 0; at < length; at++) name[at] = text[at];
}
int main(void) {
    parse_name("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 48);
}
"#;
    let program = compile_c("parse-name", SOURCE, &["-O1", "-g", "-fno-stack-protector"]);
    let analysis = crash_beside("SIGURG", &program, &[]);
    let title = &analysis.findings[0].title;
    assert!(
        title.contains("in `parse_name`") && title.contains("a return address was overwritten with text"),
        "{title}"
    );
}

#[test]
fn a_fault_whose_handler_aborts_is_told_as_the_fault() {
    if !require_all(&[Privilege::Cc, Privilege::Gdb, Privilege::Ptrace]) {
        return;
    }
    const SOURCE: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char own[1 << 16];

static void report(int number, siginfo_t *info, void *context) {
    (void)context;
    fprintf(stderr, "signal %d at %p\n", number, info->si_addr);
    abort();
}

__attribute__((noinline)) static int read_label(const int *label) { return label[3]; }
__attribute__((noinline)) static int nest(volatile char *outer) {
    volatile char room[4096];
    room[0] = outer[0];
    return nest(room) + room[1];
}

int main(int count, char **words) {
    (void)count;
    stack_t stack = {.ss_sp = own, .ss_size = sizeof own};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = report, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    return strcmp(words[1], "null") == 0 ? read_label(NULL) : nest(words[1]);
}
"#;
    let program = compile_c("labels", SOURCE, &["-O1", "-g"]);
    for (mode, place, reason, id) in [
        ("null", "read_label", "a field of a null pointer was used", "null-pointer"),
        ("nest", "nest", "the stack overflowed", "stack-overflow"),
    ] {
        // The first signal is the program's own to handle.
        let analysis = crash_beside("SIGSEGV", &program, &[mode]);
        let first = &analysis.findings[0];
        let title = &first.title;
        assert!(title.starts_with("The process died of SIGSEGV in"), "{mode}: {title}");
        assert!(title.contains(place) && title.ends_with(reason), "{mode}: {title}");
        assert_eq!(first.id.as_str(), id, "{mode}");
        let ended = "which then ended the process by SIGABRT";
        assert!(first.evidence.iter().any(|one| one.text.contains(ended)), "{mode}");
    }
}
