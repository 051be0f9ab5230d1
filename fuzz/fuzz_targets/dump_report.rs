//! Dumps all the way: opened, stacks walked, analysed, and told in every form.
#![no_main]

use biopsy_analyze::{Diagnosis, analyze_dump};
use biopsy_analyze::dump::DumpFacts;
use biopsy_image::{Limits, open_bytes};
use biopsy_report::{TextOptions, render_html, render_json, render_markdown, render_text};
use biopsy_stacks::image::{Options, walk};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(opened) = open_bytes("fuzz", bytes.to_vec(), &Limits::default()) else { return };
    let mut options = Options { frames_per_thread: 500, frames: 5_000, ..Options::default() };
    options.symbols.debug_folders.clear();
    let stacks = walk(&*opened.image, &options);
    let analysis = analyze_dump(&*opened.image, &stacks, &DumpFacts::of(&opened));
    let diagnosis = Diagnosis::new(None, vec![analysis], Vec::new());
    assert!(render_html(&diagnosis, None).ends_with("</html>\n"));
    assert!(!render_text(&diagnosis, 0, TextOptions::default()).contains('\x1b'));
    let _ = (render_json(&diagnosis, None), render_markdown(&diagnosis, None));
});
