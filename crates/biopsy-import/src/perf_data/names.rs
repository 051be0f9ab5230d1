//! Names of the frames, from this machine where it is certain that they are right.

use super::header::{Container, feature};
use super::options::Options;
use super::spaces::Spaces;
use crate::Limits;
use biopsy_model::loss::Warning;
use biopsy_model::module::{ModuleHandle, ModuleKind};
use biopsy_model::order::Order as _;
use biopsy_model::stack::FrameHandle;
use biopsy_model::symbol::FrameSymbols;
use biopsy_model::timeline::Timeline;
use biopsy_model::{Avma, Pid, Svma};
use biopsy_stacks::symbols::{ModuleSource, Options as SymbolOptions, Resolved, Symbolizer};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// Fills `timeline.symbols`.
pub(crate) fn add(
    timeline: &mut Timeline,
    spaces: &mut Spaces,
    container: &Container<'_>,
    options: &Options,
    limits: &Limits,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    timeline.symbols = vec![None; timeline.frames.len()];
    if options.sources.roots.is_empty() {
        if !spaces.files.missing.is_empty() {
            warnings.push(Warning {
                code: "import.not-opened".to_owned(),
                message: format!(
                    "files that the recording names were not opened, and names are missing for them: {}",
                    spaces.files.missing.join(", ")
                ),
                hint: Some(
                    "`--symbols /` looks for them on this machine, `--symbols FOLDER` below a folder"
                        .to_owned(),
                ),
                time: None,
            });
        }
        return warnings;
    }
    let elsewhere = options.sources.elsewhere.clone();
    let symbols = SymbolOptions { elsewhere, ..SymbolOptions::default() };
    let mut symbolizer = Symbolizer::new(symbols, spaces.files.cache.clone());
    let same_host = is_same_host(container, limits);
    let kernel = same_host && is_same_kernel(spaces, container, limits);
    let mut by_module: FxHashMap<ModuleHandle, Vec<FrameHandle>> = FxHashMap::default();
    for (number, frame) in timeline.frames.iter().enumerate() {
        if let Some(module) = frame.module {
            by_module.entry(module).or_default().push(FrameHandle(number as u32));
        }
    }
    let mut by_module: Vec<(ModuleHandle, Vec<FrameHandle>)> = by_module.into_iter().collect();
    by_module.order_by_key(|(module, _)| *module);
    let mut skipped_kernel = false;
    let mut jit: Vec<String> = Vec::new();
    for (handle, frames) in by_module {
        let Some(module) = timeline.modules.get(handle.0 as usize) else { continue };
        let addresses = frames
            .iter()
            .filter_map(|frame| timeline.frames.get(frame.0 as usize))
            .map(|frame| frame.address.0);
        let resolved: Vec<Option<Resolved>> = match module.kind {
            ModuleKind::Kernel if kernel => symbolizer.kernel(&addresses.map(Avma).collect::<Vec<_>>()),
            ModuleKind::Kernel => {
                skipped_kernel = true;
                continue;
            }
            ModuleKind::Elf => {
                let Some(found) = spaces.found.get(&handle) else { continue };
                let source = ModuleSource {
                    path: module.path.clone(),
                    candidates: vec![found.path.clone()],
                    build_id: module.build_id.clone(),
                    root: options.sources.roots.first().cloned(),
                    ..ModuleSource::elf(&module.path)
                };
                symbolizer.elf(&source, &addresses.map(Svma).collect::<Vec<_>>())
            }
            ModuleKind::Jit if same_host => {
                let path = perf_map(module.pid);
                let resolved = symbolizer.perf_map(&path, None, &addresses.map(Avma).collect::<Vec<_>>());
                if resolved.iter().any(Option::is_some) {
                    jit.push(path.display().to_string());
                }
                resolved
            }
            ModuleKind::Jit | ModuleKind::Vdso | ModuleKind::OtherFile | ModuleKind::Source => continue,
        };
        for (frame, resolved) in frames.into_iter().zip(resolved) {
            let Some(resolved) = resolved.filter(|resolved| !resolved.functions.is_empty()) else { continue };
            if let Some(slot) = timeline.symbols.get_mut(frame.0 as usize) {
                *slot = Some(FrameSymbols { frame, functions: resolved.functions, source: resolved.source });
            }
        }
    }
    let mut warn = |code: &str, message: String, hint: Option<&str>| {
        warnings.push(Warning { hint: hint.map(str::to_owned), ..Warning::new(code, message) });
    };
    if skipped_kernel {
        let message = "names of kernel functions are missing: perf.data is of another machine or boot, or the kernel hides its addresses";
        warn(
            "import.no-kernel-names",
            message.to_owned(),
            Some("import on the machine it is from, as root, before it is restarted"),
        );
    }
    if !spaces.files.missing.is_empty() {
        let message = format!(
            "names are missing for files that are not here, or not in the version recorded: {}",
            spaces.files.missing.join(", ")
        );
        warn(
            "import.no-file",
            message,
            Some("import on the machine it is from, or bring the files with `perf archive`"),
        );
    }
    if !jit.is_empty() {
        jit.sort();
        jit.dedup();
        warn(
            "import.perf-map",
            format!("names of compiled code come from {} as it is now", jit.join(", ")),
            None,
        );
    }
    for problem in symbolizer.take_problems() {
        warn("import.symbols", problem.to_string(), problem.hint());
    }
    warnings
}

fn perf_map(pid: Pid) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

fn is_same_host(container: &Container<'_>, limits: &Limits) -> bool {
    let here = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned());
    let host = container.text(feature::HOSTNAME, limits);
    let kernel = container.text(feature::OSRELEASE, limits);
    host.is_some()
        && kernel.is_some()
        && here("/proc/sys/kernel/hostname") == host
        && here("/proc/sys/kernel/osrelease") == kernel
}

/// Kernel addresses change from boot to boot: names are right only if the symbol perf remembers is still where it was, in
/// the same build.
fn is_same_kernel(spaces: &Spaces, container: &Container<'_>, limits: &Limits) -> bool {
    let Some((name, address)) = spaces.kernel_reference() else { return false };
    let recorded = container.build_ids(limits).remove(super::spaces::KERNEL);
    let running = std::fs::read("/sys/kernel/notes")
        .ok()
        .and_then(|notes| biopsy_elf::build_id(&notes).map(<[u8]>::to_vec));
    if recorded.is_some() && running.is_some() && recorded != running {
        return false;
    }
    address_now(name) == Some(address)
}

/// Where the kernel's symbols have a name now. The table is read up to there: reference symbols come early.
fn address_now(name: &str) -> Option<Avma> {
    let table = File::open("/proc/kallsyms").ok()?;
    for line in BufReader::new(table).lines() {
        let line = line.ok()?;
        let mut words = line.split_ascii_whitespace();
        let (address, _kind, symbol) = (words.next()?, words.next()?, words.next()?);
        if symbol == name {
            return u64::from_str_radix(address, 16).ok().filter(|address| *address != 0).map(Avma);
        }
    }
    None
}
