//! Writes the samples of `testing` as seeds: `cargo run -p biopsy-image --features testing --example fuzz_seeds -- fuzz/seeds`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("give the folder of seeds")?);
    for (target, name, bytes) in biopsy_image::testing::samples() {
        std::fs::create_dir_all(folder.join(target))?;
        std::fs::write(folder.join(target).join(name), bytes)?;
    }
    Ok(())
}
