//! Activity ids of `System.Threading.Tasks.TplEventSource`: paths from a root to an activity within it, written into a GUID.
//!
//! With the keyword `TasksFlowActivityIds` (0x80) every event carries the id of the activity it belongs to, through all
//! `await`s. The first twelve bytes are a list of numbers in nibbles, high one first (`ActivityTracker.cs` of the runtime):
//! 1 to 10 stand for themselves, 0 ends the list, 0xC to 0xF announce one to four bytes of number (where that leaves half a
//! byte, its nibble repeats the announcement, or holds the high bits of a number below 4096), 0xB means that the path was
//! too long. The last four bytes are a checksum with the process id.

/// Bytes of an activity id that are the path.
pub(super) type Path = [u8; 12];

/// The path in an activity id; `None`: no activity.
pub(super) fn path_of(activity: &[u8; 16]) -> Option<Path> {
    let path: &Path = activity.first_chunk()?;
    (*path != [0; 12]).then_some(*path)
}

/// The path itself and the paths it lies within, innermost first.
pub(super) fn enclosing(path: &Path) -> impl Iterator<Item = Path> + use<> {
    let (ends, count) = ends_of(path);
    let path = *path;
    (0..count).rev().filter_map(move |index| {
        let end = usize::from(*ends.get(index)?);
        let mut shorter = [0; 12];
        for (at, byte) in shorter.iter_mut().enumerate() {
            let from = path.get(at).copied().unwrap_or(0);
            *byte = match end.saturating_sub(at * 2) {
                0 => 0,
                1 => from & 0xf0,
                _ => from,
            };
        }
        Some(shorter)
    })
}

/// Where each number of the path ends, in nibbles.
fn ends_of(path: &Path) -> ([u8; 24], usize) {
    let nibble = |at: usize| {
        let byte = path.get(at / 2).copied().unwrap_or(0);
        if at.is_multiple_of(2) { byte >> 4 } else { byte & 0xf }
    };
    let (mut ends, mut count, mut at) = ([0_u8; 24], 0, 0_usize);
    while at < 24 {
        let code = nibble(at);
        at += 1;
        match code {
            0 | 0xb => break,
            0xc..=0xf => {
                // The number begins at a whole byte.
                at = at.next_multiple_of(2) + 2 * usize::from(code - 0xb);
            }
            _ => (),
        }
        if let Some(end) = ends.get_mut(count) {
            *end = u8::try_from(at.min(24)).unwrap_or(24);
            count += 1;
        }
    }
    (ends, count)
}

#[cfg(test)]
mod tests {
    use super::{enclosing, path_of};

    /// Seen in a trace of ASP.NET Core 10: a request, and the client's request within two activities of it.
    #[test]
    fn an_activity_lies_within_its_request() {
        let mut outer = [0; 12];
        outer[0] = 0x16;
        let mut inner = [0; 12];
        inner[..3].copy_from_slice(&[0x16, 0x11, 0x20]);
        let all: Vec<_> = enclosing(&inner).collect();
        assert_eq!(all.len(), 5, "1/6/1/1/2 has five numbers");
        assert_eq!(all.first(), Some(&inner));
        assert!(all.contains(&outer));
    }

    /// Root activity 300 of the process: nibble 1, then two bytes announced by 0xD; its first child uses a new byte.
    #[test]
    fn numbers_above_ten_take_whole_bytes() {
        let mut child = [0; 12];
        child[..4].copy_from_slice(&[0x1d, 0x2c, 0x01, 0x10]);
        let all: Vec<_> = enclosing(&child).collect();
        assert_eq!(all.len(), 3);
        let mut root = [0; 12];
        root[..3].copy_from_slice(&[0x1d, 0x2c, 0x01]);
        assert_eq!(all.get(1), Some(&root));
        assert_eq!(path_of(&[0; 16]), None);
    }

    #[test]
    fn any_bytes_end() {
        for byte in 0..=255 {
            assert!(enclosing(&[byte; 12]).count() <= 24);
        }
    }
}
