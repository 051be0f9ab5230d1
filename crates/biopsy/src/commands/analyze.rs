//! `biopsy analyze`: the report on a recording or a dump.

use crate::cli::AnalyzeArgs;
use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::Terminal;
use biopsy_capture::Failure;

use super::input;

/// Runs `biopsy analyze`.
pub(crate) fn analyze(args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    if let Some(dumps) = super::core::dumps_at(&args.file)? {
        return super::core::analyze(dumps, args, terminal);
    }
    if let Some(heap) = crate::snapshot::read::open(&args.file)? {
        return crate::snapshot::read::analyze(&heap, args, terminal);
    }
    let capture = input::open(&args.file, &args.symbols.roots()?)?;
    let analysis = biopsy_analyze::analyze(&capture);
    if let Some(path) = &args.html {
        let page = biopsy_report::render_html(&capture, &analysis);
        biopsy_capture::place::write_new(path, page.as_bytes())?;
    }
    if args.json {
        return out::json(biopsy_report::render_json(&capture, &analysis).into_bytes());
    }
    let text = if args.markdown {
        biopsy_report::render_markdown(&capture, &analysis)
    } else {
        let options =
            biopsy_report::TextOptions { width: terminal.width.unwrap_or(100), color: terminal.colour };
        biopsy_report::render_text_with(&capture, &analysis, options)
    };
    out::text(&text, terminal.colour)
}
