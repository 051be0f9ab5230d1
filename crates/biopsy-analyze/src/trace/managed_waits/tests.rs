//! Stacks of threads of .NET that wait, and how.

use super::*;
use crate::trace::made::{MS, Made};
use biopsy_model::MonoNanos;
use biopsy_model::timeline::{Wait, WaitState};

const IN_TASK: &[&str] = &[
    "jit!Shop.Feed.Get",
    "System.dll!System.Threading.Tasks.Task.InternalWaitCore",
    "System.dll!System.Threading.Monitor.Wait",
    "libcoreclr.so!",
];
/// Straight from the statement into the runtime.
const IN_LOCK: &[&str] = &["jit!Shop.Orders.Save", "libcoreclr.so!AwareLock", "k:futex_wait"];
const ENTERS: &[&str] =
    &["jit!Shop.Orders.Load", "System.dll!System.Threading.Monitor.Enter_Slowpath", "libcoreclr.so!"];

fn told(made: &Made) -> Vec<(u32, ManagedWait, Option<String>, u64, u64)> {
    let frames = FrameTable::new(&made.timeline);
    let name = |function| frames.row(function).expect("a function").name.clone();
    sum(&made.timeline, &frames)
        .into_iter()
        .map(|row| (row.tid.0, row.how, row.function.map(name), row.time.0 / MS, row.count))
        .collect()
}

/// A stack, and how it waits in which function.
type Stack<'a> = (&'a [&'a str], Option<(ManagedWait, Option<&'a str>)>);

#[test]
fn a_stack_tells_how_a_thread_waits() {
    use ManagedWait::{Monitor, Task};
    #[rustfmt::skip]
    let table: &[Stack<'_>] = &[
        (IN_TASK, Some((Task, Some("Shop.Feed.Get")))),
        (IN_LOCK, Some((Monitor, Some("Shop.Orders.Save")))),
        (ENTERS, Some((Monitor, Some("Shop.Orders.Load")))),
        // It waits for a condition: neither.
        (&["jit!Shop.Queue.Take", "System.dll!System.Threading.Monitor.Wait", "libcoreclr.so!"], None),
        (&["jit!Shop.Run", "System.dll!System.Threading.Thread.Sleep", "libcoreclr.so!"], None),
        // No function of the application: of the class library itself.
        (&["System.dll!System.Threading.Tasks.Task.Wait", "libcoreclr.so!"], Some((Task, None))),
        (&["System.dll!System.Net.Http.Send", "libcoreclr.so!"], None),
        // A task that is waited for inside of a lock is a task; both are told once.
        (&["jit!Shop.Run", "System.dll!System.Threading.Tasks.Task.Wait(int32)", "System.dll!System.Threading.Monitor.Enter"], Some((Task, Some("Shop.Run")))),
        // Native code of the program below managed code is no runtime.
        (&["jit!Shop.Run", "libshop.so!wait_for_it"], None),
        (&["main", "libcoreclr.so!", "k:futex_wait"], None),
        (&["jit!", "libcoreclr.so!"], None),
        (&[], None),
    ];
    for (stack, expected) in table {
        let mut made = Made::default();
        let handle = made.stack(stack);
        made.off_cpu(1, 10, handle);
        let expected = expected.map(|(how, function)| (1, how, function.map(str::to_owned), 10, 1));
        assert_eq!(told(&made), Vec::from_iter(expected), "{stack:?}");
    }
}

#[test]
fn waits_are_summed_by_thread_and_place_the_longest_first() {
    let mut made = Made::default();
    let (task, lock, enters) = (made.stack(IN_TASK), made.stack(IN_LOCK), made.stack(ENTERS));
    made.off_cpu(2, 5, task)
        .off_cpu(1, 9, task)
        .off_cpu(2, 5, task)
        .off_cpu(1, 10, lock)
        .off_cpu(1, 10, enters);
    let wait = |state| Wait {
        tid: Tid(3),
        start: MonoNanos(0),
        end: MonoNanos(70 * MS),
        ready: None,
        waker: None,
        state,
        syscall: None,
        stack: task,
    };
    made.timeline.waits = vec![wait(WaitState::Sleep), wait(WaitState::Preempted)];
    use ManagedWait::{Monitor, Task};
    let row = |tid, how, name: &str, ms, count| (tid, how, Some(name.to_owned()), ms, count);
    let mut found = told(&made);
    // Of thread 1 two are as long: those of one place stay apart from those of the other.
    found[..2].sort();
    assert_eq!(
        found,
        [
            row(1, Monitor, "Shop.Orders.Load", 10, 1),
            row(1, Monitor, "Shop.Orders.Save", 10, 1),
            row(2, Task, "Shop.Feed.Get", 10, 2),
            row(1, Task, "Shop.Feed.Get", 9, 1),
        ]
    );
    made.timeline.wait_samples[0].state = WaitState::Preempted;
    assert!(told(&made).contains(&row(2, Task, "Shop.Feed.Get", 5, 1)), "without a CPU is no wait");
    made.timeline.wait_samples.clear();
    assert_eq!(
        told(&made),
        [row(3, Task, "Shop.Feed.Get", 70, 1)],
        "recorded waits where there is no sample"
    );
}
