//! Commands of rules, held against what the command line takes.

use biopsy_standby::commands::words;
use biopsy_watch::rules::What;
use clap::Parser;

use crate::capture::CaptureArgs;
use crate::dump::DumpArgs;
use crate::recent::RecentArgs;
use crate::snapshot::SnapshotArgs;

/// Commands that rules may have, as they are typed.
#[derive(Debug, Parser)]
#[command(name = "biopsy")]
enum Standing {
    Capture(Box<CaptureArgs>),
    Trace(Box<CaptureArgs>),
    Dump(Box<DumpArgs>),
    Snapshot(SnapshotArgs),
    Recent(RecentArgs),
}

/// What is wrong with a command and what it waits for.
pub fn check(what: &What, triggers: &[&str]) -> Result<(), String> {
    for trigger in triggers {
        biopsy_capture::dump::trigger(trigger).map_err(|failure| failure.to_string())?;
    }
    let triggers: Vec<String> = triggers.iter().map(|&trigger| trigger.to_owned()).collect();
    let parsed =
        Standing::try_parse_from(std::iter::once("biopsy".to_owned()).chain(words(what, "1", &triggers)))
            .map_err(|error| first_line(&error))?;
    let planned = match &parsed {
        Standing::Capture(args) => args.plan(false).map(drop),
        Standing::Trace(args) => args.plan(true).map(drop),
        Standing::Dump(args) => args.plan().map(drop),
        Standing::Snapshot(args) => args.plan().map(drop),
        Standing::Recent(_) => Ok(()),
    };
    planned.map_err(|failure| failure.to_string())
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_line_refuses_is_refused() {
        for (text, triggers, wrong) in [
            ("trace --for 60s", &[][..], None),
            ("capture --allocations", &["cpu>=90%:5s"], None),
            ("dump", &["crash", "exception:System.IO.IOException"], None),
            ("snapshot", &[], None),
            ("recent 10m", &[], None),
            ("recent soon", &[], Some("soon")),
            ("recent 10m", &["crash"], Some("--on")),
            ("trace --fro 60s", &[], Some("--fro")),
            ("capture --for soon", &[], Some("soon")),
            ("capture", &["crash"], Some("nothing is left to record")),
            ("snapshot", &["memory>2G"], None),
            ("snapshot", &["crash"], Some("nothing is left to record")),
            ("dump", &["sunrise"], Some("sunrise")),
            ("trace 4711", &[], Some("unexpected argument")),
        ] {
            let what = What::parse(&[text]).unwrap();
            match (check(&what, triggers), wrong) {
                (Ok(()), None) => {}
                (Err(message), Some(word)) => assert!(message.contains(word), "{text}: {message}"),
                (result, _) => panic!("{text}: {result:?}"),
            }
        }
    }
}
