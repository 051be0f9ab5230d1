//! The code ahead of a frame: which locks it lets go of before it takes them. A lock of Go has no owner; whoever will unlock it next
//! without locking it first has it.
//!
//! From the return address on all branches are followed with what is known of registers and of the stack:
//!
//! ```text
//! mu.Unlock()         lock xadd [mu], -1      or a call of sync.(*Mutex).Unlock with rax = mu
//! mu.Lock()           lock cmpxchg [mu], 1    with rax = 0, or a call
//! rw.RUnlock()        lock xadd [rw + 16], -1
//! defer mu.Unlock()   call of a closure whose address is on the stack, rdx = closure
//! ```
//!
//! What a call clobbers is forgotten, and so is what an instruction does that is not understood: an address that is not known is no
//! lock. Each instruction is followed once in a walk.

use std::cell::Cell;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::functions::{Function, Functions};
use super::goroutine::Place;
use crate::Memory;

/// Instructions of one walk.
const INSTRUCTIONS: usize = 4_000;
/// Closures that are followed into each other.
const CALLS: usize = 4;
/// Branches that wait to be followed.
const BRANCHES: usize = 128;
/// Longest instruction.
const LONGEST: usize = 15;
/// An address that nothing has.
const FRESH: u64 = 0xffff_8000_0000_0000;
/// Stands for all locks whose address is not known.
pub(super) const UNKNOWN: u64 = u64::MAX;
/// Cases of a `select`, and the size of one.
const CASES: u64 = 64;
const CASE: u64 = 16;
/// Where a read-write lock counts its readers.
const READERS: u64 = 16;

/// How a lock is had.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Mode {
    /// A mutex.
    Mutex,
    /// A read-write lock, to read.
    Read,
    /// A read-write lock, to write.
    Write,
}

/// How often each lock is let go of more than it is taken, at the most, on some way ahead.
pub(super) type Ahead = FxHashMap<(u64, Mode), u32>;

/// What code does to a channel or a wait group that may end somebody's wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Deed {
    /// Sends to the channel, or closes it.
    Send,
    /// Takes from the channel, or closes it.
    Receive,
    /// Counts the wait group down.
    Done,
}

/// What lies ahead.
#[derive(Default, Debug)]
pub(super) struct Found {
    /// Locks that are let go of.
    pub(super) held: Ahead,
    /// What is done to channels and wait groups; an address that is not known may be any.
    pub(super) deeds: FxHashSet<(Deed, Option<u64>)>,
    /// Not all of it was followed.
    pub(super) lost: bool,
}

/// Follows code.
pub(super) struct Walker<'f, 'm, 'i> {
    memory: &'m Memory<'i>,
    functions: &'f Functions<'m, 'i>,
    left: Cell<usize>,
}

/// What one step of a way is taken with.
struct Step<'a> {
    follows: bool,
    function: &'a Function,
    ways: &'a mut Vec<Way>,
    ahead: &'a mut Found,
}

/// What is known on one way.
#[derive(Clone)]
struct Way {
    pc: u64,
    registers: [Option<u64>; 16],
    /// What was stored on the way, by address: how many bytes, 8 at the most, and what; `None`: something that is not known.
    stored: FxHashMap<u64, (u64, Option<u64>)>,
    /// Where calls return to that were followed.
    returns: Vec<u64>,
    sums: FxHashMap<(u64, Mode), i32>,
}

impl<'f, 'm, 'i> Walker<'f, 'm, 'i> {
    pub(super) fn new(memory: &'m Memory<'i>, functions: &'f Functions<'m, 'i>, most: usize) -> Self {
        Self { memory, functions, left: Cell::new(most) }
    }

    /// All instructions that may be followed have been.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }

