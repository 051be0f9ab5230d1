//! What a process died of.

use biopsy_image::{CrashKind, GeneralRegisters, Image, Mapping, MemoryExt, mapping};
use biopsy_model::{Avma, Tid};
use biopsy_stacks::image::{Frame, ImageStacks, ThreadStack};

use super::crash_reasons;
use super::facts::DumpFacts;
use super::frame_rows;
use super::handled;
use super::instruction::{self, Access, Instruction};
use super::places::{self, StackPlace};
use super::signal;
use super::strand_place;
use super::thrown::{self, Thrown};

/// Addresses below are a null pointer plus an offset: the kernel maps nothing there (`vm.mmap_min_addr` is 65536).
const NULL_REACH: u64 = 0x1_0000;
/// How far below a stack's end an access still is that stack growing: compilers probe page by page, alloca does not.
const STACK_REACH: u64 = 1 << 20;
/// A message of an abort is a line.
const MESSAGE: usize = 1024;

/// What a process died of.
#[derive(Clone, PartialEq, Debug)]
pub struct Crash {
    /// The thread it happened in.
    pub thread: Tid,
    /// Number of the signal; 0 for an exception of another system.
    pub signal: i32,
    /// Its name.
    pub signal_name: String,
    /// What it means.
    pub meaning: &'static str,
    /// The signal by which a handler of this one ended the process, where that is another thing than the fault itself.
    pub ended_by: Option<String>,
    /// `si_code`, and what it says.
    pub code: Option<(i32, Option<&'static str>)>,
    /// Number of the system call that a filter did not allow.
    pub filtered: Option<u32>,
    /// Somebody wanted it to end, or told it something: what the thread did is where it was met.
    pub from_outside: bool,
    /// The process that sent it, when it was sent.
    pub sender: Option<u32>,
    /// The address that was accessed, by the kernel or by the instruction.
    pub address: Option<Avma>,
    /// What kind of address that is.
    pub address_kind: Option<AddressKind>,
    /// How it was accessed.
    pub access: Option<Access>,
    /// The instruction.
    pub instruction: Option<Instruction>,
    /// Where in the program it happened.
    pub place: Option<StackPlace>,
    /// What the functions on the way say of the reason, in words.
    pub reason: Option<&'static str>,
    /// What was thrown, where that is why it ended.
    pub thrown: Option<Thrown>,
    /// What the C library said before it aborted, redacted.
    pub message: Option<String>,
    /// There is a message, and it is not shown because nobody redacts it.
    pub message_withheld: bool,
}

/// What kind of address a fault was at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressKind {
    /// A null pointer plus an offset.
    Null {
        /// The offset in bytes.
        offset: u64,
    },
    /// Below the end of the thread's stack.
    StackOverflow {
        /// Size of the stack in bytes.
        stack: u64,
    },
    /// In a mapping that allows nothing: a guard page, or memory that is reserved only.
    Guard,
    /// In no mapping.
    Unmapped,
    /// Not an address of this architecture: bits 47 to 63 are not equal.
    NonCanonical,
    /// A pattern that allocators write over freed or fresh memory.
    Poison {
        /// Which, in words.
        pattern: &'static str,
    },
    /// Its bytes are printable: a pointer was overwritten with text.
    Text,
    /// Of the kernel's half.
    Kernel,
    /// Mapped, and may not be executed.
    NotExecutable,
    /// Mapped, and may not be written.
    ReadOnly,
    /// Memory of its own that may not be written. Dumps of gdb do not tell a guard page from it.
    Protected,
    /// Mapped from a file, and the file has nothing there.
    BehindFile,
    /// Mapped and accessible, as far as the dump tells.
    Accessible,
    /// The dump does not tell what was mapped.
    NotReported,
}

