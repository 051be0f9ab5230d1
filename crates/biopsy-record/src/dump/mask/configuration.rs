//! Configuration files of a process: what .NET reads beside the program, `.env`, and files named on the command line.
//!
//! All are opened as the process sees them (`/proc/PID/root`), regular files only, and a bounded number of bytes is
//! read. Nothing is searched for: only names that programs look for themselves.

use std::collections::BTreeSet;

use biopsy_redact::Redactor;
use biopsy_target::proc_root::ProcessDir;

/// Bytes read of one file.
const FILE_MAX: usize = 256 << 10;
/// Files named on the command line that are read.
const NAMED_MAX: usize = 16;
/// Levels of a JSON document that are gone through.
const DEPTH_MAX: usize = 32;
/// Endings of arguments that name a configuration file.
const ENDINGS: [&str; 11] =
    [".json", ".conf", ".config", ".cfg", ".ini", ".yml", ".yaml", ".toml", ".env", ".properties", ".xml"];
/// Variables that hold the name of the environment whose settings .NET reads.
const ENVIRONMENT_NAMES: [&str; 3] =
    ["ASPNETCORE_ENVIRONMENT", "DOTNET_ENVIRONMENT", "AZURE_FUNCTIONS_ENVIRONMENT"];

/// Learns from the files of one process.
pub(super) fn learn(redactor: &Redactor, dir: &ProcessDir, environment: &[String], arguments: &[String]) {
    for path in paths(dir, environment, arguments) {
        // NotFound is what most of them say; what is refused stays unknown.
        if let Ok(bytes) = dir.read_in_root(path.as_bytes(), FILE_MAX) {
            learn_text(redactor, &path, &bytes);
        }
    }
}

/// Where configuration may be, as the process names it.
fn paths(dir: &ProcessDir, environment: &[String], arguments: &[String]) -> BTreeSet<String> {
    let link = |name: &str| dir.link(name).ok().and_then(|path| String::from_utf8(path).ok());
    let current = link("cwd").unwrap_or_else(|| "/".to_owned());
    let absolute = |path: &str| {
        if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("{}/{path}", current.trim_end_matches('/'))
        }
    };
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let mut folders: BTreeSet<String> = [current.clone()].into();
    folders.extend(link("exe").as_deref().and_then(folder));
    // `dotnet app.dll`: the program is an argument.
    let assembly =
        arguments.iter().take(8).find(|argument| argument.ends_with(".dll")).map(|path| absolute(path));
    folders.extend(assembly.as_deref().and_then(folder));

    let mut names = vec!["appsettings.json".to_owned(), "web.config".to_owned(), ".env".to_owned()];
    names.extend(["Production", "Staging", "Development"].map(|name| format!("appsettings.{name}.json")));
    for name in ENVIRONMENT_NAMES {
        let value = environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
        names.extend(value.filter(|value| is_plain(value)).map(|value| format!("appsettings.{value}.json")));
    }
    let mut paths: BTreeSet<String> =
        folders.iter().flat_map(|folder| names.iter().map(move |name| format!("{folder}/{name}"))).collect();
    paths.extend(assembly.map(|path| format!("{path}.config")));
    // `--config x.json`, `--config=x.json`, `/etc/redis/redis.conf`.
    let named = arguments
        .iter()
        .skip(1)
        .map(|argument| argument.rsplit_once('=').map_or(&argument[..], |(_, value)| value));
    let is_configuration = |path: &&str| {
        path.len() < 4096 && ENDINGS.iter().any(|ending| path.ends_with(ending)) && !path.contains("://")
    };
    paths.extend(named.filter(is_configuration).take(NAMED_MAX).map(absolute));
    paths
}

/// A name and not a path.
fn is_plain(name: &str) -> bool {
    name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

fn learn_text(redactor: &Redactor, path: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if path.ends_with(".json")
        && let Ok(document) = serde_json::from_str::<serde_json::Value>(text.trim_start_matches('\u{feff}'))
    {
        learn_json(redactor, &document);
    }
    if path.ends_with(".env") || path.ends_with(".properties") {
        for line in text.lines() {
            let line = line.trim();
            let line = line.strip_prefix("export ").unwrap_or(line);
            if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
                let value = value.trim();
                let unquoted =
                    ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
                let _ = redactor.env(name.trim(), unquoted.unwrap_or(value));
            }
        }
    }
    // Also for JSON with comments, which .NET takes and serde does not, and for everything else.
    let _ = redactor.text(&text);
}

/// Values by their keys, unescaped. Without recursion: the file is somebody else's.
fn learn_json(redactor: &Redactor, document: &serde_json::Value) {
    let mut open = vec![("", document, 0)];
    while let Some((name, value, depth)) = open.pop() {
        match value {
            serde_json::Value::Object(members) if depth < DEPTH_MAX => {
                open.extend(members.iter().map(|(name, value)| (name.as_str(), value, depth + 1)));
            }
            serde_json::Value::Array(values) if depth < DEPTH_MAX => {
                open.extend(values.iter().map(|value| (name, value, depth + 1)));
            }
            serde_json::Value::String(text) => {
                // As .NET's environment provider would name it; the last part says what it is.
                let _ = redactor.env(name.rsplit(':').next().unwrap_or(name), text);
            }
            _ => {}
        }
    }
}
