//! Checks at load time: whether a layout fits the memory it is applied to.
//!
//! A layout is believed because all of this holds, not because a version says so. Shifting single fields on purpose by 2 to 16
//! bytes was caught by these in every case but for bits of `Thread.State` (tests).

use std::collections::BTreeSet;

use biopsy_image::{Image, OwnNumbers};
use biopsy_model::Avma;

use super::check::{Check, CheckResult};
use super::{FoundRuntime, Options, Runtime, RuntimeError};

/// Entries of the table of locks that are looked at.
const LOCKS: u32 = 64;
/// Bytes of the room of one thread: the collector hands out 8 KiB, or the size of one larger object.
const ROOM: u64 = 1 << 30;
/// Ids of threads are given anew from the lowest on.
const IDS: u32 = 1 << 20;

/// Name, what its failure means, the check.
type Question = (&'static str, Weight, fn(&Runtime<'_>) -> Outcome);
type Outcome = Result<CheckResult, RuntimeError>;

const COUNTED: &str = "the list of threads is as long as the counter says";
const STRANGERS: &str = "threads of the runtime are threads of the process";

/// Said of checks that need more than an excerpt has.
const EXCERPT: &str = "the dump has only part of the memory, without what this check needs";

/// Whether the image may lack any memory but that of stacks and of what is asked about them: createdump's kinds without heap.
fn is_excerpt(runtime: &Runtime<'_>) -> bool {
    runtime.memory().image().process().writer.as_deref() == Some("createdump")
}

/// What the failure of a check means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// The layout is wrong.
    Required,
    /// The layout is wrong, or this is not a moment: [`Check::moving`].
    Moving,
    /// Something is worth knowing.
    Told,
}

impl<'i> Runtime<'i> {
    /// Opens a runtime: finds its layout, checks that it fits.
    ///
    /// # Errors
    /// A version without descriptor and layout file; a layout that does not fit ([`RuntimeError::DoesNotFit`]); memory that is
    /// not in the image.
    pub fn open(
        image: Box<dyn Image + 'i>,
        found: &FoundRuntime,
        options: &Options,
    ) -> Result<Self, RuntimeError> {
        let mut runtime = Self::open_unchecked(image, found, options)?;
        runtime.checks = run(&runtime);
        let failed: Vec<_> = runtime
            .checks
            .iter()
            .filter(|check| check.required && matches!(check.result, CheckResult::Fails(_)))
            .cloned()
            .collect();
        if !failed.is_empty() {
            let version = found.version.map_or_else(|| "?".to_string(), |version| version.to_string());
            return Err(RuntimeError::DoesNotFit { version, failed });
        }
        Ok(runtime)
    }
}

fn holds(yes: bool, why: impl FnOnce() -> String) -> Outcome {
    Ok(if yes { CheckResult::Holds } else { CheckResult::Fails(why()) })
}

/// All checks.
fn run(runtime: &Runtime<'_>) -> Vec<Check> {
    let all: [Question; 12] = [
        ("method tables of Object, String, Exception", Weight::Required, basic_types),
        ("names of Object, String, Exception", Weight::Required, basic_names),
        ("method table of free space in the heap", Weight::Required, holes),
        ("variables of the collector are found at one place", Weight::Told, collector),
        ("flag of collections is 0 or 1", Weight::Told, collecting),
        (COUNTED, Weight::Moving, thread_count),
        ("managed ids of threads are distinct", Weight::Moving, thread_ids),
        (STRANGERS, Weight::Moving, os_threads),
        ("thread objects are of System.Threading.Thread", Weight::Moving, thread_objects),
        ("last thrown objects are exceptions", Weight::Moving, last_exceptions),
        ("allocation contexts are ranges of writable memory", Weight::Moving, rooms),
        ("locks know their objects, and objects their locks", Weight::Told, locks),
    ];
    all.into_iter()
        .map(|(name, weight, check)| {
            // These two hold in every dump that has stacks: by them the layout is believed where others cannot be asked.
            let may_be_left_out = ![COUNTED, STRANGERS].contains(&name);
            let result = check(runtime).unwrap_or_else(|error| match error {
                RuntimeError::Layout(_) => CheckResult::NotApplicable("the layout does not describe it"),
                RuntimeError::Memory(error)
                    if error.is_missing() && may_be_left_out && is_excerpt(runtime) =>
                {
                    CheckResult::NotApplicable(EXCERPT)
                }
                other => CheckResult::Fails(other.to_string()),
            });
            Check { name, required: weight != Weight::Told, moving: weight == Weight::Moving, result }
        })
        .collect()
}

