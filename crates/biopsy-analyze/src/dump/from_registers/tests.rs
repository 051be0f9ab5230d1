//! What threads do, by their registers: the calls of x86-64, their arguments, and what must not be taken for one.

use super::*;
use biopsy_image::testing::CoreBuilder;
use biopsy_image::{Limits, open_bytes};

const MEMORY: u64 = 0x55_0000_0000;

/// Interrupted in this call.
fn in_call(number: u64, arguments: [u64; 4]) -> GeneralRegisters {
    let [rdi, rsi, rdx, r10] = arguments;
    let rax = (-512_i64).cast_unsigned();
    GeneralRegisters { orig_rax: number, rax, rdi, rsi, rdx, r10, ..GeneralRegisters::default() }
}

/// The state of a thread with these registers, `memory` being at `MEMORY`, descriptor 5 leading to a socket.
fn state_of(registers: Option<&GeneralRegisters>, memory: &[u64]) -> ThreadState {
    let mut page: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
    page.resize(4096, 0);
    let core = CoreBuilder::new().process(10, "patient", "patient").memory(MEMORY, 6, page);
    let opened = open_bytes("test", core.build(), &Limits::default()).expect("a core");
    let facts =
        DumpFacts { descriptors: vec![(5, "socket 10.0.0.7:5432".to_owned())], ..DumpFacts::default() };
    state(&*opened.image, registers, None, &facts)
}

#[test]
fn calls_are_described_with_their_arguments() {
    let minus = |number: i32| u64::from(number.cast_unsigned());
    // A poll of descriptors 3 and 5, another of -1; 2.5 s; what is no time.
    let memory: &[u64] = &[3, 5, minus(-1), 2, 500_000_000, u64::MAX, 0];
    let at = |word: u64| MEMORY + word * 8;
    let table: &[(u64, [u64; 4], WaitKind, &str)] = &[
        (0, [5, 0, 0, 0], WaitKind::Input, "reads from descriptor 5 (socket 10.0.0.7:5432)"),
        (0, [0, 0, 0, 0], WaitKind::Input, "reads from descriptor 0 (standard input)"),
        (1, [7, 0, 0, 0], WaitKind::Output, "writes to descriptor 7"),
        (45, [5, 0, 0, 0], WaitKind::Input, "receives from descriptor 5 (socket 10.0.0.7:5432)"),
        (44, [9, 0, 0, 0], WaitKind::Output, "sends to descriptor 9"),
        (74, [9, 0, 0, 0], WaitKind::Output, "waits until descriptor 9 is on disk"),
        (42, [5, 0, 0, 0], WaitKind::Input, "connects descriptor 5 (socket 10.0.0.7:5432)"),
        (288, [4, 0, 0, 0], WaitKind::Connection, "waits for a connection at descriptor 4"),
        (202, [at(0), 128, 2, 0], WaitKind::Futex, "waits at a futex"),
        // Time limits: an `int` of milliseconds, or seconds and nanoseconds in memory.
        (232, [4, 0, 10, minus(-1)], WaitKind::Events, "waits for events on descriptor 4"),
        (232, [4, 0, 10, 0], WaitKind::Events, "waits for events on descriptor 4, only looking"),
        (232, [4, 0, 10, 1_500], WaitKind::Events, "waits for events on descriptor 4, for at most 1.5 s"),
        (
            232,
            [4, 0, 10, 0xffff_ffff_0000_05dc],
            WaitKind::Events,
            "waits for events on descriptor 4, for at most 1.5 s",
        ),
        (7, [at(1), 1, minus(-1), 0], WaitKind::Events, "waits for descriptor 5 (socket 10.0.0.7:5432)"),
        (
            7,
            [at(0), 2, 250, 0],
            WaitKind::Events,
            "waits for one of the descriptors 3, 5, for at most 250.0 ms",
        ),
        (7, [at(2), 1, minus(-1), 0], WaitKind::Events, "waits for one of 1 descriptors"),
        (7, [0, 0, 250, 0], WaitKind::Events, "sleeps (`poll` of nothing), for at most 250.0 ms"),
        (
            271,
            [at(0), 2, at(3), 0],
            WaitKind::Events,
            "waits for one of the descriptors 3, 5, for at most 2.5 s",
        ),
        (35, [at(3), 0, 0, 0], WaitKind::Time, "sleeps for 2.5 s"),
        (35, [at(5), 0, 0, 0], WaitKind::Time, "sleeps"),
        (35, [0, 0, 0, 0], WaitKind::Time, "sleeps"),
        (35, [u64::MAX - 3, 0, 0, 0], WaitKind::Time, "sleeps"),
        (230, [1, 0, at(3), 0], WaitKind::Time, "sleeps for 2.5 s"),
        (230, [1, 1, at(3), 0], WaitKind::Time, "sleeps"),
        (61, [77, 0, 0, 0], WaitKind::Child, "waits for the end of child process 77"),
        (61, [minus(-1), 0, 0, 0], WaitKind::Child, "waits for the end of any child process"),
        (247, [1, 88, 0, 0], WaitKind::Child, "waits for the end of child process 88"),
        (247, [0, 88, 0, 0], WaitKind::Child, "waits for the end of any child process"),
        (73, [6, 0, 0, 0], WaitKind::KernelObject, "waits for a lock on the file of descriptor 6"),
        (34, [0, 0, 0, 0], WaitKind::Signal, "waits for a signal"),
        (60, [0, 0, 0, 0], WaitKind::End, "is ending"),
        (231, [0, 0, 0, 0], WaitKind::End, "is ending the process"),
        (11, [0, 0, 0, 0], WaitKind::Other, "changes its address space (`munmap`)"),
        (321, [0, 0, 0, 0], WaitKind::Other, "in system call `bpf`"),
        (4_000, [0, 0, 0, 0], WaitKind::Other, "in system call `system call 4000`"),
    ];
    for (number, arguments, wait, words) in table {
        let state = state_of(Some(&in_call(*number, *arguments)), memory);
        assert_eq!((state.wait(), state.words()), (Some(*wait), *words), "call {number} with {arguments:x?}");
    }
}

