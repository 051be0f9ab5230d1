//! Node, Python, and the interpreters that are told by name only.

use biopsy_model::process::{Runtime, RuntimeKind};

use super::evidence::{Evidence, leading_version};
use crate::process::command;
use crate::process::elf;

/// Bytes of node's constants searched for its version (they hold its whole JavaScript library).
const NODE_SEARCH: u64 = 128 << 20;

fn told_by_exe(evidence: &Evidence<'_>, kind: RuntimeKind) -> bool {
    evidence.seen.exe_name().and_then(command::kind_by_name) == Some(kind)
}

fn runtime(evidence: &Evidence<'_>, kind: RuntimeKind, version: Option<String>) -> Runtime {
    Runtime { kind, version, entry: command::entry(kind, &evidence.seen.arguments) }
}

pub(super) fn node(evidence: &Evidence<'_>) -> Option<Runtime> {
    let library = evidence.mapped(|name| name.starts_with("libnode.so"));
    if library.is_none() && !told_by_exe(evidence, RuntimeKind::Node) {
        return None;
    }
    let exe = evidence.seen.exe.as_deref().unwrap_or_default();
    // Version managers keep it in the path: `.nvm/versions/node/v20.1.0/bin/node`.
    let in_path = exe.rsplit('/').find_map(|part| leading_version(part.strip_prefix('v')?));
    let version = in_path.or_else(|| {
        // Official builds and most distributions know where their headers are: `.../node-v20.20.2-headers.tar.gz`.
        let exe = evidence.seen.dir.file("exe").ok()?;
        let text = elf::find_in_section(&exe, ".rodata", b"/node-v", 16, NODE_SEARCH)?;
        leading_version(std::str::from_utf8(&text).ok()?.split('-').next()?)
    });
    Some(runtime(evidence, RuntimeKind::Node, version))
}

pub(super) fn python(evidence: &Evidence<'_>) -> Option<Runtime> {
    let library = evidence.mapped(|name| name.starts_with("libpython"));
    if library.is_none() && !told_by_exe(evidence, RuntimeKind::Python) {
        return None;
    }
    let exe = evidence.seen.exe.as_deref().unwrap_or_default();
    let by_exe = command::base_name(exe).strip_prefix("python").and_then(leading_version);
    let by_library = || leading_version(command::base_name(library?).strip_prefix("libpython")?);
    let minor = by_exe.or_else(by_library);
    // pyenv and the like: `.../versions/3.11.7/bin/python3.11`. Only if it refines what is known.
    let in_path = exe.rsplit('/').skip(1).find_map(leading_version);
    let version = match (&minor, in_path) {
        (Some(minor), Some(full)) if full.starts_with(&format!("{minor}.")) => Some(full),
        _ => minor,
    };
    Some(runtime(evidence, RuntimeKind::Python, version))
}

pub(super) fn other(evidence: &Evidence<'_>) -> Option<Runtime> {
    if !told_by_exe(evidence, RuntimeKind::OtherInterpreter) {
        return None;
    }
    let name = evidence.seen.exe_name().unwrap_or_default();
    let version = leading_version(name.trim_start_matches(|character: char| !character.is_ascii_digit()));
    Some(runtime(evidence, RuntimeKind::OtherInterpreter, version))
}
