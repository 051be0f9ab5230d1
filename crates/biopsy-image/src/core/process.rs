//! Facts of the process, from the notes.

use biopsy_model::Pid;

use super::dialect::Writer;
use super::notes::Notes;
use crate::mapping::find;
use crate::process::auxiliary;
use crate::{Mapping, ProcessFacts};

pub(super) fn build(notes: &Notes, mappings: &[Mapping], writer: Writer) -> ProcessFacts {
    let mut facts = ProcessFacts {
        auxiliary: notes.auxiliary.clone(),
        executable: executable(notes, mappings),
        writer: writer.name().map(str::to_owned),
        ..ProcessFacts::default()
    };
    if let Some(process) = &notes.process {
        facts.pid = Pid(process.pid);
        facts.parent = (process.parent != 0).then_some(Pid(process.parent));
        facts.group = Some((process.group, process.session));
        facts.name.clone_from(&process.name);
        // createdump leaves the owner at zero, which would say root.
        facts.owner = (writer != Writer::Createdump).then_some((process.user, process.group_id));
        // The kernel puts a space where an argument ends; where arguments have spaces of their own cannot be told.
        facts.command_line = process
            .arguments
            .split(|byte| *byte == b' ')
            .filter(|argument| !argument.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
    }
    if let Some(dump) = &notes.dump {
        facts.kernel.clone_from(&dump.kernel);
        facts.taken_at_unix_nanos = dump.taken_at_unix_nanos;
        facts.writer = Some(dump.writer.clone()).filter(|writer| !writer.is_empty()).or(facts.writer);
        facts.executable = dump.executable.clone().or(facts.executable);
    }
    facts
}

/// The file that holds the program headers or the entry point that the kernel told the dynamic linker.
fn executable(notes: &Notes, mappings: &[Mapping]) -> Option<Vec<u8>> {
    [auxiliary::PHDR, auxiliary::ENTRY].into_iter().find_map(|wanted| {
        let (_, address) = notes.auxiliary.iter().find(|(kind, _)| *kind == wanted)?;
        find(mappings, *address)?.path().map(<[u8]>::to_vec)
    })
}
