//! Goroutines, and threads and tasks of Python and others.
//!
//! ```text
//! Go 1.22.10 · 39 goroutines in 21 different stacks
//!
//! 2 ×  goroutine 18, 19 · waiting
//!      waits for a mutex at 0xc0000aa020 (sync.Mutex.Lock), which goroutine 19 very likely has
//!        sync.(*Mutex).Lock                                    mutex.go:90
//!        main.transfer                                         bank.go:52
//!      started by main.main
//! ```

use biopsy_analyze::dump::StrandRuntime;
use biopsy_analyze::dump::strands::{StrandFrame, StrandGroup, StrandWait, WaitKind};

use super::page::{StacksOptions, clean, cut_end};
use crate::units::counted;

/// Groups that are shown.
const GROUPS: usize = 1_000;
/// Members of a group that are named.
const NAMED: usize = 8;
/// Columns of a function's name before its file.
const FUNCTION: usize = 56;
const BOLD: &str = "1";
const DIM: &str = "2";

/// All runtimes, for the terminal. Strands of the runtime itself only with `all`.
pub(super) fn strands(runtimes: &[StrandRuntime], options: StacksOptions) -> String {
    let mut out = String::new();
    let mut line = |indent: usize, code: &str, text: &str| {
        let width = options.width.unwrap_or(usize::MAX).saturating_sub(indent);
        let text = cut_end(&clean(text), width);
        let text =
            if options.color && !code.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
        out.push_str(&format!("{}{text}\n", " ".repeat(indent)));
    };
    for runtime in runtimes {
        let word = runtime.runtime.strands.first().map_or("strand", |first| first.kind.word());
        let total = counted(runtime.runtime.total, word, &format!("{word}s"));
        let stacks = counted(runtime.stacks() as u64, "different stack", "different stacks");
        line(0, "", "");
        line(0, BOLD, &format!("{} · {total} in {stacks}", runtime.runtime.label()));
        for warning in &runtime.runtime.warnings {
            line(0, "33", &format!("not read: {warning}"));
        }
        let mut hidden = 0;
        for group in runtime.groups.iter().take(GROUPS) {
            let Some(first) = runtime.first(group) else { continue };
            if first.of_runtime && !options.all {
                hidden += group.members.len();
                continue;
            }
            line(0, "", "");
            line(
                0,
                BOLD,
                &format!("{} ×  {} · {}", group.members.len(), names(runtime, group), first.state.words()),
            );
            if let Some(wait) = runtime.wait(group).map(|wait| words(runtime, &wait)) {
                line(5, "", &wait);
            }
            for frame in first.frames.iter().take(options.frames) {
                let place = place(frame).unwrap_or_default();
                line(7, "", format!("{:FUNCTION$}  {place}", frame.function).trim_end());
            }
            if first.cut || first.frames.len() > options.frames {
                line(7, DIM, "…");
            }
            if let Some(start) = &first.started_at {
                let at = place(start).map_or(String::new(), |place| format!(" ({place})"));
                line(5, DIM, &format!("started by {}{at}", start.function));
            }
        }
        if runtime.groups.len() > GROUPS {
            line(0, "", "");
            let other = counted((runtime.groups.len() - GROUPS) as u64, "other stack", "other stacks");
            line(0, DIM, &format!("and {other}"));
        }
        if hidden > 0 {
            line(0, "", "");
            line(0, DIM, &format!("and {hidden} of the runtime itself: see `--all`"));
        }
    }
    out
}

fn names(runtime: &StrandRuntime, group: &StrandGroup) -> String {
    let members = group.members.iter().filter_map(|index| runtime.runtime.strands.get(*index));
    let mut named: Vec<String> = members
        .take(NAMED)
        .enumerate()
        .map(|(index, strand)| {
            let label = runtime.label(strand);
            // The word once, then numbers and names.
            let short = label.strip_prefix(strand.kind.word()).map(|rest| rest.trim_start().to_owned());
            if index == 0 { label } else { short.unwrap_or(label) }
        })
        .collect();
    if group.members.len() > NAMED {
        named.push(format!("{} more", group.members.len() - NAMED));
    }
    named.join(", ")
}

fn words(runtime: &StrandRuntime, wait: &StrandWait) -> String {
    let mut text = match wait.kind {
        WaitKind::Other if !wait.reason.is_empty() => format!("waits for {}", wait.reason),
        kind => format!("waits for {}", kind.words()),
    };
    if let Some(address) = wait.address {
        text.push_str(&format!(" at {address:#x}"));
    }
    if let Some(descriptor) = wait.descriptor {
        text.push_str(&format!(" (descriptor {descriptor})"));
    }
    if wait.kind != WaitKind::Other && !wait.reason.is_empty() {
        text.push_str(&format!(" ({})", wait.reason));
    }
    if wait.never_ends {
        text.push_str(", which nothing can end");
    }
    for (holder, owner) in runtime.owners_of(wait).take(NAMED) {
        let frame = owner.frame.and_then(|frame| holder.frames.get(frame));
        let since = frame.map_or(String::new(), |frame| {
            let at = place(frame).map_or(String::new(), |place| format!(" ({place})"));
            format!(" in {}{at}", frame.function)
        });
        let (label, sure) = (runtime.label(holder), owner.confidence.words());
        match wait.kind {
            WaitKind::Join | WaitKind::Future => text.push_str(&format!(": {label}")),
            _ => text.push_str(&format!(", which {label} {sure} has{since}")),
        }
    }
    text
}

/// `bank.go:52`.
fn place(frame: &StrandFrame) -> Option<String> {
    let file = frame.file.as_deref()?;
    let name = file.rsplit('/').next().unwrap_or(file);
    Some(frame.line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}")))
}
