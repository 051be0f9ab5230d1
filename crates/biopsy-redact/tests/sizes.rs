//! Inputs of any size in little memory. Alone in its process, so that the memory of the process says something.

use std::io::{self, Read, Write};

use biopsy_redact::{BundleKey, Options, Redactor};

/// What the redactor may take beyond what it takes when it does nothing, in KiB.
const MEMORY_MAX: u64 = 64 << 10;

fn redactor() -> Redactor {
    Redactor::new(Options { key: Some(BundleKey::from_bytes([7; 32])), ..Options::default() })
        .expect("the built-in packs are right")
}

/// A field of `/proc/self/status` in KiB.
fn kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Text that is made while it is read.
struct Made<F> {
    next: F,
    part: Vec<u8>,
    at: usize,
}

impl<F: FnMut() -> Option<Vec<u8>>> Read for Made<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            let Some(part) = (self.next)() else { return Ok(0) };
            (self.part, self.at) = (part, 0);
        }
        let length = buffer.len().min(self.part.len() - self.at);
        buffer[..length].copy_from_slice(&self.part[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

/// Counts bytes, and places of what must not be there, also across the edges of what is written.
struct Looked {
    bytes: u64,
    left: usize,
    part: &'static [u8],
    tail: Vec<u8>,
}

impl Write for Looked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        self.left += self.tail.windows(self.part.len()).filter(|window| *window == self.part).count();
        let kept = self.tail.len().min(self.part.len() - 1);
        self.tail.drain(..self.tail.len() - kept);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn streamed(redactor: &Redactor, next: impl FnMut() -> Option<Vec<u8>>) -> Looked {
    let mut out = Looked { bytes: 0, left: 0, part: b"77kern", tail: Vec::new() };
    redactor.stream(Made { next, part: Vec::new(), at: 0 }, &mut out).expect("it can be written");
    out
}

/// One test: the most memory of a process is that of all of its tests.
#[test]
fn lines_of_100_megabytes_and_very_many_secrets_take_little_memory() {
    let rules = redactor();
    // What compiles when it is first needed is compiled.
    let _ = rules.text("password=Bl#au77kern");
    let before = kib("VmRSS");

    // One line of 100 MB with a secret in each megabyte.
    let mut parts = 0;
    let out = streamed(&rules, || {
        parts += 1;
        let mut part = b"GET /items 200 ".repeat((1 << 20) / 15);
        part.extend_from_slice(b"password=Bl#au77kern ");
        (parts <= 100).then_some(part)
    });
    assert_eq!(out.left, 0, "in one line");
    assert!(out.bytes > 95 << 20, "{} bytes came out", out.bytes);

    // Different secrets; a million of them when it is asked for, as in a build that is optimised.
    let count: u32 = match std::env::var("BIOPSY_SECRETS") {
        Ok(count) => count.parse().expect("a number"),
        Err(_) => 20_000,
    };
    let mut number = 0_u32;
    let out = streamed(&rules.for_bundle(BundleKey::from_bytes([8; 32])), || {
        let mut part = Vec::new();
        for _ in 0..1000.min(count.saturating_sub(number)) {
            number += 1;
            let word = number.wrapping_mul(2_654_435_761);
            writeln!(part, "10:11 INFO password=q{word:08x}77kern{number} done").expect("a vector takes it");
        }
        (!part.is_empty()).then_some(part)
    });
    assert_eq!(out.left, 0, "of {count} secrets");

    let grown = kib("VmHWM").saturating_sub(before);
    assert!(grown <= MEMORY_MAX, "{grown} KiB more than before");
}
