//! Log messages of the application: `Microsoft-Extensions-Logging`.

use super::limits::Limits;
use crate::nettrace::{Text, Values};
use biopsy_model::log::LogLevel;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{Kept, LogMessage, MessageGroup};
use biopsy_model::{MonoNanos, Tid};
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Names of levels, by number (`Microsoft.Extensions.Logging.LogLevel`).
const LEVELS: [(&str, LogLevel); 7] = [
    ("Trace", LogLevel::Debug),
    ("Debug", LogLevel::Debug),
    ("Information", LogLevel::Info),
    ("Warning", LogLevel::Warning),
    ("Error", LogLevel::Error),
    ("Critical", LogLevel::Error),
    ("None", LogLevel::Unknown),
];

/// Which of the events that tell of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageForm {
    /// Level, category, text (keyword 4).
    Formatted,
    /// The same with arguments and exception as JSON (keyword 8).
    Json,
    /// With arguments as structures (keyword 2).
    Structured,
}

/// Messages: the last ones, of warnings and worse and of others, and groups of all.
#[derive(Debug)]
pub(super) struct Messages {
    bad: VecDeque<LogMessage>,
    other: VecDeque<LogMessage>,
    total: u64,
    groups: FxHashMap<(u64, usize), MessageGroup>,
    /// Threads whose message was told by its first event: the events of other forms follow on the same thread.
    told: FxHashMap<Tid, (MessageForm, u64)>,
    limits: Limits,
}

impl Messages {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            bad: VecDeque::new(),
            other: VecDeque::new(),
            total: 0,
            groups: FxHashMap::default(),
            told: FxHashMap::default(),
            limits: *limits,
        }
    }

    /// One event.
    pub(super) fn event(&mut self, time: MonoNanos, tid: Tid, form: MessageForm, values: Values<'_>) {
        let mut level = 6;
        let (mut category, mut text) = (Text::default(), Text::default());
        let (mut event_name, mut event_id) = (Text::default(), 0);
        let (mut exception, mut arguments) = (Text::default(), Text::default());
        for (name, value) in values {
            match name {
                "Level" => level = usize::try_from(value.int().unwrap_or(6)).unwrap_or(6).min(6),
                "EventId" => event_id = value.int().unwrap_or(0),
                "LoggerName" => category = value.text().unwrap_or_default(),
                "FormattedMessage" => text = value.text().unwrap_or_default(),
                "EventName" => event_name = value.text().unwrap_or_default(),
                "ExceptionJson" => exception = value.text().unwrap_or_default(),
                "ArgumentsJson" => arguments = value.text().unwrap_or_default(),
                _ => (),
            }
        }
        let mut hasher = FxHasher::default();
        category.bytes().hash(&mut hasher);
        let category_hash = hasher.finish();
        // One message may come in up to three forms, in this order: formatted, structured, JSON.
        let follows = match self.told.get(&tid) {
            Some((MessageForm::Formatted, told)) => form != MessageForm::Formatted && *told == category_hash,
            Some((MessageForm::Structured, told)) => form == MessageForm::Json && *told == category_hash,
            Some((MessageForm::Json, _)) | None => false,
        };
        let exception = exception_of(exception);
        if follows {
            if form == MessageForm::Json {
                self.told.remove(&tid);
            }
            if let Some(exception) = exception {
                let list = if (3..6).contains(&level) { &mut self.bad } else { &mut self.other };
                if let Some(last) = list.iter_mut().rev().take(64).find(|message| message.tid == tid) {
                    last.exception = Some(exception);
                }
            }
            return;
        }
        if form != MessageForm::Json && (self.told.len() < self.limits.open || self.told.contains_key(&tid)) {
            self.told.insert(tid, (form, category_hash));
        }
        self.total += 1;
        let (level_name, log_level) = LEVELS.get(level).copied().unwrap_or(("None", LogLevel::Unknown));
        let group = (category_hash, level);
        let known = self.groups.contains_key(&group);
        let group = if known || self.groups.len() < self.limits.groups { group } else { (0, 7) };
        let limit = self.limits.text;
        let entry = self.groups.entry(group).or_insert_with(|| MessageGroup {
            category: if group.1 == 7 { "(others)".to_owned() } else { category.to_string_of(limit) },
            level_name: if group.1 == 7 { String::new() } else { level_name.to_owned() },
            count: 0,
        });
        entry.count += 1;
        let category = if group.1 == 7 { category.to_string_of(limit) } else { entry.category.clone() };
        let text = if text.is_empty() { from_arguments(arguments, limit) } else { text.to_string_of(limit) };
        let event = match (event_id, event_name.is_empty()) {
            (0, true) => None,
            (id, true) => Some(id.to_string()),
            (id, false) => Some(format!("{} ({id})", event_name.to_string_of(limit))),
        };
        let list = if (3..6).contains(&level) { &mut self.bad } else { &mut self.other };
        if list.len() >= self.limits.items {
            list.pop_front();
        }
        list.push_back(LogMessage {
            time,
            tid,
            level: log_level,
            level_name: level_name.to_owned(),
            category,
            event,
            // Redacting is the dear part, and most messages are pushed out again: it is done in the end.
            text,
            exception,
        });
    }

    pub(super) fn finish(
        self,
        redact: &mut dyn FnMut(&str) -> String,
    ) -> (Kept<LogMessage>, Vec<MessageGroup>) {
        let mut items: Vec<LogMessage> = self.bad.into();
        let room = self.limits.items.saturating_sub(items.len());
        let skip = self.other.len().saturating_sub(room);
        items.extend(self.other.into_iter().skip(skip));
        items.order_by_key(|message| message.time);
        for message in &mut items {
            message.text = redact(&message.text);
            message.category = redact(&message.category);
            message.event = message.event.as_deref().map(&mut *redact);
            message.exception = message.exception.as_deref().map(&mut *redact);
        }
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.iter_mut().for_each(|group| group.category = redact(&group.category));
        groups.order_by(|left, right| {
            (right.count, &left.category, &left.level_name).cmp(&(
                left.count,
                &right.category,
                &right.level_name,
            ))
        });
        (Kept { items, total: self.total }, groups)
    }
}

