//! The ways ahead of a frame: which locks are given back, and which taken, until its function is left.

use std::collections::BTreeMap;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::{CodeView, Target};
use super::execute::{apply, holds, sign};
use super::family::{Called, HoldMode, LockFamily, Step};
use super::pages::Pages;
use super::state::{Compared, MemoryNow, RAX, RDI, RSP, State, Value};

/// Instructions of one frame, with what it calls, and of one call in it. What does not come to its end within them is not known.
const FRAME: usize = 20_000;
const CALL: usize = 800;
/// Calls deep: without optimisation a guard's end is five calls away from the lock.
const DEEP: usize = 8;
/// Ways that wait to be gone.
const OPEN: usize = 256;
/// How often one way takes or gives back a lock, as far as it is counted.
const MOST: i8 = 16;

/// What one way does to one lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Sum {
    /// Taken minus given back, at the way's end.
    pub(super) net: i8,
    /// The lowest that it was on the way: below zero, more was given back than taken, so that it was held before.
    pub(super) lowest: i8,
    /// What for it was held, by the step that went below zero.
    pub(super) mode: HoldMode,
    /// It was given back at all.
    pub(super) gave: bool,
}

/// What one way does to all locks that are looked for, by address.
pub(super) type Sums = BTreeMap<u64, Sum>;

/// Where ways lead.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// Those that come to the end of the function, or of the clean-up; each once.
    pub(super) done: Vec<Sums>,
    /// The state at the end of each of them.
    pub(super) ends: Vec<State>,
    /// Those that come back to where they were: a loop without an end.
    pub(super) loops: Vec<Sums>,
    /// A way could not be followed: an address that is not known, code that is not there, too many instructions.
    pub(super) lost: bool,
    /// A loop may have been left by a way that was not gone, because a number said that it would not be.
    pub(super) cut_short: bool,
}

/// What is looked for.
pub(super) struct Search<'a, 'c> {
    pub(super) code: &'c mut CodeView<'a>,
    pub(super) memory: &'c Pages<'a>,
    pub(super) locks: &'c FxHashMap<u64, LockFamily>,
    /// Instructions that may still be looked at, for all frames.
    pub(super) left: &'c mut usize,
    /// The used part of the thread's stack.
    pub(super) stack: std::ops::Range<u64>,
}

struct Now<'c> {
    memory: &'c Pages<'c>,
    stack: std::ops::Range<u64>,
}

impl MemoryNow for Now<'_> {
    fn read(&self, address: u64, bytes: usize) -> Option<u64> {
        self.memory.number(address, bytes)
    }

    fn is_own_stack(&self, address: u64) -> bool {
        self.stack.contains(&address)
    }
}

/// One way.
#[derive(Clone)]
struct Way {
    at: u64,
    state: State,
    sums: Sums,
    /// A step failed just now: what is called next for the same lock is its slow half.
    failed: Option<(u64, Step)>,
    /// A branch was decided by numbers.
    decided: bool,
    /// It came here by a jump backwards.
    back: bool,
}

/// Where ways were already, with what they had done until then.
#[derive(Default)]
struct Seen {
    /// Of those that had done nothing yet: most.
    before: FxHashSet<u64>,
    after: FxHashSet<(u64, Vec<(u64, Sum)>)>,
}

impl Seen {
    /// `false`: a way was there.
    fn insert(&mut self, way: &Way) -> bool {
        if way.sums.is_empty() {
            return self.before.insert(way.at);
        }
        self.after.insert((way.at, way.sums.iter().map(|(lock, sum)| (*lock, *sum)).collect()))
    }
}

impl Search<'_, '_> {
    /// All ways from `at` to the end of the function. `cleanup`: from a landing pad, whose end is to unwind on.
    pub(super) fn ways(&mut self, at: u64, state: &State, cleanup: bool) -> Ways {
        let mut budget = FRAME.min(*self.left);
        let before = budget;
        let ways = self.explore(at, state.clone(), 0, cleanup, true, &mut budget);
        let ways = if ways.cut_short {
            self.explore(at, state.clone(), 0, cleanup, false, &mut budget)
        } else {
            ways
        };
        *self.left = self.left.saturating_sub(before - budget);
        ways
    }

