//! Dumps all the way: opened, stacks walked, analysed, and told in every form.
#![no_main]

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::DumpFacts;
use biopsy_image::{Limits, open_bytes};
use biopsy_report::{TextOptions, render_dump_html, render_dump_json, render_dump_markdown, render_dump_text};
use biopsy_stacks::image::{Options, walk};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(opened) = open_bytes("fuzz", bytes.to_vec(), &Limits::default()) else { return };
    let mut options = Options { frames_per_thread: 500, frames: 5_000, ..Options::default() };
    options.symbols.debug_folders.clear();
    let stacks = walk(&*opened.image, &options);
    let analysis = analyze_dump(&*opened.image, &stacks, &DumpFacts::of(&opened));
    assert!(render_dump_html(&analysis).ends_with("</html>\n"));
    assert!(!render_dump_text(&analysis, TextOptions::default()).contains('\x1b'));
    let _ = (render_dump_json(&analysis), render_dump_markdown(&analysis));
});