    /// Walks on from `start`; `closure` is in `rdx`. `follows`: through functions of the program too.
    pub(super) fn ahead(&self, start: Place, closure: Option<u64>, follows: bool) -> Found {
        let mut ahead = Found::default();
        let mut seen: FxHashSet<(u64, Vec<u64>)> = FxHashSet::default();
        let mut factory = InstructionInfoFactory::new();
        let mut registers = [None; 16];
        registers[number(Register::RSP).unwrap_or(0)] = Some(start.sp);
        registers[number(Register::RDX).unwrap_or(0)] = closure;
        let way = Way {
            pc: start.pc,
            registers,
            stored: FxHashMap::default(),
            returns: Vec::new(),
            sums: FxHashMap::default(),
        };
        let mut ways = vec![way];
        let mut left = INSTRUCTIONS.min(self.left.get());
        let before = left;
        while let Some(mut way) = ways.pop() {
            while left > 0 && seen.insert((way.pc, way.returns.clone())) {
                left -= 1;
                let Some(function) = self.functions.find(way.pc) else { break };
                let Some(instruction) = self.decode(&function, way.pc) else { break };
                let mut step = Step { follows, function: &function, ways: &mut ways, ahead: &mut ahead };
                if !self.step(&mut way, &instruction, &mut factory, &mut step) {
                    break;
                }
            }
        }
        ahead.lost |= left == 0;
        self.left.set(self.left.get().saturating_sub(before - left));
        ahead
    }

