//! What is different where the verb stands by: it has settings and a journal, its result is a folder, and nothing may be on behind it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::proc_status;

/// Where settings and journal are, beside the result.
pub(super) const HOME: &str = "home";

/// Settings with one rule, that holds at once and is about the process with this pid.
///
/// # Panics
///
/// When they cannot be written.
pub(super) fn settings(folder: &Path, pid: u32) -> PathBuf {
    let home = folder.join(HOME);
    std::fs::create_dir_all(&home).expect("the folder of a run can be written");
    let path = home.join("diagnostics.json");
    let name = proc_status::field(pid, "Name").unwrap_or_default();
    let rule = serde_json::json!({"who": {"name": name}, "when": "memory>100K", "do": "dump", "perDay": 1});
    let all = serde_json::json!({"watch": {"rules": {"large": rule}, "minFree": "1MB"}});
    std::fs::write(&path, all.to_string()).expect("the folder of a run can be written");
    path
}

/// A home of its own for the command.
pub(super) fn at_home(command: &mut Command, folder: &Path) {
    let home = folder.join(HOME);
    command
        .env("HOME", &home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("XDG_CONFIG_HOME", home.join("config"));
}

/// What `restore` has to end or does not name, and what the journal says is on behind it.
pub(super) fn left_on(program: &Path, folder: &Path, out: &Path, told: &str) -> Vec<String> {
    let mut restore = Command::new(program);
    restore.args(["restore", "--json"]);
    at_home(&mut restore, folder);
    let said = match restore.output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => format!("it cannot be started: {error}"),
    };
    let journal = std::fs::read_to_string(folder.join(HOME).join("state/biopsy/leases.json"));
    let journal: serde_json::Value =
        journal.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let on = journal["leases"].as_array().map_or(0, Vec::len);
    let mut problems = Vec::new();
    if on > 0 {
        problems.push(format!("{on} leases behind `restore`: {said}; {told}"));
    }
    let rules = std::fs::read_dir(out).into_iter().flatten().flatten();
    let entries = rules.flat_map(|rule| std::fs::read_dir(rule.path()).into_iter().flatten().flatten());
    for path in entries.map(|entry| entry.path()) {
        let is_draft = path.extension().is_some_and(|end| end == "recording");
        let name = path.to_string_lossy();
        if is_draft && !said.contains(&*name) && !told.contains(&*name) {
            problems.push(format!("`{name}`; {told}"));
        }
    }
    problems
}
