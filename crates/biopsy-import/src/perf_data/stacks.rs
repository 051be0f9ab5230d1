//! From a sample to an interned stack.

use super::attr::Attr;
use super::record::Sample;
use super::spaces::Spaces;
use crate::Limits;
use biopsy_model::stack::{Frame, FrameHandle, StackEnd, StackHandle, StackNode};
use biopsy_model::{Avma, Pid};
use biopsy_stacks::unwind::{StackMemory, UserRegisters};
use rustc_hash::FxHashMap;

/// Markers in a callchain that say whose addresses follow (`enum perf_callchain_context`); all are above this.
const CONTEXT: u64 = (-4095i64) as u64;
const CONTEXT_KERNEL: u64 = (-128i64) as u64;
const CONTEXT_USER: u64 = (-512i64) as u64;

/// Interned frames and stacks.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    pub(crate) frames: Vec<Frame>,
    pub(crate) stacks: Vec<StackNode>,
    frame_index: FxHashMap<Frame, FrameHandle>,
    stack_index: FxHashMap<StackNode, StackHandle>,
    /// Scratch space, kept to save allocations.
    kernel: Vec<Avma>,
    user: Vec<Avma>,
    chain: Vec<Avma>,
    /// There was no room for some.
    pub(crate) over_limit: bool,
}

impl Stacks {
    /// The stack of a sample and how far its user part goes.
    pub(crate) fn of(
        &mut self,
        sample: &Sample<'_>,
        attr: &Attr,
        spaces: &mut Spaces,
        limits: &Limits,
    ) -> (Option<StackHandle>, StackEnd) {
        let pid = Pid(sample.pid);
        self.split(sample, limits);
        let mut end = StackEnd::FramePointers;
        self.user.clear();
        let registers = registers(sample, attr).filter(|_| !sample.stack.is_empty());
        if let Some(registers) = registers {
            let stack = StackMemory { base: registers.sp, bytes: sample.stack };
            end = spaces.unwinder(pid).unwind(&registers, stack, &mut self.user).end;
        } else if !self.chain.is_empty() {
            end = spaces.unwinder(pid).check_chain(&self.chain, &mut self.user);
        } else if spaces.is_empty(pid) {
            end = StackEnd::KernelOnly;
        }
        self.user.truncate(limits.depth);
        let mut at = None;
        let user = std::mem::take(&mut self.user);
        for address in user.iter().rev() {
            at = self.intern(at, spaces.user_frame(pid, *address), limits).or(at);
        }
        self.user = user;
        let kernel = std::mem::take(&mut self.kernel);
        for address in kernel.iter().rev() {
            at = self.intern(at, spaces.kernel_frame(*address), limits).or(at);
        }
        self.kernel = kernel;
        (at, end)
    }

    /// Splits the callchain into `kernel` (lookup addresses) and `chain` (as recorded). Without one there is the
    /// instruction pointer alone.
    fn split(&mut self, sample: &Sample<'_>, limits: &Limits) {
        self.kernel.clear();
        self.chain.clear();
        let mut in_kernel = is_kernel(sample.ip);
        for entry in sample.callchain.chunks_exact(8).take(limits.depth) {
            let Ok(entry) = entry.try_into() else { continue };
            let address = u64::from_le_bytes(entry);
            match address {
                CONTEXT_KERNEL => in_kernel = true,
                CONTEXT_USER => in_kernel = false,
                // Guests and the hypervisor: not ours.
                address if address >= CONTEXT => {}
                address if in_kernel => {
                    // The first is where it was; the others are where calls return to, one past the call.
                    let back = u64::from(!self.kernel.is_empty());
                    self.kernel.push(Avma(address.saturating_sub(back)));
                }
                address => self.chain.push(Avma(address)),
            }
        }
        if self.kernel.is_empty() && self.chain.is_empty() && sample.ip != 0 {
            let place = if is_kernel(sample.ip) { &mut self.kernel } else { &mut self.chain };
            place.push(Avma(sample.ip));
        }
    }

    fn intern(&mut self, caller: Option<StackHandle>, frame: Frame, limits: &Limits) -> Option<StackHandle> {
        let next = FrameHandle(self.frames.len() as u32);
        let frame = match self.frame_index.get(&frame) {
            Some(&known) => known,
            None if self.frames.len() >= limits.stacks => {
                self.over_limit = true;
                return None;
            }
            None => {
                self.frames.push(frame);
                self.frame_index.insert(frame, next);
                next
            }
        };
        let node = StackNode { caller, frame };
        if let Some(&known) = self.stack_index.get(&node) {
            return Some(known);
        }
        if self.stacks.len() >= limits.stacks {
            self.over_limit = true;
            return None;
        }
        let handle = StackHandle(self.stacks.len() as u32);
        self.stacks.push(node);
        self.stack_index.insert(node, handle);
        Some(handle)
    }
}

/// On x86-64 and aarch64 the kernel has the upper half of the addresses.
fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// The registers for unwinding, by perf's numbers (`enum perf_event_x86_regs`).
fn registers(sample: &Sample<'_>, attr: &Attr) -> Option<UserRegisters> {
    const RBX: u32 = 1;
    const RBP: u32 = 6;
    const RSP: u32 = 7;
    const RIP: u32 = 8;
    const R12_TO_R15: [u32; 4] = [20, 21, 22, 23];
    let get = |number: u32| {
        let bit = 1u64 << number;
        let before = (attr.regs_user & (bit - 1)).count_ones() as usize;
        let bytes = sample.registers.get(before * 8..)?.first_chunk()?;
        (attr.regs_user & bit != 0).then(|| u64::from_le_bytes(*bytes))
    };
    let [r12, r13, r14, r15] = R12_TO_R15.map(get);
    let saved = (|| Some([get(RBX)?, r12?, r13?, r14?, r15?]))();
    Some(UserRegisters { saved, ..UserRegisters::new(get(RIP)?, get(RSP)?, get(RBP)?) })
}
