//! Where things are in a recording: names of members, and what may be a name.

/// What, when, which target, the exact command. First: written when the recording begins, replaced when it ends.
pub const HEADER: &str = "biopsy.json";
/// The processes of the tree.
pub const PROCESSES: &str = "target/processes.json";
/// Folder of the context texts.
pub const TARGET_FOLDER: &str = "target/";
/// The trace.
pub const TIMELINE: &str = "trace/timeline.bin";
/// Folder of the metric tables, one CSV each.
pub const METRICS_FOLDER: &str = "metrics/";
/// Folder of the logs, one JSON-lines file each.
pub const LOGS_FOLDER: &str = "logs/";
/// Folder of the dumps: memory, registers and threads of processes, each beside a JSON that describes it.
pub const DUMPS_FOLDER: &str = "dumps/";
/// Folder of what .NET runtimes said: their event streams, and what was collected of each.
pub const DOTNET_FOLDER: &str = "dotnet/";
/// Folder of what the memory of processes said at the end: their stacks, and what was found in them.
pub const STACKS_FOLDER: &str = "stacks/";
/// Folder of what threads waited for in other processes when dumps were taken.
pub const PEERS_FOLDER: &str = "peers/";
/// Folder of what processes wrote last before they were dumped.
pub const WORDS_FOLDER: &str = "words/";
/// Folder of heap snapshots, a folder each, counted from 1.
pub const SNAPSHOTS_FOLDER: &str = "snapshots/";
/// Where the memory of processes went.
pub const FOOTPRINTS_FOLDER: &str = "footprints/";
/// What was redacted, by member and rule.
pub const REDACTION: &str = "redaction.json";
/// Warnings of the recorders, one JSON object a line, appended as they come.
pub const WARNINGS: &str = "warnings.jsonl";
/// The report for people.
pub const REPORT_HTML: &str = "report.html";
/// The report for programs.
pub const REPORT_JSON: &str = "report.json";
/// The report for tickets and mail.
pub const REPORT_MARKDOWN: &str = "report.md";
/// Digest, size and kind of every other member. Last.
pub const MANIFEST: &str = "manifest.json";

/// Longest name of a member in bytes, and of one of its parts.
const MAX_NAME: usize = 512;
const MAX_PART: usize = 255;
/// Deepest nesting of folders.
const MAX_DEPTH: usize = 8;

/// Member of a metric table: `metrics/NAME.csv`.
#[must_use]
pub fn metrics_member(table: &str) -> String {
    format!("{METRICS_FOLDER}{}.csv", file_name(table))
}

/// Member of a log: `logs/NAME.jsonl`, where NAME is made of the source (a path, `journal:UNIT`).
#[must_use]
pub fn log_member(source: &str) -> String {
    format!("{LOGS_FOLDER}{}.jsonl", file_name(source.trim_start_matches('/')))
}

/// Member of a context text of one process: `target/PID/NAME`.
#[must_use]
pub fn process_member(pid: biopsy_model::Pid, name: &str) -> String {
    format!("{TARGET_FOLDER}{pid}/{}", file_name(name))
}

/// Member of the event stream of a runtime, as it came but for masked secrets: `dotnet/PID.nettrace`, and for its further
/// streams `dotnet/PID-NAME.nettrace`.
#[must_use]
pub fn nettrace_member(pid: biopsy_model::Pid, name: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("-{}", file_name(name)) };
    format!("{DOTNET_FOLDER}{pid}{name}.nettrace")
}

/// Whether a member is the event stream of a runtime: no text, though texts are in it, masked in place.
#[must_use]
pub fn is_event_stream(name: &str) -> bool {
    name.starts_with(DOTNET_FOLDER) && name.ends_with(".nettrace")
}

/// Member of what was collected of a runtime's events: `dotnet/PID.json`.
#[must_use]
pub fn runtime_member(pid: biopsy_model::Pid) -> String {
    format!("{DOTNET_FOLDER}{pid}.json")
}

