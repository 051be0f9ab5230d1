//! What an `epoll` descriptor watches, as `/proc/PID/fdinfo` says it.

/// EPOLLOUT.
const OUT: u32 = 4;
/// EPOLLIN.
const IN: u32 = 1;

/// `tfd:       12 events:       19 data: ...`: descriptors, and whether they are watched for room alone.
pub(super) fn watched(text: &[u8]) -> Vec<(u32, bool)> {
    let text = String::from_utf8_lossy(text);
    let row = |line: &str| {
        let (number, rest) = line.strip_prefix("tfd:")?.split_once("events:")?;
        let events = u32::from_str_radix(rest.split_ascii_whitespace().next()?, 16).ok()?;
        Some((number.trim().parse().ok()?, events & OUT != 0 && events & IN == 0))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::watched;

    #[test]
    fn descriptors_are_read_with_what_they_are_watched_for() {
        let text = b"pos:\t0\nflags:\t02\nmnt_id:\t15\n\
            tfd:       12 events:       19 data:               c  pos:0 ino:5c sdev:a\n\
            tfd:        7 events: 80000004 data:               7  pos:0 ino:5d sdev:a\n";
        assert_eq!(watched(text), [(12, false), (7, true)]);
        assert!(watched(b"tfd: x events: 1\ntfd: 3\n\xff").is_empty());
    }
}
