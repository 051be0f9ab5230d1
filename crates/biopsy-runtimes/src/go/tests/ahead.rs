//! Whether the code ahead of a goroutine lets go of a lock: one piece of code each.

use super::program::{CALL, Code, Program, strand};
use crate::{Confidence, Holder, StrandId};
use biopsy_model::Avma;

/// `mov rax, [rsp + 8]`, `mov [rsp + 8], rax`, `mov ecx, -1`, `lock xadd [rax], ecx`.
const LOAD: [u8; 5] = [0x48, 0x8b, 0x44, 0x24, 0x08];
const STORE: [u8; 5] = [0x48, 0x89, 0x44, 0x24, 0x08];
const LESS: [u8; 5] = [0xb9, 0xff, 0xff, 0xff, 0xff];
const ADD: [u8; 4] = [0xf0, 0x0f, 0xc1, 0x08];

/// Functions that code here calls.
struct Known {
    lock: u64,
    unlock: u64,
    take: u64,
    other: u64,
    dies: u64,
    /// A closure of `main.holds`, and a function of the program.
    closure: u64,
    plain: u64,
}

/// In which frame of it a goroutine has the lock, whose code ahead this is.
fn held(code: impl FnOnce(Code, &Known) -> Code) -> Option<usize> {
    let mut program = Program::new(24);
    let lock = program.wanted_mutex(3);
    let known = Known {
        lock,
        unlock: program.function("sync.(*Mutex).Unlock", 8),
        take: program.function("sync.(*Mutex).Lock", 8),
        other: program.function("strings.Index", 8),
        dies: program.function("runtime.gopanic", 8),
        closure: program.function("main.holds.func1", 8),
        plain: program.function("main.release", 8),
    };
    for entry in [known.closure, known.plain] {
        // From its entry: `mov rax, lock; call Unlock; ret`, reached by a jump over five bytes.
        program.image.put(entry, &[0x0f, 0x1f, 0x44, 0, 0]);
        program.code(entry, |code| code.rax(lock).call(known.unlock).ret());
    }
    let holds = program.function("main.holds", 0x18);
    let pc = program.code(holds, |from| code(from, &known));
    let go = program.waits(2, &[pc], "sleep");
    let made = program.goroutine(&go);
    // What it has on its stack.
    program.image.word(made.sps[1] + 8, lock);
    let found = program.finish().read();
    let wait = strand(&found, StrandId(3)).wait.as_ref().expect("it waits");
    assert_eq!(wait.address, Some(Avma(lock)));
    match wait.owners.as_slice() {
        [] => None,
        [owner] => {
            assert_eq!(
                (owner.holder, owner.confidence),
                (Holder::Strand(StrandId(2)), Confidence::VeryLikely)
            );
            owner.frame
        }
        many => panic!("{many:#?}"),
    }
}

#[test]
fn a_lock_is_had_by_whose_code_lets_go_of_it_first() {
    assert_eq!(held(|code, known| code.rax(known.lock).call(known.unlock).ret()), Some(1));
    let takes_first =
        held(|code, known| code.rax(known.lock).call(known.take).rax(known.lock).call(known.unlock).ret());
    assert_eq!(takes_first, None);
    let again = held(|code, known| {
        let code = code.rax(known.lock).call(known.unlock).rax(known.lock).call(known.take);
        code.rax(known.lock).call(known.unlock).ret()
    });
    assert_eq!(again, Some(1), "it lets go before it takes it again");
    assert_eq!(
        held(|code, known| code.rax(known.lock + 0x10).call(known.unlock).ret()),
        None,
        "another lock"
    );
    assert_eq!(
        held(|code, known| code.rax(known.lock).jump(known.unlock)),
        Some(1),
        "as the last thing it does"
    );
}

#[test]
fn code_that_is_not_reached_lets_go_of_nothing() {
    assert_eq!(held(|code, known| code.ret().rax(known.lock).call(known.unlock).ret()), None);
    assert_eq!(held(|code, known| code.call(known.dies).rax(known.lock).call(known.unlock).ret()), None);
    assert_eq!(held(|code, known| code.raw(&[0xcc]).rax(known.lock).call(known.unlock).ret()), None);
    // `jmp rax`: to where is not known.
    assert_eq!(held(|code, known| code.raw(&[0xff, 0xe0]).rax(known.lock).call(known.unlock)), None);
}

