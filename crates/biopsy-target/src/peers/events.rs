//! What an `epoll` descriptor watches, as `/proc/PID/fdinfo` says it.

/// EPOLLOUT.
const OUT: u32 = 4;
/// EPOLLIN.
const IN: u32 = 1;

/// EPOLLRDNORM.
const NORMAL: u32 = 0x40;
/// EPOLLET.
const EDGE: u32 = 1 << 31;

/// `tfd:       12 events:       19 data: ...`: descriptors, and what they are watched for.
pub(super) fn masks(text: &[u8]) -> Vec<(u32, u32)> {
    let text = String::from_utf8_lossy(text);
    let row = |line: &str| {
        let (number, rest) = line.strip_prefix("tfd:")?.split_once("events:")?;
        let events = u32::from_str_radix(rest.split_ascii_whitespace().next()?, 16).ok()?;
        Some((number.trim().parse().ok()?, events))
    };
    text.lines().filter_map(row).collect()
}

/// Descriptors, and whether they are watched for room alone.
pub(super) fn watched(text: &[u8]) -> Vec<(u32, bool)> {
    let masks = masks(text).into_iter();
    masks.map(|(number, events)| (number, events & OUT != 0 && events & IN == 0)).collect()
}

/// Whether who watches for these is told of bytes as long as some are there.
pub(super) fn is_told_of_more(mask: u32) -> bool {
    mask & (IN | NORMAL) != 0 && mask & EDGE == 0
}

#[cfg(test)]
mod tests {
    use super::{is_told_of_more, masks, watched};

    #[test]
    fn descriptors_are_read_with_what_they_are_watched_for() {
        let text = b"pos:\t0\nflags:\t02\nmnt_id:\t15\n\
            tfd:       12 events:       19 data:               c  pos:0 ino:5c sdev:a\n\
            tfd:        7 events: 80000004 data:               7  pos:0 ino:5d sdev:a\n";
        assert_eq!(watched(text), [(12, false), (7, true)]);
        let told = |text| masks(text).into_iter().map(|(_, mask)| is_told_of_more(mask)).collect::<Vec<_>>();
        assert_eq!(told(&text[..]), [true, false]);
        let edge = b"tfd: 5 events: 80000001 data: 0\ntfd: 6 events: 40000000 data: 0\ntfd: 7 events: 2019 data: 0\n";
        assert_eq!(
            told(edge),
            [false, false, true],
            "by changes; switched off; as long as there is something"
        );
        assert!(watched(b"tfd: x events: 1\ntfd: 3\n\xff").is_empty());
    }
}