impl AddressKind {
    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Null { offset: 0 } => "a null pointer".to_owned(),
            Self::Null { offset } => {
                format!("a null pointer plus {offset} bytes: a field of an object that is not there")
            }
            Self::StackOverflow { stack } => format!(
                "just below the thread's stack of {}: the stack overflowed",
                crate::words::bytes(*stack as f64)
            ),
            Self::Guard => "in a guard page, or in memory that is only reserved".to_owned(),
            Self::Unmapped => {
                "not mapped: the memory was given back, or the pointer was never right".to_owned()
            }
            Self::NonCanonical => {
                "not an address at all (not canonical): the pointer was overwritten".to_owned()
            }
            Self::Poison { pattern } => format!("a pattern, not an address: {pattern}"),
            Self::Text => "eight printable characters: the pointer was overwritten with text".to_owned(),
            Self::Kernel => "an address of the kernel".to_owned(),
            Self::NotExecutable => "data, which cannot be executed".to_owned(),
            Self::ReadOnly => "memory that may only be read".to_owned(),
            Self::Protected => "memory that may not be written: a guard page, or made read-only".to_owned(),
            Self::BehindFile => "in a mapped file, behind the file's end".to_owned(),
            Self::Accessible => "mapped and accessible, as far as the dump tells".to_owned(),
            Self::NotReported => "not in the dump, which does not tell what was mapped".to_owned(),
        }
    }

    /// The address itself may be shown: it is not contents of memory that was taken for an address.
    #[must_use]
    pub fn may_be_shown(&self) -> bool {
        !matches!(self, Self::Text)
    }
}

pub(super) fn find(image: &dyn Image, stacks: &ImageStacks, facts: &DumpFacts<'_>) -> Option<Crash> {
    if let Some(reported) =
        image.crash().filter(|reported| !matches!(reported.kind, CrashKind::Signal { .. }))
    {
        return foreign(image, stacks, facts, reported);
    }
    let filtered = image.threads().iter().find(|thread| {
        let number = thread.signal.as_ref().map_or(0, |signal| signal.number);
        signal::is_filtered(number, thread.registers.as_ref())
    });
    let crashed = filtered.into_iter().chain(image.threads()).find_map(|thread| {
        let signal = thread.signal.as_ref()?;
        // Debuggers stop at others that the program handles; biopsy holds a thread at one only where that ends the process.
        let ends = || facts.kind.is_some() && signal::ending_meaning(signal.number).is_some();
        (signal::is_fatal(signal.number, signal.code) || ends()).then_some((thread, signal))
    });
    let (thread, signal) = crashed?;
    let stack = stacks.of(thread.tid);
    // One that was sent, by a handler of the fault itself.
    let sent = signal.number == 6 || signal.code.is_some_and(|code| code <= 0);
    let handled = stack.filter(|_| sent).and_then(|stack| handled::fault(image, stack));
    let number = handled.as_ref().map_or(signal.number, |first| first.number);
    let code = handled.as_ref().map_or(signal.code, |first| Some(first.code));
    let registers = handled.as_ref().map(|first| &first.registers).or(thread.registers.as_ref());
    let bytes = match (&handled, stack) {
        (Some(first), _) => first.bytes.as_slice(),
        // In a handler of a crash it is the handler's.
        (None, Some(stack)) if handled::crashed_at(image, stack).is_none() => stack.code.as_slice(),
        (None, _) => &[],
    };
    let decoded =
        registers.filter(|_| !bytes.is_empty()).and_then(|registers| instruction::decode(bytes, registers));
    let frames = stack.map_or(&[][..], |stack| handled::frames_of_crash(image, stack));
    let has_code = !bytes.is_empty();
    let fault = Fault { image, registers, frames, has_code, decoded: decoded.as_ref(), number };
    let told = handled.as_ref().map_or(signal.address, |first| Some(Avma(first.address)));
    let reported = told.filter(|address| match code {
        Some(_) => signal::has_address(number, code),
        // Without a code it may have been sent, and then the address is none: the instruction tells.
        None => fault.touches(address.0),
    });
    let (address, access) = fault.address(reported.map(|address| address.0), code);
    let address_kind = address.map(|address| fault.classify(address, access));
    let overflown = matches!(address_kind, Some(AddressKind::StackOverflow { .. }));
    let place = stack.and_then(|stack| place_of(image, stacks, stack, facts, overflown));
    let raw = abort_message(image, stacks).filter(|_| signal.number == 6);
    Some(Crash {
        thread: thread.tid,
        signal: number,
        signal_name: CrashKind::signal_name(number),
        meaning: signal::meaning(number),
        ended_by: handled.is_some().then(|| CrashKind::signal_name(signal.number)),
        code: code.map(|code| (code, signal::code_words(number, code))),
        filtered: thread.registers.as_ref().filter(|_| number == 31).and_then(|registers| {
            // Where a handler may have it, the call is over and its number is in `siginfo_t`.
            let told = signal
                .info
                .as_ref()
                .and_then(|info| Some(u32::from_le_bytes(*info.get(24..28)?.first_chunk()?)));
            u32::try_from(registers.orig_rax).ok().or(told.filter(|_| code == Some(1)))
        }),
        from_outside: signal::is_from_outside(number),
        sender: signal::sender(signal.info.as_deref(), code).filter(|pid| *pid != image.process().pid.0),
        address_kind,
        address: address.map(Avma),
        access,
        place,
        reason: stack
            .and_then(|stack| reason(stacks, stack, facts))
            .or_else(|| raw.as_deref().and_then(crash_reasons::by_message)),
        thrown: stack.and_then(|stack| {
            thrown::find(image, facts.files, stacks, stack, facts.redact).or_else(|| panic(stack, facts))
        }),
        message_withheld: raw.is_some() && facts.redact.is_none(),
        message: raw.zip(facts.redact).map(|(raw, redact)| redact(&raw)),
        instruction: decoded.filter(|_| number != 6),
    })
}

