//! Which processes the rules are about now.

use biopsy_capture::Failure;
use biopsy_watch::{Engine, Settings};

use crate::exit_codes::Code;
use crate::render::terminal::ColorChoice;
use crate::standing::observed::{Eyes, may_be_watched};

use super::WatchArgs;
use super::show::{Line, Show};

/// Shows them, and the rules.
pub(super) fn show(settings: &Settings, args: &WatchArgs, color: ColorChoice) -> Result<Code, Failure> {
    let mut show = Show::new(args.json, color);
    show.rules(&settings.rules, "nothing is done; processes that the rules are about now:");
    let engine = Engine::new(settings);
    let mut eyes = Eyes::open(settings.ask_for_parents());
    for pid in eyes.pids() {
        let Some(process) = eyes.look(pid).filter(may_be_watched) else {
            continue;
        };
        for rule in engine.rules_of(&process) {
            let text = "would be watched".to_owned();
            show.line(&Line {
                event: "match",
                rule,
                pid: Some(pid.0),
                name: process.title(),
                text,
                ..Line::default()
            });
        }
    }
    Ok(Code::Ok)
}
