//! Names of managed functions: which belong to the application, which to the class library, and which are how a thread
//! of .NET waits. Data: no list of names is ever complete.

/// How the names of the class library and of its usual companions begin.
#[rustfmt::skip]
const LIBRARIES: &[&str] = &[
    "System.", "Microsoft.AspNetCore.", "Microsoft.CSharp.", "Microsoft.Data.", "Microsoft.Diagnostics.",
    "Microsoft.EntityFrameworkCore.", "Microsoft.Extensions.", "Microsoft.IO.", "Microsoft.Net.",
    "Microsoft.VisualBasic.", "Microsoft.Win32.", "Interop.", "Interop+", "Internal.", "FxResources.",
    "ILStubClass.", "dynamicClass.", "DynamicClass.", "IL_STUB", "Newtonsoft.Json.",
];

/// How waiting is made in the class library: never what a person would call the place of a wait.
#[rustfmt::skip]
const WAITING: &[&str] = &[
    "System.Threading.Monitor", "System.Threading.WaitHandle", "System.Threading.ManualResetEvent",
    "System.Threading.SemaphoreSlim", "System.Threading.LowLevel", "System.Threading.Thread.Sleep",
    "System.Threading.Thread.Join", "System.Threading.Lock", "System.Threading.WaitSubsystem",
    "System.Threading.SpinWait", "System.Threading.Tasks.Task", "System.Threading.CountdownEvent",
    "System.Threading.ReaderWriterLockSlim", "System.Threading.Barrier", "System.Threading.Backoff",
    "System.Threading.Condition", "System.Runtime.CompilerServices.TaskAwaiter",
    "System.Runtime.CompilerServices.ValueTaskAwaiter",
    "System.Runtime.CompilerServices.ConfiguredTaskAwaitable",
    "System.Runtime.CompilerServices.ConfiguredValueTaskAwaitable",
];

/// A thread's first functions.
#[rustfmt::skip]
const STARTING: &[&str] = &["System.Threading.Thread.Start", "System.Threading.Thread+StartHelper", "System.Threading.StartHelper"];

/// Part of the class library, or made by the runtime.
pub(crate) fn is_library(name: &str) -> bool {
    LIBRARIES.iter().any(|prefix| name.starts_with(prefix))
}

/// The application's own: neither of the class library nor without a name.
pub(crate) fn is_application(name: &str) -> bool {
    !is_library(name) && !is_address(name)
}

/// How well a method is compiled, as the recorder writes it behind names.
const TIERS: &[&str] =
    &["tier-0", "tier-1", "OSR", "optimized", "tier-0 instrumented", "tier-1 instrumented"];

/// A name without the mark of its tier, and the tier: `Shop.Run [tier-0]` → `Shop.Run`, `tier-0`.
pub(crate) fn without_tier(name: &str) -> (&str, Option<&'static str>) {
    let Some((bare, mark)) = name.rsplit_once(" [") else { return (name, None) };
    match TIERS.iter().find(|tier| mark.strip_suffix(']') == Some(**tier)) {
        Some(tier) if !bare.is_empty() => (bare, Some(tier)),
        _ => (name, None),
    }
}

/// An address that nobody knew a name for.
fn is_address(name: &str) -> bool {
    name.starts_with("0x")
}

/// How a thread waits or starts, whatever for.
pub(crate) fn is_plumbing(name: &str) -> bool {
    WAITING.iter().chain(STARTING).any(|prefix| name.starts_with(prefix)) || name.contains("IL_STUB_")
}

/// A thread stands still until a task is complete: `Wait()`, `.Result`, `GetAwaiter().GetResult()`.
pub(crate) fn blocks_on_task(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("System.Threading.Tasks.Task") else {
        return false;
    };
    let method = rest.rsplit('.').next().unwrap_or(rest);
    ["SpinThenBlockingWait", "InternalWait", "Wait", "WaitAll", "WaitAny"]
        .iter()
        .any(|known| method.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('(')))
        || ["SpinThenBlockingWait", "InternalWaitCore", "WaitAllCore", "WaitAnyCore", "WaitAllBlockingCore"]
            .iter()
            .any(|known| method.starts_with(known))
}

