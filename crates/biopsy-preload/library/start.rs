//! Before the first allocation: finds the functions whose place it takes, and the file that it shares with biopsy.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicIsize, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use crate::layout::*;
use crate::{count, modules, system};

/// A function of the C library, or of whoever else would have been asked.
pub struct Real(AtomicUsize);

impl Real {
    pub fn get(&self) -> Option<usize> {
        Some(self.0.load(Relaxed)).filter(|address| *address != 0)
    }

    pub fn call1(&self, one: usize) -> usize {
        let Some(function) = self.get() else { return 0 };
        // SAFETY: the function of this name in a library that stays loaded; it has these arguments.
        unsafe { core::mem::transmute::<usize, extern "C" fn(usize) -> usize>(function)(one) }
    }

    pub fn call2(&self, one: usize, two: usize) -> usize {
        let Some(function) = self.get() else { return 0 };
        // SAFETY: as above.
        unsafe { core::mem::transmute::<usize, extern "C" fn(usize, usize) -> usize>(function)(one, two) }
    }

    pub fn call3(&self, one: usize, two: usize, three: usize) -> usize {
        // The one that says what is wrong by its number: no memory.
        let Some(function) = self.get() else { return 12 };
        // SAFETY: as above.
        unsafe { core::mem::transmute::<usize, extern "C" fn(usize, usize, usize) -> usize>(function)(one, two, three) }
    }
}

pub struct Functions {
    pub malloc: Real,
    pub calloc: Real,
    pub realloc: Real,
    pub free: Real,
    pub memalign: Real,
    pub aligned_alloc: Real,
    pub posix_memalign: Real,
    pub valloc: Real,
    pub pvalloc: Real,
    pub clock_gettime: Real,
    /// Not in all of them.
    pub find_object: Real,
}

const UNKNOWN: Real = Real(AtomicUsize::new(0));
pub static REAL: Functions = Functions {
    malloc: UNKNOWN,
    calloc: UNKNOWN,
    realloc: UNKNOWN,
    free: UNKNOWN,
    memalign: UNKNOWN,
    aligned_alloc: UNKNOWN,
    posix_memalign: UNKNOWN,
    valloc: UNKNOWN,
    pvalloc: UNKNOWN,
    clock_gettime: UNKNOWN,
    find_object: UNKNOWN,
};

/// Biopsy writes the two numbers into its copy of this library.
#[repr(C)]
struct Config {
    name: [u8; 16],
    library: AtomicU32,
    shared: AtomicU32,
}

#[used]
static FROM_BIOPSY: Config = Config { name: CONFIG, library: AtomicU32::new(u32::MAX), shared: AtomicU32::new(u32::MAX) };

/// The file that is shared with biopsy.
pub static SHARED: AtomicU64 = AtomicU64::new(0);
/// A page of our own which is zeros in a forked child: there, nothing is counted.
static SWITCH: AtomicU64 = AtomicU64::new(0);
/// What the kernel kept it from at the start: nothing, mostly.
static SHUT_IN_FIRST: AtomicIsize = AtomicIsize::new(0);
static BEGUN: AtomicU8 = AtomicU8::new(0);
const NOW: u8 = 1;
const DONE: u8 = 2;

/// Whether there is anything to count.
pub fn is_on() -> bool {
    let switch = SWITCH.load(Acquire);
    // SAFETY: a page of ours, or none.
    switch != 0 && unsafe { &*(switch as *const AtomicU64) }.load(Relaxed) != 0 && count::header(WORD_STOP).load(Relaxed) == 0
}

/// Seconds of the monotonic clock, as the program itself would ask for them: most kernels need no system call for it.
pub fn seconds() -> u64 {
    let mut time = [0_u64; 2];
    REAL.clock_gettime.call2(1, (&raw mut time) as usize);
    time[0]
}

/// Whether the process has shut itself in since it was started: it may be ended for what it has not planned.
pub fn is_shut_in() -> bool {
    SHUT_IN_FIRST.load(Relaxed) == 0 && system::seccomp() != 0
}

/// Before anything else. The first call is of the loader or of the first thread, before others are there.
pub fn ready() {
    if BEGUN.load(Acquire) != DONE {
        begin();
    }
}

#[cold]
fn begin() {
    if BEGUN.compare_exchange(0, NOW, AcqRel, Acquire).is_err() {
        return;
    }
    let names: [(&[u8], &Real); 11] = [
        (b"malloc", &REAL.malloc),
        (b"calloc", &REAL.calloc),
        (b"realloc", &REAL.realloc),
        (b"free", &REAL.free),
        (b"memalign", &REAL.memalign),
        (b"aligned_alloc", &REAL.aligned_alloc),
        (b"posix_memalign", &REAL.posix_memalign),
        (b"valloc", &REAL.valloc),
        (b"pvalloc", &REAL.pvalloc),
        (b"clock_gettime", &REAL.clock_gettime),
        (b"_dl_find_object", &REAL.find_object),
    ];
    for (name, real) in names {
        real.0.store(modules::next(name), Relaxed);
    }
    BEGUN.store(DONE, Release);
    share();
}

