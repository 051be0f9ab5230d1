//! Who would end a wait at a channel or a wait group: goroutines whose code ahead sends, takes, closes or counts down. See
//! [`super::forward`].
//!
//! A channel has no owner: what it does have are goroutines that still come to it. Where each of these waits itself for the one that
//! waits for them, nobody is left. What is done at an address that is not known may be done to any, and so may help.

use rustc_hash::FxHashMap;

use super::forward::{Deed, Found, Walker, is_of_program};
use super::functions::Functions;
use super::goroutine::{Goroutine, Place};
use super::holders::deferred;
use super::layout::{Layout, g};
use crate::{Confidence, Holder, Memory, Owner, Strand, StrandState, WaitKind};
use biopsy_model::Avma;

/// With more goroutines the question is not asked: nearly all of these are connections.
const GOROUTINES: usize = 5_000;
/// Helpers of one wait; with more nothing is said.
const HELPERS: usize = 256;
/// Upper half of a wait group's state: how many are counted.
const COUNTER: u64 = 4;

/// Fills in who would end waits at channels and wait groups. `strands`: of the same goroutines.
pub(super) fn find(
    memory: &Memory<'_>,
    layout: &Layout,
    functions: &Functions<'_, '_>,
    walker: &Walker<'_, '_, '_>,
    goroutines: &[Goroutine],
    strands: &mut [Strand],
) {
    let asks = |strand: &&Strand| !strand.of_runtime && !deeds(strand).is_empty();
    if strands.len() > GOROUTINES || !strands.iter().any(|strand| asks(&strand)) {
        return;
    }
    let mut known: FxHashMap<(Deed, u64), Vec<usize>> = FxHashMap::default();
    // Those who do it at an address that is not known.
    let mut perhaps: FxHashMap<Deed, Vec<usize>> = FxHashMap::default();
    for (number, (goroutine, strand)) in goroutines.iter().zip(strands.iter()).enumerate() {
        if strand.of_runtime {
            continue;
        }
        let found = ahead(memory, layout, functions, walker, goroutine, strand);
        for (deed, at) in &found.deeds {
            match at {
                Some(at) => known.entry((*deed, *at)).or_default().push(number),
                None => perhaps.entry(*deed).or_default().push(number),
            }
        }
        if found.lost || strand.cut || strand.state == StrandState::NotKnown {
            for deed in [Deed::Send, Deed::Receive, Deed::Done] {
                perhaps.entry(deed).or_default().push(number);
            }
        }
        if walker.is_exhausted() {
            return;
        }
    }
    let ids: Vec<_> = strands.iter().map(|strand| strand.id).collect();
    for number in 0..strands.len() {
        let Some(strand) = strands.get_mut(number).filter(|strand| !strand.of_runtime) else { continue };
        let deeds = deeds(strand);
        let Some(wait) = &mut strand.wait else { continue };
        let mut owners: Vec<(usize, Confidence)> = Vec::new();
        for (deed, at) in &deeds {
            let sure =
                known.get(&(*deed, *at)).into_iter().flatten().map(|one| (*one, Confidence::VeryLikely));
            let maybe = perhaps.get(deed).into_iter().flatten().map(|one| (*one, Confidence::Possible));
            owners.extend(sure.chain(maybe).filter(|(one, _)| *one != number));
        }
        owners.sort_unstable_by_key(|(one, sure)| (std::cmp::Reverse(*sure), *one));
        owners.dedup_by_key(|(one, _)| *one);
        if owners.len() > HELPERS || deeds.is_empty() {
            continue;
        }
        if owners.is_empty() {
            wait.nobody = nobody(memory, wait.kind, wait.address);
            continue;
        }
        let owner = |(one, confidence): (usize, Confidence)| {
            Some(Owner {
                holder: Holder::Strand(*ids.get(one)?),
                confidence,
                frame: None,
                proof: proof(wait.kind).to_owned(),
            })
        };
        wait.owners = owners.into_iter().filter_map(owner).collect();
    }
}

fn proof(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::ChannelSend => "the code ahead of it takes from the channel",
        WaitKind::ChannelReceive => "the code ahead of it sends to the channel, or closes it",
        WaitKind::WaitGroup => "the code ahead of it counts the wait group down",
        _ => "the code ahead of it uses one of the channels",
    }
}

/// What would end its wait: any of these.
fn deeds(strand: &Strand) -> Vec<(Deed, u64)> {
    let Some(wait) = strand.wait.as_ref().filter(|wait| !wait.ends_by_itself && !wait.never_ends) else {
        return Vec::new();
    };
    let Some(Avma(at)) = wait.address else { return Vec::new() };
    match wait.kind {
        WaitKind::ChannelSend => vec![(Deed::Receive, at)],
        WaitKind::ChannelReceive => vec![(Deed::Send, at)],
        WaitKind::WaitGroup => vec![(Deed::Done, at)],
        // Which of them it would send to is not known.
        WaitKind::Select => {
            let all = wait.others.iter().map(|other| other.0).chain([at]);
            all.flat_map(|at| [(Deed::Send, at), (Deed::Receive, at)]).collect()
        }
        _ => Vec::new(),
    }
}

/// Why nobody can end a wait that nobody was found for. A channel that is read waits for what comes from anywhere; a wait group
/// counts those who were there when it was waited for.
fn nobody(memory: &Memory<'_>, kind: WaitKind, address: Option<Avma>) -> Option<String> {
    match kind {
        WaitKind::WaitGroup => {
            let state = memory.u64(address?.0)?;
            // Its halves have changed places over time (sync/waitgroup.go): one is the counter, one the waiters.
            let counter = memory.u32(address?.0.checked_add(COUNTER)?)? & 0x7fff_ffff;
            let counted =
                if state != 0 && counter != 0 { format!(", which counts {counter},") } else { String::new() };
            Some(format!(
                "no goroutine that is left{counted} comes to `Done` of this wait group by the code ahead of it"
            ))
        }
        WaitKind::ChannelSend => Some(
            "no goroutine that is left comes to take from this channel by the code ahead of it".to_owned(),
        ),
        _ => None,
    }
}

/// What lies ahead of a goroutine: in its frames, and in what it has deferred.
fn ahead(
    memory: &Memory<'_>,
    layout: &Layout,
    functions: &Functions<'_, '_>,
    walker: &Walker<'_, '_, '_>,
    goroutine: &Goroutine,
    strand: &Strand,
) -> Found {
    let mut all = Found::default();
    let mut add = |found: Found| {
        all.deeds.extend(found.deeds);
        all.lost |= found.lost;
    };
    for frame in strand.frames.iter().filter(|frame| !frame.inlined && is_of_program(&frame.function)) {
        let (Some(address), Some(sp)) = (frame.address, frame.sp) else { continue };
        let starts = functions.find(address.0).is_some_and(|function| function.entry == address.0);
        // One that has not run yet has its closure in what was saved of it.
        let closure = starts.then(|| memory.u64(goroutine.at.checked_add(g::CLOSURE)?)).flatten();
        add(walker.ahead(Place { pc: address.0, sp: sp.0 }, closure, true));
    }
    for deferred in deferred(memory, layout, goroutine) {
        add(walker.ahead(deferred.start, Some(deferred.closure), true));
    }
    all
}
