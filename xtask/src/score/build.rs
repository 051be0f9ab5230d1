//! From a source to a command, in eight languages; what is built is kept as long as its source and recipe are the same.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_testkit::{dotnet_root, require_program, require_that};

use super::corpus::Specimen;
use super::truth::Language;
use crate::run::{Outcome, output_of};

/// Builds what has to be built; the command runs it.
pub(crate) fn build(specimen: &Specimen, tools: &Tools, folder: &Path) -> Outcome<Command> {
    let truth = &specimen.truth;
    let source = specimen.folder.join(&truth.source);
    let text = std::fs::read(&source).map_err(|error| format!("`{}`: {error}", source.display()))?;
    let mut hasher = DefaultHasher::new();
    (text, &truth.flags, truth.strip, &specimen.name, &specimen.framework).hash(&mut hasher);
    // The name of a process is the name of its source: that of the specimen would say more than a service does.
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = folder.join(format!("{}-{:016x}", specimen.name.replace('/', "-"), hasher.finish()));
    let product = tools.product(&folder, &stem);
    if !product.as_ref().is_none_or(|product| product.exists()) {
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
        tools.compile(specimen, &source, &folder, &stem)?;
        if truth.strip
            && let Some(product) = &product
        {
            output_of(Command::new("strip").arg(product))?;
        }
    }
    let mut command = tools.run(&source, &folder, &stem, &truth.runtime);
    command.args(&truth.arguments).envs(&truth.environment);
    Ok(command)
}

