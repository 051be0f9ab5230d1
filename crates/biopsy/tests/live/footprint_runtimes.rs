//! `biopsy snapshot` of processes of Go and Java: where their memory went, held against what the runtimes count themselves.
//!
//! `BIOPSY_JAVA_HOMES`, a list with colons, adds virtual machines of other versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_testkit::{Privilege, Survival, TargetProcess, TempDir, require, require_program, temp_dir};
use serde_json::Value;

use crate::support::{biopsy, said};

/// Objects of some sizes, some given back, and goroutines that wait; then what the runtime counts, when nothing is allocated any more.
const GO: &str = r#"
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

type node struct {
	next *node
	rest [4]uint64
}

var list *node
var middle [][]byte
var large [][]byte

func deep(n int, wait chan bool) {
	var room [256]byte
	if n > 0 {
		deep(n-1, wait)
	} else {
		<-wait
	}
	runtime.KeepAlive(room)
}

func main() {
	for i := 0; i < 200000; i++ {
		list = &node{next: list}
	}
	for i := 0; i < 20000; i++ {
		middle = append(middle, make([]byte, 1000))
	}
	for i := 0; i < 20000; i += 2 {
		middle[i] = nil
	}
	for i := 0; i < 8; i++ {
		large = append(large, make([]byte, 1<<20))
		for at := range large[i] {
			large[i][at] = 1
		}
	}
	wait := make(chan bool)
	for i := 0; i < 200; i++ {
		go deep(20, wait)
	}
	runtime.GC()
	debug.SetGCPercent(-1)
	runtime.GC()
	var stats runtime.MemStats
	line := make([]byte, 0, 200)
	runtime.ReadMemStats(&stats)
	var nodes uint64
	for _, class := range stats.BySize {
		if class.Size == 48 {
			nodes = class.Mallocs - class.Frees
		}
	}
	line = append(line, "READY "...)
	for _, number := range []uint64{uint64(os.Getpid()), stats.HeapAlloc, stats.HeapInuse, stats.StackInuse, nodes, stats.HeapSys - stats.HeapInuse} {
		line = append(strconv.AppendUint(line, number, 10), ' ')
	}
	line[len(line)-1] = '\n'
	os.Stdout.Write(line)
	os.Stdin.Read(make([]byte, 1))
	runtime.KeepAlive(list)
}
"#;

const JAVA: &str = r#"
import java.util.ArrayList;

public class Keeps {
    static final ArrayList<byte[]> KEPT = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        for (int at = 0; at < 20000; at++) KEPT.add(new byte[1000]);
        KEPT.add(new byte[5 << 20]);
        System.gc();
        System.out.println("READY " + ProcessHandle.current().pid());
        System.out.flush();
        System.in.read();
    }
}
"#;

/// The footprint of a process, by a snapshot of it that does not harm it.
fn footprint(target: &mut TargetProcess, folder: &TempDir) -> Value {
    let survival = Survival::before(target.pid());
    let file = folder.path().join(format!("{}", target.pid()));
    let output = biopsy(["snapshot", &target.pid().to_string(), "--json", "--max-pause", "10s", "-o"])
        .arg(&file)
        .output()
        .unwrap();
    survival.assert_unharmed();
    assert!(output.status.success(), "{}", said(&output));
    let mut result: Value = serde_json::from_slice(&output.stdout).unwrap();
    result["report"]["footprints"][0].take()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value:#} is no number"))
}

