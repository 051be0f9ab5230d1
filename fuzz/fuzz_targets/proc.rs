//! `/proc/PID` of a process that chose its own name, arguments and mapped files: the first bytes up to each 0xff are one file.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use biopsy_model::Pid;
use biopsy_target::{ProcRoot, Selector, find_in, list, runtime};

/// Files of a fake process 4711, rewritten for each input; in memory where the system has such a place.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = base.join(format!("biopsy-fuzz-proc-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("proc/4711/task/4711")).expect("the folder of temporary files is writable");
    folder
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let process = FOLDER.join("proc/4711");
    let mut parts = bytes.split(|byte| *byte == 0xff);
    // Without a readable `stat` nothing else would be looked at, so its fixed part is given and the name is not.
    let mut stat = b"4711 (".to_vec();
    stat.extend_from_slice(parts.next().unwrap_or_default());
    stat.extend_from_slice(b") S 1 4711 4711 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12345 1000 100 1844674407370955161");
    stat.extend_from_slice(parts.next().unwrap_or_default());
    let _ = std::fs::write(process.join("stat"), stat);
    for name in ["status", "cmdline", "cgroup", "maps", "comm", "task/4711/comm"] {
        let _ = std::fs::write(process.join(name), parts.next().unwrap_or_default());
    }
    let root = ProcRoot::at(FOLDER.as_path());
    let pid = Pid(4711);
    std::hint::black_box(&(list::tree_in(&root, pid), list::threads_in(&root, pid), runtime::detect_in(&root, pid)));
    let text = String::from_utf8_lossy(bytes);
    if let Ok(selector) = Selector::parse(&text) {
        let _ = std::hint::black_box(find_in(&root, &selector).map_err(|error| error.to_string()));
    }
});
