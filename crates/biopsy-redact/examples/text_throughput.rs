//! How fast text is gone over for secrets, on one core, and how much memory that takes: for `cargo xtask redaction --speed`.
#![expect(clippy::print_stdout, reason = "an example that measures prints what it measured")]

use std::io;

use biopsy_redact::{Options, Redactor};

/// Seconds of CPU this thread has used: on a busy machine the clock on the wall says little.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: u64 = stat.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
    nanos as f64 / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let redactor = Redactor::new(Options::default())?;
        let bytes = std::fs::metadata(&path)?.len();
        let mut best = f64::MAX;
        for _ in 0..3 {
            let begin = cpu_seconds();
            redactor.stream(std::fs::File::open(&path)?, io::sink())?;
            best = best.min(cpu_seconds() - begin);
        }
        println!("{path}: {:.1} MB/s of CPU", bytes as f64 / 1e6 / best);
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    println!("most memory: {}", most.trim());
    Ok(())
}