    fn explore(
        &mut self,
        at: u64,
        state: State,
        deep: usize,
        cleanup: bool,
        decides: bool,
        budget: &mut usize,
    ) -> Ways {
        let mut ways = Ways::default();
        let first = Way { at, state, sums: Sums::new(), failed: None, decided: false, back: false };
        let mut open = vec![first];
        let mut seen = Seen::default();
        let now = Now { memory: self.memory, stack: self.stack.clone() };
        while let Some(mut way) = open.pop() {
            loop {
                if *budget == 0 {
                    ways.lost = true;
                    break;
                }
                if !seen.insert(&way) {
                    ways.cut_short |= way.back && way.decided;
                    keep(&mut ways.loops, way.sums);
                    break;
                }
                *budget -= 1;
                let Some(instruction) = self.code.instruction(way.at) else {
                    ways.lost = true;
                    break;
                };
                way.back = false;
                match self.step(&mut way, &instruction, &now, deep, decides, budget, &mut open) {
                    Next::Goes(next) => way.at = next,
                    Next::Returns => {
                        ways.add(way);
                        break;
                    }
                    Next::Ends if cleanup => {
                        ways.add(way);
                        break;
                    }
                    Next::Ends => break,
                    Next::Lost => {
                        ways.lost = true;
                        break;
                    }
                }
            }
            if open.len() > OPEN {
                open.truncate(OPEN);
                ways.lost = true;
            }
        }
        ways
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one way, one instruction, and what both are looked at with"
    )]
    fn step(
        &mut self,
        way: &mut Way,
        instruction: &Instruction,
        now: &Now<'_>,
        deep: usize,
        decides: bool,
        budget: &mut usize,
        open: &mut Vec<Way>,
    ) -> Next {
        let next = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next => {
                if !self.locks_step(way, instruction, now, open) {
                    apply(&mut way.state, instruction, now);
                }
                Next::Goes(next)
            }
            FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                let holds = way.state.flags.and_then(|flags| holds(instruction.condition_code(), flags));
                let always = way.state.flags.is_some_and(|flags| flags.always);
                match holds.filter(|_| decides || always) {
                    Some(taken) => {
                        way.decided |= !always;
                        let to = if taken { target } else { next };
                        way.back = to < way.at;
                        Next::Goes(to)
                    }
                    None => {
                        open.push(Way { at: target, back: target < way.at, ..way.clone() });
                        Next::Goes(next)
                    }
                }
            }
            FlowControl::UnconditionalBranch => {
                let target = instruction.near_branch_target();
                let same = self.code.function(way.at).map(|function| function.start)
                    == self.code.function(target).map(|function| function.start);
                if same {
                    way.back = target < way.at;
                    return Next::Goes(target);
                }
                self.jumps_out(way, Some(target), None)
            }
            FlowControl::IndirectBranch => {
                let slot =
                    instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address());
                let target = way.state.operand(instruction, 0, now).map(|value| value.bits);
                if slot.is_none() && target.is_none() {
                    return Next::Lost;
                }
                self.jumps_out(way, target, slot)
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                let (target, slot) = if instruction.flow_control() == FlowControl::Call {
                    (Some(instruction.near_branch_target()), None)
                } else {
                    let slot =
                        instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address());
                    (way.state.operand(instruction, 0, now).map(|value| value.bits), slot)
                };
                self.call(way, (target, slot), next, deep, decides, budget, open)
            }
            FlowControl::Return => Next::Returns,
            // `ud2`, `hlt`, `int3`.
            FlowControl::Interrupt | FlowControl::Exception => Next::Ends,
            FlowControl::XbeginXabortXend => Next::Lost,
        }
    }

    /// A jump out of the function: to another part of it, or a call whose return is the function's own.
    fn jumps_out(&mut self, way: &mut Way, target: Option<u64>, slot: Option<u64>) -> Next {
        match self.code.target(target, slot) {
            Target::Known(Called::Step { step, .. }) => {
                if let Some(lock) = way.state.whole(RDI) {
                    self.count(way, lock.bits, step);
                }
                Next::Returns
            }
            Target::Known(Called::Ends) => Next::Ends,
            Target::Known(Called::Nothing) | Target::Other => {
                // Into the middle of a function: the other part of one that was split.
                match target.filter(|target| slot.is_none() && self.code.instruction(*target).is_some()) {
                    Some(target) if !self.code.is_system(target) => {
                        way.back = target < way.at;
                        Next::Goes(target)
                    }
                    _ => Next::Returns,
                }
            }
            Target::Function(function) => Next::Goes(function),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "as `step`, and what is called")]
    fn call(
        &mut self,
        way: &mut Way,
        (target, slot): (Option<u64>, Option<u64>),
        next: u64,
        deep: usize,
        decides: bool,
        budget: &mut usize,
        open: &mut Vec<Way>,
    ) -> Next {
        let argument = way.state.whole(RDI).map(|value| value.bits);
        let failed = way.failed.take();
        let back_at = |way: &mut Way, result: Option<u64>| {
            way.state.forget_all_but_kept();
            way.state.set(RAX, result.map(Value::constant));
        };
        match self.code.target(target, slot) {
            Target::Known(Called::Ends) => Next::Ends,
            Target::Known(Called::Nothing) | Target::Other => {
                back_at(way, None);
                Next::Goes(next)
            }
            Target::Known(Called::Step { step, may_fail }) => {
                if may_fail {
                    let mut refused = way.clone();
                    back_at(&mut refused, None);
                    refused.at = next;
                    open.push(refused);
                }
                if let Some(lock) = argument {
                    self.count(way, lock, step);
                }
                // Locks of POSIX say 0 for success, which their callers look at; others say what is of no use here.
                back_at(way, Some(0));
                Next::Goes(next)
            }
            Target::Function(function) => {
                if let Some((lock, step)) = failed
                    && argument == Some(lock)
                {
                    self.count(way, lock, step);
                    back_at(way, None);
                    return Next::Goes(next);
                }
                if deep >= DEEP || !self.code.touches_locks(function) {
                    back_at(way, None);
                    return Next::Goes(next);
                }
                self.through(way, function, next, deep, decides, budget, open)
            }
        }
    }

    /// Through a function that is called.
    #[expect(clippy::too_many_arguments, reason = "as `call`")]
    fn through(
        &mut self,
        way: &mut Way,
        function: u64,
        next: u64,
        deep: usize,
        decides: bool,
        budget: &mut usize,
        open: &mut Vec<Way>,
    ) -> Next {
        let mut inside = way.state.clone();
        if let Some(sp) = inside.whole(RSP) {
            let sp = sp.bits.wrapping_sub(8);
            inside.set(RSP, Some(Value::constant(sp)));
            inside.store(sp, 8, Some(Value::constant(next)));
        }
        let mut own = CALL.min(*budget);
        let before = own;
        let called = self.explore(function, inside, deep + 1, false, decides, &mut own);
        *budget -= before - own;
        if called.done.is_empty() {
            if !called.lost && called.loops.is_empty() {
                // No way through it comes back: it panics.
                return Next::Ends;
            }
            way.state.forget_all_but_kept();
            return Next::Goes(next);
        }
        let mut after = called.done.into_iter().zip(called.ends).map(|(sums, mut end)| {
            let result = end.whole(RAX);
            end.keep_of(&way.state);
            end.forget_all_but_kept();
            end.set(RAX, result);
            let mut after = Way { at: next, state: end, ..way.clone() };
            for (lock, sum) in sums {
                let before =
                    after.sums.entry(lock).or_insert(Sum { net: 0, lowest: 0, mode: sum.mode, gave: false });
                let lowest = before.net.saturating_add(sum.lowest);
                if lowest < before.lowest {
                    (before.lowest, before.mode) = (lowest.max(-MOST), sum.mode);
                }
                before.gave |= sum.gave;
                before.net = before.net.saturating_add(sum.net).clamp(-MOST, MOST);
            }
            after
        });
        let Some(first) = after.next() else { return Next::Goes(next) };
        open.extend(after);
        *way = first;
        Next::Goes(next)
    }

    fn count(&self, way: &mut Way, lock: u64, step: Step) {
        if !self.locks.contains_key(&lock) {
            return;
        }
        let sum = way.sums.entry(lock).or_insert(Sum { net: 0, lowest: 0, mode: step.mode, gave: false });
        sum.gave |= !step.takes;
        sum.net = (sum.net + if step.takes { 1 } else { -1 }).clamp(-MOST, MOST);
        if sum.net < sum.lowest {
            (sum.lowest, sum.mode) = (sum.net, step.mode);
        }
    }

    /// An instruction on the word of a lock. `false`: it is none.
    fn locks_step(
        &self,
        way: &mut Way,
        instruction: &Instruction,
        now: &Now<'_>,
        open: &mut Vec<Way>,
    ) -> bool {
        let memory = (0..instruction.op_count()).find(|at| instruction.op_kind(*at) == OpKind::Memory);
        let Some(memory) = memory else { return false };
        let mnemonic = instruction.mnemonic();
        let swaps = mnemonic == Mnemonic::Xchg;
        let bytes = instruction.memory_size().size();
        let stores = mnemonic == Mnemonic::Mov && memory == 0;
        if !(instruction.has_lock_prefix() || swaps || stores) {
            return false;
        }
        let Some(address) = way.state.address(instruction) else { return false };
        let Some(family) = self.locks.get(&address).filter(|family| family.is_size(bytes)) else {
            return false;
        };
        let operand = |at: u32| way.state.operand(instruction, at, now).map(|value| value.bits);
        let step = match mnemonic {
            Mnemonic::Mov => {
                let step = operand(1).and_then(|new| family.stored(new));
                let Some(step) = step else { return false };
                self.count(way, address, step);
                return true;
            }
            Mnemonic::Cmpxchg => {
                let mask = if bytes >= 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 };
                let expected = way.state.part(RAX, bytes);
                expected
                    .zip(operand(1))
                    .and_then(|(expected, new)| family.exchanged(expected & mask, new & mask))
                    .or_else(|| family.exchanged_unknown())
            }
            Mnemonic::Xchg => operand(1 - memory).and_then(|new| family.swapped(new)),
            Mnemonic::Xadd | Mnemonic::Add => operand(1).and_then(|amount| family.added(sign(amount, bytes))),
            Mnemonic::Sub => operand(1).and_then(|amount| family.added(sign(amount, bytes).wrapping_neg())),
            Mnemonic::Inc => family.added(1),
            Mnemonic::Dec => family.added(u64::MAX),
            _ => None,
        };
        let Some(step) = step else {
            apply(&mut way.state, instruction, now);
            return true;
        };
        let may_fail = mnemonic == Mnemonic::Cmpxchg || (swaps && step.takes);
        if may_fail {
            let mut failed = way.clone();
            failed.at = instruction.next_ip();
            failed.failed = Some((address, step));
            apply(&mut failed.state, instruction, now);
            failed.state.set(RAX, failed.state.whole(RAX).filter(|_| mnemonic != Mnemonic::Cmpxchg));
            if mnemonic == Mnemonic::Cmpxchg {
                failed.state.flags = Some(Compared { a: 1, b: 0, bytes: 4, always: true });
            } else {
                set_swapped(&mut failed.state, instruction, memory, family.held_value());
            }
            open.push(failed);
        }
        apply(&mut way.state, instruction, now);
        match mnemonic {
            Mnemonic::Cmpxchg => way.state.flags = Some(Compared { a: 0, b: 0, bytes: 4, always: true }),
            Mnemonic::Xchg if step.takes => {
                set_swapped(&mut way.state, instruction, memory, family.free_value())
            }
            _ => {}
        }
        way.failed = None;
        self.count(way, address, step);
        true
    }
}

