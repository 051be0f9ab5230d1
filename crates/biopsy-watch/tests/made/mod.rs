//! Rules, processes and moments by hand, and what was decided about them.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_model::{BootId, Pid, ProcessKey};
use biopsy_watch::engine::{Decision, Disk, Fire};
use biopsy_watch::{Held, Layer, Moment, Observed, Settings};

pub(crate) const PLENTY: Disk = Disk { free: u64::MAX };

pub(crate) fn settings(rules: &str) -> Settings {
    let text = format!("{{\"watch\": {{{rules}}}}}");
    let layer = Layer::parse("user", PathBuf::from("x.json"), text).unwrap();
    let (settings, problems) = Settings::of(&[layer], &|_, _| Ok(()));
    assert!(problems.is_empty(), "{problems:?}");
    settings
}

pub(crate) fn rule(more: &str) -> Settings {
    settings(&format!("\"rules\": {{\"r\": {{\"who\": {{\"name\": \"worker\"}}{more}}}}}"))
}

pub(crate) fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

pub(crate) fn worker(pid: u32, age: u64) -> Observed {
    Observed {
        key: ProcessKey { boot_id: BootId::default(), pid: Pid(pid), start_ticks: u64::from(pid) },
        is_held: false,
        parent: Pid(1),
        name: "worker".to_owned(),
        exe: "/usr/bin/worker".to_owned(),
        entry: None,
        arguments: vec!["worker".to_owned()],
        uid: 1000,
        user: "ann".to_owned(),
        unit: None,
        container: None,
        parent_names: Vec::new(),
        age: Duration::from_secs(age),
        cpu: Duration::ZERO,
        resident_bytes: 0,
        threads: 1,
    }
}

pub(crate) fn fires(decisions: Vec<Decision>) -> Vec<Fire> {
    let fire = |decision| match decision {
        Decision::Fire(fire) => Some(fire),
        Decision::Held { .. } => None,
    };
    decisions.into_iter().filter_map(fire).collect()
}

pub(crate) fn held(decisions: &[Decision]) -> Vec<Held> {
    let held = |decision: &Decision| match decision {
        Decision::Held { why, .. } => Some(*why),
        Decision::Fire(_) => None,
    };
    decisions.iter().filter_map(held).collect()
}
