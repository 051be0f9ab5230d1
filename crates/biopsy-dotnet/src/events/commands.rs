//! Commands to data bases.

use super::group_text::command_group;
use super::kept::Heaviest;
use super::limits::Limits;
use super::requests::{Identity, Requests};
use crate::nettrace::Text;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{CommandGroup, DataCommand, Kept};
use biopsy_model::{MonoNanos, Nanos};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// What names a command between its start and its stop.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum CommandKey {
    /// `objectId` of an event source.
    Object(i64),
    /// `OperationId` of a diagnostic source.
    Operation(String),
}

#[derive(Debug)]
struct Open {
    start: MonoNanos,
    group: usize,
    trace: Option<String>,
}

/// Commands by text.
#[derive(Debug)]
pub(super) struct Commands {
    open: FxHashMap<CommandKey, Open>,
    groups: Vec<CommandGroup>,
    by_name: FxHashMap<(String, String), usize>,
    /// By a hash of text and source as they come.
    remembered: FxHashMap<u64, usize>,
    slowest: Heaviest<DataCommand>,
    limits: Limits,
}

impl Commands {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            open: FxHashMap::default(),
            groups: Vec::new(),
            by_name: FxHashMap::default(),
            remembered: FxHashMap::default(),
            slowest: Heaviest::new(limits.items),
            limits: *limits,
        }
    }

    /// A command is sent.
    #[expect(clippy::too_many_arguments, reason = "what an event says, and to whom it belongs")]
    pub(super) fn start(
        &mut self,
        time: MonoNanos,
        key: CommandKey,
        text: Text<'_>,
        server: Text<'_>,
        database: Text<'_>,
        identity: Identity<'_>,
        requests: &mut Requests,
        redact: &mut dyn FnMut(&str) -> String,
    ) {
        let group = self.group_of(text, server, database, redact);
        let request = requests.around(identity);
        let mut trace = identity.trace.map(str::to_owned);
        if let Some(request) = request {
            let count = requests.add_command(request, group);
            if let Some(group) = self.groups.get_mut(group) {
                group.most_in_one_request = group.most_in_one_request.max(count);
            }
            trace = trace.or_else(|| requests.trace_of(request));
        }
        if self.open.len() >= self.limits.open && !self.open.contains_key(&key) {
            self.slowest.count_only();
            return;
        }
        if let Some(unended) = self.open.insert(key, Open { start: time, group, trace }) {
            // Its end was lost.
            self.keep(unended, None, false, time);
        }
    }

    /// A command has ended.
    pub(super) fn stop(&mut self, time: MonoNanos, key: &CommandKey, failed: bool) {
        let Some(open) = self.open.remove(key) else { return };
        let duration = time.since(open.start);
        if let Some(group) = self.groups.get_mut(open.group) {
            group.count += 1;
            group.failed += u64::from(failed);
            group.total = group.total + duration;
            group.longest = group.longest.max(duration);
        }
        self.keep(open, Some(duration), failed, time);
    }

    fn keep(&mut self, open: Open, duration: Option<Nanos>, failed: bool, now: MonoNanos) {
        let Some(group) = self.groups.get(open.group) else { return };
        let weight = duration.unwrap_or_else(|| now.since(open.start));
        self.slowest.offer(weight.0, || DataCommand {
            start: open.start,
            duration,
            text: group.text.clone(),
            source: group.source.clone(),
            failed,
            trace_id: open.trace,
        });
    }

    fn group_of(
        &mut self,
        text: Text<'_>,
        server: Text<'_>,
        database: Text<'_>,
        redact: &mut dyn FnMut(&str) -> String,
    ) -> usize {
        let mut hasher = FxHasher::default();
        for part in [text, server, database] {
            part.bytes().hash(&mut hasher);
        }
        let hash = hasher.finish();
        if let Some(index) = self.remembered.get(&hash) {
            return *index;
        }
        let limit = self.limits.text;
        let source = match (server.is_empty(), database.is_empty()) {
            (_, true) => server.to_string_of(limit),
            (true, false) => database.to_string_of(limit),
            (false, false) => format!("{}/{}", server.to_string_of(limit), database.to_string_of(limit)),
        };
        // Literals first: what a rule of redaction could not know is gone then.
        let command = redact(&command_group(&text.to_string_of(limit)));
        let index = self.named(command, redact(&source));
        if self.remembered.len() >= self.limits.remembered {
            self.remembered.clear();
        }
        self.remembered.insert(hash, index);
        index
    }

    fn named(&mut self, text: String, source: String) -> usize {
        let mut key = (text, source);
        if let Some(index) = self.by_name.get(&key) {
            return *index;
        }
        if self.groups.len() >= self.limits.groups {
            key = ("(others)".to_owned(), String::new());
            if let Some(index) = self.by_name.get(&key) {
                return *index;
            }
        }
        self.groups.push(CommandGroup {
            text: key.0.clone(),
            source: key.1.clone(),
            count: 0,
            failed: 0,
            total: Nanos(0),
            longest: Nanos(0),
            most_in_one_request: 0,
        });
        self.by_name.insert(key, self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// `end`: the last moment.
    pub(super) fn finish(mut self, end: MonoNanos) -> (Kept<DataCommand>, Vec<CommandGroup>) {
        let mut open: Vec<Open> = std::mem::take(&mut self.open).into_values().collect();
        open.order_by_key(|open| open.start);
        for open in open {
            self.keep(open, None, false, end);
        }
        let mut groups = self.groups;
        groups.order_by_key(|group| std::cmp::Reverse(group.total));
        (self.slowest.finish(|command| command.start), groups)
    }
}
