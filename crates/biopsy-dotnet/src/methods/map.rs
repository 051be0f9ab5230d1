//! The map from addresses to methods.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::Arc;

use biopsy_model::symbol::Function;
use biopsy_model::{Avma, MonoNanos};
use rustc_hash::FxHashMap;

use super::{IlMap, Method, NameAddresses, Tier};

/// How many bodies that begin before an address, or at it, are looked at, the last that came first: bodies that live at the same time do not
/// overlap, those that are gone may. Of one version of a method there are not so many either.
const OVERLAPS: usize = 64;

/// What a hostile stream can make us keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MethodLimits {
    /// Bodies. A large server has 100,000.
    pub methods: usize,
    /// Bytes of names, together.
    pub name_bytes: usize,
    /// Pairs of IL maps, together.
    pub il_pairs: usize,
    /// Modules.
    pub modules: usize,
}

impl Default for MethodLimits {
    fn default() -> Self {
        Self { methods: 1 << 20, name_bytes: 256 << 20, il_pairs: 16 << 20, modules: 1 << 16 }
    }
}

/// Bodies of methods by address, and by time.
#[derive(Clone, Default, Debug)]
pub struct MethodMap {
    /// By start, then in the order of arrival.
    bodies: BTreeMap<(Avma, u32), Method>,
    next: u32,
    /// Names of types and modules, each once.
    words: HashSet<Arc<str>>,
    modules: FxHashMap<u64, Arc<str>>,
    /// IL maps whose method has not been told yet, by method and version.
    waiting: FxHashMap<(u64, u64), Arc<IlMap>>,
    /// Where the bodies of a method are: by method and version.
    by_method: FxHashMap<(u64, u64), Vec<(Avma, u32)>>,
    limits: MethodLimits,
    name_bytes: usize,
    il_pairs: usize,
    refused: u64,
}

impl MethodMap {
    /// An empty map with the usual limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty map with these limits.
    #[must_use]
    pub fn with_limits(limits: MethodLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds a body. One that is known already (a rundown after a load event) is completed; those whose memory it takes are
    /// gone from its time on.
    pub fn insert(&mut self, mut method: Method) {
        if method.size == 0 || method.start.0.checked_add(u64::from(method.size)).is_none() {
            return;
        }
        if method.to == MonoNanos(0) {
            method.to = MonoNanos(u64::MAX);
        }
        if let Some(known) = self.at_mut(method.start).find(|known| is_same(known, &method)) {
            complete(known, method);
            return;
        }
        let bytes = method.name.method.len() + method.name.signature.len();
        if self.bodies.len() >= self.limits.methods || self.name_bytes + bytes > self.limits.name_bytes {
            self.refused += 1;
            return;
        }
        self.name_bytes += bytes;
        let word = Arc::clone(&method.name.namespace_type);
        method.name.namespace_type = self.word(word);
        method.module = match method.module.take() {
            Some(module) => Some(self.word(module)),
            None => self.modules.get(&method.module_id).cloned(),
        };
        self.end_overlapped(&method);
        let key = (method.start, self.next);
        self.next = self.next.wrapping_add(1);
        let id = (method.method_id, method.version);
        if method.method_id != 0 {
            method.il = method.il.take().or_else(|| self.waiting.remove(&id));
            self.by_method.entry(id).or_default().push(key);
        }
        self.bodies.insert(key, method);
    }

    /// Bodies that begin at an address, the last that came first.
    fn at_mut(&mut self, start: Avma) -> impl Iterator<Item = &mut Method> {
        self.bodies.range_mut((start, 0)..=(start, u32::MAX)).map(|(_, body)| body).rev().take(OVERLAPS)
    }

    /// Memory that is used again holds nothing else any more.
    fn end_overlapped(&mut self, new: &Method) {
        let end = Avma(new.start.0 + u64::from(new.size));
        let overlapped = self
            .bodies
            .range_mut(..(end, 0))
            .rev()
            .take(OVERLAPS)
            .map(|(_, old)| old)
            .filter(|old| old.start.0 + u64::from(old.size) > new.start.0 && old.to > new.from);
        for old in overlapped {
            if old.from <= new.from {
                old.to = new.from;
            }
        }
    }

    /// A body was freed.
    pub fn remove(&mut self, start: Avma, method_id: u64, time: MonoNanos) {
        for body in self.at_mut(start) {
            if body.method_id == method_id && body.to > time && body.from <= time {
                body.to = time;
            }
        }
    }

    /// The file of a module, by the runtime's number of it.
    pub fn set_module(&mut self, module_id: u64, path: &str) {
        if path.is_empty() || module_id == 0 || self.modules.len() >= self.limits.modules {
            return;
        }
        let path = self.word(Arc::from(path));
        self.modules.insert(module_id, path);
    }

    /// The file of a module.
    #[must_use]
    pub fn module(&self, module_id: u64) -> Option<&Arc<str>> {
        self.modules.get(&module_id)
    }

    /// Which IL the code of a method came from. May come before or after the method itself.
    pub fn set_il_map(&mut self, method_id: u64, version: u64, map: IlMap) {
        if self.il_pairs.saturating_add(map.len()) > self.limits.il_pairs || map.is_empty() {
            return;
        }
        self.il_pairs += map.len();
        let map = Arc::new(map);
        match self.by_method.get(&(method_id, version)) {
            Some(keys) => {
                for key in keys.iter().rev().take(OVERLAPS) {
                    if let Some(body) = self.bodies.get_mut(key) {
                        body.il = Some(Arc::clone(&map));
                    }
                }
            }
            None => {
                self.waiting.insert((method_id, version), map);
            }
        }
    }

    /// The body that has this address now, or had it last.
    #[must_use]
    pub fn find(&self, address: Avma) -> Option<&Method> {
        self.covering(address).max_by_key(|method| (method.to, method.from))
    }

    /// The body that had this address at that time; failing that, the one nearest in time: rundown events do not say since
    /// when.
    #[must_use]
    pub fn find_at(&self, address: Avma, time: MonoNanos) -> Option<&Method> {
        self.covering(address).min_by_key(|method| {
            if method.lives_at(time) {
                0
            } else if time < method.from {
                method.from.0 - time.0
            } else {
                (time.0 - method.to.0).saturating_add(1)
            }
        })
    }

    fn covering(&self, address: Avma) -> impl Iterator<Item = &Method> {
        let before = self.bodies.range(..=(address, u32::MAX)).rev().take(OVERLAPS);
        before.map(|(_, method)| method).filter(move |method| method.contains(address))
    }

    /// All bodies, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Method> {
        self.bodies.values()
    }