    fn decode(&self, function: &Function, pc: u64) -> Option<Instruction> {
        let mut bytes = [0; LONGEST];
        let room = usize::try_from(function.end.checked_sub(pc)?).map_or(LONGEST, |room| room.min(LONGEST));
        let read = self.memory.read_available(pc, bytes.get_mut(..room)?);
        let mut decoder = Decoder::with_ip(64, bytes.get(..read)?, pc, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Follows one instruction; false: the way ends.
    fn step(
        &self,
        way: &mut Way,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
        step: &mut Step<'_>,
    ) -> bool {
        let next = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next => {
                self.compute(way, instruction, factory, &mut step.ahead.held);
                way.pc = next;
                true
            }
            FlowControl::ConditionalBranch => {
                if step.ways.len() < BRANCHES {
                    step.ways.push(Way { pc: instruction.near_branch_target(), ..way.clone() });
                } else {
                    step.ahead.lost = true;
                }
                way.pc = next;
                true
            }
            FlowControl::UnconditionalBranch => {
                way.pc = instruction.near_branch_target();
                if (step.function.entry..step.function.end).contains(&way.pc) {
                    return true;
                }
                // A call whose return is ours.
                let target = way.pc;
                self.call(way, Some(target), None, step) && way.ret()
            }
            FlowControl::Call => self.call(way, Some(instruction.near_branch_target()), Some(next), step),
            FlowControl::IndirectCall => {
                let target = self.operand(way, instruction, 0);
                self.call(way, target, Some(next), step)
            }
            FlowControl::Return => way.ret(),
            FlowControl::IndirectBranch
            | FlowControl::Interrupt
            | FlowControl::XbeginXabortXend
            | FlowControl::Exception => false,
        }
    }

    /// A call; false: it does not return. `next`: where it returns to, for one that may be followed.
    fn call(&self, way: &mut Way, target: Option<u64>, next: Option<u64>, step: &mut Step<'_>) -> bool {
        let function = target.and_then(|target| self.functions.find(target));
        let name = function.as_ref().map_or("", |function| &*function.name);
        let first = way.get(Register::RAX);
        let held = &mut step.ahead.held;
        match name.strip_prefix("internal/").unwrap_or(name) {
            "sync.(*Mutex).Unlock" => way.note(first, Mode::Mutex, 1, held),
            "sync.(*Mutex).Lock" => way.note(first, Mode::Mutex, -1, held),
            "sync.(*RWMutex).Unlock" => way.note(first, Mode::Write, 1, held),
            "sync.(*RWMutex).Lock" => way.note(first, Mode::Write, -1, held),
            "sync.(*RWMutex).RUnlock" => way.note(first, Mode::Read, 1, held),
            "sync.(*RWMutex).RLock" => way.note(first, Mode::Read, -1, held),
            "runtime.gopanic" | "runtime.throw" | "runtime.fatal" | "runtime.Goexit" | "os.Exit" => {
                return false;
            }
            name if name.starts_with("runtime.goPanic") || name.starts_with("runtime.panic") => return false,
            name if self.deed(way, name, step.ahead) => {}
            name if (is_closure(name) || (step.follows && is_of_program(name)))
                && way.returns.len() < CALLS =>
            {
                if let (Some(target), Some(next)) = (target, next) {
                    way.push(Some(next));
                    way.returns.push(next);
                    way.pc = target;
                    return true;
                }
            }
            _ => {}
        }
        way.clobber();
        // What is made on the way is none of what anybody waits for now.
        if matches!(name, "runtime.makechan" | "runtime.makechan64" | "runtime.newobject") {
            way.set(Register::RAX, Some(FRESH));
        }
        way.pc = next.unwrap_or(way.pc);
        true
    }

    /// Calls of the runtime that end what others wait for. `false`: it is none.
    fn deed(&self, way: &Way, name: &str, found: &mut Found) -> bool {
        let first = way.get(Register::RAX);
        match name {
            "runtime.chansend1" | "runtime.selectnbsend" => drop(found.deeds.insert((Deed::Send, first))),
            "runtime.chanrecv1" | "runtime.chanrecv2" => drop(found.deeds.insert((Deed::Receive, first))),
            "runtime.selectnbrecv" => {
                found.deeds.insert((Deed::Receive, way.get(Register::RBX)));
            }
            "runtime.closechan" => found.deeds.extend([(Deed::Send, first), (Deed::Receive, first)]),
            "runtime.selectgo" => self.select(way, first, found),
            "sync.(*WaitGroup).Done" => drop(found.deeds.insert((Deed::Done, first))),
            "sync.(*WaitGroup).Add" => {
                if way.get(Register::RBX).is_none_or(|count| count.cast_signed() < 0) {
                    found.deeds.insert((Deed::Done, first));
                }
            }
            _ => return false,
        }
        true
    }

    /// `selectgo(cases, order, pc, sends, receives, block)`: a case is a channel and what is sent or taken.
    fn select(&self, way: &Way, cases: Option<u64>, found: &mut Found) {
        let (sends, receives) = (way.get(Register::RDI), way.get(Register::RSI));
        let (Some(cases), Some(sends), Some(receives)) = (cases, sends, receives) else {
            found.deeds.extend([(Deed::Send, None), (Deed::Receive, None)]);
            return;
        };
        for index in 0..sends.saturating_add(receives).min(CASES) {
            let deed = if index < sends { Deed::Send } else { Deed::Receive };
            found.deeds.insert((deed, self.load(way, cases.wrapping_add(index * CASE))));
        }
    }

    /// Any other instruction.
    fn compute(
        &self,
        way: &mut Way,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
        ahead: &mut Ahead,
    ) {
        let wide = |register: Register| register.is_gpr64() || register.is_gpr32();
        let to_register = instruction.op0_kind() == OpKind::Register && wide(instruction.op0_register());
        match instruction.mnemonic() {
            Mnemonic::Mov if to_register => {
                let value = self.operand(way, instruction, 1);
                way.set(instruction.op0_register(), value);
            }
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Memory => {
                let value = self.operand(way, instruction, 1);
                let size = instruction.memory_size().size() as u64;
                if let Some(at) = way.address(instruction) {
                    way.store(at, size, value);
                }
            }
            Mnemonic::Lea if to_register => {
                let value = way.address(instruction);
                way.set(instruction.op0_register(), value);
            }
            Mnemonic::Add | Mnemonic::Sub if to_register => {
                let operands = (self.operand(way, instruction, 0), self.operand(way, instruction, 1));
                let value = match operands {
                    (Some(a), Some(b)) if instruction.mnemonic() == Mnemonic::Add => Some(a.wrapping_add(b)),
                    (Some(a), Some(b)) => Some(a.wrapping_sub(b)),
                    _ => None,
                };
                way.set(instruction.op0_register(), value);
            }
            Mnemonic::Xor
                if to_register
                    && instruction.op1_kind() == OpKind::Register
                    && instruction.op0_register() == instruction.op1_register() =>
            {
                way.set(instruction.op0_register(), Some(0));
            }
            Mnemonic::Push => {
                let value = self.operand(way, instruction, 0);
                way.push(value);
            }
            Mnemonic::Pop if to_register => {
                let top = way.get(Register::RSP);
                let value = top.and_then(|top| self.load(way, top));
                way.set(instruction.op0_register(), value);
                way.set(Register::RSP, top.map(|top| top.wrapping_add(8)));
            }
            Mnemonic::Xadd if instruction.op0_kind() == OpKind::Memory => {
                let change = self.operand(way, instruction, 1).map(|change| (change as u32).cast_signed());
                if let Some(change @ (1 | -1)) = change {
                    let at = way.address(instruction);
                    // Which of the two it is is known by who waits for it.
                    if change == -1 {
                        way.note(at, Mode::Mutex, 1, ahead);
                    }
                    // Where its address is not known, it counts once.
                    if let Some(at) = at.and_then(|at| at.checked_sub(READERS)) {
                        way.note(Some(at), Mode::Read, -change, ahead);
                    }
                }
                way.set(instruction.op1_register(), None);
            }
            Mnemonic::Cmpxchg if instruction.op0_kind() == OpKind::Memory => {
                let takes = self.operand(way, instruction, 1).map(|value| value as u32) == Some(1)
                    && way.get(Register::RAX).map(|value| value as u32) == Some(0);
                if takes {
                    way.note(way.address(instruction), Mode::Mutex, -1, ahead);
                }
                way.set(Register::RAX, None);
            }
            _ => {
                let info = factory.info(instruction);
                let writes = |access| {
                    matches!(
                        access,
                        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
                    )
                };
                for used in info.used_registers().iter().filter(|used| writes(used.access())) {
                    way.set(used.register().full_register(), None);
                }
                if info.used_memory().iter().any(|used| writes(used.access()))
                    && let Some(at) = way.address(instruction)
                {
                    way.store(at, instruction.memory_size().size() as u64, None);
                }
            }
        }
    }

    fn operand(&self, way: &Way, instruction: &Instruction, operand: u32) -> Option<u64> {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                let value = way.get(register.full_register())?;
                match register.size() {
                    8 => Some(value),
                    4 => Some(value & 0xffff_ffff),
                    _ => None,
                }
            }
            OpKind::Memory => {
                let value = self.load(way, way.address(instruction)?)?;
                match instruction.memory_size().size() {
                    8 => Some(value),
                    4 => Some(value & 0xffff_ffff),
                    _ => None,
                }
            }
            OpKind::NearBranch64 => Some(instruction.near_branch_target()),
            _ => instruction.try_immediate(operand).ok(),
        }
    }

    /// Eight bytes, of what was stored on the way, or of memory.
    fn load(&self, way: &Way, at: u64) -> Option<u64> {
        if let Some((8, value)) = way.stored.get(&at) {
            return *value;
        }
        // Of something else that was stored it may be a part.
        let near = (0..8u64).any(|by| {
            let reaches = |(size, _): &(u64, _)| *size > by;
            way.stored.get(&at.wrapping_sub(by)).is_some_and(reaches)
                || by > 0 && way.stored.contains_key(&at.wrapping_add(by))
        });
        if near { None } else { self.memory.u64(at).or_else(|| self.memory.u32(at).map(u64::from)) }
    }
}

