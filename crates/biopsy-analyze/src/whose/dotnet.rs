//! .NET: the class library, frameworks on it, and how threads of it wait.

use super::answer::Whose;

/// How the names of the class library and of its usual companions begin.
#[rustfmt::skip]
const LIBRARIES: &[&str] = &[
    "System.", "Microsoft.AspNetCore.", "Microsoft.CSharp.", "Microsoft.Data.", "Microsoft.Diagnostics.",
    "Microsoft.EntityFrameworkCore.", "Microsoft.Extensions.", "Microsoft.IO.", "Microsoft.Net.",
    "Microsoft.VisualBasic.", "Microsoft.Win32.", "Interop.", "Interop+", "Internal.", "FxResources.",
    "ILStubClass.", "dynamicClass.", "DynamicClass.", "IL_STUB", "Newtonsoft.Json.",
];

/// Assemblies of the framework, by how their file names begin.
#[rustfmt::skip]
const ASSEMBLIES: &[&str] = &[
    "System.", "Microsoft.AspNetCore.", "Microsoft.Extensions.", "Microsoft.Win32.", "Microsoft.CSharp",
    "netstandard.", "mscorlib.",
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

/// `module`: empty, or path or file name of the assembly.
pub(super) fn whose(module: &str, name: &str) -> Whose {
    let module = module.rsplit('/').next().unwrap_or(module);
    if is_plumbing(name) {
        Whose::Plumbing
    } else if is_library(name) || !module.is_empty() && is_framework(module) {
        Whose::Library
    } else {
        Whose::Program
    }
}

/// Part of the class library, or made by the runtime.
pub(crate) fn is_library(name: &str) -> bool {
    LIBRARIES.iter().any(|prefix| name.starts_with(prefix))
}

/// An assembly of the framework, by its file name, or none at all.
pub(crate) fn is_framework(module: &str) -> bool {
    module.is_empty() || ASSEMBLIES.iter().any(|prefix| module.starts_with(prefix))
}

/// The application's own: neither of the class library nor without a name.
pub(crate) fn is_application(name: &str) -> bool {
    !is_library(name) && !is_address(name)
}

/// An address that nobody knew a name for.
pub(crate) fn is_address(name: &str) -> bool {
    name.starts_with("0x")
}

/// How a thread waits or starts, whatever for.
fn is_plumbing(name: &str) -> bool {
    WAITING.iter().chain(STARTING).any(|prefix| name.starts_with(prefix)) || name.contains("IL_STUB_")
}

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
