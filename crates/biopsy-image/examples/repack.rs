//! Makes a seekable core of any dump: `cargo run -p biopsy-image --example repack -- DUMP CORE.zst`.
#![expect(clippy::print_stdout, reason = "an example is a program")]

use std::fs::File;
use std::time::Instant;

use biopsy_image::write::{CoreKind, CoreOptions, CoreOutput, NoProgress, write_core};
use biopsy_image::{Limits, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let from = arguments.next().ok_or("give a dump")?;
    let to = arguments.next().ok_or("give the name of the new core")?;
    let started = Instant::now();
    let opened = open(from, &Limits::default())?;
    let file = File::create_new(to)?;
    let options = CoreOptions::new(CoreKind::Full);
    let summary = write_core(&*opened.image, &options, CoreOutput::File(&file), &NoProgress)?;
    println!("{summary:?} in {:?}", started.elapsed());
    Ok(())
}
