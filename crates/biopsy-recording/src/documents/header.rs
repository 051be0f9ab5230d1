//! `biopsy.json`.

use biopsy_model::capture::{CaptureHeader, HostInfo};
use serde::{Deserialize, Serialize};

use super::{ClockPair, ProcessKey};
use crate::FormatVersion;

/// Value of `format`, by which a folder or zip is known to be a recording.
pub(crate) const FORMAT: &str = "biopsy-recording";

/// The part that every version can read, read first.
#[derive(Deserialize, Debug)]
pub(crate) struct FormatOnly {
    #[serde(default)]
    pub(crate) format: String,
    #[serde(default)]
    pub(crate) version: String,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Header {
    format: String,
    version: String,
    tool: String,
    command: Vec<String>,
    start: ClockPair,
    end: Option<ClockPair>,
    ended_by: String,
    target: Option<ProcessKey>,
    target_name: String,
    host: Host,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Host {
    hostname: String,
    kernel: String,
    os: String,
    architecture: String,
    cpus: u32,
    memory_bytes: u64,
    cpu_model: String,
}

impl From<&CaptureHeader> for Header {
    fn from(header: &CaptureHeader) -> Self {
        let host = &header.host;
        Self {
            format: FORMAT.to_owned(),
            version: FormatVersion::RECORDING.to_string(),
            tool: header.tool.clone(),
            command: header.command.clone(),
            start: (&header.start).into(),
            end: header.end.as_ref().map(ClockPair::from),
            ended_by: header.ended_by.as_str().to_owned(),
            target: header.target.as_ref().map(ProcessKey::from),
            target_name: header.target_name.clone(),
            host: Host {
                hostname: host.hostname.clone(),
                kernel: host.kernel.clone(),
                os: host.os.clone(),
                architecture: host.architecture.clone(),
                cpus: host.cpus,
                memory_bytes: host.memory,
                cpu_model: host.cpu_model.clone(),
            },
        }
    }
}

impl From<Header> for CaptureHeader {
    fn from(header: Header) -> Self {
        let host = header.host;
        Self {
            tool: header.tool,
            command: header.command,
            start: header.start.into(),
            end: header.end.map(Into::into),
            target: header.target.map(Into::into),
            target_name: header.target_name,
            host: HostInfo {
                hostname: host.hostname,
                kernel: host.kernel,
                os: host.os,
                architecture: host.architecture,
                cpus: host.cpus,
                memory: host.memory_bytes,
                cpu_model: host.cpu_model,
            },
            ended_by: header.ended_by.as_str().into(),
        }
    }
}