impl Way {
    fn get(&self, register: Register) -> Option<u64> {
        *self.registers.get(number(register)?)?
    }

    fn set(&mut self, register: Register, value: Option<u64>) {
        let value = if register.size() == 4 { value.map(|value| value & 0xffff_ffff) } else { value };
        if let Some(slot) = number(register.full_register()).and_then(|number| self.registers.get_mut(number))
        {
            *slot = value;
        }
    }

    fn address(&self, instruction: &Instruction) -> Option<u64> {
        if instruction.has_segment_prefix() {
            return None;
        }
        instruction.virtual_address(
            (0..instruction.op_count()).find(|operand| instruction.op_kind(*operand) == OpKind::Memory)?,
            0,
            |register, _, _| match register {
                // Segments begin at 0, but for those of threads.
                Register::DS | Register::SS | Register::ES | Register::CS => Some(0),
                _ => self.get(register),
            },
        )
    }

    fn store(&mut self, at: u64, size: u64, value: Option<u64>) {
        let size = size.clamp(1, 64);
        for cell in (0..size).step_by(8) {
            let value = if size == 8 { value } else { None };
            self.stored.insert(at.wrapping_add(cell), ((size - cell).min(8), value));
        }
    }

    fn push(&mut self, value: Option<u64>) {
        let Some(top) = self.get(Register::RSP).map(|top| top.wrapping_sub(8)) else { return };
        self.set(Register::RSP, Some(top));
        self.stored.insert(top, (8, value));
    }