fn basic_types(runtime: &Runtime<'_>) -> Outcome {
    let known = &runtime.known;
    let object = runtime.type_of(known.object)?;
    let string = runtime.type_of(known.string)?;
    let exception = runtime.type_of(known.exception)?;
    holds(
        object.base_size == 24
            && object.parent.is_none()
            && string.base_size == 22
            && string.component_size == 2
            && string.parent == Some(known.object)
            && exception.parent == Some(known.object),
        || format!("sizes {}, {} and {}", object.base_size, string.base_size, string.component_size),
    )
}

fn basic_names(runtime: &Runtime<'_>) -> Outcome {
    let known = &runtime.known;
    for (table, name) in [
        (known.object, "System.Object"),
        (known.string, "System.String"),
        (known.exception, "System.Exception"),
    ] {
        let found = runtime.type_of(table)?;
        if *found.name != *name {
            if left_out(runtime, found.module) {
                return Ok(CheckResult::NotApplicable(LEFT_OUT));
            }
            return Ok(CheckResult::Fails(format!("`{}` is named `{}`", name, found.name)));
        }
    }
    Ok(CheckResult::Holds)
}

const LEFT_OUT: &str = "the metadata of the core library is not in the image";

/// Whether the assembly is mapped where the module says, and the image does not have that memory: a core without the text of
/// files. Everything but names can be read of it.
fn left_out(runtime: &Runtime<'_>, module: Avma) -> bool {
    let Ok(module) = runtime.module(module) else { return false };
    let mapping = biopsy_image::mapping::find(runtime.memory().image().mappings(), module.base.0);
    module.metadata.is_none()
        && mapping.is_some_and(|one| one.path().is_some())
        && runtime.memory().u16(module.base.0).is_err_and(|error| error.is_missing())
}

fn holes(runtime: &Runtime<'_>) -> Outcome {
    let memory = runtime.memory();
    let table = &runtime.places.method_table;
    let flags = memory.u32(runtime.known.free.at(table.flags))?;
    let size = memory.u32(runtime.known.free.at(table.base_size))?;
    holds(size == 24 && flags & 0x8000_ffff == 0x8000_0001, || format!("size {size}, flags {flags:#x}"))
}

fn collector(runtime: &Runtime<'_>) -> Outcome {
    let found = runtime.gc_candidates();
    if found != 1 {
        return Ok(CheckResult::Fails(format!("{found} candidates")));
    }
    match runtime.layout().find_global("GcDacVars") {
        None => Ok(CheckResult::Holds),
        Some(variable) => {
            let there = runtime.memory().u64(variable)?;
            holds(Some(Avma(there)) == runtime.gc_variables(), || {
                format!("not at the slot that is expected: {there:#x}")
            })
        }
    }
}

fn collecting(runtime: &Runtime<'_>) -> Outcome {
    let Some(variables) = runtime.gc_variables() else {
        return Ok(CheckResult::NotApplicable("no variables of the collector"));
    };
    let place = runtime.layout().field("GcDacVars", "GcStructuresInvalidCnt")?;
    let at = runtime.memory().u64(variables.0.wrapping_add(place.into()))?;
    let count = runtime.memory().u32(at)?;
    holds(count <= 1, || format!("it is {count}"))
}