#[test]
fn both_ways_of_a_branch_are_followed() {
    for first in [true, false] {
        let frame = held(|code, known| {
            let (start, far) = (code.here(), 40);
            // Six bytes of branch; one side returns, the other one lets go.
            let code = code.branch(start + far);
            let side = |code: Code, lets_go: bool| {
                if lets_go { code.rax(known.lock).call(known.unlock).ret() } else { code.ret() }
            };
            let code = side(code, first);
            let room = (start + far - code.here()) as usize;
            side(code.raw(&vec![0xcc; room]), !first)
        });
        assert_eq!(frame, Some(1), "{first}");
    }
}

#[test]
fn a_loop_is_walked_once() {
    let frame = held(|code, known| {
        let start = code.here();
        code.rax(known.lock).call(known.other).jump(start)
    });
    assert_eq!(frame, None);
    let frame = held(|code, known| {
        let start = code.here();
        code.rax(known.lock).call(known.unlock).branch(start).ret()
    });
    assert_eq!(frame, Some(1));
}

#[test]
fn what_a_call_may_have_changed_is_forgotten() {
    assert_eq!(held(|code, known| code.rax(known.lock).call(known.other).call(known.unlock).ret()), None);
    // `mov rbx, lock` does not survive a call either, the stack pointer does.
    let kept = |code: Code, known: &Known| code.call(known.other).raw(&LOAD).call(known.unlock).ret();
    assert_eq!(held(kept), Some(1), "what is on the stack is still there");
}

#[test]
fn addresses_are_followed_through_registers_and_the_stack() {
    // mov rdx, rax; lea rax, [rdx + 0x20]; sub rax, 0x20
    const MOVES: [u8; 11] = [0x48, 0x89, 0xc2, 0x48, 0x8d, 0x42, 0x20, 0x48, 0x83, 0xe8, 0x20];
    assert_eq!(held(|code, known| code.rax(known.lock).raw(&MOVES).call(known.unlock).ret()), Some(1));
    // push rax; xor eax, eax; pop rax
    let pushed = |code: Code, known: &Known| {
        code.rax(known.lock).raw(&[0x50, 0x31, 0xc0, 0x58]).call(known.unlock).ret()
    };
    assert_eq!(held(pushed), Some(1));
    // add rax, rbx
    let sum = |code: Code, known: &Known| {
        code.rax(known.lock - 0x100).rbx(0x100).raw(&[0x48, 0x01, 0xd8]).call(known.unlock).ret()
    };
    assert_eq!(held(sum), Some(1));
    assert_eq!(held(|code, known| code.raw(&LOAD).call(known.unlock).ret()), Some(1), "from the stack");
    let overwritten = |code: Code, known: &Known| code.rax(1).raw(&STORE).raw(&LOAD).call(known.unlock).ret();
    assert_eq!(held(overwritten), None, "what was stored on the way is there now");
    // mov [rsp + 8], al, and mov [rsp + 12], eax: a part of the word is another one.
    for part in [[0x88, 0x44, 0x24, 0x08], [0x89, 0x44, 0x24, 0x0c]] {
        assert_eq!(held(|code, known| code.rax(1).raw(&part).raw(&LOAD).call(known.unlock).ret()), None);
    }
    // mov [rsp + 16], rax: the word behind it.
    let behind = [0x48, 0x89, 0x44, 0x24, 0x10];
    assert_eq!(held(|code, known| code.rax(1).raw(&behind).raw(&LOAD).call(known.unlock).ret()), Some(1));
    // movups [rsp], xmm0: 16 bytes that nobody knows.
    let wide = [0x0f, 0x11, 0x04, 0x24];
    assert_eq!(held(|code, known| code.raw(&wide).raw(&LOAD).call(known.unlock).ret()), None);
    // mov eax, eax: the upper half is gone.
    let narrow = |code: Code, known: &Known| code.rax(known.lock).raw(&[0x89, 0xc0]).call(known.unlock).ret();
    assert_eq!(held(narrow), None);
    // imul rax, rax, 1: not understood.
    let product = [0x48, 0x6b, 0xc0, 0x01];
    assert_eq!(held(|code, known| code.rax(known.lock).raw(&product).call(known.unlock).ret()), None);
    // mov rax, fs:[rsp + 8]: of a thread, and not of the stack.
    let of_thread = [0x64, 0x48, 0x8b, 0x44, 0x24, 0x08];
    assert_eq!(held(|code, known| code.raw(&of_thread).call(known.unlock).ret()), None);
}