    /// Go keeps nothing in registers over a call but the stack's.
    fn clobber(&mut self) {
        let keep = [Register::RSP, Register::RBP].map(|register| (register, self.get(register)));
        self.registers = [None; 16];
        for (register, value) in keep {
            self.set(register, value);
        }
    }

    /// Back from a call that was followed; false: from where the walk began.
    fn ret(&mut self) -> bool {
        let Some(to) = self.returns.pop() else { return false };
        let top = self.get(Register::RSP);
        self.clobber();
        self.set(Register::RSP, top.map(|top| top.wrapping_add(8)));
        self.pc = to;
        true
    }

    fn note(&mut self, lock: Option<u64>, mode: Mode, change: i32, ahead: &mut Ahead) {
        let lock = lock.unwrap_or(UNKNOWN);
        let sum = self.sums.entry((lock, mode)).or_default();
        *sum = sum.saturating_add(change);
        if let Ok(held) = u32::try_from(*sum)
            && held > 0
        {
            let most = ahead.entry((lock, mode)).or_default();
            *most = held.max(*most);
        }
    }
}

fn number(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

/// `main.transfer.func1`, `main.transfer.deferwrap2`: what `defer` calls.
fn is_closure(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let numbered = |prefix: &str| {
        last.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    ["func", "deferwrap", "dwrap", "gowrap"].into_iter().any(numbered)
}

/// Not of the standard library, by the first part of its package's path. What has a host's name in it is of somebody else.
pub(super) fn is_of_program(name: &str) -> bool {
    const STANDARD: &str = " archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt \
                            go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime \
                            slices sort strconv strings structs sync syscall testing text time type unicode unique vendor weak ";
    let package = name.split(['/', '.']).next().unwrap_or_default();
    let is_host = name.split_once('/').is_some_and(|(first, _)| first.contains('.'));
    !package.is_empty() && (is_host || !STANDARD.contains(&format!(" {package} ")))
}

#[cfg(test)]
mod tests {
    use super::{is_closure, is_of_program};

    #[test]
    fn the_program_is_told_from_the_standard_library() {
        assert!(
            ["main.work", "github.com/a/b.(*T).M", "store.Open", "golang.org/x/sync.F"]
                .iter()
                .all(|name| is_of_program(name))
        );
        assert!(
            !["net/http.Get", "sync.(*Mutex).Lock", "runtime.gopark", "", "type..eq.x"]
                .iter()
                .any(|name| is_of_program(name))
        );
    }

    #[test]
    fn closures_are_known_by_their_names() {
        let closures = [
            "main.transfer.deferwrap1",
            "main.main.func2",
            "main.work·dwrap·1.dwrap1",
            "a.b.func1.deferwrap2",
        ];
        assert!(closures.iter().all(|name| is_closure(name)));
        assert!(
            !["main.function", "main.func", "sync.(*Mutex).Unlock", ""].iter().any(|name| is_closure(name))
        );
    }
}
