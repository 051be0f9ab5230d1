//! The part of the recorder that runs in the kernel: small BPF programs, assembled here.
//!
//! - `samples`: at each tick of the sampling timer on each CPU: is the running thread one of ours? Then its registers,
//!   kernel stack, and the used part of its user stack go to the ring buffer.
//! - `switches`: at each context switch: adds up the thread's time running, ready and waiting *in the kernel*, so that
//!   a server that switches 100,000 times a second does not cost 100,000 records. Only long waits become records.
//! - `wakings`: who woke whom, and when.
//! - `forks`: new threads and, when following children, new processes join by themselves.
//!
//! - `accounts`: what the scheduler keeps of each thread of ours, when it is asked for: instead of `switches` and `wakings` for most of the time
//!   where a process that goes on for days switches too often to be watched.
//! - `allocations`, where they are asked for: at `malloc`, `free` and their like.
//! - `names`: asks the kernel what its functions are called.
//!
//! All of it ends with its file descriptors: nothing stays behind when biopsy is killed.
//! Why it is built this way, with numbers: `docs/design/06-recorder.md`.

mod accounts;
pub(crate) mod allocations;
mod error;
mod forks;
mod gone;
mod in_turns;
mod languages;
mod layout;
mod maps;
mod names;
mod samples;
mod session;
mod slots;
mod switches;
mod tracing;
mod user_registers;
mod wakings;
mod watching;

pub(crate) use layout::{KernelRecord, ThreadTimes, thread_state};
pub(super) use names::KernelNames;
pub(crate) use session::{KernelSession, KernelStats};
