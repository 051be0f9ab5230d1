//! Prints the events of a nettrace file whose provider contains a word, with the addresses of their stacks, innermost first: `nettrace_events FILE [WORD]`.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![expect(clippy::print_stdout, reason = "this is what it is for")]

use biopsy_dotnet::nettrace::{Limits, Reader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: nettrace_events FILE [WORD]")?;
    let word = arguments.next().unwrap_or_default();
    let mut reader = Reader::new(std::fs::File::open(file)?, &Limits::default())?;
    while let Some(event) = reader.next_event()? {
        if event.metadata.provider.contains(&word) {
            let activity: String = event.activity.iter().map(|byte| format!("{byte:02x}")).collect();
            let stack: String = event.stack.iter().map(|address| format!(" {address:x}")).collect();
            println!(
                "{} {} {}/{} ({}) {activity}{stack}",
                event.time.0, event.tid.0, event.metadata.provider, event.metadata.name, event.metadata.id
            );
        }
    }
    Ok(())
}