fn thread_count(runtime: &Runtime<'_>) -> Outcome {
    let Some(place) = runtime.threads.count else {
        return Ok(CheckResult::NotApplicable("the layout does not describe it"));
    };
    let store = runtime.threads.store(runtime.memory())?;
    let counted = runtime.memory().u32(store.wrapping_add(place))?;
    let found = bare_threads(runtime)?.len();
    holds(found == counted as usize && found > 0, || {
        format!("{counted} are counted, {found} are in the list")
    })
}

fn thread_ids(runtime: &Runtime<'_>) -> Outcome {
    let threads = bare_threads(runtime)?;
    let ids: BTreeSet<_> = threads.iter().map(|thread| thread.id).collect();
    holds(ids.len() == threads.len() && ids.last().is_none_or(|&id| id < IDS), || format!("{ids:?}"))
}

fn os_threads(runtime: &Runtime<'_>) -> Outcome {
    let image = runtime.memory().image();
    if image.threads().is_empty() {
        return Ok(CheckResult::NotApplicable("the image has no threads"));
    }
    let of_process: BTreeSet<u32> = image.threads().iter().map(|thread| thread.tid.0).collect();
    let threads = bare_threads(runtime)?;
    // In a container threads have other numbers for themselves than outside.
    let own = OwnNumbers::of(image);
    let outside = |id: u32| own.thread(id).map_or(id, |tid| tid.0);
    let ids: Vec<_> = threads.iter().map(|thread| outside(thread.os_id)).filter(|&id| id != 0).collect();
    let strangers = ids.iter().filter(|id| !of_process.contains(id)).count();
    // A thread may end between the moment at which memory was taken and the list of threads; ids of another pid namespace are
    // strangers all of them.
    let namespace = strangers == ids.len() && ids.iter().all(|&id| (1..1 << 22).contains(&id));
    if !ids.is_empty() && namespace && !same_namespace(runtime) {
        return Ok(CheckResult::NotApplicable("thread ids are of another namespace"));
    }
    holds(!ids.is_empty() && strangers * 8 <= ids.len(), || {
        format!("{strangers} of {} are not threads of the process", ids.len())
    })
}

/// Whether ids in the process are the ids outside: the first thread has the id of the process there.
fn same_namespace(runtime: &Runtime<'_>) -> bool {
    let image = runtime.memory().image();
    bare_threads(runtime).is_ok_and(|threads| {
        threads.iter().any(|thread| image.threads().iter().any(|one| one.tid.0 == thread.os_id))
    })
}

fn thread_objects(runtime: &Runtime<'_>) -> Outcome {
    let mut seen = 0;
    if let Some(bad) = bad_handle(runtime, runtime.threads.handle)? {
        return Ok(bad);
    }
    for thread in bare_threads(runtime)? {
        let Some(object) = thread.object else { continue };
        let info = runtime.type_of_object(object)?;
        if *info.name != *"System.Threading.Thread" {
            if left_out(runtime, info.module) {
                return Ok(CheckResult::NotApplicable(LEFT_OUT));
            }
            return Ok(CheckResult::Fails(format!("thread {} has a `{}`", thread.id, info.name)));
        }
        seen += 1;
    }
    if seen == 0 {
        return Ok(CheckResult::NotApplicable("no thread has an object yet"));
    }
    Ok(CheckResult::Holds)
}

/// What is said of a handle in a thread that leads nowhere.
fn bad_handle(runtime: &Runtime<'_>, place: Option<u64>) -> Result<Option<CheckResult>, RuntimeError> {
    let Some(place) = place else { return Ok(None) };
    for thread in bare_threads(runtime)? {
        let handle = runtime.memory().u64(thread.address.0.wrapping_add(place))?;
        let leads = handle <= 1 || handle & 7 == 0 && runtime.memory().u64(handle).is_ok();
        if !leads {
            return Ok(Some(CheckResult::Fails(format!(
                "thread {} has the handle {handle:#x}, which leads nowhere",
                thread.id
            ))));
        }
    }
    Ok(None)
}

