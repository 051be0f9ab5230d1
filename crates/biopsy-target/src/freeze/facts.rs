//! Facts of a living process, for its image.

use biopsy_image::ProcessFacts;
use biopsy_model::Pid;

use super::FreezeWarning;
use crate::process::proc_root::{ProcRoot, ProcessDir, SMALL, is_gone};
use crate::process::stat::Stat;
use crate::process::status::Status;

/// Longest command line that is taken (the kernel allows 2 MiB and more).
const COMMAND_LINE: usize = 2 << 20;

/// Reads what `/proc` says about a process now. What cannot be read is left empty.
#[must_use]
pub fn read_process_facts(pid: Pid) -> ProcessFacts {
    facts_and_gaps(pid).0
}

/// The same, with what is left empty although the process has it.
pub(super) fn facts_and_gaps(pid: Pid) -> (ProcessFacts, Vec<FreezeWarning>) {
    let mut gaps = Vec::new();
    let mut note = |what: &'static str, error: &std::io::Error| {
        if !is_gone(error) {
            gaps.push(FreezeWarning::NotKnown { pid, what, why: error.to_string() });
        }
    };
    let root = ProcRoot::live();
    let mut facts = ProcessFacts { pid, ..ProcessFacts::default() };
    facts.kernel = root
        .text("proc/sys/kernel/osrelease")
        .map_err(|error| note("the release of the kernel", &error))
        .ok();
    let now = jiff::Timestamp::now().as_nanosecond();
    facts.taken_at_unix_nanos = i64::try_from(now).ok();
    match root.process(pid) {
        Ok(process) => read(&process, &mut facts, &mut note),
        Err(error) => note("what `/proc` says", &error),
    }
    (facts, gaps)
}

fn read(
    process: &ProcessDir,
    facts: &mut ProcessFacts,
    note: &mut impl FnMut(&'static str, &std::io::Error),
) {
    let executable = process.link("exe").map_err(|error| note("the path of the executable", &error));
    facts.executable = executable.ok().map(|path| match path.strip_suffix(b" (deleted)") {
        Some(path) if process.link_count("exe") == Some(0) => path.to_vec(),
        _ => path,
    });
    let mut bytes = |what: &'static str, name: &str, limit: usize| {
        process.read(name, limit).map_err(|error| note(what, &error)).ok()
    };
    if let Some(line) = bytes("the name", "stat", SMALL)
        && let Some(stat) = Stat::parse(&line)
    {
        facts.parent = Some(Pid(stat.parent));
        facts.group = group(&line);
        facts.name = stat.comm;
    }
    if let Some(status) = bytes("the owner", "status", SMALL) {
        facts.owner = Status::parse(&status).uids.map(|(user, _)| (user, group_id(&status).unwrap_or(0)));
    }
    if let Some(text) = bytes("the command line", "cmdline", COMMAND_LINE) {
        let text = text.strip_suffix(b"\0").unwrap_or(&text);
        if !text.is_empty() {
            facts.command_line = text.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        }
    }
    if let Some(bytes) = bytes("the auxiliary vector", "auxv", SMALL) {
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_ne_bytes(*eight)).collect();
        let pairs = words.as_chunks::<2>().0.iter().map(|pair| (pair[0], pair[1]));
        facts.auxiliary = pairs.take_while(|pair| pair.0 != 0).collect();
    }
}

/// Fields 5 and 6 of `stat`: process group and session.
fn group(line: &[u8]) -> Option<(u32, u32)> {
    let close = line.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace().skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The real group id.
fn group_id(status: &[u8]) -> Option<u32> {
    let line = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Gid:"))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_facts() {
        let facts = read_process_facts(Pid(std::process::id()));
        assert!(facts.parent.is_some() && facts.group.is_some() && facts.owner.is_some());
        assert!(!facts.command_line.is_empty() && !facts.auxiliary.is_empty());
        let exe = std::env::current_exe().unwrap();
        assert_eq!(facts.executable.unwrap(), exe.as_os_str().as_encoded_bytes());
    }
}
