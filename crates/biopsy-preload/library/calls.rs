//! The functions that take the place of the C library's. Each hands the caller's stack and frame pointer on: no frame of ours is between.

use core::arch::naked_asm;

use crate::count::{self, Known};
use crate::start::{self, REAL};

macro_rules! entry {
    ($name:ident, ($($argument:ident),*), $stack:literal, $frame:literal, $into:path) => {
        /// # Safety
        /// As the function of the C library.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($argument: usize),*) -> usize {
            naked_asm!(
                concat!("mov ", $stack, ", rsp"),
                concat!("mov ", $frame, ", rbp"),
                "jmp {}",
                sym $into,
            )
        }
    };
}

entry!(malloc, (_size), "rsi", "rdx", on_malloc);
entry!(calloc, (_count, _size), "rdx", "rcx", on_calloc);
entry!(realloc, (_block, _size), "rdx", "rcx", on_realloc);
entry!(reallocarray, (_block, _count, _size), "rcx", "r8", on_reallocarray);
entry!(memalign, (_align, _size), "rdx", "rcx", on_memalign);
entry!(aligned_alloc, (_align, _size), "rdx", "rcx", on_aligned_alloc);
entry!(posix_memalign, (_to, _align, _size), "rcx", "r8", on_posix_memalign);
entry!(valloc, (_size), "rsi", "rdx", on_valloc);
entry!(pvalloc, (_size), "rsi", "rdx", on_pvalloc);

/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: usize) {
    if block == 0 {
        return;
    }
    start::ready();
    count::release(block);
    REAL.free.call1(block);
}

/// Blocks of 16 bytes at least, which the C library has anyway: other allocators pack smaller ones closer than our words are.
fn least(size: usize) -> usize {
    size.max(16)
}

unsafe extern "C" fn on_malloc(size: usize, sp: usize, bp: usize) -> usize {
    start::ready();
    let block = REAL.malloc.call1(least(size));
    count::allocation(block, size, sp, bp);
    block
}

unsafe extern "C" fn on_calloc(items: usize, size: usize, sp: usize, bp: usize) -> usize {
    start::ready();
    let (block, bytes) = match items.checked_mul(size) {
        Some(bytes) => (REAL.calloc.call2(1, least(bytes)), bytes),
        // Refused by the C library, which says so in errno.
        None => (REAL.calloc.call2(items, size), 0),
    };
    count::allocation(block, bytes, sp, bp);
    block
}

unsafe extern "C" fn on_realloc(block: usize, size: usize, sp: usize, bp: usize) -> usize {
    start::ready();
    let old = if block == 0 { Known::NOTHING } else { count::take(block) };
    // A size of nothing frees the block, in some libraries.
    let new = REAL.realloc.call2(block, if size == 0 && block != 0 { 0 } else { least(size) });
    if new == 0 && size != 0 {
        count::put_back(block, old);
        return 0;
    }
    count::released(block, old);
    count::allocation(new, size, sp, bp);
    new
}

unsafe extern "C" fn on_reallocarray(block: usize, items: usize, size: usize, sp: usize, bp: usize) -> usize {
    match items.checked_mul(size) {
        // SAFETY: as it was called.
        Some(bytes) => unsafe { on_realloc(block, bytes, sp, bp) },
        // Sets errno as the C library does, by asking it.
        None => REAL.realloc.call2(0, usize::MAX),
    }
}

unsafe extern "C" fn on_memalign(align: usize, size: usize, sp: usize, bp: usize) -> usize {
    start::ready();
    let block = REAL.memalign.call2(align, least(size));
    count::allocation(block, size, sp, bp);
    block
}

unsafe extern "C" fn on_aligned_alloc(align: usize, size: usize, sp: usize, bp: usize) -> usize {
    start::ready();
    // A size that is no multiple of the alignment is refused by some libraries: sixteen is one of all that are smaller.
    let block = REAL.aligned_alloc.call2(align, if align <= 16 { least(size) } else { size });
    count::allocation(block, size, sp, bp);
    block
}

unsafe extern "C" fn on_posix_memalign(to: *mut usize, align: usize, size: usize, sp: usize, bp: usize) -> usize {
    start::ready();
    let result = REAL.posix_memalign.call3(to as usize, align, least(size));
    if result as u32 == 0 {
        // SAFETY: the function has just written there.
        count::allocation(unsafe { *to }, size, sp, bp);
    }
    result
}

unsafe extern "C" fn on_valloc(size: usize, sp: usize, bp: usize) -> usize {
    start::ready();
    let block = REAL.valloc.call1(size);
    count::allocation(block, size, sp, bp);
    block
}

unsafe extern "C" fn on_pvalloc(size: usize, sp: usize, bp: usize) -> usize {
    start::ready();
    let block = REAL.pvalloc.call1(size);
    count::allocation(block, size, sp, bp);
    block
}
