//! Pieces of any size, as files are read.

#![expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]

use super::*;

#[test]
fn lines_around_a_mask_are_its_own_and_both_neighbours() {
    let text = b"a\nb\nc\nd\ne\nf\n";
    for (masks, wanted) in [
        (vec![4..5], vec![2..8]),
        (vec![0..1], vec![0..4]),
        (vec![10..11], vec![8..12]),
        // Neighbours of both: one stretch.
        (vec![2..3, 8..9], vec![0..12]),
        (vec![0..1, 10..11], vec![0..4, 8..12]),
        (vec![4..4], vec![2..8]),
        (vec![], vec![]),
    ] {
        assert_eq!(around(text, &masks), wanted, "{masks:?}");
    }
    assert_eq!(around(b"no end of a line", &[3..6]), [0..16]);
}

#[test]
fn lines_around_many_masks_are_in_order_and_apart() {
    let text: Vec<u8> = (0..200).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
    for step in 1..40 {
        let masks: Vec<Range<usize>> = (0..text.len() - 4).step_by(step * 7).map(|at| at..at + 3).collect();
        let found = around(&text, &masks);
        assert!(found.windows(2).all(|pair| pair[0].end <= pair[1].start), "{step}");
        let is_inside = |mask: &Range<usize>| {
            found.iter().any(|lines| lines.start <= mask.start && mask.end <= lines.end)
        };
        assert!(masks.iter().all(is_inside), "{step}");
        let is_line = |lines: &Range<usize>| {
            (lines.start == 0 || text[lines.start - 1] == b'\n') && text[lines.end - 1] == b'\n'
        };
        assert!(found.iter().all(is_line), "{step}");
    }
}
