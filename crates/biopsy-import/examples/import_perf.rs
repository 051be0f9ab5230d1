//! Imports a perf.data file and says what is in it: `cargo run -p biopsy-import --example import_perf -- perf.data`.

#![allow(clippy::print_stdout, reason = "an example that a person runs")]

fn main() {
    let path = std::env::args_os().nth(1).expect("a path");
    let start = std::time::Instant::now();
    let capture = match biopsy_import::perf_data::read(
        &path,
        &vec!["/".into()].into(),
        &biopsy_import::Limits::default(),
    ) {
        Ok(capture) => capture,
        Err(error) => {
            println!("error: {error}: {:?}\nhint: {:?}", std::error::Error::source(&error), error.hint());
            return;
        }
    };
    let imported = start.elapsed();
    let analysis = biopsy_analyze::analyze(&capture);
    let header = &capture.header;
    println!(
        "{} {:?} {} host {} kernel {} cpus {} cpu {}",
        header.tool,
        header.command,
        header.target_name,
        header.host.hostname,
        header.host.kernel,
        header.host.cpus,
        header.host.cpu_model
    );
    println!("import {imported:?}, analysis {:?}", start.elapsed() - imported);
    println!("{:#?}", analysis.completeness);
    for warning in &capture.warnings {
        println!("warning {}: {} {:?}", warning.code, warning.message, warning.hint);
    }
    for row in analysis.functions.iter().take(15) {
        println!(
            "{:8.1} {:8.1} {:8.1} {} ({})",
            row.cpu_self.0 as f64 / 1e6,
            row.cpu_total.0 as f64 / 1e6,
            row.wait_total.0 as f64 / 1e6,
            row.name,
            row.module
        );
    }
    for row in analysis.threads.rows.iter().take(8) {
        println!(
            "{} {} run {:?} ready {:?} wait {:?} vol {} invol {} wake {}",
            row.tid,
            row.name,
            row.running,
            row.ready,
            row.waiting,
            row.voluntary,
            row.involuntary,
            row.wakeups
        );
    }
    for row in analysis.waits.functions.iter().take(8) {
        println!(
            "wait {:?} {:?} x{} in {:?} {}",
            row.reason,
            row.time,
            row.count,
            row.function.and_then(|f| analysis.function(f)).map(|f| &f.name),
            row.threads
        );
    }
    for finding in &analysis.findings {
        println!("{} {}: {}", finding.severity.word(), finding.id, finding.title);
        for evidence in &finding.evidence {
            println!("   - {}", evidence.text);
        }
    }
}