#[test]
fn only_an_interrupted_call_is_one() {
    let epoll = in_call(232, [4, 0, 10, 0]);
    let with = |rax: i64| state_of(Some(&GeneralRegisters { rax: rax.cast_unsigned(), ..epoll }), &[]);
    for rax in [-512, -513, -514, -516, -4, -38] {
        assert!(matches!(with(rax), ThreadState::InSystemCall { number: Some(232), .. }), "{rax}");
    }
    // It has come back: with events, with an error, with nothing.
    for rax in [0, 3, -1, -9, -511, -517, i64::MAX] {
        assert_eq!(with(rax), ThreadState::Running, "{rax}");
    }
    // `exit` does not come back, whatever is in the register.
    let exit = GeneralRegisters { rax: 0, ..in_call(60, [0; 4]) };
    assert_eq!(state_of(Some(&exit), &[]).wait(), Some(WaitKind::End));
}

#[test]
fn no_number_is_no_call_and_no_registers_are_no_state() {
    for number in [u64::MAX, 4_096, 1 << 40] {
        assert_eq!(state_of(Some(&in_call(number, [0; 4])), &[]), ThreadState::Running, "{number:#x}");
    }
    assert_eq!(state_of(None, &[]), ThreadState::Unknown);
}

mod any_registers {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    proptest! {
        /// Whatever pointers the arguments are, there are words, and a call is named by its number.
        #[test]
        fn give_words(number in 0u64..500, arguments in any::<[u64; 4]>(), memory in any::<[u64; 8]>()) {
            let state = state_of(Some(&in_call(number, arguments)), &memory);
            let ThreadState::InSystemCall { number: told, words, .. } = state else { panic!("{state:?}") };
            prop_assert!(told.map(u64::from) == Some(number) && !words.is_empty() && words.len() < 200, "{words}");
        }
    }
}
