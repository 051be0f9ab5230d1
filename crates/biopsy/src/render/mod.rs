//! How reports and results look on a terminal.

pub(crate) mod result;

use biopsy_report::TextOptions;
use biopsy_terminal::Terminal;

/// How reports are shown: longer lines than this are hard to read.
pub(crate) fn for_reports(terminal: Terminal) -> TextOptions {
    const WIDEST: usize = 120;
    TextOptions { width: terminal.width.map(|width| width.min(WIDEST)), color: terminal.colour }
}