/// A monitor or a `System.Threading.Lock` is being entered.
pub(crate) fn enters_lock(name: &str) -> bool {
    name.starts_with("System.Threading.Monitor.Enter")
        || name.starts_with("System.Threading.Monitor.TryEnter")
        || name.starts_with("System.Threading.Monitor.ReliableEnter")
        || name.starts_with("System.Threading.Lock.")
}

/// The names that the runtime gives to the worker threads of the pool (`comm` is cut after 15 bytes).
pub(crate) fn is_pool_thread(name: &str) -> bool {
    name.starts_with(".NET TP Worker") || name.starts_with(".NET ThreadPool")
}

/// A thread that a runtime has for its own work (collections, timers, events, compiling), so not one that runs the application's
/// code. Some of them are only there because somebody, biopsy for one, listens to events.
pub(crate) fn is_runtime_thread(name: &str) -> bool {
    name.starts_with(".NET ") && !is_pool_thread(name) && !name.starts_with(".NET Finalizer")
        || HELPERS.iter().any(|helper| name.starts_with(helper))
}

/// Threads that virtual machines have for their own work (`comm` is cut after 15 bytes).
#[rustfmt::skip]
const HELPERS: &[&str] = &[
    "Attach Listener", "C1 CompilerThre", "C2 CompilerThre", "Common-Cleaner", "DelayedTaskSche", "G1 ", "GC Thread", "JVMCI",
    "Monitor Deflati", "Notification Th", "Reference Handl", "Service Thread", "Shenandoah", "Signal Dispatch", "Signal Inspecto",
    "StrDedup", "Sweeper thread", "V8Worker", "VM Periodic Tas", "VM Thread", "ZWorker", "libuv-worker",
];

/// The library that the runtime itself is in.
pub(crate) fn is_runtime_module(module: &str) -> bool {
    module.starts_with("libcoreclr") || module.starts_with("libclrgc")
}

/// Where in a managed stack, innermost first, the application is: the innermost function that is its own. Without one, the
/// innermost that is not how things are thrown, waited for or started.
pub(crate) fn place<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Option<usize> {
    names
        .clone()
        .position(is_application)
        .or_else(|| names.clone().position(|name| !is_plumbing(name) && !throws(name) && !is_address(name)))
        .or_else(|| names.clone().next().map(|_| 0))
}

/// A helper whose only work is to throw.
fn throws(name: &str) -> bool {
    let method = name.rsplit('.').next().unwrap_or(name);
    method.starts_with("Throw") || name.contains("ThrowHelper")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_waiting() {
        assert!(blocks_on_task("System.Threading.Tasks.Task.SpinThenBlockingWait"));
        assert!(blocks_on_task("System.Threading.Tasks.Task.InternalWaitCore"));
        assert!(blocks_on_task("System.Threading.Tasks.Task.Wait(int32)"));
        assert!(!blocks_on_task("System.Threading.Tasks.Task.ExecuteWithThreadLocal"));
        assert!(!blocks_on_task("Shop.Task.Wait"));
        assert!(enters_lock("System.Threading.Monitor.Enter_Slowpath"));
        assert!(!enters_lock("System.Threading.Monitor.Wait"));
    }

    #[test]
    fn a_tier_is_no_part_of_the_name() {
        assert_eq!(without_tier("Shop.Run (async) [tier-0]"), ("Shop.Run (async)", Some("tier-0")));
        assert_eq!(without_tier("Shop.Run [tier-1 instrumented]"), ("Shop.Run", Some("tier-1 instrumented")));
        assert_eq!(without_tier("operator [x]"), ("operator [x]", None));
        assert_eq!(without_tier(" [OSR]"), (" [OSR]", None));
        assert_eq!(without_tier("Shop.Run"), ("Shop.Run", None));
    }

    #[test]
    fn the_place_is_the_application() {
        let stack = [
            "System.Number.ThrowFormatException",
            "System.Int32.Parse",
            "Shop.Parser.ParseOrZero",
            "Shop.Run",
        ];
        assert_eq!(place(stack.iter().copied()), Some(2));
        let library = [
            "System.ThrowHelper.ThrowKeyNotFound",
            "Microsoft.AspNetCore.Routing.Match",
            "System.Threading.Thread.StartCallback",
        ];
        assert_eq!(place(library.iter().copied()), Some(1));
        assert_eq!(place(["0x7f001234", "Shop.Run"].iter().copied()), Some(1));
        assert_eq!(place(std::iter::empty()), None);
    }
}