fn last_exceptions(runtime: &Runtime<'_>) -> Outcome {
    let mut seen = 0;
    if let Some(bad) = bad_handle(runtime, runtime.threads.last_thrown)? {
        return Ok(bad);
    }
    for thread in bare_threads(runtime)? {
        let Some(thrown) = thread.last_thrown else { continue };
        let table = runtime.method_table_of(thrown)?;
        if !runtime.is_a(table, runtime.known.exception)? {
            let name = runtime.type_of(table)?;
            return Ok(CheckResult::Fails(format!("thread {} holds a `{}`", thread.id, name.name)));
        }
        seen += 1;
    }
    if seen == 0 {
        return Ok(CheckResult::NotApplicable("no exception has been thrown"));
    }
    Ok(CheckResult::Holds)
}

fn rooms(runtime: &Runtime<'_>) -> Outcome {
    let mappings = runtime.memory().image().mappings();
    let mut seen = 0;
    for thread in bare_threads(runtime)? {
        let (Avma(pointer), Avma(limit)) = thread.allocation;
        if pointer == 0 && limit == 0 {
            continue;
        }
        if biopsy_image::mapping::find(mappings, pointer).is_none() && is_excerpt(runtime) {
            return Ok(CheckResult::NotApplicable(EXCERPT));
        }
        seen += 1;
        let mapped = match biopsy_image::mapping::find(mappings, pointer) {
            Some(one) if one.protection.write => true,
            Some(one) if one.protection.read => false,
            // A heap that grows has committed it since a running process's mappings were listed.
            _ => runtime.memory().u64(pointer).is_ok(),
        };
        if pointer > limit || limit - pointer > ROOM || pointer & 7 != 0 || !mapped {
            return Ok(CheckResult::Fails(format!("thread {} has {pointer:#x} to {limit:#x}", thread.id)));
        }
    }
    if seen == 0 {
        return Ok(CheckResult::NotApplicable("no thread has room"));
    }
    Ok(CheckResult::Holds)
}

fn locks(runtime: &Runtime<'_>) -> Outcome {
    let (layout, memory) = (runtime.layout(), runtime.memory());
    let table = memory.u64(layout.global("SyncTableEntries")?)?;
    let cache = memory.u64(layout.global("SyncBlockCache")?)?;
    let used =
        memory.u32(cache.wrapping_add(layout.field("SyncBlockCache", "FreeSyncTableIndex")?.into()))?;
    let size = memory.u32(cache.wrapping_add(layout.field("SyncBlockCache", "SyncTableSize")?.into()))?;
    if used == 0 || used > size || !(100..1 << 26).contains(&size) {
        return Ok(CheckResult::Fails(format!("{used} of {size} entries are used")));
    }
    let entry = u64::from(layout.size("SyncTableEntry")?);
    let object_at = u64::from(layout.field("SyncTableEntry", "Object")?);
    let index_at = u64::from(layout.field("SyncBlock", "Index")?);
    let mut seen = 0;
    for number in 1..used.min(LOCKS) {
        let at = table.wrapping_add(entry * u64::from(number));
        let (block, object) = (memory.u64(at)?, memory.u64(at.wrapping_add(object_at))?);
        if block == 0 || object == 0 || object & 1 != 0 {
            continue;
        }
        seen += 1;
        let index = memory.u32(block.wrapping_add(index_at))? & 0x03ff_ffff;
        let header = memory.u32(object.wrapping_sub(4))?;
        if index != number || header & 0x0fff_ffff != 0x0800_0000 | number {
            return Ok(CheckResult::Fails(format!("entry {number} has index {index}, header {header:#x}")));
        }
    }
    if seen == 0 {
        return Ok(CheckResult::NotApplicable("no lock is in use"));
    }
    Ok(CheckResult::Holds)
}

fn bare_threads(runtime: &Runtime<'_>) -> Result<Vec<super::ManagedThread>, RuntimeError> {
    super::thread::read(runtime.memory(), &runtime.threads, runtime.options().threads)
}
