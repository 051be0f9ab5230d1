//! Requests that the application serves, or sends, from start to stop.

use super::activity::{Path, enclosing};
use super::group_text::{path_group, url_without_query};
use super::kept::Heaviest;
use super::limits::Limits;
use super::request_groups::RequestGroups;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{Kept, Request, RequestGroup};
use biopsy_model::{MonoNanos, Nanos, Tid};
use rustc_hash::FxHashMap;

/// Most kinds of commands that are told apart within one request.
const KINDS: usize = 64;

/// Identities that an event has: what it belongs to is found by them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Identity<'a> {
    /// Path of the activity.
    pub(super) path: Option<Path>,
    /// W3C trace id, in text.
    pub(super) trace: Option<&'a str>,
    /// Id of a `System.Diagnostics.Activity`, in text.
    pub(super) id: Option<&'a str>,
    pub(super) tid: Tid,
}

/// What a start says.
#[derive(Clone, Debug, Default)]
pub(super) struct Started {
    pub(super) method: String,
    /// Path or URL; the query is cut off.
    pub(super) path: String,
    /// Route template (served), host (sent).
    pub(super) route: Option<String>,
    /// Told by a diagnostic source, and ended by it.
    pub(super) by_source: bool,
}

#[derive(Debug)]
struct Open {
    start: MonoNanos,
    what: Started,
    status: Option<u16>,
    children: u32,
    trace: Option<String>,
    id: Option<String>,
    path: Option<Path>,
    tid: Tid,
    /// Commands by group.
    commands: Vec<(usize, u32)>,
}

/// Requests of one direction.
#[derive(Debug)]
pub(super) struct Requests {
    open: FxHashMap<u64, Open>,
    next: u64,
    by_path: FxHashMap<Path, u64>,
    by_id: FxHashMap<String, u64>,
    by_trace: FxHashMap<String, u64>,
    by_thread: FxHashMap<Tid, u64>,
    slowest: Heaviest<Request>,
    groups: RequestGroups,
    limits: Limits,
}