fn named<'v>(list: &'v Value, key: &str, name: &str) -> &'v Value {
    let found = list.as_array().expect("a list").iter().find(|one| one[key] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

/// Whether they differ by less than this part in a thousand.
fn is_near(one: u64, other: u64, thousandths: u64) -> bool {
    one.abs_diff(other) <= other / 1000 * thousandths
}

/// What the parts of a kind sum up to is what the pools say, and all parts together are what the kernel counts.
fn adds_up(footprint: &Value) {
    let parts = footprint["parts"].as_array().expect("a list");
    let all: u64 = parts.iter().map(|part| number(&part["resident"])).sum();
    let kernel = number(&footprint["kernel"]["anonymous"]) + number(&footprint["kernel"]["shared"]);
    assert!(all.abs_diff(kernel) < 4 << 20, "{all} in parts, {kernel} by the kernel: {footprint:#}");
}

#[test]
fn the_heap_of_go_is_what_its_runtime_counts() {
    if !require(Privilege::Ptrace) || !require_program("go", &["version"]) {
        return;
    }
    let folder = temp_dir("go-heap");
    let source = folder.path().join("main.go");
    std::fs::write(&source, GO).unwrap();
    for flags in ["", "-s -w"] {
        let program = folder.path().join("heap");
        let mut build = Command::new("go");
        build.args(["build", "-ldflags", flags, "-o"]).arg(&program).arg(&source);
        build.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
        build.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache")).env("GOFLAGS", "");
        let output = build.output().expect("the compiler runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut target = TargetProcess::spawn(Command::new(&program));
        let counted: Vec<u64> = target
            .ready_line()
            .split(' ')
            .skip(2)
            .map(|word| word.trim().parse().expect("a number"))
            .collect();
        let &[alloc, in_use, stacks, nodes, idle] = counted.as_slice() else { panic!("{counted:?}") };
        let footprint = footprint(&mut target, &folder);
        let runtime = &footprint["runtimes"][0];
        assert!(runtime["name"].as_str().is_some_and(|name| name.starts_with("Go 1.")), "{footprint:#}");
        assert_eq!(runtime["whole"], true, "{footprint:#}");
        let pool = |name: &str| named(&runtime["pools"], "name", name);
        let objects = pool("objects");
        assert!(is_near(number(&objects["used"]["bytes"]), alloc, 1), "{alloc}: {runtime:#}");
        assert!(is_near(number(&objects["committed"]), in_use, 2), "{in_use}: {runtime:#}");
        assert!(
            is_near(number(&pool("stacks of goroutines")["used"]["bytes"]), stacks, 20),
            "{stacks}: {runtime:#}"
        );
        assert!(number(&pool("free pages")["committed"]) <= idle, "{idle}: {runtime:#}");
        adds_up(&footprint);
        let sizes = runtime["classes"].as_array().expect("a list");
        let small = sizes.iter().find(|class| class["up_to"] == 48).expect("the size of a node");
        assert!(is_near(number(&small["used"]["count"]), nodes, 1), "{nodes}: {small:#}");
        // Not all of it was written to.
        let resident = number(&named(&footprint["parts"], "kind", "managed-heap")["resident"]);
        assert!((alloc / 2..=alloc + (1 << 20)).contains(&resident), "{alloc}: {footprint:#}");
        target.stop();
    }
}

fn homes() -> Vec<PathBuf> {
    let more = std::env::var_os("BIOPSY_JAVA_HOMES").unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|home| !home.as_os_str().is_empty());
    std::iter::once("java".into()).chain(more.map(|home| home.join("bin/java"))).collect()
}

/// The answer of `jcmd`; `None` where there is none.
fn jcmd(target: &TargetProcess, command: &str) -> Option<String> {
    let output = Command::new("jcmd").args([&target.pid().to_string(), command]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The sum of the numbers of kilobytes behind a word, in bytes.
fn kilobytes(text: &str, word: &str) -> u64 {
    let behind = text.split(word).skip(1);
    let digits = behind.map(|rest| rest.trim_start().split(|one: char| !one.is_ascii_digit()).next());
    digits.flatten().filter_map(|digits| digits.parse::<u64>().ok()).sum::<u64>() * 1024
}

#[test]
fn the_memory_of_java_is_what_its_virtual_machine_counts() {
    let there = require(Privilege::Ptrace)
        && require_program("javac", &["-version"])
        && require_program("java", &["-version"]);
    if !there {
        return;
    }
    let folder = temp_dir("java-heap");
    let source = folder.path().join("Keeps.java");
    std::fs::write(&source, JAVA).unwrap();
    let mut javac = Command::new("javac");
    javac.args(["--release", "17", "-d"]).arg(folder.path()).arg(&source);
    assert!(javac.status().expect("javac runs").success(), "{javac:?}");
    for java in homes() {
        for (option, name) in [("UseSerialGC", "Serial"), ("UseParallelGC", "Parallel"), ("UseG1GC", "G1")] {
            java_heap(&java, &folder, option, name);
        }
    }
}

fn java_heap(java: &Path, folder: &TempDir, option: &str, name: &str) {
    let mut command = Command::new(java);
    command.args([&format!("-XX:+{option}"), "-Xmx128m", "-cp"]).arg(folder.path()).arg("Keeps");
    let mut target = TargetProcess::spawn(command);
    // Asked before: the thread that answers allocates as well.
    let [heap, codes] = ["GC.heap_info", "Compiler.codecache"].map(|command| jcmd(&target, command));
    let footprint = footprint(&mut target, folder);
    let runtime = &footprint["runtimes"][0];
    assert!(runtime["name"].as_str().is_some_and(|text| text.contains(name)), "{footprint:#}");
    assert_eq!(runtime["whole"], true, "{footprint:#}");
    adds_up(&footprint);
    let pools = runtime["pools"].as_array().expect("a list");
    let spaces = pools.iter().filter(|pool| pool["kind"] == "managed-heap");
    let used: u64 = spaces.map(|pool| number(&pool["used"]["bytes"])).sum();
    assert!(used > 25_000_000, "{runtime:#}");
    let metaspace: u64 = ["metaspace", "class space"]
        .map(|pool| number(&named(&runtime["pools"], "name", pool)["committed"]))
        .iter()
        .sum();
    let (Some(heap), Some(codes)) = (heap, codes) else {
        return target.stop();
    };
    // `Metaspace used 1K, committed 2K, reserved 3K` is behind the heap, up to 24.
    let (heap, classes) = heap.split_once("Metaspace").unwrap_or((heap.as_str(), ""));
    // Of G1 the region in which objects are made counts when it is full.
    let says = if name == "G1" {
        kilobytes(heap, "used ")
    } else {
        // The generations, without their spaces: `eden space 1K, 2% used [`.
        heap.lines().filter(|line| line.contains(" used ")).map(|line| kilobytes(line, " used ")).sum()
    };
    assert!(used.abs_diff(says) <= 2 << 20, "{used}, by jcmd {says}: {heap} {runtime:#}");
    if !classes.is_empty() {
        let says = kilobytes(classes.lines().next().unwrap_or_default(), "committed ");
        assert!(metaspace.abs_diff(says) <= 512 << 10, "{metaspace}, by jcmd {says}: {runtime:#}");
    }
    // Since 21 the sum stands below.
    let says = codes
        .lines()
        .filter(|line| line.starts_with("CodeHeap"))
        .map(|line| kilobytes(line, " used="))
        .sum::<u64>();
    let used = number(&named(&runtime["pools"], "name", "code cache")["used"]["bytes"]);
    assert!(used.abs_diff(says) <= 512 << 10, "{used}, by jcmd {says}: {codes} {runtime:#}");
    target.stop();
}
