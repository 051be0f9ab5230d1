//! What a process wrote before it ended itself: the exception that nobody caught, as its runtime writes it, or one that the program
//! wrote itself; a panic. By then nothing of it is on a stack any more.
//!
//! ```text
//! Python       Traceback (most recent call last): / File "menu.py", line 7, in price / ValueError: text
//! Java         Exception in thread "main" a.b.Error: text / at a.B.c(B.java:7) / Caused by: ...
//! JavaScript   Error: text / at price (/srv/menu.js:7:9) / [cause]: ... / Node.js v20.20.2
//! .NET         Unhandled exception. A.B.Error: text / ---> ... / at A.B.C(String x) in /srv/menu.cs:line 7
//! Go           panic: text / goroutine 7 [running]: / main.price(0x7) / /srv/menu.go:7 +0x1d
//! Rust         thread 'main' panicked at src/menu.rs:7:9: / text
//! ```
//!
//! One pass over lines in each, from the last call of the text outwards; what is cut off at the beginning has no name, and is none.

mod chain;
mod dotnet;
mod error;
mod frames;
mod go;
mod java;
mod javascript;
mod python;
mod rust;
mod words;

use words::BEHIND;
pub use words::{LastWords, LastWordsKind, Writer};

/// The exception at the end of these lines; `None`: they end with something else.
pub(super) fn parse(lines: &[String]) -> Option<LastWords> {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    let all = [
        python::parse(&lines),
        java::parse(&lines),
        dotnet::parse(&lines),
        javascript::parse(&lines),
        go::parse(&lines),
        rust::parse(&lines),
    ];
    let found = all.into_iter().flatten().max_by_key(|found| found.end)?;
    let behind = lines.get(found.end..).unwrap_or_default().iter().filter(|line| !line.is_empty()).count();
    (behind <= BEHIND).then_some(found.words)
}

#[cfg(test)]
mod tests;