    /// How many bodies.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// How many did not fit the limits.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn word(&mut self, word: Arc<str>) -> Arc<str> {
        if let Some(known) = self.words.get(&*word) {
            return Arc::clone(known);
        }
        self.name_bytes += word.len();
        self.words.insert(Arc::clone(&word));
        word
    }
}

fn is_same(known: &Method, new: &Method) -> bool {
    known.size == new.size
        && (known.method_id == new.method_id || known.method_id == 0 || new.method_id == 0)
        && known.name.method == new.name.method
        && known.name.namespace_type == new.name.namespace_type
        && known.to == MonoNanos(u64::MAX)
}

/// What one telling left out, another may say.
fn complete(known: &mut Method, new: Method) {
    if known.tier == Tier::Unknown {
        known.tier = new.tier;
    }
    known.module = known.module.take().or(new.module);
    known.il = known.il.take().or(new.il);
    if known.method_id == 0 {
        (known.method_id, known.module_id, known.token) = (new.method_id, new.module_id, new.token);
    }
}

impl NameAddresses for MethodMap {
    fn name(&self, address: Avma) -> Option<Function> {
        let method = self.find(address)?;
        Some(Function { name: method.name.display(), file: None, line: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::MethodName;

    fn body(start: u64, size: u32, name: &str, from: u64) -> Method {
        Method {
            start: Avma(start),
            size,
            name: MethodName { namespace_type: "App.Feed".into(), method: name.into(), signature: "".into() },
            from: MonoNanos(from),
            method_id: start ^ 1,
            ..Method::default()
        }
    }

    fn found(map: &MethodMap, address: u64, time: u64) -> Option<&str> {
        map.find_at(Avma(address), MonoNanos(time)).map(|method| &*method.name.method)
    }

    #[test]
    fn bodies_come_and_go() {
        let mut map = MethodMap::new();
        map.insert(body(0x1000, 0x100, "Old", 0));
        map.insert(body(0x1080, 0x100, "New", 500));
        assert_eq!(found(&map, 0x1090, 100), Some("Old"));
        assert_eq!(found(&map, 0x1090, 500), Some("New"));
        assert_eq!(found(&map, 0x1010, 499), Some("Old"));
        assert_eq!(found(&map, 0x1010, 900), Some("Old"), "nobody else was ever there");
        assert_eq!(map.find(Avma(0x1090)).map(|method| &*method.name.method), Some("New"));
        map.remove(Avma(0x1080), 0x1081, MonoNanos(800));
        assert_eq!(map.find(Avma(0x1100)).unwrap().to, MonoNanos(800));
        assert_eq!(found(&map, 0x1180, 0), None, "one past the end");
        assert_eq!(found(&map, 0xfff, 0), None);
    }

    #[test]
    fn a_rundown_completes_what_a_load_event_said() {
        let mut map = MethodMap::new();
        map.insert(body(0x1000, 0x100, "Get", 700));
        map.set_il_map(0x1001, 0, IlMap::new(vec![(0, 0)]));
        map.insert(Method { tier: Tier::Tier1, ..body(0x1000, 0x100, "Get", 0) });
        assert_eq!(map.len(), 1);
        let method = map.find(Avma(0x1000)).unwrap();
        assert_eq!((method.tier, method.from), (Tier::Tier1, MonoNanos(700)));
        assert!(method.il.is_some());
    }

    #[test]
    fn an_il_map_waits_for_its_method_and_modules_are_joined() {
        let mut map = MethodMap::new();
        map.set_il_map(0x1001, 3, IlMap::new(vec![(0, 5)]));
        map.set_module(77, "/app/App.dll");
        map.insert(Method { version: 3, module_id: 77, ..body(0x1000, 0x100, "Get", 0) });
        let method = map.find(Avma(0x1000)).unwrap();
        assert_eq!(method.il.as_ref().and_then(|il| il.il_offset(0)), Some(5));
        assert_eq!(method.module.as_deref(), Some("/app/App.dll"));
    }

    #[test]
    fn limits_and_nonsense() {
        let mut map = MethodMap::with_limits(MethodLimits { methods: 2, ..MethodLimits::default() });
        map.insert(body(u64::MAX, 2, "Wraps", 0));
        map.insert(body(0x10, 0, "Empty", 0));
        assert!(map.is_empty());
        for start in 0..5 {
            map.insert(body(0x1000 + start * 0x1000, 0x10, "Many", 0));
        }
        assert_eq!((map.len(), map.refused()), (2, 3));
    }

    /// As many as a hostile stream likes: only the last of them are looked at again.
    #[test]
    fn of_many_bodies_at_one_address_the_last_are_looked_at() {
        let mut map = MethodMap::new();
        for number in 0..100_000_u64 {
            map.insert(Method { method_id: 7, ..body(0x1000, 0x10, &format!("M{number}"), number) });
        }
        assert_eq!(map.len(), 100_000);
        assert_eq!(found(&map, 0x1008, 99_999), Some("M99999"));
        map.set_il_map(7, 0, IlMap::new(vec![(0, 0)]));
        assert_eq!(map.iter().filter(|one| one.il.is_some()).count(), OVERLAPS);
        // A rundown at the end completes the one that lives.
        map.insert(Method { tier: Tier::Tier1, method_id: 7, ..body(0x1000, 0x10, "M99999", 0) });
        assert_eq!((map.len(), map.find(Avma(0x1000)).map(|one| one.tier)), (100_000, Some(Tier::Tier1)));
        map.remove(Avma(0x1000), 7, MonoNanos(200_000));
        assert_eq!(map.iter().filter(|one| one.to == MonoNanos(u64::MAX)).count(), 0);
    }

    proptest::proptest! {
        /// Bodies that come one after the other: each lives until another takes some of its memory.
        #[test]
        fn at_each_moment_an_address_has_the_body_that_lived_there(
            bodies in proptest::collection::vec((0u64..60, 1u32..20), 1..30),
            asked in proptest::collection::vec((0u64..85, 0u64..320), 30),
        ) {
            let mut map = MethodMap::new();
            let mut lives: Vec<(u64, u64, u64, u64, String)> = Vec::new();
            for (number, (start, size)) in bodies.iter().enumerate() {
                let (end, from) = (start + u64::from(*size), 1 + number as u64 * 10);
                for (old_start, old_end, _, to, _) in &mut lives {
                    if *old_start < end && *start < *old_end && *to == u64::MAX {
                        *to = from;
                    }
                }
                let name = format!("M{number}");
                map.insert(Method { method_id: number as u64 + 1, ..body(*start, *size, &name, from) });
                lives.push((*start, end, from, u64::MAX, name));
            }
            proptest::prop_assert_eq!(map.len(), bodies.len());
            for (address, time) in asked {
                let covers = |life: &&(u64, u64, u64, u64, String)| (life.0..life.1).contains(&address);
                let alive = lives.iter().filter(covers).find(|life| (life.2..life.3).contains(&time));
                let shown = found(&map, address, time);
                match alive {
                    Some(life) => proptest::prop_assert_eq!(shown, Some(life.4.as_str())),
                    // Nobody lived there then: whoever was nearest in time.
                    None => {
                        let away = |life: &(u64, u64, u64, u64, String)| life.2.saturating_sub(time) + (time + 1).saturating_sub(life.3);
                        let nearest = lives.iter().filter(covers).map(away).min();
                        let of_shown = shown.and_then(|name| lives.iter().find(|life| life.4 == name)).map(away);
                        proptest::prop_assert_eq!(of_shown, nearest);
                    }
                }
                let last = lives.iter().filter(covers).max_by_key(|life| (life.3, life.2)).map(|life| life.4.as_str());
                proptest::prop_assert_eq!(map.find(Avma(address)).map(|method| &*method.name.method), last);
            }
        }
    }
}
