//! What the collector does with an event, found once for each description.

use super::messages::MessageForm;
use super::runtime::{RUNDOWN, RUNTIME};
use crate::nettrace::EventMetadata;

/// What is done with events of one description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Counted only.
    Other,
    GcStart,
    GcEnd,
    GcSuspendBegin,
    GcRestartEnd,
    GcHeapStats,
    AllocationTick,
    AllocationSample,
    Exception,
    ContentionStart,
    ContentionStop,
    PoolWorkers,
    PoolAdjustment,
    PoolMinimum,
    JittingStarted,
    MethodLoad,
    AssemblyLoad,
    RuntimeStart,
    ProcessInfo,
    ServedStart,
    ServedStop,
    ServedFailed,
    SentStart,
    SentStop,
    SentFailed,
    SentStatus,
    CommandStart,
    CommandStop,
    Source,
    Message(MessageForm),
    EventCounters,
    Metric,
}

/// By provider and id, or name, of an event.
pub(super) fn kind_of(metadata: &EventMetadata) -> Kind {
    let name = metadata.name.as_str();
    if name == "EventCounters" {
        return Kind::EventCounters;
    }
    match metadata.provider.as_str() {
        RUNTIME => match metadata.id {
            1 => Kind::GcStart,
            2 => Kind::GcEnd,
            3 => Kind::GcRestartEnd,
            4 => Kind::GcHeapStats,
            9 => Kind::GcSuspendBegin,
            10 => Kind::AllocationTick,
            303 => Kind::AllocationSample,
            80 => Kind::Exception,
            81 => Kind::ContentionStart,
            91 => Kind::ContentionStop,
            50 | 51 => Kind::PoolWorkers,
            55 => Kind::PoolAdjustment,
            59 => Kind::PoolMinimum,
            145 => Kind::JittingStarted,
            143 => Kind::MethodLoad,
            154 => Kind::AssemblyLoad,
            187 => Kind::RuntimeStart,
            _ => Kind::Other,
        },
        RUNDOWN if metadata.id == 187 => Kind::RuntimeStart,
        "Microsoft-DotNETCore-EventPipe" if name == "ProcessInfo" || metadata.id == 1 => Kind::ProcessInfo,
        "Microsoft.AspNetCore.Hosting" => match name {
            "RequestStart" => Kind::ServedStart,
            "RequestStop" => Kind::ServedStop,
            "UnhandledException" => Kind::ServedFailed,
            _ => Kind::Other,
        },
        "System.Net.Http" => match name {
            "RequestStart" => Kind::SentStart,
            "RequestStop" => Kind::SentStop,
            "RequestFailed" => Kind::SentFailed,
            "ResponseHeadersStop" => Kind::SentStatus,
            _ => Kind::Other,
        },
        // The second is System.Data.SqlClient.
        "Microsoft.Data.SqlClient.EventSource" | "Microsoft-AdoNet-SystemData" => match metadata.id {
            1 => Kind::CommandStart,
            2 => Kind::CommandStop,
            _ => Kind::Other,
        },
        "Microsoft-Diagnostics-DiagnosticSource" => Kind::Source,
        "Microsoft-Extensions-Logging" => match name {
            "FormattedMessage" => Kind::Message(MessageForm::Formatted),
            "MessageJson" => Kind::Message(MessageForm::Json),
            "Message" => Kind::Message(MessageForm::Structured),
            _ => Kind::Other,
        },
        "System.Diagnostics.Metrics" => Kind::Metric,
        _ => Kind::Other,
    }
}