/// What `xchg` found, in the register that it swapped with.
fn set_swapped(state: &mut State, instruction: &Instruction, memory: u32, found: u64) {
    state.set_register(instruction.op_register(1 - memory), Some(Value::constant(found)));
}

enum Next {
    Goes(u64),
    Returns,
    Ends,
    Lost,
}

impl Ways {
    fn add(&mut self, way: Way) {
        if !self.done.contains(&way.sums) {
            self.done.push(way.sums);
            self.ends.push(way.state);
        }
    }
}

fn keep(known: &mut Vec<Sums>, sums: Sums) {
    if !known.contains(&sums) && known.len() < OPEN {
        known.push(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_was_somewhere_only_if_it_had_done_the_same_until_then() {
        let way = |at, sums: &[(u64, i8)]| Way {
            at,
            state: State::new(&[]),
            sums: sums
                .iter()
                .map(|(lock, net)| {
                    (*lock, Sum { net: *net, lowest: *net, mode: HoldMode::Alone, gave: *net < 0 })
                })
                .collect(),
            failed: None,
            decided: false,
            back: false,
        };
        let mut seen = Seen::default();
        for (way, is_new) in [
            (way(0x10, &[]), true),
            (way(0x10, &[]), false),
            (way(0x11, &[]), true),
            (way(0x10, &[(0x1000, -1)]), true),
            (way(0x10, &[(0x1000, 1)]), true),
            (way(0x10, &[(0x1000, -1)]), false),
            (way(0x10, &[(0x1000, -1), (0x2000, 1)]), true),
            (way(0x10, &[]), false),
        ] {
            assert_eq!(seen.insert(&way), is_new, "{:#x}, {:?}", way.at, way.sums);
        }
    }
}
