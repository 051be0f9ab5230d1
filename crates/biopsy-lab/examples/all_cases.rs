//! Fills a SQLite lab below the folder that is named with made-up cases, a million unless said otherwise, as the lab keeps them once small segments were put together. A tenth of
//! the cases has one crash, the others have one of 10,007; each has two causes, ten metrics and twelve functions. `biopsy-lab query` is measured on it:
//!
//! ```console
//! $ cargo run --release -p biopsy-lab --example all_cases -- FOLDER [NUMBER [signatures]]
//! $ cargo xtask bench --only cases
//! ```

#![expect(clippy::print_stdout, reason = "an example that measures prints what it measured")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use biopsy_cases::{About, Rows};
use biopsy_lab::Lab;
use biopsy_lab::derived::segments::Made;

/// Reports of a large segment.
const LARGE: usize = 4096;
/// Segments that are made at once.
const AT_ONCE: usize = 3;
/// Kinds of crashes beside the one that a tenth has.
const CRASHES: usize = 10_007;

/// What reports have: everything, or nothing but what gives signatures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    All,
    Signatures,
}

type Failed = Box<dyn Error + Send + Sync>;

/// The report of a case.
fn report(number: usize, parts: Parts) -> String {
    let crash = if number.is_multiple_of(10) { 0 } else { 1 + number % CRASHES };
    let signature = format!(
        "raise | abort | shop::ledger::settle_{crash} | shop::orders::Service::place | shop::http::answer"
    );
    let cause = |at: usize| {
        let function = format!("shop::module_{}::function_{}", (number + at) % 97, (number * 31 + at) % 3001);
        format!(
            r#"{{"id":"{}","severity":"warning","impact":0.{:02},"title":"`{function}` takes most of the CPU","evidence":[{{"reference":{{"kind":"function","name":"{function}","module":"shop"}}}}]}}"#,
            ["hot-function", "lock-contention", "slow-queries"][(number + at) % 3],
            number % 90 + 10
        )
    };
    let mut functions = String::new();
    let mut metrics = String::new();
    for at in 0..if parts == Parts::All { 12 } else { 0 } {
        let _ = write!(
            functions,
            r#"{}{{"name":"shop::module_{}::function_{}","module":"shop","kind":"native","cpu_self_ns":{},"cpu_total_ns":{}}}"#,
            if at == 0 { "" } else { "," },
            (number + at) % 97,
            (number * 31 + at * 7) % 3001,
            number * 7919 % 1_000_003 * 1000,
            number * 104_729 % 9_000_011 * 1000
        );
    }
    for at in 0..if parts == Parts::All { 10 } else { 0 } {
        let _ = write!(
            metrics,
            r#"{}{{"table":"host","column":"reading_{at}","unit":"ratio","readings":60,"missing":0,"mean":0.{},"min":0.1,"max":0.9,"last":0.{}}}"#,
            if at == 0 { "" } else { "," },
            number * 31 % 1000,
            number * 17 % 1000
        );
    }
    format!(
        r#"{{"schema":"biopsy-report","version":2,"findings":[{},{}],"recording":{{"tool":"biopsy 0.1","target_name":"shop","seconds":60,"host":{{"os":"Debian 12","kernel":"6.1","architecture":"x86_64","cpus":8}}}},"functions":[{functions}],"metrics":{{"summary":[{metrics}]}},"dumps":[{{"identity":{{"name":"shop"}},"signature":{{"text":"{signature}","version":1,"made_from":"stack"}}}}]}}"#,
        cause(0),
        cause(1)
    )
}

async fn segment(lab: Lab, numbers: std::ops::Range<usize>, parts: Parts) -> Result<(), Failed> {
    let mut rows = Rows::default();
    let names: Vec<String> = numbers.clone().map(|number| format!("case-{number:07}")).collect();
    for (number, name) in numbers.zip(&names) {
        let seen = 1_780_000_000 + i64::try_from(number)? * 30;
        rows.add(About { case: name, upload: name, analysed_at: seen }, &report(number, parts))?;
    }
    let mut made = Made::new();
    for (table, rows) in rows.finish()? {
        made.add(&lab, table, rows).await?;
    }
    let mut within = lab.store.begin().await?;
    let reports: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    made.put(&lab, &mut within, &reports).await?;
    for name in &names {
        sqlx::query("INSERT INTO cases (id, key, state, created) VALUES ($1, 'none', 'analysed', 0)")
            .bind(name)
            .execute(&mut *within)
            .await?;
    }
    within.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().ok_or("which folder?")?;
    let count: usize = match arguments.next() {
        Some(text) => text.to_string_lossy().parse()?,
        None => 1_000_000,
    };
    let parts = if arguments.next().is_some_and(|parts| parts == "signatures") {
        Parts::Signatures
    } else {
        Parts::All
    };
    let lab = Lab::open(Path::new(&folder), None).await?;
    let began = Instant::now();
    let mut at = 0;
    let mut writing = tokio::task::JoinSet::new();
    while at < count {
        // What is left over at the end is in small ones, as at any moment.
        let next = match count - at {
            left if left > LARGE => LARGE,
            left => left.div_ceil(2).min(255),
        };
        if writing.len() >= AT_ONCE
            && let Some(done) = writing.join_next().await
        {
            done??;
        }
        writing.spawn(segment(lab.clone(), at..at + next, parts));
        at += next;
    }
    while let Some(done) = writing.join_next().await {
        done??;
    }
    let (segments, files, bytes): (i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT COUNT(*) FROM segments), COUNT(*), CAST(SUM(bytes) AS BIGINT) FROM segment_files",
    )
    .fetch_one(lab.store.pool())
    .await?;
    println!(
        "{count} cases in {segments} segments, {files} files of {bytes} bytes, in {:?}",
        began.elapsed()
    );
    Ok(())
}
