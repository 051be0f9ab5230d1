//! System calls, without errno and without the C library.

use core::arch::asm;

pub const READ: usize = 0;
pub const CLOSE: usize = 3;
pub const FSTAT: usize = 5;
pub const MMAP: usize = 9;
pub const MUNMAP: usize = 11;
pub const MADVISE: usize = 28;
pub const GETPID: usize = 39;
pub const PRCTL: usize = 157;
pub const OPENAT: usize = 257;
pub const PRLIMIT64: usize = 302;
/// The folder that a path without a root begins at.
pub const HERE: usize = -100_isize as usize;
const EXIT_GROUP: usize = 231;

/// A system call; errors are negative.
pub fn call(number: usize, of: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel changes rcx and r11, and memory only as the call says; callers pass what the call needs.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") of[0], in("rsi") of[1], in("rdx") of[2], in("r10") of[3], in("r8") of[4], in("r9") of[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

pub fn close(fd: usize) {
    call(CLOSE, [fd, 0, 0, 0, 0, 0]);
}

/// Memory of our own, zeroed, that costs nothing until it is touched.
pub fn memory(bytes: usize) -> Option<*mut u64> {
    // Readable and writable; private, anonymous, no reserve.
    let address = call(MMAP, [0, bytes, 3, 0x2 | 0x20 | 0x4000, usize::MAX, 0]);
    if address <= 0 {
        return None;
    }
    // No huge pages: little of it is touched. Without it, nothing breaks.
    call(MADVISE, [address as usize, bytes, 15, 0, 0, 0]);
    Some(address as *mut u64)
}

/// What the kernel keeps a thread from: 0 is nothing.
pub fn seccomp() -> isize {
    call(PRCTL, [21, 0, 0, 0, 0, 0])
}

/// Whether the address space of the process, or its data, has a bound.
pub fn is_bounded() -> bool {
    // Data, address space.
    [2, 9].iter().any(|resource| {
        let mut limits = [0_u64; 2];
        let asked = call(PRLIMIT64, [0, *resource, 0, (&raw mut limits) as usize, 0, 0]);
        asked == 0 && limits[0] != u64::MAX
    })
}

pub fn abort() -> ! {
    loop {
        call(EXIT_GROUP, [134, 0, 0, 0, 0, 0]);
    }
}
