//! Who has a lock that a thread waits for.

use std::cell::OnceCell;

use rustc_hash::FxHashMap;

use super::attributes;
use super::frames::PythonFrame;
use super::layout::same;
use super::locks::{self, Lock};
use super::reading::Reading;
use super::threads::PythonThread;
use crate::{Confidence, Holder, Owner, StrandId};

/// Candidates that are named when nothing better is known.
const CANDIDATES: usize = 8;
/// Variables of all frames that are looked at for candidates.
const VARIABLES: usize = 16_000_000;
/// Words of a thread's state among which the lock is that it gives back when it ends (`on_delete_data`).
const STATE_WORDS: u64 = 64;

/// Words of a `ThreadHandle` among which the thread's number is: behind two links.
const HANDLE_WORDS: u64 = 8;

/// A thread, and its frame that has or refers to a lock.
type Site = (usize, Option<usize>);

/// What the threads of an interpreter have.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// By address of the lock.
    by_with: FxHashMap<u64, Vec<Site>>,
    /// Numbers of threads by their `pthread_t`.
    by_id: FxHashMap<u64, usize>,
    /// Who refers to a lock, of each thread the innermost frame; made when it is asked for.
    referrers: OnceCell<FxHashMap<u64, Vec<Site>>>,
    /// Which thread gives back a lock when it ends; made when it is asked for.
    ended: OnceCell<FxHashMap<u64, usize>>,
}

impl Held {
    /// Looks at all frames.
    pub(super) fn of(reading: &Reading<'_, '_, '_>, threads: &[PythonThread]) -> Self {
        let objects = &reading.objects;
        let mut held = Self::default();
        for (number, thread) in threads.iter().enumerate() {
            if thread.id != 0 {
                held.by_id.entry(thread.id).or_insert(number);
            }
            for (position, frame) in thread.frames.iter().enumerate() {
                let inner = position.checked_sub(1).and_then(|inner| thread.frames.get(inner));
                // A condition lets go of its lock while it waits, although the block goes on.
                if inner.is_some_and(|inner| inner.is_of_threading(&["wait", "wait_for"])) {
                    continue;
                }
                for lock in frame.held(objects).into_iter().filter_map(|one| locks::lock_of(objects, one)) {
                    held.by_with.entry(lock.object).or_default().push((number, Some(position)));
                }
            }
        }
        held
    }

    /// The owners of a lock that a thread waits for.
    pub(super) fn owners(
        &self,
        reading: &Reading<'_, '_, '_>,
        threads: &[PythonThread],
        lock: &Lock,
        waiter: usize,
    ) -> Vec<Owner> {
        let sites = self.by_with.get(&lock.object).map(Vec::as_slice).unwrap_or_default();
        if !lock.locked {
            return Vec::new();
        }
        let owner = |number: usize, frame, confidence, proof: &str| {
            let thread = threads.get(number)?;
            Some(Owner {
                holder: Holder::Strand(StrandId(thread.at)),
                confidence,
                frame,
                proof: proof.to_owned(),
            })
        };
        if let Some(id) = lock.owner {
            let number = self.by_id.get(&id).copied();
            let frame = sites.iter().find(|site| Some(site.0) == number).and_then(|site| site.1);
            let named = number.and_then(|number| {
                owner(number, frame, Confidence::Certain, "the lock has its owner's number")
            });
            return named.into_iter().collect();
        }
        if let Some((number, frame)) = sites.first() {
            let proof = "it is inside of a `with` block of this lock, by the interpreter's own table";
            return owner(*number, *frame, Confidence::AlmostCertain, proof).into_iter().collect();
        }
        let known = self.referrers.get_or_init(|| referrers(reading, threads));
        let candidates = known.get(&lock.object).map(Vec::as_slice).unwrap_or_default();
        let others = candidates.iter().filter(|(number, _)| *number != waiter);
        let proof = "a variable of it refers to the lock";
        others.filter_map(|(number, frame)| owner(*number, *frame, Confidence::Possible, proof)).collect()
    }

    /// The thread that gives back this lock when it ends: up to 3.12 that is how its end is waited for.
    pub(super) fn ends_with(
        &self,
        reading: &Reading<'_, '_, '_>,
        threads: &[PythonThread],
        lock: &Lock,
    ) -> Option<Owner> {
        let ended = self.ended.get_or_init(|| ended(reading, threads));
        let proof = "the thread's state refers to the lock that is released when it ends";
        Some(joined(threads.get(*ended.get(&lock.object)?)?, proof))
    }

    /// The thread that `Thread.join` is about, from 3.13 on: the `Thread` that it is called of has a handle with the thread's number.
    pub(super) fn by_handle(
        &self,
        reading: &Reading<'_, '_, '_>,
        threads: &[PythonThread],
        join: &PythonFrame,
    ) -> Option<Owner> {
        let objects = &reading.objects;
        let called_of = *join.variables(objects).first()?;
        let attributes = attributes::of(objects, called_of);
        let handle = attributes.into_iter().find(|one| objects.is(*one, "_thread._ThreadHandle"))?;
        let handle = objects.pointer(handle, same::HANDLE)?;
        let mut words = (0..HANDLE_WORDS).filter_map(|index| objects.word(handle, index * 8));
        let number = words.find_map(|word| self.by_id.get(&word).copied())?;
        Some(joined(threads.get(number)?, "the `Thread` that it waits for has the number of this thread"))
    }
}

/// Who refers to each lock by a variable.
fn referrers(reading: &Reading<'_, '_, '_>, threads: &[PythonThread]) -> FxHashMap<u64, Vec<Site>> {
    let objects = &reading.objects;
    let mut all: FxHashMap<u64, Vec<Site>> = FxHashMap::default();
    let mut left = VARIABLES;
    for (number, thread) in threads.iter().enumerate() {
        for (position, frame) in thread.frames.iter().enumerate() {
            for value in frame.variables(objects) {
                let Some(less) = left.checked_sub(1) else { return all };
                left = less;
                if !matches!(&*objects.type_name(value), "_thread.lock" | "_thread.RLock") {
                    continue;
                }
                let sites = all.entry(value).or_default();
                // The threads come one after the other, each from its innermost frame on.
                if sites.len() < CANDIDATES && sites.last().is_none_or(|(last, _)| *last != number) {
                    sites.push((number, Some(position)));
                }
            }
        }
    }
    all
}

/// The locks that threads give back when they end: their states have weak references to them.
fn ended(reading: &Reading<'_, '_, '_>, threads: &[PythonThread]) -> FxHashMap<u64, usize> {
    let objects = &reading.objects;
    let mut all = FxHashMap::default();
    for (number, thread) in threads.iter().enumerate() {
        let words = (0..STATE_WORDS).filter_map(|index| objects.pointer(thread.at, index * 8));
        for word in words.filter(|word| word % 8 == 0) {
            if matches!(&*objects.type_name(word), "weakref" | "weakref.ReferenceType")
                && let Some(lock) = objects.pointer(word, same::WEAK_OBJECT)
            {
                all.entry(lock).or_insert(number);
            }
        }
    }
    all
}

fn joined(thread: &PythonThread, proof: &str) -> Owner {
    Owner {
        holder: Holder::Strand(StrandId(thread.at)),
        confidence: Confidence::Certain,
        frame: None,
        proof: proof.to_owned(),
    }
}
