//! What is paid for besides the program's own work, of stacks made by hand.

use super::*;
use crate::trace::calls::Purpose;
use crate::trace::made::{MS, Made};

type Told = (Cost, u64, Vec<(String, u64)>, Vec<(String, u64)>);

fn costs(stacks: &[(&[&str], u64)]) -> Vec<Told> {
    let mut made = Made::default();
    for (stack, ms) in stacks {
        let stack = made.stack(stack);
        made.cpu(1, 0, *ms, stack);
    }
    let mut frames = FrameTable::new(&made.timeline);
    let tree = CallTree::new(&made.timeline, &mut frames, Purpose::Cpu { by_timer: true });
    let mut own = tree.zeros();
    for sample in &made.timeline.samples {
        let node = &mut own[tree.node_of(sample.stack) as usize];
        *node = *node + sample.weight;
    }
    let named = |rows: &[(FunctionHandle, Nanos)]| {
        let row = |(function, time): &(FunctionHandle, Nanos)| {
            (frames.row(*function).expect("a function").name.clone(), time.0 / MS)
        };
        rows.iter().map(row).collect()
    };
    let told = |row: &CostSum| (row.cost, row.time.0 / MS, named(&row.callers), named(&row.entries));
    sum(&tree, &own, &frames).iter().map(told).collect()
}

fn rows(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter().map(|(name, ms)| ((*name).to_owned(), *ms)).collect()
}

#[test]
fn time_belongs_to_the_outermost_cost_and_to_who_called_it() {
    let found = costs(&[
        (&["main", "load", "libc.so.6!malloc"], 10),
        (&["main", "load", "libc.so.6!malloc", "libc.so.6!_int_malloc"], 20),
        (&["main", "save", "libc.so.6!free"], 7),
        // A comparison of a sort that copies is sorting; one that allocates is allocation.
        (&["main", "rank", "libc.so.6!qsort", "compare", "libc.so.6!memcpy"], 4),
        (&["main", "rank", "libc.so.6!qsort", "compare", "libc.so.6!malloc"], 3),
        // Pages that an allocation touches are told apart from it.
        (&["main", "load", "libc.so.6!malloc", "k:asm_exc_page_fault", "k:handle_mm_fault"], 6),
        (&["main", "load"], 100),
        (&["libc.so.6!malloc"], 1),
    ]);
    assert_eq!(
        found,
        [
            (
                Cost::Allocation,
                41,
                rows(&[("load", 30), ("save", 7), ("rank", 3)]),
                rows(&[("malloc", 34), ("free", 7)]),
            ),
            (Cost::PageFaults, 6, rows(&[("load", 6)]), rows(&[("asm_exc_page_fault", 6)])),
            (Cost::Sorting, 4, rows(&[("rank", 4)]), rows(&[("qsort", 4)])),
        ]
    );
}

#[test]
fn callers_are_functions_of_the_program_with_a_name() {
    let callers = |stack: &[&str]| costs(&[(stack, 5)]).pop().map(|row| row.2);
    assert_eq!(callers(&["main", "std::vector::push", "libc.so.6!malloc"]), Some(rows(&[("main", 5)])));
    assert_eq!(callers(&["main", "server!", "libc.so.6!malloc"]), Some(rows(&[("main", 5)])));
    assert_eq!(callers(&["main", "?", "libc.so.6!malloc"]), Some(rows(&[("main", 5)])));
    assert_eq!(callers(&["k:do_exit"]), Some(rows(&[])), "nobody called it");
    assert_eq!(callers(&["main", "work"]), None);
}

#[test]
fn few_callers_are_kept_the_largest_first() {
    let names = ["a1", "b2", "c3", "d4", "e5", "f6"];
    let stacks: Vec<[&str; 2]> = names.iter().map(|name| [*name, "libc.so.6!malloc"]).collect();
    let with_times: Vec<(&[&str], u64)> =
        stacks.iter().zip([3, 9, 3, 5, 1, 3]).map(|(stack, ms)| (stack.as_slice(), ms)).collect();
    let found = costs(&with_times);
    assert_eq!(found[0].2, rows(&[("b2", 9), ("d4", 5), ("a1", 3), ("c3", 3)]));
    assert_eq!(found[0].1, 24, "the sum has them all");
}
