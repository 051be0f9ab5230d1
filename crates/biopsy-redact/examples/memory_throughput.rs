//! How fast memory is scanned: `cargo run --release -p biopsy-redact --example memory_throughput FILE...`, where a
//! file holds memory of a process, or anything else.
#![expect(clippy::print_stdout, reason = "an example that measures prints what it measured")]

use std::collections::BTreeMap;
use std::time::Instant;

use biopsy_redact::memory::{Literals, MemoryScanner, mask_in_blocks};

/// As the dump writer reads.
const BLOCK: usize = 1 << 20;

/// Seconds of CPU this thread has used: on a busy machine the clock on the wall says little.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: u64 = stat.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
    nanos as f64 / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut literals = Literals::new();
    let start = Instant::now();
    let scanner = MemoryScanner::new(&literals)?;
    println!("made in {:?}", start.elapsed());
    for value in ["S3cr3t-of-the-database", "k-0123456789abcdef", "another value, longer 1"] {
        literals.add(value.as_bytes())?;
    }
    let with_literals = MemoryScanner::new(&literals)?;
    for path in std::env::args().skip(1) {
        let memory = std::fs::read(&path)?;
        for (name, scanner) in [("rules", &scanner), ("rules and 3 values", &with_literals)] {
            let mut best = (f64::INFINITY, f64::INFINITY);
            let mut counts = BTreeMap::new();
            for _ in 0..3 {
                let (cpu, wall) = (cpu_seconds(), Instant::now());
                counts = mask_in_blocks(scanner, &memory, BLOCK);
                best = (best.0.min(cpu_seconds() - cpu), best.1.min(wall.elapsed().as_secs_f64()));
            }
            let rate = |seconds: f64| memory.len() as f64 / 1e9 / seconds;
            println!(
                "{path} {name}: {:.2} GB/s of CPU, {:.2} GB/s of wall clock",
                rate(best.0),
                rate(best.1)
            );
            println!("    masked {counts:?}");
        }
    }
    Ok(())
}