/// Member of what was found in the memory of a process: `stacks/PID.json`.
#[must_use]
pub fn look_member(pid: biopsy_model::Pid) -> String {
    format!("{STACKS_FOLDER}{pid}.json")
}

/// Member of what the threads of a process waited for in others: `peers/PID.json`.
#[must_use]
pub fn peers_member(pid: biopsy_model::Pid) -> String {
    format!("{PEERS_FOLDER}{pid}.json")
}

/// Member of what a process wrote last: `words/PID.json`.
#[must_use]
pub fn words_member(pid: biopsy_model::Pid) -> String {
    format!("{WORDS_FOLDER}{pid}.json")
}

/// Member of the stacks of all threads of a process, as text: `stacks/PID.txt`.
#[must_use]
pub fn stacks_member(pid: biopsy_model::Pid) -> String {
    format!("{STACKS_FOLDER}{pid}.txt")
}

/// Name ending of a dump that secrets were masked in while it was written.
const SCRUBBED: &str = ".scrubbed.";

/// Ending of a dump that is being written, or was cut short.
pub const PARTIAL: &str = ".partial";

/// Member of a dump: `dumps/PID.core.zst`, `dumps/PID-2.scrubbed.core` ... `number` counts dumps of the same process
/// from 1.
#[must_use]
pub fn dump_member(pid: biopsy_model::Pid, number: u32, scrubbed: bool, ending: &str) -> String {
    let number = if number > 1 { format!("-{number}") } else { String::new() };
    let scrubbed = if scrubbed { SCRUBBED } else { "." };
    format!("{DUMPS_FOLDER}{pid}{number}{scrubbed}{ending}")
}

/// Whether a member is memory of a process, and not text or derived data.
#[must_use]
pub fn is_memory(name: &str) -> bool {
    let whole = name.strip_suffix(PARTIAL).unwrap_or(name);
    name.starts_with(DUMPS_FOLDER)
        && [".core", ".core.zst", ".dmp"].iter().any(|ending| whole.ends_with(ending))
}

/// Member of a heap snapshot: `snapshots/NUMBER/NAME`.
#[must_use]
pub fn snapshot_member(number: u32, name: &str) -> String {
    format!("{SNAPSHOTS_FOLDER}{number}/{}", file_name(name))
}

/// Member of where the memory of a process went: `footprints/NUMBER.json`. Heap and footprint of one moment have the same number.
#[must_use]
pub fn footprint_member(number: u32) -> String {
    format!("{FOOTPRINTS_FOLDER}{number}.json")
}

/// Ending of a column of a snapshot.
pub const COLUMN: &str = ".npy.zst";

/// Facts of a snapshot.
pub const FACTS: &str = "snapshot.json";

/// Types of a snapshot, a JSON object a line.
pub const TYPES: &str = "types.jsonl.zst";

/// Whether a member is a column of a snapshot: numbers, or names of types. These are code and no text of the process; words in them
/// that look like keys of secrets (`List<SecretName>`) are none.
#[must_use]
pub fn is_column(name: &str) -> bool {
    name.starts_with(SNAPSHOTS_FOLDER) && [COLUMN, TYPES].iter().any(|ending| name.ends_with(ending))
}

/// Whether the member is memory that secrets were masked in.
#[must_use]
pub fn is_scrubbed(name: &str) -> bool {
    is_memory(name) && name.contains(SCRUBBED)
}

/// The name that it has without having been masked.
#[must_use]
pub fn not_scrubbed(name: &str) -> String {
    name.replacen(SCRUBBED, ".", 1)
}

/// Makes one harmless file name of any text: letters, digits, `.`, `-`, `_` stay, everything else becomes `_`; no
/// leading dot, at most 100 bytes.
#[must_use]
pub fn file_name(text: &str) -> String {
    let mut name: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' })
        .take(100)
        .collect();
    if name.starts_with('.') {
        name.replace_range(..1, "_");
    }
    if name.is_empty() {
        name.push('_');
    }
    name
}

