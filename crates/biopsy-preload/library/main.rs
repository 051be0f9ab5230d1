//! Counts allocations inside the program that it is loaded into, ahead of the C library.
//!
//! It takes the place of `malloc` and its like, calls the next ones, and adds up by stack. It allocates nothing by itself, takes no lock,
//! and waits for nobody: all state is words that are changed by atomic instructions, so that threads, signal handlers and threads that are
//! killed leave nothing behind that others would wait for. A child that is forked finds its switch off (the page is wiped by the kernel),
//! so that only the program itself writes. Who was allocated where is kept in a shadow of the address space, a word for 16 bytes (32, where
//! blocks are never closer), of which only what lies beside used memory is ever touched.
//!
//! Safety, for all of this crate: functions that take the place of others have their contracts, and pass arguments on as they are.
//! Own memory is words of mappings that are never unmapped. Memory of the program is read only between the stack pointer and the end of
//! the mapping that it is in, and, for unwind information, inside of what the loader has mapped.
#![no_std]
#![expect(clippy::all, reason = "compiled by the build script alone")]

mod calls;
mod count;
#[path = "../src/layout.rs"]
#[allow(dead_code)]
mod layout;
mod modules;
mod stack;
mod start;
mod system;
mod unwind;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    system::abort()
}