/// Type and message of an exception in JSON: `{"TypeName": .., "Message": .., ..}`; `{}` is none.
fn exception_of(json: Text<'_>) -> Option<String> {
    if json.len() <= 2 {
        return None;
    }
    let parsed: serde_json::Value = serde_json::from_str(&json.to_string_of(1 << 16)).ok()?;
    let part = |name: &str| parsed.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let (type_name, message) = (part("TypeName"), part("Message"));
    (!type_name.is_empty()).then(|| format!("{type_name}: {message}"))
}

/// The text of a message of which only template and arguments are told.
fn from_arguments(json: Text<'_>, limit: usize) -> String {
    let Ok(parsed) = serde_json::from_str::<serde_json::Value>(&json.to_string_of(1 << 16)) else {
        return String::new();
    };
    let value_of = |name: &str| match parsed.get(name) {
        Some(serde_json::Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
        None => None,
    };
    let Some(template) = value_of("{OriginalFormat}") else { return String::new() };
    let mut text = String::new();
    let mut rest = template.as_str();
    while let Some((head, tail)) = rest.split_once('{') {
        text.push_str(head);
        let Some((name, behind)) = tail.split_once('}') else {
            rest = rest.get(head.len()..).unwrap_or_default();
            break;
        };
        let plain = name.split([':', ',']).next().unwrap_or_default();
        text.push_str(&value_of(plain).unwrap_or_else(|| format!("{{{name}}}")));
        rest = behind;
        if text.len() > limit {
            break;
        }
    }
    text.push_str(rest);
    text
}
