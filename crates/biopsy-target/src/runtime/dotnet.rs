//! .NET: `libcoreclr.so` among the mappings, or a runtime linked into a single file.

use biopsy_model::process::{Runtime, RuntimeKind};

use super::evidence::{Evidence, leading_version};
use crate::process::command;
use crate::process::elf;
use crate::process::proc_root::SMALL;

/// The folder of the shared runtime; its next part is the version.
const SHARED: &str = "/Microsoft.NETCore.App/";
/// Exported by an executable that has the runtime linked in (single file); see `clr/src/coreclr/debug/runtimeinfo`.
const RUNTIME_INFO: &[u8] = b"DotNetRuntimeInfo\0";
/// Exported by an executable compiled ahead of time.
const AOT_INFO: &[u8] = b"DotNetRuntimeDebugHeader\0";
/// The text every CoreCLR carries, for example `@(#)Version 8.0.3126.28222 @Commit: ...`.
const VERSION_TEXT: &[u8] = b"@(#)Version ";
/// Bytes searched for [`VERSION_TEXT`].
const SEARCH: u64 = 64 << 20;

pub(super) fn detect(evidence: &Evidence<'_>) -> Option<Runtime> {
    let version = match evidence.mapped(|name| name == "libcoreclr.so") {
        Some(library) => version_by_path(library).or_else(|| version_beside(evidence, library)),
        None => single_file(evidence)?,
    };
    let kind = RuntimeKind::DotNet;
    Some(Runtime { kind, version, entry: entry(evidence) })
}

fn version_by_path(library: &str) -> Option<String> {
    let (_, after) = library.rsplit_once(SHARED)?;
    leading_version(after)
}

/// A self-contained application has the runtime beside it, and says which in `NAME.runtimeconfig.json`:
/// `"includedFrameworks": [ { "name": "Microsoft.NETCore.App", "version": "9.0.20" } ]`.
fn version_beside(evidence: &Evidence<'_>, library: &str) -> Option<String> {
    let exe = evidence.seen.exe.as_deref()?;
    let config = format!("{exe}.runtimeconfig.json");
    let from_config = evidence.seen.dir.read_in_root(config.as_bytes(), SMALL).ok().and_then(|text| {
        let text = String::from_utf8_lossy(&text);
        let (_, after) = text.split_once("\"Microsoft.NETCore.App\"")?;
        let (_, after) = after.split_once("\"version\"")?;
        leading_version(after.trim_start_matches([' ', ':', '"', '\t']))
    });
    from_config.or_else(|| {
        let (folder, _) = library.rsplit_once('/')?;
        // The folder of a published application lists its packages; the runtime's is named `runtimepack...`.
        let deps = evidence.seen.dir.read_in_root(format!("{exe}.deps.json").as_bytes(), 1 << 20).ok()?;
        let deps = String::from_utf8_lossy(&deps);
        tracing::debug!(folder, "version from deps.json");
        let (_, after) = deps.split_once("runtimepack.Microsoft.NETCore.App.Runtime.")?;
        leading_version(after.split_once('/')?.1)
    })
}

/// `Some(version)` when the runtime is linked into the executable.
fn single_file(evidence: &Evidence<'_>) -> Option<Option<String>> {
    // Looking into the executable costs some reads; the runtime names its threads, and only then is it looked at.
    let process = &evidence.seen.dir;
    let named = process.tids(64).ok()?.into_iter().any(|tid| {
        process.read(&format!("task/{tid}/comm"), SMALL).is_ok_and(|name| name.starts_with(b".NET "))
    });
    if !named {
        return None;
    }
    let exe = process.file("exe").ok()?;
    let names = elf::section_bytes(&exe, ".dynstr", 4 << 20)?;
    let exports = |symbol: &[u8]| names.windows(symbol.len()).any(|window| window == symbol);
    if !exports(RUNTIME_INFO) && !exports(AOT_INFO) {
        return None;
    }
    let version = [".rodata", ".data", ".data.rel.ro"].into_iter().find_map(|section| {
        let text = elf::find_in_section(&exe, section, VERSION_TEXT, 32, SEARCH)?;
        file_version(std::str::from_utf8(&text).ok()?)
    });
    Some(version)
}

/// Turns a file version into the version people know: `8.0.3126.28222` is 8.0.31, where the last two digits of
/// the third number count builds of the servicing branch.
fn file_version(text: &str) -> Option<String> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (major, minor, build) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(format!("{major}.{minor}.{}", build / 100))
}

fn entry(evidence: &Evidence<'_>) -> Option<String> {
    let seen = evidence.seen;
    let exe = seen.exe_name().unwrap_or_default();
    if exe == "dotnet" {
        return command::entry(RuntimeKind::DotNet, &seen.arguments);
    }
    // An application host has the name of its assembly. In a single file the assembly is inside.
    let assembly = format!("{exe}.dll");
    (!exe.is_empty()).then_some(assembly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let path = "/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.31/libcoreclr.so";
        assert_eq!(version_by_path(path).as_deref(), Some("8.0.31"));
        assert_eq!(version_by_path("/opt/app/libcoreclr.so"), None);
        assert_eq!(file_version("9.0.725.31616 @Commit: x").as_deref(), Some("9.0.7"));
        assert_eq!(file_version("8.0.3126.28222").as_deref(), Some("8.0.31"));
        assert_eq!(file_version("x"), None);
    }
}
