//! Compiles `library/` into a shared object with nothing below it: no standard library, no C library that it would be linked with. It is
//! part of this crate as bytes, so that biopsy stays one file.

use std::env::var_os;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=library");
    println!("cargo::rerun-if-changed=src/layout.rs");
    let folder = PathBuf::from(var_os("OUT_DIR").expect("cargo sets it"));
    let output = folder.join("preload.so");
    let arch = var_os("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    if arch != "x86_64" {
        // Not written for it; that is told when somebody asks.
        std::fs::write(&output, []).expect("the output folder can be written to");
        return;
    }
    let mut command = Command::new(var_os("RUSTC").expect("cargo sets it"));
    command.args(["library/main.rs", "--crate-name", "biopsy_preload_library", "--crate-type", "cdylib"]);
    command.args(["--edition", "2024", "--cap-lints", "warn"]);
    command.args(["--target", "x86_64-unknown-linux-gnu"]);
    for option in [
        "opt-level=3",
        "panic=abort",
        "codegen-units=1",
        // Its functions have names in a recording.
        "strip=debuginfo",
        "relocation-model=pic",
        "default-linker-libraries=no",
        "link-arg=-nostdlib",
        "link-arg=-nostartfiles",
        "link-arg=-Wl,--hash-style=both",
        "link-arg=-Wl,--build-id=none",
        // Before the constructors of other libraries: they find the environment as it was.
        "link-arg=-Wl,-z,initfirst",
    ] {
        command.args(["-C", option]);
    }
    command.arg("--remap-path-prefix").arg(format!("{}=.", folder.display()));
    command.arg("-o").arg(&output);
    let status = command.status().expect("the compiler that compiles this can be started");
    assert!(
        status.success(),
        "the library that counts allocations cannot be compiled; it needs a linker for x86-64 and `rustup target add x86_64-unknown-linux-gnu`"
    );
}
