//! The texts of a timeline's events, which came from processes and may hold what nobody else should read.

use biopsy_model::timeline::TimelineEvent;

/// Calls `text` with every text of an event that came from a process.
pub fn each_text(event: &mut TimelineEvent, mut text: impl FnMut(&mut String)) {
    match event {
        TimelineEvent::Module(module) => text(&mut module.path),
        TimelineEvent::Symbols(symbols) => {
            for function in &mut symbols.functions {
                text(&mut function.name);
                function.file.iter_mut().for_each(&mut text);
            }
        }
        TimelineEvent::ThreadStart { thread, .. } => text(&mut thread.name),
        TimelineEvent::ThreadName { name, .. } | TimelineEvent::Exec { name, .. } => text(name),
        TimelineEvent::Mark { label, .. } => text(label),
        TimelineEvent::Warning(warning) => {
            text(&mut warning.message);
            warning.hint.iter_mut().for_each(&mut text);
        }
        TimelineEvent::Frame(_)
        | TimelineEvent::Stack(_)
        | TimelineEvent::Settings(_)
        | TimelineEvent::ThreadExit { .. }
        | TimelineEvent::ProcessStart { .. }
        | TimelineEvent::ProcessExit { .. }
        | TimelineEvent::Sample(_)
        | TimelineEvent::Wait(_)
        | TimelineEvent::WaitSample(_)
        | TimelineEvent::States(_)
        | TimelineEvent::Allocation(_)
        | TimelineEvent::Release(_)
        | TimelineEvent::AllocationWatch(_)
        | TimelineEvent::AllocationCount(_)
        | TimelineEvent::Loss(_) => {}
    }
}
