//! A process of our own with secrets in its environment, on its command line and beside it, and the mask.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::process::{Child, Command, Stdio};

use biopsy_image::scrub::{Mask, MaskCounts};
use biopsy_model::Pid;
use biopsy_record::dump::mask::{Literals, MemoryMask};

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn masked(literals: &Literals, text: &str) -> String {
    let mask = MemoryMask::new(literals);
    let mut bytes = text.as_bytes().to_vec();
    let whole = 0..bytes.len();
    mask.mask(&mut bytes, whole, &mut MaskCounts::default());
    String::from_utf8(bytes).expect("masks are ASCII")
}

#[test]
fn values_of_environment_arguments_and_files_are_found_wherever_they_stand() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = r#"{"ConnectionStrings":{"Main":"Server=db;Password=fr0m-the-settings;"},
        "Feed":{"ApiKey":"k-\u0041-fr0m-json-77"},"Logging":{"Default":"Information"}}"#;
    std::fs::write(folder.path().join("appsettings.json"), settings).expect("written");
    std::fs::write(folder.path().join(".env"), "# comment\nexport SMTP_PASSWORD='fr0m-dot-env!'\n")
        .expect("written");
    let named = folder.path().join("named.conf");
    std::fs::write(&named, "requirepass fr0m-named-conf1\n").expect("written");
    // The shell stays: what follows `read` keeps it from becoming another program.
    let child = Command::new("/bin/sh")
        .args(["-c", "echo ready; read line; :", "sh", "--password", "fr0m-arguments-9"])
        .arg(format!("--config={}", named.display()))
        .env("DB_PASSWORD", "fr0m-environment-1")
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut child = Sleeper(child);
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.0.stdout.as_mut().expect("a pipe"), &mut ready).expect("ready");

    let literals = Literals::of(&[Pid(child.0.id())]);
    for (value, from) in [
        ("fr0m-environment-1", "the environment"),
        ("fr0m-arguments-9", "the command line"),
        ("fr0m-the-settings", "a connection string in appsettings.json"),
        ("k-A-fr0m-json-77", "a key in appsettings.json"),
        ("fr0m-dot-env!", ".env"),
        ("fr0m-named-conf1", "a file named on the command line"),
    ] {
        let text = format!("<{value}>");
        assert_eq!(masked(&literals, &text), format!("<{}>", "*".repeat(value.len())), "from {from}");
    }
    assert_eq!(masked(&literals, "Information"), "Information");
    assert!(!format!("{literals:?}").contains("fr0m"));
}

#[test]
fn a_process_that_is_gone_gives_no_values_and_the_rules_still_hold() {
    let literals = Literals::of(&[Pid(u32::MAX - 1)]);
    assert!(literals.is_empty());
    assert_eq!(masked(&literals, "a;Password=hunter22;Timeout=5"), "a;Password=********;Timeout=5");
}
