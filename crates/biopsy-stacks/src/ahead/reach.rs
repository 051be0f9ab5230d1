//! Whether a thread could still come to code that wakes somebody.
//!
//! All code ahead of its frames is gone through, and all that this calls, whatever the values are: a `no` is only said where each call is
//! known. What wakes is known by name (signals of conditions, posts, raw system calls); whom it wakes is not asked, so that a thread that
//! could wake anybody could wake all. A thread that could start another may come to anything.

use std::collections::HashSet;

use biopsy_image::{Image, MemoryExt};
use iced_x86::{FlowControl, Instruction, Mnemonic};
use rustc_hash::FxBuildHasher;

use super::code::{CodeView, Target};
use super::family::Called;

/// Instructions ahead of one thread: more, and it is not known.
const INSTRUCTIONS: usize = 40_000;

/// What is ahead of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Nothing that wakes anybody.
    Nothing,
    /// It may wake somebody.
    Wakes,
    /// Not all of it is known.
    NotKnown,
}

/// Functions that wake, by parts of their names.
const WAKES: &[&str] = &[
    "cond_signal",
    "cond_broadcast",
    "notify_one",
    "notify_all",
    "cnd_signal",
    "cnd_broadcast",
    "sem_post",
    "barrier_wait",
    "futex",
    "syscall",
    "eventfd_write",
    "wake",
    "unpark",
];
/// Functions that let code run elsewhere, or code that is not known here, by parts of their names, and by the whole of them.
const STARTS: &[&str] = &["pthread_create", "thrd_create", "_M_start_thread", "thread3new", "clone3"];
const CALLS_BACK: &[&str] = &[
    "clone",
    "fork",
    "dlopen",
    "dlsym",
    "signal",
    "sigaction",
    "timer_create",
    "qsort",
    "qsort_r",
    "bsearch",
    "call_once",
    "pthread_once",
    "ftw",
    "nftw",
    "scandir",
    "twalk",
    "dl_iterate_phdr",
];
/// Functions of libraries that are linked in, and wake nobody but those who wait for a lock of theirs.
const QUIET: &[&str] = &["5futex5Mutex4wake", "2io5stdio6_print", "2io5stdio7_eprint", "3std6thread5sleep"];

fn has(names: &[&str], name: &str) -> bool {
    names.iter().any(|part| name.contains(part))
}

/// Without the C library's underscores and the version.
fn plain(name: &str) -> &str {
    name.trim_start_matches('_').split('@').next().unwrap_or(name)
}

/// What a call of this name means; `None`: its code says.
fn named(name: &str) -> Option<Reach> {
    if has(QUIET, name) {
        Some(Reach::Nothing)
    } else if has(WAKES, name) {
        Some(Reach::Wakes)
    } else if has(STARTS, name) || CALLS_BACK.contains(&plain(name)) {
        Some(Reach::NotKnown)
    } else {
        None
    }
}

/// Where the code goes on, and what it comes to.
enum Next {
    At(Vec<u64>),
    Comes(Reach),
}

impl CodeView<'_> {
    /// What is ahead of frames that go on at `ips`; those of the C library are left out, which calls nobody of the program there.
    pub(super) fn reach(&mut self, image: &dyn Image, ips: impl Iterator<Item = u64>) -> Reach {
        let mut open: Vec<u64> = Vec::new();
        for ip in ips {
            if !self.is_system(ip) {
                open.push(ip);
                open.extend(self.landing_pad(ip));
            }
        }
        let mut seen: HashSet<u64, FxBuildHasher> = HashSet::default();
        let mut unknown = false;
        while let Some(at) = open.pop() {
            if !seen.insert(at) {
                continue;
            }
            let instruction = if seen.len() > INSTRUCTIONS { None } else { self.instruction(at) };
            match instruction.map(|instruction| self.next(image, &instruction)) {
                Some(Next::At(next)) => open.extend(next),
                Some(Next::Comes(Reach::Wakes)) => return Reach::Wakes,
                // Something further on may wake for certain; it makes no difference, as nothing is said either way.
                None | Some(Next::Comes(_)) => unknown = true,
            }
            if unknown {
                return Reach::NotKnown;
            }
        }
        Reach::Nothing
    }

    fn next(&mut self, image: &dyn Image, instruction: &Instruction) -> Next {
        let after = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next if instruction.mnemonic() == Mnemonic::Hlt => Next::At(Vec::new()),
            FlowControl::Next => Next::At(vec![after]),
            FlowControl::ConditionalBranch => Next::At(vec![after, instruction.near_branch_target()]),
            FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => Next::At(Vec::new()),
            FlowControl::XbeginXabortXend => Next::Comes(Reach::NotKnown),
            FlowControl::UnconditionalBranch => {
                let target = instruction.near_branch_target();
                let same = |view: &mut Self, at| view.function(at).map(|function| function.start);
                if same(self, instruction.ip()) == same(self, target) {
                    return Next::At(vec![target]);
                }
                self.called(image, instruction, None)
            }
            FlowControl::IndirectBranch => self.called(image, instruction, None),
            FlowControl::Call | FlowControl::IndirectCall => self.called(image, instruction, Some(after)),
        }
    }

    /// A call, or a jump to another function.
    fn called(&mut self, image: &dyn Image, instruction: &Instruction, after: Option<u64>) -> Next {
        let name = self.name_of_call(instruction);
        match name.as_deref().and_then(named) {
            Some(Reach::Nothing) => return Next::At(after.into_iter().collect()),
            Some(other) => return Next::Comes(other),
            None => {}
        }
        let direct =
            matches!(instruction.flow_control(), FlowControl::Call | FlowControl::UnconditionalBranch);
        let slot = instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address());
        let target = match slot {
            _ if direct => Some(instruction.near_branch_target()),
            Some(slot) => image.read_u64(slot).ok(),
            None => None,
        };
        match self.target(target, slot) {
            Target::Known(Called::Ends) => Next::At(Vec::new()),
            Target::Known(Called::Nothing | Called::Step { .. }) => Next::At(after.into_iter().collect()),
            Target::Function(function) => Next::At(after.into_iter().chain([function]).collect()),
            // Of the C library, by name; without one it may be anything: a function of the program's choice.
            Target::Other if name.is_some() => Next::At(after.into_iter().collect()),
            Target::Other => {
                let known =
                    target.is_some_and(|target| self.is_system(target) || self.instruction(target).is_some());
                // Into the middle of a function: the other part of one that was split.
                match target.filter(|target| known && !self.is_system(*target)) {
                    Some(target) => Next::At(after.into_iter().chain([target]).collect()),
                    None if known => Next::At(after.into_iter().collect()),
                    None => Next::Comes(Reach::NotKnown),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wakes_is_known_by_name() {
        for name in [
            "pthread_cond_signal",
            "_ZNSt18condition_variable10notify_oneEv",
            "syscall",
            "sem_post@@GLIBC_2.34",
        ] {
            assert_eq!(named(name), Some(Reach::Wakes), "{name}");
        }
        for name in
            ["pthread_create", "_ZNSt6thread15_M_start_threadESt10unique_ptrIv", "dlsym", "__sigaction"]
        {
            assert_eq!(named(name), Some(Reach::NotKnown), "{name}");
        }
        assert_eq!(
            named("_ZN3std3sys4sync5mutex5futex5Mutex4wake17h0123456789abcdefE"),
            Some(Reach::Nothing)
        );
        for name in
            ["sleep", "fputs", "pthread_cond_wait", "pthread_mutex_unlock", "take_order", "_ZN5clone5cloneE"]
        {
            assert_eq!(named(name), None, "{name}");
        }
    }
}
