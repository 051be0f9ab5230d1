//! Groups of equal stacks in the page.

use std::fmt::Write as _;

use biopsy_analyze::dump::{DumpAnalysis, FrameRow, StackGroup};

use super::html::marked;
use super::words;
use crate::html::text;
use crate::units::{count, counted};

/// Groups that are open from the start, when they matter.
const OPEN: usize = 4;
/// Groups in the page: a program with more different stacks than that is read in the JSON.
const GROUPS: usize = 1_000;
/// Threads of a group that are listed.
const MEMBERS: usize = 200;

pub(super) fn section(html: &mut String, analysis: &DumpAnalysis) {
    let _ = write!(
        html,
        "<section id=\"threads\"><h2>Threads</h2><p class=\"lead\">{} in {}. Innermost function first; threads that stand in the same \
         functions are one group.</p>",
        counted(analysis.threads.len() as u64, "thread", "threads"),
        counted(analysis.groups.len() as u64, "group of equal stacks", "groups of equal stacks")
    );
    html.push_str(
        "<div class=\"tools\" hidden><input type=\"search\" id=\"search\" placeholder=\"Function, module, thread …\" \
         aria-label=\"Search in stacks\"><span class=\"matches\" id=\"matches\" aria-live=\"polite\"></span>\
         <button type=\"button\" class=\"small\" id=\"open\">Open all</button>\
         <button type=\"button\" class=\"small\" id=\"close\">Close all</button></div>",
    );
    for (index, group) in analysis.groups.iter().take(GROUPS).enumerate() {
        one(html, analysis, index, group);
    }
    if analysis.groups.len() > GROUPS {
        let _ = write!(
            html,
            "<p class=\"note\">{} more groups are in the JSON form of this report.</p>",
            count((analysis.groups.len() - GROUPS) as u64)
        );
    }
    html.push_str("</section>\n");
}

fn one(html: &mut String, analysis: &DumpAnalysis, index: usize, group: &StackGroup) {
    let (tone, mark) = match (group.crashed, group.in_cycle, group.running) {
        (true, _, _) => ("critical", "crashed"),
        (_, true, _) => ("critical", "deadlock"),
        (_, _, running) if running > 0 => ("running", "running"),
        _ => ("", ""),
    };
    let open = if (group.crashed || group.in_cycle || analysis.groups.len() == 1) && index < OPEN {
        " open"
    } else {
        ""
    };
    let _ = write!(
        html,
        "<details class=\"stack {tone}\" id=\"stack-{index}\"{open}><summary><span class=\"count\">{}</span><span class=\"what\">\
         <b>{}</b>",
        count(group.members.len() as u64),
        text(&words::names(analysis, group))
    );
    if !mark.is_empty() {
        let _ = write!(html, " <span class=\"mark\">{mark}</span>");
    }
    let _ = write!(html, "<span class=\"doing\">{}", marked(&group.doing));
    if let Some(row) = group.own_frame() {
        let _ = write!(html, ", in <span class=\"function\">{}</span>", text(&row.label()));
    }
    html.push_str("</span></span></summary>");
    if group.members.len() > 1 {
        members(html, analysis, group);
    }
    html.push_str("<ol class=\"frames\">");
    let mut inside = 0;
    for row in &group.frames {
        if row.skipped > 0 {
            let _ = write!(html, "<li class=\"gap\">… {} more frames …</li>", count(u64::from(row.skipped)));
        }
        if row.repeats.0 > 1 {
            inside = row.repeats.1;
        }
        frame(html, row, inside > 0);
        inside = inside.saturating_sub(1);
    }
    if group.frames.is_empty() {
        html.push_str("<li class=\"gap\">no frames</li>");
    }
    html.push_str("</ol>");
    if let Some(end) = words::end(group) {
        let _ = write!(html, "<p class=\"end\">{}</p>", text(end));
    }
    html.push_str("</details>");
}

fn members(html: &mut String, analysis: &DumpAnalysis, group: &StackGroup) {
    let _ = write!(
        html,
        "<details class=\"members\"><summary>{}</summary><ul>",
        counted(group.members.len() as u64, "thread", "threads")
    );
    for thread in group.members.iter().take(MEMBERS).filter_map(|index| analysis.threads.get(*index)) {
        let _ =
            write!(html, "<li><b>{}</b> <span>{}</span></li>", text(&thread.label()), text(&thread.words()));
    }
    if group.members.len() > MEMBERS {
        let _ = write!(html, "<li>… {} more</li>", group.members.len() - MEMBERS);
    }
    html.push_str("</ul></details>");
}

fn frame(html: &mut String, row: &FrameRow, repeats: bool) {
    let mut class = String::new();
    if row.inlined {
        class.push_str("inlined ");
    }
    if repeats {
        class.push_str("repeats ");
    }
    if row.guessed() {
        class.push_str("guessed ");
    }
    let name = if row.function.is_some() { "function" } else { "function unnamed" };
    let address = format!("{:#x}", row.address.0);
    let _ = write!(
        html,
        "<li class=\"{}\" title=\"{address}\"><span class=\"{name}\">{}</span>",
        class.trim_end(),
        text(&row.label())
    );
    match row.repeats {
        (times, 1) if times > 1 => {
            let _ = write!(html, " <span class=\"times\">× {}</span>", count(u64::from(times)));
        }
        (times, rows) if times > 1 => {
            let _ = write!(html, " <span class=\"times\">these {rows} × {}</span>", count(u64::from(times)));
        }
        _ => {}
    }
    if row.inlined {
        html.push_str(" <small>inlined</small>");
    }
    if row.guessed() {
        html.push_str(" <small title=\"found by frame pointer, for want of unwind information\">by frame pointer</small>");
    }
    html.push_str("<span class=\"where\">");
    if let Some((file, line)) = &row.source {
        let short = file.rsplit('/').next().unwrap_or(file);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        let _ = write!(html, "<span title=\"{}\">{}{line}</span>", text(file), text(short));
    }
    if row.function.is_some() {
        let _ = write!(html, "<span class=\"module\">{}</span>", text(&row.module));
    }
    html.push_str("</span></li>");
}
