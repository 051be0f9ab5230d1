//! What a process wrote last to its standard error, where that leads to a file: runtimes say there what they end for.

use std::os::unix::fs::FileExt;

use biopsy_model::Pid;

use crate::process::proc_root::ProcRoot;

mod runs;

/// Bytes at the end of the file that are read: an exception of Java with a cause or two, each 1,024 calls deep, has its beginning in them.
const BYTES: u64 = 256 << 10;
/// Lines of them that are kept, after long stacks were made short.
const LINES: usize = 600;
/// Standard error, else standard output.
const DESCRIPTORS: [u32; 2] = [2, 1];

/// The last lines, whole, so that what is secret in them can be told; none where it writes to a pipe, a terminal or a socket, or may not be
/// looked at.
#[must_use]
pub fn last_words(pid: Pid) -> Vec<String> {
    let root = ProcRoot::live();
    let all = DESCRIPTORS.iter().filter_map(|number| of_descriptor(&root, pid, *number));
    all.into_iter().find(|lines| !lines.is_empty()).unwrap_or_default()
}

fn of_descriptor(root: &ProcRoot, pid: Pid, number: u32) -> Option<Vec<String>> {
    let dir = root.process(pid).ok()?;
    let handle = dir.locate(&format!("fd/{number}")).ok()?;
    let file = biopsy_files::open_handle(&handle, &dir.mounts()).ok()?;
    let size = file.metadata().ok()?.len();
    let from = size.saturating_sub(BYTES);
    let mut bytes = vec![0; usize::try_from(size - from).ok()?];
    let read = file.read_at(&mut bytes, from).ok()?;
    bytes.truncate(read);
    Some(lines(&bytes, from > 0))
}

/// `cut`: the first line has lost its beginning.
fn lines(bytes: &[u8], cut: bool) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().skip(usize::from(cut)).map(str::to_owned).collect();
    let mut lines = runs::shorten(lines);
    lines.drain(..lines.len().saturating_sub(LINES));
    lines
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{last_words, lines};
    use biopsy_model::Pid;

    #[test]
    fn the_end_of_a_text_is_kept_in_whole_lines() {
        assert_eq!(lines(b"ead\nsecond\nthird", true), ["second", "third"]);
        assert_eq!(lines(b"first\n", false), ["first"]);
        let many = "x\n".repeat(5000) + &"y".repeat(900);
        let kept = lines(many.as_bytes(), false);
        assert_eq!((kept.len(), kept.last().map(String::len)), (600, Some(900)));
        assert!(lines(b"", false).is_empty());
    }

    #[test]
    fn a_file_is_read_and_a_pipe_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let said = |errors: Stdio| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo an error >&2; echo READY; exec sleep 60"]);
            let mut child =
                command.stdout(Stdio::piped()).stderr(errors).stdin(Stdio::null()).spawn().expect("a shell");
            let mut line = [0; 6];
            std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut line).expect("READY");
            let words = last_words(Pid(child.id()));
            child.kill().expect("it runs");
            child.wait().expect("it ends");
            words
        };
        assert_eq!(said(std::fs::File::create(&log).expect("a file").into()), ["an error"]);
        assert!(said(Stdio::piped()).is_empty());
    }
}
