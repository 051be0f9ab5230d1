//! Events that are the same but for the time, counted.

use biopsy_model::runtime_trace as model;
use biopsy_model::runtime_trace::RuntimeStack;
use biopsy_model::{MonoNanos, Nanos};
use serde::{Deserialize, Serialize};

use crate::documents::{List, array};

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct ExceptionGroup {
    type_name: String,
    message: String,
    stack: Option<u32>,
    count: u64,
    first: u64,
    last: u64,
}

impl From<model::ExceptionGroup> for ExceptionGroup {
    fn from(group: model::ExceptionGroup) -> Self {
        Self {
            type_name: group.type_name,
            message: group.message,
            stack: group.stack.map(|stack| stack.0),
            count: group.count,
            first: group.first.0,
            last: group.last.0,
        }
    }
}

impl From<ExceptionGroup> for model::ExceptionGroup {
    fn from(group: ExceptionGroup) -> Self {
        Self {
            type_name: group.type_name,
            message: group.message,
            stack: group.stack.map(RuntimeStack),
            count: group.count,
            first: MonoNanos(group.first),
            last: MonoNanos(group.last),
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct ContentionGroup {
    stack: Option<u32>,
    count: u64,
    total: u64,
    longest: u64,
}

impl From<model::ContentionGroup> for ContentionGroup {
    fn from(group: model::ContentionGroup) -> Self {
        let stack = group.stack.map(|stack| stack.0);
        Self { stack, count: group.count, total: group.total.0, longest: group.longest.0 }
    }
}

impl From<ContentionGroup> for model::ContentionGroup {
    fn from(group: ContentionGroup) -> Self {
        let stack = group.stack.map(RuntimeStack);
        Self { stack, count: group.count, total: Nanos(group.total), longest: Nanos(group.longest) }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct RequestGroup {
    method: String,
    route: String,
    count: u64,
    unanswered: u64,
    failed: u64,
    total: u64,
    longest: u64,
    durations: List<u32>,
    children: (u64, u32),
}

impl From<model::RequestGroup> for RequestGroup {
    fn from(group: model::RequestGroup) -> Self {
        Self {
            method: group.method,
            route: group.route,
            count: group.count,
            unanswered: group.unanswered,
            failed: group.failed,
            total: group.total.0,
            longest: group.longest.0,
            durations: group.durations.to_vec().into(),
            children: group.children,
        }
    }
}

impl From<RequestGroup> for model::RequestGroup {
    fn from(group: RequestGroup) -> Self {
        Self {
            method: group.method,
            route: group.route,
            count: group.count,
            unanswered: group.unanswered,
            failed: group.failed,
            total: Nanos(group.total),
            longest: Nanos(group.longest),
            durations: array(group.durations),
            children: group.children,
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct CommandGroup {
    text: String,
    source: String,
    count: u64,
    failed: u64,
    total: u64,
    longest: u64,
    most_in_one_request: u32,
}

impl From<model::CommandGroup> for CommandGroup {
    fn from(group: model::CommandGroup) -> Self {
        Self {
            text: group.text,
            source: group.source,
            count: group.count,
            failed: group.failed,
            total: group.total.0,
            longest: group.longest.0,
            most_in_one_request: group.most_in_one_request,
        }
    }
}

impl From<CommandGroup> for model::CommandGroup {
    fn from(group: CommandGroup) -> Self {
        Self {
            text: group.text,
            source: group.source,
            count: group.count,
            failed: group.failed,
            total: Nanos(group.total),
            longest: Nanos(group.longest),
            most_in_one_request: group.most_in_one_request,
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct MessageGroup {
    category: String,
    level_name: String,
    count: u64,
}

impl From<model::MessageGroup> for MessageGroup {
    fn from(group: model::MessageGroup) -> Self {
        Self { category: group.category, level_name: group.level_name, count: group.count }
    }
}

impl From<MessageGroup> for model::MessageGroup {
    fn from(group: MessageGroup) -> Self {
        Self { category: group.category, level_name: group.level_name, count: group.count }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct AllocationGroup {
    type_name: String,
    stack: Option<u32>,
    bytes: u64,
    samples: u64,
    large: bool,
}

impl From<model::AllocationGroup> for AllocationGroup {
    fn from(group: model::AllocationGroup) -> Self {
        Self {
            type_name: group.type_name,
            stack: group.stack.map(|stack| stack.0),
            bytes: group.bytes,
            samples: group.samples,
            large: group.large,
        }
    }
}

impl From<AllocationGroup> for model::AllocationGroup {
    fn from(group: AllocationGroup) -> Self {
        Self {
            type_name: group.type_name,
            stack: group.stack.map(RuntimeStack),
            bytes: group.bytes,
            samples: group.samples,
            large: group.large,
        }
    }
}