/// An exception of another system: its own words, and what can be known of the address.
fn foreign(
    image: &dyn Image,
    stacks: &ImageStacks,
    facts: &DumpFacts<'_>,
    reported: &biopsy_image::Crash,
) -> Option<Crash> {
    let thread = image.threads().iter().find(|thread| Some(thread.tid) == reported.thread)?;
    let stack = stacks.of(thread.tid);
    let decoded = stack.zip(thread.registers.as_ref()).and_then(|(stack, registers)| {
        (!stack.code.is_empty()).then(|| instruction::decode(&stack.code, registers)).flatten()
    });
    // As SIGSEGV, whose rules are the same.
    let frames = stack.map_or(&[][..], |stack| stack.frames.as_slice());
    let has_code = stack.is_some_and(|stack| !stack.code.is_empty());
    let registers = thread.registers.as_ref();
    let fault = Fault { image, registers, frames, has_code, decoded: decoded.as_ref(), number: 11 };
    let (address, access) = fault.address(reported.address.map(|address| address.0), Some(1));
    let address = reported.address.and(address);
    let place = stack.and_then(|stack| place_of(image, stacks, stack, facts, false));
    Some(Crash {
        thread: thread.tid,
        signal: 0,
        signal_name: reported.description.clone(),
        meaning: match reported.kind {
            CrashKind::MacCrash { signal: 6 } => signal::meaning(6),
            _ if address.is_some() => signal::meaning(11),
            _ => "an exception",
        },
        ended_by: None,
        code: None,
        filtered: None,
        from_outside: false,
        sender: None,
        address_kind: address.map(|address| fault.classify(address, access)),
        address: address.map(Avma),
        access,
        instruction: decoded,
        place,
        reason: stack.and_then(|stack| reason(stacks, stack, facts)),
        thrown: None,
        message: None,
        message_withheld: false,
    })
}

struct Fault<'a> {
    image: &'a dyn Image,
    registers: Option<&'a GeneralRegisters>,
    /// From where it happened on.
    frames: &'a [Frame],
    /// The code there is in the dump.
    has_code: bool,
    decoded: Option<&'a Instruction>,
    number: i32,
}

