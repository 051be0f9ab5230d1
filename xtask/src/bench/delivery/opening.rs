//! One member of a sealed bundle of 5 GiB.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use biopsy_recording::{Limits, Location, RecordingFolder, bundle, read_header, read_report};
use biopsy_seal::Identity;
use biopsy_testkit::temp_dir;

use crate::bench::options::Options;
use crate::bench::statistics::{median, quantile};
use crate::bench::table::{Column, Table};
use crate::run::{Outcome, root, succeed};

const GIBIBYTES: u64 = 5;
const TIMES: usize = 21;

/// Makes it of a recording of the fixtures and a dump that is a hole, and reads its report.
pub(super) fn measure(biopsy: &Path, options: &Options, table: &mut Table, column: &mut Column) -> Outcome {
    let failed = |error: &dyn std::fmt::Display| format!("cannot make a large bundle: {error}");
    let folder = temp_dir("bench-v");
    let at = |name: &str| folder.path().join(name);
    let recording = at("recording");
    std::fs::create_dir(&recording).map_err(|error| failed(&error))?;
    let fixture = root().join("fixtures/recordings/lock-convoy-1.0.zip");
    succeed(Command::new("unzip").arg("-q").arg(&fixture).arg("-d").arg(&recording))?;
    let opened = RecordingFolder::open_existing(&recording).map_err(|error| failed(&error))?;
    let member = opened.create_member("dumps/1.core.zst").map_err(|error| failed(&error))?;
    let bytes = if options.quick { GIBIBYTES << 22 } else { GIBIBYTES << 30 };
    member.file().set_len(bytes).map_err(|error| failed(&error))?;
    drop(member);
    bundle(&recording, at("large.zip")).map_err(|error| failed(&error))?;
    let identity = Identity::generate();
    let mut seal = Command::new(biopsy);
    seal.arg("send").arg(at("large.zip")).args([
        "--seal-only",
        "--to-key",
        &identity.recipient().to_string(),
    ]);
    succeed(seal.stdout(Stdio::null()))?;
    std::fs::remove_file(at("large.zip")).map_err(|error| failed(&error))?;
    let sealed = at("large.zip.age");
    let limits = Limits::default();
    let location = Location::sealed(&sealed, identity);
    let mut reads = Vec::new();
    for _ in 0..TIMES {
        let began = Instant::now();
        let report = read_report(&location, &limits).ok_or("the report is not read")?;
        reads.push(began.elapsed().as_secs_f64() * 1e3);
        if !report.starts_with(b"{") {
            return Err("the report is another".to_owned());
        }
    }
    read_header(&location, &limits).map_err(|error| format!("the header is not read: {error}"))?;
    let (middle, most) = (median(&reads), quantile(&reads, 1.0));
    println!(
        "V opening: a member of {:.1} GiB sealed: median {middle:.1?} ms, longest {most:.1?} ms of {TIMES}",
        std::fs::metadata(&sealed).map_or(0, |meta| meta.len() >> 20) as f64 / 1024.0
    );
    table.judge("V6", most);
    column.set("one member of a sealed bundle of 5 GiB, median, ms", middle);
    column.set("the same, longest, ms", most);
    Ok(())
}
