//! `peers/PID.json`: what the threads of a process waited for in other processes, and which these are.

use biopsy_model::peers::{self, PeerLook, PeerObject, PeerProcess, PeerThread, PeerWait};
use biopsy_model::{Pid, Tid};
use serde::{Deserialize, Serialize};

use super::List;

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Peers {
    /// The process itself first.
    processes: List<Process>,
    /// Processes that could not be looked at.
    #[serde(skip_serializing_if = "is_zero")]
    hidden: u64,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Process {
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<u32>,
    name: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stopped: bool,
    threads: List<Thread>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Thread {
    tid: u32,
    /// The system call; absent: it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<u32>,
    #[serde(skip_serializing_if = "is_zero")]
    argument: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Wait>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Wait {
    object: String,
    what: String,
    helpers: List<u32>,
    all_seen: bool,
    timed: bool,
    certain: bool,
    #[serde(skip_serializing_if = "is_zero")]
    unread_bytes: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    missed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

const OBJECTS: &[(PeerObject, &str)] = &[
    (PeerObject::PipeData, "pipe-data"),
    (PeerObject::PipeRoom, "pipe-room"),
    (PeerObject::Socket, "socket-data"),
    (PeerObject::SocketRoom, "socket-room"),
    (PeerObject::Events, "events"),
    (PeerObject::FileLock, "file-lock"),
    (PeerObject::Child, "child"),
    (PeerObject::Semaphore, "semaphore"),
    (PeerObject::SharedLock, "shared-lock"),
    (PeerObject::SharedWord, "shared-word"),
    (PeerObject::Inside, "inside"),
];

impl From<&PeerLook> for Peers {
    fn from(look: &PeerLook) -> Self {
        Self { processes: look.processes.clone().into(), hidden: look.hidden.into() }
    }
}

impl From<Peers> for PeerLook {
    fn from(peers: Peers) -> Self {
        Self { processes: peers.processes.into(), hidden: u32::try_from(peers.hidden).unwrap_or(u32::MAX) }
    }
}

impl From<PeerProcess> for Process {
    fn from(one: PeerProcess) -> Self {
        Self {
            pid: one.pid.0,
            parent: one.parent.map(|pid| pid.0),
            name: one.name,
            stopped: one.stopped,
            threads: one.threads.into(),
        }
    }
}

impl From<Process> for PeerProcess {
    fn from(one: Process) -> Self {
        Self {
            pid: Pid(one.pid),
            parent: one.parent.map(Pid),
            name: one.name,
            stopped: one.stopped,
            threads: one.threads.into(),
        }
    }
}

impl From<PeerThread> for Thread {
    fn from(one: PeerThread) -> Self {
        Self { tid: one.tid.0, call: one.call, argument: one.argument, wait: one.wait.map(Wait::from) }
    }
}

impl From<Thread> for PeerThread {
    fn from(one: Thread) -> Self {
        let wait = one.wait.and_then(Wait::into_model);
        Self { tid: Tid(one.tid), call: one.call, argument: one.argument, wait }
    }
}

impl From<PeerWait> for Wait {
    fn from(one: PeerWait) -> Self {
        let word = OBJECTS.iter().find(|(object, _)| *object == one.object).map_or("", |(_, word)| word);
        Self {
            object: word.to_owned(),
            what: one.what,
            helpers: one.helpers.into_iter().map(|pid| pid.0).collect::<Vec<u32>>().into(),
            all_seen: one.all_seen,
            timed: one.timed,
            certain: one.certain,
            unread_bytes: one.unread,
            missed: one.missed,
        }
    }
}

impl Wait {
    /// `None`: an object of a later version.
    fn into_model(self) -> Option<peers::PeerWait> {
        let object = OBJECTS.iter().find(|(_, word)| *word == self.object)?.0;
        let helpers: Vec<u32> = self.helpers.into();
        Some(PeerWait {
            object,
            what: self.what,
            helpers: helpers.into_iter().map(Pid).collect(),
            all_seen: self.all_seen,
            timed: self.timed,
            certain: self.certain,
            unread: self.unread_bytes,
            missed: self.missed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_wait_is_read_back() {
        let wait = |(object, _): &(PeerObject, &str)| PeerWait {
            object: *object,
            what: "data".to_owned(),
            helpers: vec![Pid(8)],
            all_seen: true,
            timed: false,
            certain: true,
            unread: 7,
            missed: true,
        };
        let thread = |wait| PeerThread { tid: Tid(7), call: Some(1), argument: 3, wait: Some(wait) };
        let process = PeerProcess {
            pid: Pid(7),
            parent: Some(Pid(1)),
            name: "a".to_owned(),
            stopped: true,
            threads: OBJECTS.iter().map(wait).map(thread).collect(),
        };
        let look = PeerLook { processes: vec![process], hidden: 2 };
        let text = serde_json::to_vec(&Peers::from(&look)).unwrap();
        assert_eq!(PeerLook::from(serde_json::from_slice::<Peers>(&text).unwrap()), look);
        let unknown: Thread = serde_json::from_str(r#"{"tid": 7, "wait": {"object": "ring"}}"#).unwrap();
        assert_eq!(PeerThread::from(unknown).wait, None);
    }
}