impl Fault<'_> {
    /// Whether the instruction accesses the address, or is at it.
    fn touches(&self, address: u64) -> bool {
        let operands = self.decoded.map(|decoded| decoded.operands.as_slice()).unwrap_or_default();
        self.registers.is_some_and(|registers| registers.rip == address)
            || operands.iter().any(|operand| is_in(operand, address))
    }

    /// The kernel's address, else what the instruction accesses; and how.
    fn address(&self, reported: Option<u64>, code: Option<i32>) -> (Option<u64>, Option<Access>) {
        if !matches!(self.number, 7 | 11) {
            return (None, None);
        }
        let Some(registers) = self.registers else { return (reported, None) };
        let operands = self.decoded.map(|decoded| decoded.operands.as_slice()).unwrap_or_default();
        match reported {
            Some(address) if address == registers.rip => (reported, Some(Access::Execute)),
            Some(address) => {
                // The operand that reaches the address: a wide access may fault in its middle.
                let hit = operands.iter().find(|operand| is_in(operand, address));
                let access =
                    hit.or(operands.first().filter(|_| operands.len() == 1)).map(|operand| operand.access);
                (reported, access)
            }
            // A general protection fault has no address: what is not canonical is in the registers.
            None if code.is_none_or(|code| code == 0x80) => {
                if !self.has_code && !canonical(registers.rip) {
                    return (Some(registers.rip), Some(Access::Execute));
                }
                // It takes the next instruction's address from the stack.
                let returns = self.decoded.is_some_and(|decoded| decoded.text.starts_with("ret"));
                let to = operands
                    .first()
                    .filter(|_| returns)
                    .and_then(|top| self.image.read_u64(top.address.0).ok());
                if let Some(to) = to.filter(|to| !canonical(*to)) {
                    return (Some(to), Some(Access::Execute));
                }
                let odd = operands.iter().find(|operand| !canonical(operand.address.0));
                (odd.map(|operand| operand.address.0), odd.map(|operand| operand.access))
            }
            None => (None, None),
        }
    }

    fn classify(&self, address: u64, access: Option<Access>) -> AddressKind {
        let base = self.decoded.and_then(|decoded| {
            let operand = decoded.operands.iter().find(|operand| operand.address == Avma(address))?;
            operand.base.as_ref().map(|(_, value)| *value)
        });
        for value in [Some(address), base].into_iter().flatten() {
            if let Some(pattern) = poison(value) {
                return AddressKind::Poison { pattern };
            }
            if is_text(value) {
                return AddressKind::Text;
            }
        }
        if address < NULL_REACH {
            return AddressKind::Null { offset: address };
        }
        if !canonical(address) {
            return AddressKind::NonCanonical;
        }
        if address >> 47 != 0 {
            return AddressKind::Kernel;
        }
        let mappings = self.image.mappings();
        let found = mapping::find(mappings, address);
        if let Some(stack) = self.overflown(address, found) {
            return AddressKind::StackOverflow { stack };
        }
        let Some(found) = found else {
            let is_in_module =
                self.image.modules().iter().any(|module| (module.start..module.end).contains(&address));
            return match (is_in_module, self.image.process().mappings_not_told) {
                (true, _) => AddressKind::Accessible,
                (false, true) => AddressKind::NotReported,
                (false, false) => AddressKind::Unmapped,
            };
        };
        let allowed = found.protection;
        if !(allowed.read || allowed.write || allowed.execute) {
            return AddressKind::Guard;
        }
        match access {
            Some(Access::Execute) if !allowed.execute => AddressKind::NotExecutable,
            Some(Access::Write) if !allowed.write && found.path().is_some() => AddressKind::ReadOnly,
            Some(Access::Write) if !allowed.write => AddressKind::Protected,
            _ if self.number == 7 && found.path().is_some() => AddressKind::BehindFile,
            _ => AddressKind::Accessible,
        }
    }

    /// Size of the stack that ends just above `address`.
    fn overflown(&self, address: u64, at: Option<&Mapping>) -> Option<u64> {
        let registers = self.registers?;
        let accessible = |mapping: &Mapping| mapping.protection.write;
        if at.is_some_and(accessible) {
            return None;
        }
        // The stack is where its callers have their frames: the innermost frame may be below it already.
        let sp = self.frames.get(1..).unwrap_or_default().iter().map(|frame| frame.sp.0);
        let inside = sp
            .chain([registers.rsp])
            .find_map(|sp| mapping::find(self.image.mappings(), sp).filter(|one| accessible(one)))?;
        let below = inside.start.checked_sub(address)?;
        let near = registers.rsp < inside.start.saturating_add(64 << 10);
        (below > 0 && below <= STACK_REACH && near).then(|| inside.size())
    }
}

fn is_in(operand: &instruction::Operand, address: u64) -> bool {
    address.wrapping_sub(operand.address.0) < u64::from(operand.bytes.max(1))
}

/// Bits 47 to 63 are equal.
fn canonical(address: u64) -> bool {
    let top = address.cast_signed() >> 47;
    top == 0 || top == -1
}

