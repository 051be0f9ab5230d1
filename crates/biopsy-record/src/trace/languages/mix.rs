//! Puts calls of a language where the interpreter's own function stands in a stack.

use biopsy_model::stack::StackEnd;
use biopsy_runtimes::python::{RawStack, Run};
use biopsy_stacks::unwind::WalkedFrame;

/// A part of a mixed stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// The native frame of this number.
    Native(usize),
    /// All calls of the run of this number.
    Run(usize),
}

/// A stack as it was unwound.
#[derive(Clone, Copy)]
pub(crate) struct Unmixed<'a> {
    /// Innermost first.
    pub(crate) walked: &'a [WalkedFrame],
    pub(crate) end: StackEnd,
    /// Reads the stack.
    pub(crate) word: &'a dyn Fn(u64) -> Option<u64>,
    /// Frames of the interpreter that were read at that moment.
    pub(crate) raw: Option<&'a RawStack>,
}

/// The order of native frames and runs of calls, innermost first. A run replaces the call of the interpreter's own function that
/// runs it: the one in whose frame its anchor lies, or else one of those that `evaluates` says, counted from the outermost where
/// the stack is whole (the innermost may have only just begun). What has no such place follows behind: it is still in order.
pub(crate) fn mix(
    native: &[WalkedFrame],
    end: StackEnd,
    runs: &[Run],
    evaluates: impl Fn(&WalkedFrame) -> bool,
) -> Vec<Piece> {
    let mut places: Vec<Option<usize>> = Vec::with_capacity(runs.len());
    if runs.iter().all(|run| run.anchor.is_some()) {
        let mut from = 0;
        for anchor in runs.iter().filter_map(|run| run.anchor) {
            // A frame's own memory lies between its stack pointer and its caller's.
            let behind = native.partition_point(|frame| frame.sp.0 <= anchor);
            let inside = behind > from && (behind < native.len() || end == StackEnd::Root);
            places.push(inside.then(|| behind - 1));
            from = from.max(behind);
        }
    } else {
        let calls: Vec<usize> =
            native.iter().enumerate().filter(|(_, frame)| evaluates(frame)).map(|(at, _)| at).collect();
        let skipped = match end {
            StackEnd::Root => calls.len().saturating_sub(runs.len()),
            _ => 0,
        };
        places.extend((0..runs.len()).map(|run| calls.get(run + skipped).copied()));
    }
    let mut pieces = Vec::with_capacity(native.len() + runs.len());
    let mut next = 0;
    for number in 0..native.len() {
        match places.get(next).copied().flatten() {
            Some(place) if place == number => {
                pieces.push(Piece::Run(next));
                next += 1;
                // Those without a place of their own lie between this one and the next.
                while next < places.len()
                    && places[next].is_none()
                    && places[next..].iter().any(Option::is_some)
                {
                    pieces.push(Piece::Run(next));
                    next += 1;
                }
            }
            _ => pieces.push(Piece::Native(number)),
        }
    }
    pieces.extend((next..runs.len()).map(Piece::Run));
    pieces
}

#[cfg(test)]
mod tests {
    use biopsy_model::Avma;
    use biopsy_stacks::unwind::FoundBy;

    use super::*;

    fn native(count: u64) -> Vec<WalkedFrame> {
        let frame = |number: u64| WalkedFrame {
            ip: Avma(number),
            lookup: Avma(number),
            sp: Avma(0x1000 + 0x100 * number),
            fp: None,
            saved: [None; 5],
            found: FoundBy::UnwindInfo,
        };
        (0..count).map(frame).collect()
    }

    fn text(pieces: &[Piece]) -> String {
        let one = |piece: &Piece| match piece {
            Piece::Native(number) => number.to_string(),
            Piece::Run(number) => ["a", "b", "c", "d"][*number].to_owned(),
        };
        pieces.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// What, how the stack ended, anchors, calls of the interpreter's function, the order.
    type Case = (&'static str, StackEnd, &'static [Option<u64>], &'static [usize], &'static str);

    #[test]
    fn runs_replace_the_calls_that_run_them() {
        use StackEnd::{Root, Truncated};
        let cases: [Case; 9] = [
            ("anchors", Root, &[Some(0x1110), Some(0x1350)], &[], "0 a 2 b 4 5"),
            ("an anchor in the last frame of a whole stack", Root, &[Some(0x1510)], &[], "0 1 2 3 4 a"),
            ("an anchor behind a stack that was cut", Truncated, &[Some(0x1510)], &[], "0 1 2 3 4 5 a"),
            ("two anchors in one frame", Root, &[Some(0x1110), Some(0x1120)], &[], "0 a 2 3 4 5 b"),
            ("an anchor below the stack", Root, &[Some(0x10)], &[], "0 1 2 3 4 5 a"),
            ("calls", Root, &[None, None], &[1, 3], "0 a 2 b 4 5"),
            ("one call has only just begun", Root, &[None, None], &[0, 1, 3], "0 a 2 b 4 5"),
            ("one call is not seen", Root, &[None, None, None], &[1, 3], "0 a 2 b 4 5 c"),
            ("no call is seen", Truncated, &[None, None], &[], "0 1 2 3 4 5 a b"),
        ];
        let native = native(6);
        for (what, end, anchors, calls, expected) in cases {
            let runs: Vec<Run> =
                anchors.iter().map(|anchor| Run { anchor: *anchor, calls: Vec::new() }).collect();
            let found = mix(&native, end, &runs, |frame| calls.contains(&(frame.ip.0 as usize)));
            assert_eq!(text(&found), expected, "{what}");
        }
    }
}
