//! Names of managed functions that say how a thread of .NET waits, and names of its threads. Data: no list of names is ever complete.
//! Whose code a function is stands in [`whose`](crate::whose).

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
}
