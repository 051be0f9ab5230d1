//! Which files a process has mapped: what tells most about its runtime.

use std::collections::BTreeSet;

use super::proc_root::ProcessDir;

/// Most bytes read of `/proc/PID/maps`. A process with 65,530 mappings (the kernel's default limit) writes some 6 MiB.
const LIMIT: usize = 8 << 20;

/// Paths mapped as code or data, each once. `None`: not permitted, or gone.
pub(crate) fn mapped_files(process: &ProcessDir) -> Option<BTreeSet<String>> {
    let text = process.read("maps", LIMIT).ok()?;
    Some(text.split(|&byte| byte == b'\n').filter_map(path_of_line).collect())
}

/// `address perms offset dev inode   path`: the path is the rest after the fifth field and may hold spaces.
fn path_of_line(line: &[u8]) -> Option<String> {
    let mut rest = line;
    for _ in 0..5 {
        let space = rest.iter().position(|&byte| byte == b' ')?;
        let after = rest.get(space..)?;
        let text = after.iter().position(|&byte| byte != b' ')?;
        rest = after.get(text..)?;
    }
    rest.starts_with(b"/").then(|| String::from_utf8_lossy(rest).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let line = b"7f00-7f01 r-xp 00001000 08:01 1234                       /usr/lib/a b (deleted)";
        assert_eq!(path_of_line(line).as_deref(), Some("/usr/lib/a b (deleted)"));
        assert_eq!(path_of_line(b"7f00-7f01 rw-p 00000000 00:00 0 "), None);
        assert_eq!(path_of_line(b"7f00-7f01 rw-p 00000000 00:00 0    [heap]"), None);
        assert_eq!(path_of_line(b""), None);
    }
}