/// Patterns of allocators and debuggers, with room for an offset in the lowest two bytes.
fn poison(address: u64) -> Option<&'static str> {
    const PATTERNS: &[(u64, &str)] = &[
        (0xdddd_dddd_dddd, "`0xdd…`, as debugging allocators write over freed memory"),
        (0xdead_beef_dead, "`0xdeadbeef…`, as many programs mark memory that is gone"),
        (0xdead_dead_dead, "`0xdead…`, as many programs mark memory that is gone"),
        (0xfeee_feee_feee, "`0xfeee…`, as debugging allocators write over freed memory"),
        (0xefef_efef_efef, "`0xef…`, as debugging allocators write over freed memory"),
        (0x5a5a_5a5a_5a5a, "`0x5a…`, as jemalloc writes over freed memory"),
        (0xa5a5_a5a5_a5a5, "`0xa5…`, as jemalloc fills fresh memory"),
        (0x6b6b_6b6b_6b6b, "`0x6b…`, as the kernel's allocator writes over freed memory"),
        (0xcdcd_cdcd_cdcd, "`0xcd…`, as debugging allocators fill fresh memory"),
        (0xcccc_cccc_cccc, "`0xcc…`, as debugging compilers fill fresh variables"),
        (0xabab_abab_abab, "`0xab…`, as debugging allocators write behind a block"),
        (0xbaad_f00d_baad, "`0xbaadf00d…`, as debugging allocators fill fresh memory"),
    ];
    PATTERNS.iter().find(|(pattern, _)| address >> 16 == *pattern).map(|(_, words)| *words)
}

/// At least seven of its bytes are printable, which makes it no address.
fn is_text(address: u64) -> bool {
    !canonical(address)
        && address.to_le_bytes().iter().filter(|byte| (0x20..0x7f).contains(*byte)).count() >= 7
}

/// Rows that are looked at: a stack that overflowed has more, and they are alike.
const ROWS: usize = 4_096;
/// And at its outer end, where the recursion began.
const OUTER_ROWS: usize = 256;

/// Where in the program a thread was when it crashed. What a handler of the crash did afterwards (write a dump, wait for that) says
/// nothing of the reason.
fn place_of(
    image: &dyn Image,
    stacks: &ImageStacks,
    stack: &ThreadStack,
    facts: &DumpFacts<'_>,
    overflown: bool,
) -> Option<StackPlace> {
    let frames = handled::frames_of_crash(image, stack);
    let mut rows = frame_rows::rows(stacks, frames.get(..ROWS).unwrap_or(frames));
    // Where only a library recurses (what drops a list, a parser, a sort), the program is at the other end of the stack.
    if overflown && frames.len() > ROWS {
        let from = frames.len().saturating_sub(OUTER_ROWS).max(ROWS);
        rows.extend(frame_rows::rows(stacks, frames.get(from..).unwrap_or_default()));
    }
    let strand = strand_place::on_thread(facts.strands.iter(), stack.tid);
    let place = places::of(&rows, strand)?;
    let recurses = overflown.then(|| places::recursing(&rows, strand, &place)).flatten();
    Some(recurses.unwrap_or(place))
}

/// The panic of the goroutine on this thread.
fn panic(stack: &ThreadStack, facts: &DumpFacts<'_>) -> Option<Thrown> {
    let (_, strand) = strand_place::on_thread(facts.strands.iter(), stack.tid)?;
    let message = strand.panics_with.as_deref().zip(facts.redact).map(|(text, redact)| redact(text))?;
    Some(Thrown { type_name: None, message: Some(message.replace(['\n', '\r'], " ")) })
}

/// What the functions on the way say of the reason: those of the thread, and of the strand on it.
fn reason(stacks: &ImageStacks, stack: &ThreadStack, facts: &DumpFacts<'_>) -> Option<&'static str> {
    let frames = stack.frames.iter().take(64).filter_map(|frame| stacks.place(frame.place));
    let native = frames.flat_map(|place| &place.functions).map(|function| function.name.as_str());
    let strand = strand_place::on_thread(facts.strands.iter(), stack.tid);
    let strand = strand.map_or(&[][..], |(_, strand)| strand.frames.as_slice());
    crash_reasons::by_functions(native.chain(strand.iter().take(64).map(|frame| &*frame.function)))
}

/// struct abort_msg_s of glibc: u32 size (of the mapping), then the text.
fn abort_message(image: &dyn Image, stacks: &ImageStacks) -> Option<String> {
    let message = image.read_u64(stacks.abort_message?.0).ok().filter(|pointer| *pointer != 0)?;
    let text = image.read_c_string(message.checked_add(4)?, MESSAGE).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.trim_end().replace(['\n', '\r'], " ");
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests;