fn share() {
    let (library, shared) = (FROM_BIOPSY.library.load(Relaxed) as usize, FROM_BIOPSY.shared.load(Relaxed) as usize);
    // Another file may have that number, where somebody loads a copy of us: then it is not ours to close.
    let mut about = [0_u64; 18];
    let known = system::call(system::FSTAT, [shared, (&raw mut about) as usize, 0, 0, 0, 0]);
    if known < 0 || about[6] != (TOTAL_WORDS * 8) as u64 {
        return;
    }
    // Of what the program may have at most, nothing is taken: only so much that it can be told.
    let is_bounded = system::is_bounded();
    let words = if is_bounded { HEADER_WORDS } else { TOTAL_WORDS };
    let map = [0, words * 8, 3, 0x1 | 0x4000, shared, 0];
    let address = system::call(system::MMAP, map);
    system::close(shared);
    system::close(library);
    if address <= 0 {
        return;
    }
    SHARED.store(address as u64, Relaxed);
    count::header(WORD_PID).store(system::call(system::GETPID, [0; 6]) as u64, Relaxed);
    count::header(WORD_MAGIC).store(MAGIC, Release);
    let problem = |number| count::header(WORD_PROBLEM).store(number, Relaxed);
    let all = [&REAL.malloc, &REAL.calloc, &REAL.realloc, &REAL.free];
    if all.iter().any(|real| real.get().is_none()) {
        return problem(PROBLEM_NO_FUNCTIONS);
    }
    // `operator new` of such an allocator does not come by here.
    let own_new = modules::next(b"_Znwm");
    if own_new != 0 && REAL.malloc.get().is_some_and(|malloc| modules::are_together(malloc, own_new)) {
        count::header(WORD_OWN_NEW).store(1, Relaxed);
    }
    if is_bounded {
        return problem(PROBLEM_BOUNDED);
    }
    SHUT_IN_FIRST.store(system::seccomp(), Relaxed);
    let Some(switch) = system::memory(4096) else { return problem(PROBLEM_NO_MEMORY) };
    if !count::prepare(are_apart()) {
        return problem(PROBLEM_NO_MEMORY);
    }
    // Linux 4.14.
    if system::call(system::MADVISE, [switch as usize, 4096, 18, 0, 0, 0]) < 0 {
        return problem(PROBLEM_OLD_KERNEL);
    }
    // SAFETY: the page of ours.
    unsafe { &*switch.cast::<AtomicU64>() }.store(1, Relaxed);
    SWITCH.store(switch as u64, Release);
}

/// Whether the allocator is that of glibc, all of it, whose smallest block has 32 bytes with its header.
fn are_apart() -> bool {
    let glibc = modules::next(b"gnu_get_libc_version");
    let aligned = [&REAL.memalign, &REAL.aligned_alloc, &REAL.posix_memalign, &REAL.valloc, &REAL.pvalloc];
    let all = [&REAL.malloc, &REAL.calloc, &REAL.realloc, &REAL.free];
    let is_its = |real: &&Real| real.get().is_some_and(|function| modules::are_together(glibc, function));
    glibc != 0 && all.iter().all(is_its) && aligned.iter().all(|real| real.get().is_none() || is_its(real))
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(usize, *mut *mut u8, *mut *mut u8) = start;

/// The program, and what it starts, find no trace of us in the environment. glibc hands these three to it.
extern "C" fn start(count: usize, arguments: *mut *mut u8, environment: *mut *mut u8) {
    ready();
    if count > 1 << 22 || arguments.wrapping_add(count + 1) != environment {
        return;
    }
    const NAME: &[u8] = b"LD_PRELOAD=";
    const OURS: &[u8] = b"/proc/self/fd/";
    let mut to = environment;
    let mut from = environment;
    // SAFETY: an array of texts that ends with a null, each of which ends with a zero; both are the process's own to change.
    unsafe {
        while !(*from).is_null() {
            let text = *from;
            from = from.add(1);
            if begins(text, NAME) && begins(text.add(NAME.len()), OURS) {
                let value = text.add(NAME.len());
                let mut rest = value;
                while *rest != 0 && *rest != b':' {
                    rest = rest.add(1);
                }
                if *rest == 0 {
                    continue;
                }
                rest = rest.add(1);
                let mut into = value;
                loop {
                    *into = *rest;
                    if *rest == 0 {
                        break;
                    }
                    (into, rest) = (into.add(1), rest.add(1));
                }
            }
            *to = text;
            to = to.add(1);
        }
        *to = core::ptr::null_mut();
    }
}

/// # Safety
/// `text` ends with a zero.
unsafe fn begins(text: *const u8, with: &[u8]) -> bool {
    // A difference ends it, so nothing behind the zero is read.
    with.iter().enumerate().all(|(number, byte)| unsafe { *text.add(number) } == *byte)
}