/// What a language needs on this machine.
pub(crate) enum Tools {
    /// A compiler that makes a program, and what it is always asked for.
    Native(&'static str, &'static [&'static str]),
    Go,
    Script(&'static str),
    Java,
    /// The folder with `dotnet`.
    CSharp(PathBuf),
}

impl Tools {
    /// `None`: they are not there, which has been printed.
    pub(crate) fn of(language: Language) -> Option<Self> {
        let (tools, program, arguments): (_, _, &[&str]) = match language {
            Language::C => {
                (Self::Native("cc", &["-std=gnu11", "-O1", "-g", "-pthread", "-o"]), "cc", &["--version"])
            }
            Language::Cpp => {
                (Self::Native("c++", &["-std=c++20", "-O2", "-g", "-pthread", "-o"]), "c++", &["--version"])
            }
            Language::Rust => {
                (Self::Native("rustc", &["--edition=2021", "-O", "-g", "-o"]), "rustc", &["--version"])
            }
            Language::Go => (Self::Go, "go", &["version"]),
            Language::Python => (Self::Script("python3"), "python3", &["--version"]),
            Language::Java => (Self::Java, "javac", &["-version"]),
            Language::JavaScript => (Self::Script("node"), "node", &["--version"]),
            Language::CSharp => {
                let root = dotnet_root();
                let is_there = require_that(
                    root.as_deref().is_some_and(has_compiler),
                    "needs an SDK of .NET: `BIOPSY_DOTNET` names the folder of one",
                );
                return root.filter(|_| is_there).map(Self::CSharp);
            }
        };
        require_program(program, arguments).then_some(tools)
    }

    /// What is there once it is built; `None`: the source is what runs.
    fn product(&self, folder: &Path, stem: &str) -> Option<PathBuf> {
        match self {
            Self::Native(..) | Self::Go => Some(folder.join(stem)),
            Self::Script(_) => None,
            Self::Java => Some(folder.join(format!("{stem}.class"))),
            // Written last.
            Self::CSharp(_) => Some(folder.join(format!("{stem}.runtimeconfig.json"))),
        }
    }

    fn compile(&self, specimen: &Specimen, source: &Path, folder: &Path, stem: &str) -> Outcome {
        let flags = &specimen.truth.flags;
        match self {
            Self::Native(compiler, usual) => {
                let mut command = Command::new(compiler);
                command.args(*usual).arg(folder.join(stem)).arg(source).args(flags);
                output_of(&mut command)?;
            }
            Self::Go => {
                let mut command = Command::new("go");
                command.env("GO111MODULE", "off").arg("build").args(flags).arg("-o").arg(folder.join(stem));
                output_of(command.arg(source))?;
            }
            Self::Script(_) => {}
            Self::Java => {
                let mut command = Command::new("javac");
                output_of(command.arg("-g").args(flags).arg("-d").arg(folder).arg(source))?;
            }
            Self::CSharp(root) => compile_csharp(root, specimen, source, folder, stem)?,
        }
        Ok(())
    }

    fn run(&self, source: &Path, folder: &Path, stem: &str, runtime: &[String]) -> Command {
        let mut command = match self {
            Self::Native(..) | Self::Go => return Command::new(folder.join(stem)),
            Self::Script(interpreter) => Command::new(interpreter),
            Self::Java => Command::new("java"),
            Self::CSharp(root) => {
                let mut command = Command::new(root.join("dotnet"));
                command.env("DOTNET_ROOT", root).arg("exec");
                command
            }
        };
        command.args(runtime);
        match self {
            Self::Script(_) => command.arg(source),
            Self::Java => command.arg("-cp").arg(folder).arg(stem),
            Self::Native(..) | Self::Go | Self::CSharp(_) => command.arg(folder.join(format!("{stem}.dll"))),
        };
        command
    }
}

/// Of the folders below, which are named after versions, the newest.
fn newest(folder: &Path) -> Option<PathBuf> {
    newest_of(folder, "")
}

/// The newest of those that begin so.
fn newest_of(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let numbers = |name: &str| name.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>();
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.starts_with(prefix))
        .max_by_key(|name| numbers(name))
        .map(|name| folder.join(name))
}

fn compiler(root: &Path) -> Option<PathBuf> {
    Some(newest(&root.join("sdk"))?.join("Roslyn/bincore/csc.dll"))
}

fn has_compiler(root: &Path) -> bool {
    compiler(root).is_some_and(|compiler| compiler.exists())
}

/// With the compiler alone: `dotnet build` would leave servers behind.
fn compile_csharp(root: &Path, specimen: &Specimen, source: &Path, folder: &Path, stem: &str) -> Outcome {
    let flags = &specimen.truth.flags;
    let wanted = specimen.framework.as_deref().map(|name| format!("{}.", name.trim_start_matches("net")));
    let packs = root.join("packs/Microsoft.NETCore.App.Ref");
    let pack = newest_of(&packs, &wanted.unwrap_or_default())
        .ok_or_else(|| format!("`{}` has no reference assemblies for it", packs.display()))?;
    let framework = newest(&pack.join("ref")).ok_or("the SDK has no reference assemblies")?;
    let compiler = compiler(root).ok_or("the SDK has no compiler")?;
    let mut command = Command::new(root.join("dotnet"));
    command.env("DOTNET_ROOT", root).arg("exec").arg(compiler);
    command.args(["-nologo", "-optimize+", "-debug:portable", "-langversion:latest", "-warn:0"]).args(flags);
    command.arg(format!("-out:{}", folder.join(format!("{stem}.dll")).display()));
    let entries =
        std::fs::read_dir(&framework).map_err(|error| format!("`{}`: {error}", framework.display()))?;
    for entry in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if entry.extension().is_some_and(|end| end == "dll") {
            command.arg(format!("-r:{}", entry.display()));
        }
    }
    output_of(command.arg(source))?;
    let name = framework.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let settings = serde_json::json!({ "runtimeOptions": {
        "tfm": name,
        "framework": { "name": "Microsoft.NETCore.App", "version": format!("{}.0", name.trim_start_matches("net")) },
        "configProperties": { "System.Globalization.Invariant": true },
    } });
    let file = folder.join(format!("{stem}.runtimeconfig.json"));
    std::fs::write(&file, settings.to_string()).map_err(|error| format!("`{}`: {error}", file.display()))
}