impl Requests {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            open: FxHashMap::default(),
            next: 0,
            by_path: FxHashMap::default(),
            by_id: FxHashMap::default(),
            by_trace: FxHashMap::default(),
            by_thread: FxHashMap::default(),
            slowest: Heaviest::new(limits.items),
            groups: RequestGroups::new(limits),
            limits: *limits,
        }
    }

    /// A request begins.
    pub(super) fn start(&mut self, time: MonoNanos, identity: Identity<'_>, mut what: Started) {
        if self.open.len() >= self.limits.open {
            self.slowest.count_only();
            return;
        }
        what.path = url_without_query(&what.path);
        let key = self.next;
        self.next += 1;
        if let Some(path) = identity.path {
            self.by_path.insert(path, key);
        }
        if let Some(id) = identity.id {
            self.by_id.insert(id.to_owned(), key);
        }
        if let Some(trace) = identity.trace {
            self.by_trace.entry(trace.to_owned()).or_insert(key);
        }
        self.by_thread.insert(identity.tid, key);
        self.open.insert(
            key,
            Open {
                start: time,
                what,
                status: None,
                children: 0,
                trace: identity.trace.map(str::to_owned),
                id: identity.id.map(str::to_owned),
                path: identity.path,
                tid: identity.tid,
                commands: Vec::new(),
            },
        );
    }

    /// The request that exactly this event is about.
    pub(super) fn exact(&self, identity: Identity<'_>) -> Option<u64> {
        let by_id = identity.id.and_then(|id| self.by_id.get(id));
        let by_path = || identity.path.and_then(|path| self.by_path.get(&path));
        by_id.or_else(by_path).copied().or_else(|| self.on_thread(identity))
    }

    /// The request on whose behalf something happens.
    pub(super) fn around(&self, identity: Identity<'_>) -> Option<u64> {
        let by_path =
            identity.path.and_then(|path| enclosing(&path).find_map(|path| self.by_path.get(&path).copied()));
        let by_trace = || identity.trace.and_then(|trace| self.by_trace.get(trace).copied());
        by_path.or_else(by_trace).or_else(|| self.on_thread(identity))
    }

    /// Without activities the thread is all there is, and is right as long as nothing was awaited.
    fn on_thread(&self, identity: Identity<'_>) -> Option<u64> {
        if identity.path.is_some() {
            return None;
        }
        let key = *self.by_thread.get(&identity.tid)?;
        self.open.get(&key).filter(|open| open.path.is_none()).map(|_| key)
    }

    /// More is known of a request: what was told first stays.
    pub(super) fn enrich(&mut self, key: u64, identity: Identity<'_>, route: Option<String>) {
        let Some(open) = self.open.get_mut(&key) else { return };
        if let (None, Some(id)) = (&open.id, identity.id) {
            open.id = Some(id.to_owned());
            self.by_id.insert(id.to_owned(), key);
        }
        if let (None, Some(trace)) = (&open.trace, identity.trace) {
            open.trace = Some(trace.to_owned());
            self.by_trace.entry(trace.to_owned()).or_insert(key);
        }
        if route.is_some() {
            open.what.route = route;
        }
    }

    /// The answer's status is known; 0: there was none.
    pub(super) fn set_status(&mut self, key: u64, status: u16) {
        if let Some(open) = self.open.get_mut(&key) {
            open.status = Some(status);
        }
    }

    /// Whether a diagnostic source told of its start.
    pub(super) fn is_by_source(&self, key: u64) -> bool {
        self.open.get(&key).is_some_and(|open| open.what.by_source)
    }

    /// Something is sent on its behalf.
    pub(super) fn add_child(&mut self, key: u64) {
        if let Some(open) = self.open.get_mut(&key) {
            open.children = open.children.saturating_add(1);
        }
    }

    /// A command of a group is sent on its behalf; returns how many of this group there are.
    pub(super) fn add_command(&mut self, key: u64, group: usize) -> u32 {
        self.add_child(key);
        let Some(open) = self.open.get_mut(&key) else { return 0 };
        if let Some((_, count)) = open.commands.iter_mut().find(|(known, _)| *known == group) {
            *count = count.saturating_add(1);
            return *count;
        }
        if open.commands.len() < KINDS {
            open.commands.push((group, 1));
        }
        1
    }

    /// The trace id of a request.
    pub(super) fn trace_of(&self, key: u64) -> Option<String> {
        self.open.get(&key).and_then(|open| open.trace.clone())
    }

    /// The request ends.
    pub(super) fn stop(&mut self, key: u64, time: MonoNanos, redact: &mut dyn FnMut(&str) -> String) {
        let Some(open) = self.take(key) else { return };
        let duration = time.since(open.start);
        let group = self.group_of(&open, redact);
        self.groups.ended(group, duration, open.status, open.children);
        self.slowest.offer(duration.0, || open.into_request(Some(duration), redact));
    }

    fn group_of(&mut self, open: &Open, redact: &mut dyn FnMut(&str) -> String) -> usize {
        let Started { method, path, route, .. } = &open.what;
        self.groups.of(method, path, route.as_deref(), redact)
    }

    fn take(&mut self, key: u64) -> Option<Open> {
        let open = self.open.remove(&key)?;
        let is = |found: Option<&u64>| found == Some(&key);
        if let Some(path) = open.path.filter(|path| is(self.by_path.get(path))) {
            self.by_path.remove(&path);
        }
        if let Some(id) = open.id.as_ref().filter(|id| is(self.by_id.get(*id))) {
            self.by_id.remove(id);
        }
        if let Some(trace) = open.trace.as_ref().filter(|trace| is(self.by_trace.get(*trace))) {
            self.by_trace.remove(trace);
        }
        if is(self.by_thread.get(&open.tid)) {
            self.by_thread.remove(&open.tid);
        }
        Some(open)
    }

    /// Forgets those that began before `time` and have no end: it may have been told while nobody listened, and to call them
    /// unanswered would be a guess.
    pub(super) fn forget_open_before(&mut self, time: MonoNanos) {
        self.open.retain(|_, open| open.start > time);
    }

    /// `end`: the last moment.
    pub(super) fn finish(
        mut self,
        end: MonoNanos,
        redact: &mut dyn FnMut(&str) -> String,
    ) -> (Kept<Request>, Vec<RequestGroup>) {
        let mut open: Vec<(u64, Open)> = std::mem::take(&mut self.open).into_iter().collect();
        open.order_by_key(|(key, _)| *key);
        for (_, open) in open {
            let group = self.group_of(&open, redact);
            self.groups.unanswered(group, open.children);
            self.slowest.offer(end.since(open.start).0, || open.into_request(None, redact));
        }
        (self.slowest.finish(|request| request.start), self.groups.finish())
    }
}

impl Open {
    fn into_request(self, duration: Option<Nanos>, redact: &mut dyn FnMut(&str) -> String) -> Request {
        Request {
            start: self.start,
            duration,
            method: self.what.method,
            path: redact(&self.what.path),
            route: self.what.route.map(|route| redact(&route)),
            status: self.status,
            children: self.children,
            trace_id: self.trace,
        }
    }
}

/// `HOST/path` of a URL, ids in the path replaced.
pub(super) fn outgoing_route(host: &str, path: &str) -> String {
    format!("{host}{}", path_group(path))
}
