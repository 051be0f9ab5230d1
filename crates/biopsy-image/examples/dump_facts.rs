//! Opens a dump and prints what is in it: `cargo run -p biopsy-image --example dump_facts -- CORE`.
#![expect(clippy::print_stdout, reason = "an example is a program")]

use std::time::Instant;

use biopsy_image::{Limits, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("give a dump")?;
    let started = Instant::now();
    let opened = open(path, &Limits::default())?;
    println!("{}, {}, opened in {:?}", opened.kind, opened.encoding, started.elapsed());
    let image = &*opened.image;
    let facts = image.process();
    println!(
        "pid {} `{}` by {:?}, executable {:?}",
        facts.pid,
        facts.name.escape_ascii(),
        facts.writer,
        facts.executable.as_ref().map(|path| path.escape_ascii().to_string())
    );
    for warning in &opened.warnings {
        println!("warning: {}: {}", warning.code, warning.message);
    }
    if let Some(crash) = opened.crash() {
        println!("crash: {crash:x?}");
    }
    for thread in image.threads().iter().take(10) {
        let at = thread.registers.map_or(0, |registers| registers.rip);
        let extended = thread.extended.len();
        println!(
            "thread {} {:?} rip {at:#x}, {extended} bytes of extended state",
            thread.tid,
            thread.signal.is_some()
        );
    }
    let mut bytes = 0u64;
    let mut runs = Vec::new();
    for mapping in image.mappings() {
        runs.clear();
        image.written(mapping.range(), &mut runs)?;
        bytes += runs.iter().map(|run| run.end - run.start).sum::<u64>();
    }
    println!("{} threads, {} mappings, {bytes} bytes", image.threads().len(), image.mappings().len());
    let started = Instant::now();
    for module in image.modules() {
        let id: Vec<String> = module.build_id.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
        println!("{:#x} {:#x} {} {}", module.start, module.bias, id.concat(), module.path.escape_ascii());
    }
    println!("{} modules in {:?}", image.modules().len(), started.elapsed());
    let started = Instant::now();
    let mut sum = 0u64;
    let mut buffer = vec![0; 1 << 20];
    for mapping in image.mappings() {
        let mut at = mapping.start;
        while at < mapping.end {
            let most = buffer.len().min(usize::try_from(mapping.end - at)?);
            let Ok(read) = image.read(at, &mut buffer[..most]) else { break };
            sum += read as u64;
            at += read as u64;
        }
    }
    println!("{sum} bytes read in {:?}", started.elapsed());
    Ok(())
}
