//! A recording under other names: all that a program, its machine or its user called something.

use super::named::Names;
use biopsy_analyze::{Analysis, Finding, Recorded, RuntimePlace};
use biopsy_model::capture::Capture;

/// Gives everything another name, in the recording and in what was made of it.
pub fn rename(recorded: &mut Recorded, name: Names<'_>) {
    capture(&mut recorded.capture, name);
    analysis(&mut recorded.analysis, name);
}

fn set(text: &mut String, name: Names<'_>) {
    // What has no name gets none.
    if !text.is_empty() {
        *text = name(text);
    }
}

fn capture(capture: &mut Capture, name: Names<'_>) {
    let header = &mut capture.header;
    let host = &mut header.host;
    let texts = [&mut header.target_name, &mut header.tool, &mut header.start.zone];
    let machine = [&mut host.hostname, &mut host.kernel, &mut host.os, &mut host.cpu_model];
    texts.into_iter().chain(machine).chain(&mut header.command).for_each(|text| set(text, name));
    for process in &mut capture.processes {
        let texts = [&mut process.name, &mut process.exe, &mut process.cgroup];
        texts
            .into_iter()
            .chain(&mut process.command_line)
            .chain(&mut process.unit)
            .for_each(|text| set(text, name));
    }
    for table in &mut capture.metrics {
        // The first key of processes is a number.
        let from = usize::from(table.name == "processes");
        table.rows.iter_mut().flat_map(|row| row.keys.iter_mut().skip(from)).for_each(|text| set(text, name));
    }
    for log in &mut capture.logs {
        set(&mut log.source, name);
        log.lines.iter_mut().for_each(|line| set(&mut line.text, name));
    }
    for (member, text) in &mut capture.context {
        set(member, name);
        set(text, name);
    }
    for warning in &mut capture.warnings {
        [&mut warning.code, &mut warning.message]
            .into_iter()
            .chain(&mut warning.hint)
            .for_each(|text| set(text, name));
    }
    for row in &mut capture.redactions {
        set(&mut row.member, name);
        set(&mut row.rule, name);
    }
    if let Some(timeline) = &mut capture.timeline {
        timeline.modules.iter_mut().for_each(|module| set(&mut module.path, name));
        timeline.threads.iter_mut().for_each(|life| set(&mut life.info.name, name));
        timeline.marks.iter_mut().for_each(|(_, label)| set(label, name));
        for function in timeline.symbols.iter_mut().flatten().flat_map(|symbols| &mut symbols.functions) {
            set(&mut function.name, name);
        }
    }
    for trace in &mut capture.runtimes {
        trace.functions.iter_mut().for_each(|function| set(&mut function.name, name));
        for item in &mut trace.exceptions.items {
            set(&mut item.type_name, name);
            set(&mut item.message, name);
        }
        trace.requests.items.iter_mut().for_each(|item| set(&mut item.path, name));
        for item in &mut trace.messages.items {
            set(&mut item.category, name);
            set(&mut item.text, name);
        }
    }
}

fn analysis(analysis: &mut Analysis, name: Names<'_>) {
    for row in &mut analysis.functions {
        set(&mut row.name, name);
        set(&mut row.module, name);
    }
    analysis.threads.rows.iter_mut().for_each(|row| set(&mut row.name, name));
    analysis.threads.groups.iter_mut().for_each(|group| set(&mut group.name, name));
    analysis.flames.threads.iter_mut().for_each(|thread| set(&mut thread.name, name));
    analysis.logs.topics.iter_mut().for_each(|topic| set(&mut topic.example, name));
    analysis.completeness.undetermined.iter_mut().for_each(|sentence| set(sentence, name));
    set(&mut analysis.completeness.method, name);
    analysis.findings.iter_mut().for_each(|one| finding(one, name));
    for row in &mut analysis.metrics.notables {
        set(&mut row.key, name);
        set(&mut row.text, name);
    }
    for runtime in &mut analysis.runtimes {
        set(&mut runtime.label, name);
        let places = runtime.exceptions.iter_mut().map(|row| &mut row.place);
        let places = places.chain(runtime.contention.iter_mut().map(|row| &mut row.place));
        let places = places.chain(runtime.allocations.iter_mut().map(|row| &mut row.place));
        places.for_each(|one| place(one, name));
        for row in &mut runtime.exceptions {
            set(&mut row.type_name, name);
            set(&mut row.message, name);
        }
        runtime.allocations.iter_mut().for_each(|row| set(&mut row.type_name, name));
        for row in runtime.requests.iter_mut().chain(&mut runtime.outgoing) {
            set(&mut row.method, name);
            set(&mut row.route, name);
        }
        runtime.commands.iter_mut().for_each(|row| set(&mut row.text, name));
        runtime.messages.iter_mut().for_each(|row| set(&mut row.category, name));
        for row in &mut runtime.providers {
            set(&mut row.provider, name);
            row.events.iter_mut().for_each(|(event, _)| set(event, name));
        }
    }
}

fn place(place: &mut RuntimePlace, name: Names<'_>) {
    set(&mut place.function, name);
    place.via.iter_mut().for_each(|via| set(via, name));
}

fn finding(finding: &mut Finding, name: Names<'_>) {
    std::iter::once(&mut finding.title).chain(&mut finding.next_steps).for_each(|text| set(text, name));
    // Sentences begin with words of ours.
    finding.explanation = format!("So: {}", name(&finding.explanation));
    finding.evidence.iter_mut().for_each(|one| set(&mut one.text, name));
}