/// Whether a name is one that a recording may have: relative, `/` between parts, no part empty, `.` or `..`, no
/// backslash, no control character, no drive letter. Everything else could lead out of the folder on some system.
#[must_use]
pub fn is_member_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && !name.contains(['\\', ':'])
        && !name.chars().any(char::is_control)
        && name.split('/').count() <= MAX_DEPTH
        && name.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() <= MAX_PART)
}

/// Media type of a member, by its name.
#[must_use]
pub fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("json") => "application/json",
        Some("jsonl") => "application/jsonl",
        Some("csv") => "text/csv; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
        Some("md") => "text/markdown; charset=utf-8",
        Some("html") => "text/html; charset=utf-8",
        Some("zst") => "application/zstd",
        Some("core") => "application/x-coredump",
        Some("dmp") => "application/x-dmp",
        _ if name == TIMELINE => "application/vnd.biopsy.timeline",
        _ if name.starts_with(TARGET_FOLDER) => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Whether a member is compressed in itself, so that a bundle stores it as it is.
#[must_use]
pub fn is_compressed(name: &str) -> bool {
    name == TIMELINE || [".zst", ".gz", ".zip"].iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::{
        dump_member, file_name, is_compressed, is_event_stream, is_member_name, is_memory, is_scrubbed,
        log_member, media_type, metrics_member, nettrace_member,
    };

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for good in ["biopsy.json", "target/4711/limits.txt", "logs/a b.jsonl", "x/ü"] {
            assert!(is_member_name(good), "{good}");
        }
        let long = "x".repeat(600);
        let deep = "a/".repeat(20) + "b";
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a//b",
            "./a",
            "a/",
            "a\\b",
            "C:x",
            "a\0b",
            "a\nb",
            &long,
            &deep,
        ] {
            assert!(!is_member_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn any_text_becomes_a_harmless_name() {
        assert_eq!(log_member("/var/log/my app/x.log"), "logs/var_log_my_app_x.log.jsonl");
        assert_eq!(log_member("journal:nginx.service"), "logs/journal_nginx.service.jsonl");
        assert_eq!(metrics_member("system"), "metrics/system.csv");
        for text in ["", "..", "../../x", "a\0b", "日本", ".hidden", &"y".repeat(5000)] {
            let name = file_name(text);
            assert!(is_member_name(&name) && !name.contains('/'), "{text:?} → {name:?}");
        }
    }

    #[test]
    fn media_types_follow_names() {
        assert_eq!(media_type("report.html"), "text/html; charset=utf-8");
        assert_eq!(media_type("trace/timeline.bin"), "application/vnd.biopsy.timeline");
        assert_eq!(media_type("target/1/limits"), "text/plain; charset=utf-8");
        assert!(is_compressed("trace/timeline.bin") && !is_compressed("metrics/system.csv"));
        assert_eq!(media_type("dumps/1.core.zst"), "application/zstd");
    }

    #[test]
    fn names_of_event_streams() {
        let pid = biopsy_model::Pid(7);
        assert_eq!(nettrace_member(pid, ""), "dotnet/7.nettrace");
        assert_eq!(nettrace_member(pid, "requests-2"), "dotnet/7-requests-2.nettrace");
        assert!(is_event_stream("dotnet/7.nettrace") && !is_event_stream("dotnet/7.json"));
        assert!(!is_memory("dotnet/7.nettrace"));
    }

    #[test]
    fn names_of_dumps_say_whether_they_were_scrubbed() {
        let pid = biopsy_model::Pid(7);
        assert_eq!(dump_member(pid, 1, false, "core.zst"), "dumps/7.core.zst");
        assert_eq!(dump_member(pid, 2, true, "core"), "dumps/7-2.scrubbed.core");
        assert!(is_memory("dumps/7.core.zst") && !is_scrubbed("dumps/7.core.zst"));
        assert!(is_scrubbed("dumps/7-2.scrubbed.core") && is_memory("dumps/7.core.zst.partial"));
        assert!(!is_memory("dumps/7.json") && !is_memory("target/7/a.core"));
    }
}
