//! `target/processes.json`.

use biopsy_model::Pid;
use biopsy_model::process::{self, ProcessInfo, RuntimeKind};
use serde::{Deserialize, Serialize};

use super::{ProcessKey, spellings};

spellings!(runtime_text, runtime_kind, RuntimeKind, unknown = RuntimeKind::Unknown, {
    "dotnet" = RuntimeKind::DotNet,
    "jvm" = RuntimeKind::Jvm,
    "node" = RuntimeKind::Node,
    "python" = RuntimeKind::Python,
    "go" = RuntimeKind::Go,
    "other-interpreter" = RuntimeKind::OtherInterpreter,
    "native" = RuntimeKind::Native,
    "unknown" = RuntimeKind::Unknown,
});

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Process {
    key: ProcessKey,
    parent: u32,
    name: String,
    exe: String,
    exe_deleted: bool,
    command_line: Vec<String>,
    uid: u32,
    runtime: Runtime,
    ns_pid: Option<u32>,
    cgroup: String,
    container_id: Option<String>,
    unit: Option<String>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Runtime {
    kind: String,
    version: Option<String>,
    entry: Option<String>,
}

impl From<process::Runtime> for Runtime {
    fn from(runtime: process::Runtime) -> Self {
        Self { kind: runtime_text(runtime.kind).to_owned(), version: runtime.version, entry: runtime.entry }
    }
}

impl From<Runtime> for process::Runtime {
    fn from(runtime: Runtime) -> Self {
        Self { kind: runtime_kind(&runtime.kind), version: runtime.version, entry: runtime.entry }
    }
}

impl From<&ProcessInfo> for Process {
    fn from(process: &ProcessInfo) -> Self {
        Self {
            key: (&process.key).into(),
            parent: process.parent.0,
            name: process.name.clone(),
            exe: process.exe.clone(),
            exe_deleted: process.exe_deleted,
            command_line: process.command_line.clone(),
            uid: process.uid,
            runtime: process.runtime.clone().into(),
            ns_pid: process.ns_pid,
            cgroup: process.cgroup.clone(),
            container_id: process.container_id.clone(),
            unit: process.unit.clone(),
        }
    }
}

impl From<Process> for ProcessInfo {
    fn from(process: Process) -> Self {
        Self {
            key: process.key.into(),
            parent: Pid(process.parent),
            name: process.name,
            exe: process.exe,
            exe_deleted: process.exe_deleted,
            command_line: process.command_line,
            uid: process.uid,
            runtime: process.runtime.into(),
            ns_pid: process.ns_pid,
            cgroup: process.cgroup,
            container_id: process.container_id,
            unit: process.unit,
        }
    }
}
