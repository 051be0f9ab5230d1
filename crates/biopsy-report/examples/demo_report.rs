//! Writes the page, the other reports and all exports of the made-up recording into a folder, to look at them:
//! `cargo run -p biopsy-report --example demo_report -- FOLDER`.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::fs;
use std::io;
use std::path::PathBuf;

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    fs::create_dir_all(&folder)?;
    let capture = synthetic::capture();
    let analysis = synthetic::analysis(&capture);
    fs::write(
        folder.join("report.html"),
        biopsy_report::render_html(&synthetic::diagnose(&capture, &analysis), None),
    )?;
    fs::write(
        folder.join("report.json"),
        biopsy_report::render_json(&synthetic::diagnose(&capture, &analysis), None),
    )?;
    fs::write(
        folder.join("report.md"),
        biopsy_report::render_markdown(&synthetic::diagnose(&capture, &analysis), None),
    )?;
    fs::write(
        folder.join("report.txt"),
        biopsy_report::render_text(
            &synthetic::diagnose(&capture, &analysis),
            0,
            biopsy_report::TextOptions::default(),
        ),
    )?;
    let dotnet = synthetic::dotnet();
    let analysis = biopsy_analyze::analyze(&dotnet);
    fs::write(
        folder.join("dotnet.html"),
        biopsy_report::render_html(&synthetic::diagnose(&dotnet, &analysis), None),
    )?;
    fs::write(
        folder.join("dotnet.json"),
        biopsy_report::render_json(&synthetic::diagnose(&dotnet, &analysis), None),
    )?;
    fs::write(
        folder.join("dotnet.md"),
        biopsy_report::render_markdown(&synthetic::diagnose(&dotnet, &analysis), None),
    )?;
    fs::write(
        folder.join("dotnet.txt"),
        biopsy_report::render_text(
            &synthetic::diagnose(&dotnet, &analysis),
            0,
            biopsy_report::TextOptions::default(),
        ),
    )?;
    let empty = synthetic::empty();
    let nothing = biopsy_analyze::analyze(&empty);
    fs::write(
        folder.join("empty.html"),
        biopsy_report::render_html(&synthetic::diagnose(&empty, &nothing), None),
    )?;
    for seed in 0..8 {
        // Names that try to be markup: none of these pages may do anything but show them.
        let hostile = synthetic::hostile(seed);
        let page = biopsy_report::render_html(
            &synthetic::diagnose(&hostile, &biopsy_analyze::analyze(&hostile)),
            None,
        );
        fs::write(folder.join(format!("hostile-{seed}.html")), page)?;
    }
    for format in biopsy_report::export::Format::ALL {
        let file = fs::File::create(folder.join(format!("demo{}", format.extension())))?;
        biopsy_report::export::write(format, &capture, file).map_err(io::Error::other)?;
    }
    Ok(())
}
