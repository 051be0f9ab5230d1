//! The texts of the reasons for waiting, as this program has them: their numbers change from version to version.

use std::ops::Range;

use crate::{Memory, WaitKind};

/// The first two with a text, next to each other in all versions.
const FIRST: [&str; 2] = ["GC assist marking", "IO wait"];
/// 1.26 has 46.
const MOST: usize = 80;
const TEXT: usize = 60;

/// By number; empty where nothing is known.
#[derive(Clone, Default, Debug)]
pub(super) struct Reasons(Vec<String>);

impl Reasons {
    /// Finds the array of texts: pointer and length each.
    pub(super) fn find(memory: &Memory<'_>, variables: &[Range<u64>], most: u64) -> Self {
        let is = |pointer, text: &str| memory.text(pointer, text.len()).is_some_and(|found| found == text);
        let found = variables.iter().find_map(|range| {
            memory.search(range.clone(), 32, most, |start, piece| {
                let words = piece.as_chunks::<8>().0;
                words.windows(4).enumerate().find_map(|(index, four)| {
                    let [a, a_length, b, b_length] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(four[at]));
                    let lengths = [a_length, b_length] == FIRST.map(|text| text.len() as u64);
                    (lengths && is(a, FIRST[0]) && is(b, FIRST[1])).then_some(start + index as u64 * 8)
                })
            })
        });
        let Some(first) = found else { return Self::default() };
        let mut texts = vec![String::new()];
        for index in 0..MOST as u64 {
            let at = first + index * 16;
            let (Some(pointer), Some(length)) =
                (memory.pointer(at), at.checked_add(8).and_then(|at| memory.u64(at)))
            else {
                break;
            };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length == 0 || length > TEXT {
                break;
            }
            let Some(text) = memory.text(pointer, length) else { break };
            if text.chars().any(|c| c.is_control() || c == '\u{fffd}') {
                break;
            }
            texts.push(text);
        }
        Self(texts)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a number.
    pub(super) fn text(&self, number: u8) -> &str {
        self.0.get(usize::from(number)).map_or("", String::as_str)
    }
}

/// What kind of wait a reason is, and whether nothing can end it.
pub(super) fn kind(reason: &str) -> (WaitKind, bool) {
    let plain = reason.strip_suffix(" (durable)").unwrap_or(reason);
    let kind = match plain {
        "chan receive" | "chan receive (nil chan)" => WaitKind::ChannelReceive,
        "chan send" | "chan send (nil chan)" => WaitKind::ChannelSend,
        "select" | "select (no cases)" => WaitKind::Select,
        "sync.Mutex.Lock" => WaitKind::Mutex,
        "sync.RWMutex.RLock" => WaitKind::ReadLock,
        "sync.RWMutex.Lock" => WaitKind::WriteLock,
        "sync.WaitGroup.Wait" => WaitKind::WaitGroup,
        "sync.Cond.Wait" => WaitKind::Condition,
        "semacquire" => WaitKind::Semaphore,
        "sleep" => WaitKind::Timer,
        "IO wait" => WaitKind::Io,
        "finalizer wait" | "cleanup wait" => WaitKind::Idle,
        _ if plain.ends_with("(idle)")
            || plain.starts_with("GC sweep")
            || plain.starts_with("GC scavenge") =>
        {
            WaitKind::Idle
        }
        "stopping the world" | "wait for GC cycle" => WaitKind::Collection,
        _ if plain.starts_with("GC ") || plain.starts_with("garbage collection") => WaitKind::Collection,
        _ => WaitKind::Other,
    };
    let never = matches!(plain, "chan receive (nil chan)" | "chan send (nil chan)" | "select (no cases)");
    (kind, never)
}

#[cfg(test)]
mod tests {
    use super::{WaitKind, kind};

    #[test]
    fn reasons_have_a_kind_whatever_their_number() {
        assert_eq!(kind("chan send (nil chan)"), (WaitKind::ChannelSend, true));
        assert_eq!(kind("select (durable)"), (WaitKind::Select, false));
        assert_eq!(kind("GC worker (idle)"), (WaitKind::Idle, false));
        assert_eq!(kind("GC assist wait"), (WaitKind::Collection, false));
        assert_eq!(kind("coroutine"), (WaitKind::Other, false));
    }
}