#[test]
fn the_fast_ways_of_a_mutex_are_seen_without_a_call() {
    assert_eq!(held(|code, known| code.rax(known.lock).raw(&LESS).raw(&ADD).ret()), Some(1));
    // mov ecx, 2: it is not let go of.
    let by_two = [0xb9, 2, 0, 0, 0];
    assert_eq!(held(|code, known| code.rax(known.lock).raw(&by_two).raw(&ADD).ret()), None);
    // mov rdx, rax; xor eax, eax; mov ecx, 1; lock cmpxchg [rdx], ecx; mov rax, rdx: takes it.
    const TAKES: [u8; 17] =
        [0x48, 0x89, 0xc2, 0x31, 0xc0, 0xb9, 1, 0, 0, 0, 0xf0, 0x0f, 0xb1, 0x0a, 0x48, 0x89, 0xd0];
    let taken = |code: Code, known: &Known| code.rax(known.lock).raw(&TAKES).raw(&LESS).raw(&ADD).ret();
    assert_eq!(held(taken), None);
    // The same with ecx = 3: a waiter's bits, and no taking.
    let mut other = TAKES;
    other[6] = 3;
    assert_eq!(held(|code, known| code.rax(known.lock).raw(&other).raw(&LESS).raw(&ADD).ret()), Some(1));
}

#[test]
fn closures_are_followed_and_functions_of_their_own_are_not() {
    assert_eq!(held(|code, known| code.call(known.closure).ret()), Some(1));
    assert_eq!(
        held(|code, known| code.call(known.plain).ret()),
        None,
        "whether it has the lock says its own frame"
    );
    // Back from a closure, what follows is followed.
    let after = held(|code, known| code.call(known.closure).rax(known.lock).call(known.take).ret());
    assert_eq!(after, Some(1), "it lets go before it takes");
    let before = held(|code, known| code.rax(known.lock).call(known.take).call(known.closure).ret());
    assert_eq!(before, None);
}

#[test]
fn closures_that_call_themselves_end() {
    let mut program = Program::new(24);
    program.wanted_mutex(3);
    let closure = program.function("main.holds.func1", 8);
    program.image.put(closure, &[0x0f, 0x1f, 0x44, 0, 0]);
    program.code(closure, |code| code.call(closure).call(closure).ret());
    let holds = program.function("main.holds", 0x18);
    let pc = program.code(holds, |code| code.call(closure).ret());
    let go = program.waits(2, &[pc], "sleep");
    program.goroutine(&go);
    assert_eq!(program.finish().read().strands.len(), 3);
}

/// Branches into all directions, as many as there is room for.
#[test]
fn code_of_nothing_but_branches_ends_and_is_said_to_be_long() {
    let mut program = Program::new(24);
    program.wanted_mutex(3);
    for _ in 0..20 {
        let branches = program.function("main.branches.func1", 8);
        program.code(branches, |mut code| {
            for number in 0..40 {
                code = code.branch(branches + CALL + (number * 7 % 40) * 6);
            }
            code
        });
        let go = program.waits(10 + branches, &[branches + CALL], "sleep");
        program.goroutine(&go);
    }
    let mut finished = program.finish();
    finished.limits.instructions = 200;
    let found = finished.read();
    let warned = found.warnings.iter().any(|warning| warning.contains("not all code was followed"));
    assert!(warned, "{:?}", found.warnings);
}
