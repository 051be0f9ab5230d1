//! How long equals are looked for among a million made-up cases, in a SQLite lab below the folder that is named. A tenth of the cases has one
//! signature, the others have one of 10,007.
//!
//! ```console
//! $ cargo run --release -p biopsy-lab --example many_cases -- FOLDER
//! ```

#![expect(clippy::print_stdout, reason = "an example that measures prints what it measured")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use biopsy_lab::Lab;
use biopsy_lab::signatures::{self, Same};

const FILL: &str = "
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999)
INSERT INTO cases (id, key, state, created) SELECT 'case-' || i, 'none', 'analysed', i FROM n;
INSERT INTO signatures (digest, case_id, seen)
    SELECT CAST(printf('%032d', CASE WHEN created % 10 = 0 THEN 0 ELSE 1 + created % 10007 END) AS BLOB), id, created FROM cases;
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("which folder?")?;
    let lab = Lab::open(Path::new(&folder), None).await?;
    let began = Instant::now();
    sqlx::raw_sql(FILL).execute(lab.store.pool()).await?;
    println!("filled in {:?}", began.elapsed());
    // The lab is opened anew: nothing of it is in this process's memory.
    let lab = Lab::open(Path::new(&folder), None).await?;
    for (what, first, step) in [("rare", 1, 4999), ("a tenth of all", 0, 10_000)] {
        let mut times = Vec::new();
        let mut most = 0;
        for i in 0..100 {
            let began = Instant::now();
            let others = signatures::others(&lab, &format!("case-{}", first + i * step), Same::Crash).await?;
            times.push(began.elapsed());
            most = most.max(others.map_or(0, |others| others.count));
        }
        times.sort();
        println!("{what}: up to {most} others; median {:?}, longest {:?}", times[50], times[99]);
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}
