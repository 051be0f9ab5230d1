//! Single steps from registers and stacks made by hand.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![cfg(target_arch = "x86_64")]

mod support;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, FileOffset, Svma};
use biopsy_stacks::elf::{ElfCache, ElfFile, Limits};
use biopsy_stacks::symbols::{ModuleSource, Options, Symbolizer};
use biopsy_stacks::unwind::{ExecutableMapping, ProcessUnwinder, StackMemory, UserRegisters};

const STACK: u64 = 0x7fff_0000_0000;

fn mapping(start: u64, end: u64, offset: u64) -> ExecutableMapping {
    ExecutableMapping { start: Avma(start), end: Avma(end), file_offset: FileOffset(offset), tag: 7 }
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn unwind(unwinder: &mut ProcessUnwinder, registers: UserRegisters, stack: &[u64]) -> (Vec<u64>, StackEnd) {
    let mut frames = Vec::new();
    let unwound = unwinder.unwind(&registers, StackMemory { base: STACK, bytes: &words(stack) }, &mut frames);
    (frames.into_iter().map(|frame| frame.0).collect(), unwound.end)
}

/// Memory of a JIT compiler at 0x1000..0x9000: no file, no unwind information.
fn anonymous() -> ProcessUnwinder {
    let mut unwinder = ProcessUnwinder::new();
    unwinder.add_module(&mapping(0x1000, 0x9000, 0), None);
    unwinder
}

#[test]
fn compiled_code_is_walked_by_frame_pointer() {
    let stack = [0, 0, STACK + 0x28, 0x2000, 0, STACK + 0x40, 0x3000, 0, 0, 0x4000];
    let registers = UserRegisters::new(0x1234, STACK, STACK + 0x10);
    let (frames, end) = unwind(&mut anonymous(), registers, &stack);
    assert_eq!(frames, [0x1234, 0x1fff, 0x2fff, 0x3fff]);
    assert_eq!(end, StackEnd::Root, "a saved frame pointer of zero ends the chain");
}

/// Between `push rbp` and `mov rbp, rsp` the frame pointer is the caller's: following it would skip the caller.
#[test]
fn compiled_code_is_unwound_in_its_prologue() {
    let folder = tempfile::tempdir().unwrap();
    // A file whose offsets are the addresses stands for the process's memory.
    let memory = folder.path().join("mem");
    let mut code = vec![0x90; 0x9000];
    code[0x1234..0x1238].copy_from_slice(&[0x55, 0x48, 0x89, 0xe5]);
    fs::write(&memory, code).unwrap();
    let mut unwinder = anonymous();
    let stack = [STACK + 0x20, 0x2000, 0, 0, 0, 0x3000];
    let registers = UserRegisters::new(0x1235, STACK, STACK + 0x20);
    assert_eq!(unwind(&mut unwinder, registers, &stack).0, [0x1235, 0x2fff], "the caller 0x1fff is missing");
    unwinder.read_code_from(Some(File::open(&memory).unwrap()));
    assert_eq!(unwind(&mut unwinder, registers, &stack), (vec![0x1235, 0x1fff, 0x2fff], StackEnd::Root));
    let entered = UserRegisters::new(0x1234, STACK + 8, STACK + 0x20);
    let mut frames = Vec::new();
    let stack = words(&stack[1..]);
    unwinder.unwind(&entered, StackMemory { base: STACK + 8, bytes: &stack }, &mut frames);
    assert_eq!(frames, [Avma(0x1234), Avma(0x1fff), Avma(0x2fff)]);
}

#[test]
fn a_frame_pointer_that_is_none_is_not_followed() {
    let stack = [1, 2, 3, 0x2000, 5, 6];
    for (fp, expected) in [
        (0, StackEnd::NoUnwindInfo),
        (STACK - 8, StackEnd::NoUnwindInfo),
        (STACK + 3, StackEnd::NoUnwindInfo),
        (STACK, StackEnd::NoUnwindInfo),
        (STACK + 0x28, StackEnd::Truncated),
        (u64::MAX - 7, StackEnd::NoUnwindInfo),
        (1 << 63, StackEnd::NoUnwindInfo),
    ] {
        let (frames, end) = unwind(&mut anonymous(), UserRegisters::new(0x1234, STACK, fp), &stack);
        assert_eq!((frames.as_slice(), end), (&[0x1234][..], expected), "fp {fp:#x}");
    }
    // One good step, then a frame pointer that leads downwards.
    let stack = [0, 0, STACK, 0x2000];
    let (frames, end) = unwind(&mut anonymous(), UserRegisters::new(0x1234, STACK, STACK + 0x10), &stack);
    assert_eq!((frames.as_slice(), end), (&[0x1234, 0x1fff][..], StackEnd::FramePointers));
}

#[test]
fn a_copy_that_is_too_short_says_so() {
    let mut unwinder = anonymous();
    let registers = UserRegisters::new(0x1234, STACK, STACK + 0x100);
    let mut frames = Vec::new();
    let unwound = unwinder.unwind(&registers, StackMemory { base: STACK, bytes: &[0; 64] }, &mut frames);
    assert_eq!((unwound.end, unwound.needed_beyond), (StackEnd::Truncated, true));
    let nothing = unwinder.unwind(&registers, StackMemory { base: STACK, bytes: &[] }, &mut frames);
    assert_eq!((nothing.end, nothing.needed_beyond), (StackEnd::Truncated, true));
    assert_eq!(frames, [Avma(0x1234), Avma(0x1234)], "frames are appended");
}

#[test]
fn unmapped_code_is_forgotten() {
    let mut unwinder = anonymous();
    let stack = [0, 0, STACK + 0x28, 0x2000, 0, 0, 0x3000];
    let registers = UserRegisters::new(0x1234, STACK, STACK + 0x10);
    assert_eq!(unwind(&mut unwinder, registers, &stack).0, [0x1234, 0x1fff, 0x2fff]);
    unwinder.remove(Avma(0x2800), Avma(0x3000));
    assert_eq!(unwind(&mut unwinder, registers, &stack), (vec![0x1234, 0x1fff], StackEnd::FramePointers));
    assert_eq!(unwinder.module_count(), 2);
    unwinder.clear();
    assert_eq!(unwind(&mut unwinder, registers, &stack), (vec![0x1234], StackEnd::NoUnwindInfo));
}

#[test]
fn a_chain_of_the_kernel_is_judged() {
    let mut unwinder = anonymous();
    let mut frames = Vec::new();
    let end =
        unwinder.check_chain(&[Avma(0x1234), Avma(0x2000), Avma(0xffff_0000), Avma(0x3000)], &mut frames);
    assert_eq!((frames.as_slice(), end), (&[Avma(0x1234), Avma(0x1fff)][..], StackEnd::FramePointers));
}

/// A program at its fixed addresses: the executable segment as `readelf` shows it.
fn fixed_program(folder: &Path) -> (PathBuf, ProcessUnwinder) {
    let flags = ["-O2", "-fno-pie", "-no-pie", "-Wl,-z,lazy", "-fomit-frame-pointer"];
    let program = support::compile(folder, "names.cpp", "names", &flags);
    let headers = support::run(Command::new("readelf").args(["-lW"]).arg(&program));
    let code = headers.lines().find(|line| line.contains("LOAD") && line.contains("R E")).unwrap();
    let hex: Vec<u64> = code
        .split_whitespace()
        .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect();
    let (offset, svma, size) = (hex[0], hex[1], hex[3]);
    let file = ElfCache::default().open("names", std::slice::from_ref(&program)).unwrap();
    let mut unwinder = ProcessUnwinder::new();
    unwinder.add_module(&mapping(svma, svma + size.next_multiple_of(0x1000), offset), Some(file));
    (program, unwinder)
}

fn address_of(program: &Path, symbol: &str) -> u64 {
    let listing = support::run(Command::new("objdump").arg("-d").arg(program));
    let line = listing.lines().find(|line| line.ends_with(&format!(" <{symbol}>:"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

#[test]
fn a_stub_is_unwound_before_and_after_it_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let (program, mut unwinder) = fixed_program(folder.path());
    let (stub, start) = (address_of(&program, "puts@plt"), address_of(&program, "_start"));
    // `_start` is the root by unwind information; anything inside it serves as the caller.
    let caller = start + 0x10;
    for (ip, stack) in
        [(stub, vec![caller, 0, 0]), (stub + 6, vec![caller, 0, 0]), (stub + 11, vec![2, caller, 0])]
    {
        let (frames, end) = unwind(&mut unwinder, UserRegisters::new(ip, STACK, 1), &stack);
        assert_eq!((frames, end), (vec![ip, caller - 1], StackEnd::Root));
    }
}

#[test]
fn a_function_is_unwound_at_its_first_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let (program, mut unwinder) = fixed_program(folder.path());
    let (main, start) = (address_of(&program, "main"), address_of(&program, "_start"));
    let (frames, end) = unwind(&mut unwinder, UserRegisters::new(main, STACK, 1), &[start + 0x20, 5, 6]);
    assert_eq!((frames, end), (vec![main, start + 0x1f], StackEnd::Root));
    // No caller is there: the word at the stack pointer is no code.
    let (frames, end) = unwind(&mut unwinder, UserRegisters::new(main, STACK, 1), &[0x10, 5, 6]);
    assert_eq!((frames, end), (vec![main], StackEnd::NoUnwindInfo));
    let module = unwinder.find(Avma(main)).unwrap();
    assert_eq!((module.tag(), module.svma(Avma(main))), (7, Some(Svma(main))));
}

/// A call through a wild pointer: the instruction pointer is nowhere, the caller is on top of the stack.
#[test]
fn a_jump_to_nowhere_shows_who_jumped() {
    let folder = tempfile::tempdir().unwrap();
    let (program, mut unwinder) = fixed_program(folder.path());
    // `_start` calls `__libc_start_main` by `call *disp(%rip)`; after it comes `hlt`.
    let listing = support::run(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&program));
    let after_call = listing.lines().find(|line| line.trim_end().ends_with("\thlt")).unwrap();
    let after_call = u64::from_str_radix(after_call.trim().split(':').next().unwrap(), 16).unwrap();
    for ip in [0, 0x10] {
        let (frames, end) = unwind(&mut unwinder, UserRegisters::new(ip, STACK, 1), &[after_call, 1, 2]);
        assert_eq!((frames, end), (vec![ip, after_call - 1], StackEnd::Root));
    }
}

#[test]
fn the_vdso_is_named_and_unwound() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).expect("x86-64 kernels map a vdso");
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
    let mut image = vec![0; usize::try_from(end - start).unwrap()];
    File::open("/proc/self/mem").unwrap().read_exact_at(&mut image, start).unwrap();
    let mut symbolizer = Symbolizer::new(Options::default(), Arc::new(ElfCache::default()));
    let all: Vec<Svma> = (0..end - start).step_by(4).map(Svma).collect();
    let found = symbolizer.elf(&ModuleSource::vdso(image.clone()), &all);
    let named = |name: &str| {
        all.iter()
            .zip(&found)
            .find(|(_, found)| found.as_ref().is_some_and(|found| found.functions[0].name.ends_with(name)))
    };
    let (entry, _) =
        named("vdso_clock_gettime").or_else(|| named("clock_gettime")).expect("it has this function");

    let mut unwinder = anonymous();
    let file = ElfFile::from_bytes("[vdso]", image, &Limits::default()).unwrap();
    unwinder.add_module(&mapping(start, end, 0), Some(Arc::new(file)));
    let (frames, _) = unwind(&mut unwinder, UserRegisters::new(start + entry.0, STACK, 0), &[0x2000, 0, 0]);
    assert_eq!(frames, [start + entry.0, 0x1fff]);
}
