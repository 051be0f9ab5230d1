//! What may be typed after `biopsy dump`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use biopsy_capture::dump::{BETWEEN_LOOKS, DumpPlan, is_minidump_name, trigger};
use biopsy_image::write::CoreKind;
use biopsy_seal::Recipient;
use clap::{Args, ValueEnum};

use crate::typed::{duration, typed};
use biopsy_capture::{Failure, FailureKind};
use biopsy_terminal::terminal::stdout_is_terminal;

/// Shortest time between two dumps if nothing is said.
const BETWEEN_DUMPS: Duration = Duration::from_secs(60);

/// Dump a process or a whole tree, with a pause of milliseconds: now, or when something happens.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// The process: pid, name, .NET entry assembly, systemd unit or container id.
    pub target: String,
    /// All processes below it too, frozen in one moment.
    #[arg(long)]
    pub tree: bool,
    /// How much: all that can be read; what debuggers need for stacks and heaps; or stacks alone.
    /// [default: heap; stacks in a minidump]
    #[arg(long, value_enum)]
    pub kind: Option<Kind>,
    /// A core, or a minidump of stacks for tools that read those. [default: core, unless the output ends in `.dmp`]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Mask secrets of known shapes, and those found in the process's environment and configuration, in the dumped
    /// memory. Fewer secrets, never none.
    #[arg(long)]
    pub scrub: bool,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Refuse if the process would have to stand still longer than this.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "250ms")]
    pub max_pause: Duration,
    /// Turn the heap into huge pages before: seconds of CPU, and a pause ten times shorter. For large heaps.
    #[arg(long)]
    pub collapse: bool,
    /// Where it goes: a folder; a bundle, if it ends in `.zip`; the core alone, if it ends in `.core`, `.core.zst`,
    /// `.zst` or `.dmp`; `-`: the core alone, to standard output. [default: biopsy-NAME-DATE-TIME here, a folder]
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Seal the core alone to this key, `age1...`, while it is written: nothing of it is on the disk in clear. The output ends in `.age`. May be
    /// repeated.
    #[arg(long, value_name = "KEY", requires = "output",
          conflicts_with_all = ["tree", "on", "count", "looks", "wait", "wait_for"])]
    pub to_key: Vec<Recipient>,
    /// Do not compress: a sparse core file.
    #[arg(long)]
    pub raw: bool,
    /// Level of zstd.
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true, conflicts_with = "raw",
          value_parser = clap::value_parser!(i32).range(-7..=19))]
    pub level: Option<i32>,
    /// Most megabytes of one core; what matters least is left out first.
    #[arg(long, value_name = "MB")]
    pub max_size: Option<u64>,
    /// Wait for this to happen and dump then: `crash`, `exit`, `exit!=0`, `cpu>90%:30s`, `memory>2G`, `growth>200M`, `threads>500`,
    /// `fds>1000`, `pressure-memory>10%:30s` (`-cpu`, `-io`), `hang:10s`, `log:PATH:REGEX`, `after:10m`. May be repeated: any of them.
    #[arg(long = "on", value_name = "TRIGGER")]
    pub on: Vec<String>,
    /// Dump this many times, then end.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Look at it so many times, the last time for the dump, and say which threads did not move in between. The process stands still
    /// for each look, and each is a dump beside the other; of programs without a runtime those before the last hold stacks only.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50),
          conflicts_with_all = ["on", "count", "wait", "wait_for"])]
    pub looks: u8,
    /// At least this long between two dumps. [default: 60s; 2s between looks]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub every: Option<Duration>,
    /// If there is no such process yet, wait for it to start.
    #[arg(long)]
    pub wait: bool,
    /// Catch processes of this name below the target as they start, and dump them when they end (or as `--on` says),
    /// however short they live.
    #[arg(long, value_name = "NAME")]
    pub wait_for: Option<String>,
    /// Wait at most this long.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
    /// For programs: print the result as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}

/// How much a dump holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// Everything that can be read, the text of mapped files included.
    Full,
    /// All memory of its own, and of mapped files what names and unwinds them. Debuggers find the rest in the files.
    Heap,
    /// Stacks, registers and modules.
    Stacks,
}

/// What a dump is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// An ELF core: gdb, lldb, .NET's tools.
    Core,
    /// A minidump: tools made for Breakpad and Windows.
    Minidump,
}

impl From<Kind> for CoreKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Full => Self::Full,
            Kind::Heap => Self::Heap,
            Kind::Stacks => Self::Stacks,
        }
    }
}

fn ends_with_age(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "age")
}

impl DumpArgs {
    /// How much: what was asked for, or what the format has.
    fn kind(&self) -> Kind {
        self.kind.unwrap_or(match self.format() {
            Format::Core => Kind::Heap,
            Format::Minidump => Kind::Stacks,
        })
    }

    /// What was asked for, or what the name of the output says.
    fn format(&self) -> Format {
        let of_output = || match &self.output {
            Some(path) if is_minidump_name(path) => Format::Minidump,
            _ => Format::Core,
        };
        self.format.unwrap_or_else(of_output)
    }

    /// Whether what was typed fits together.
    fn check(&self) -> Result<(), Failure> {
        let to_terminal = self.output.as_deref().is_some_and(|path| path.as_os_str() == "-")
            && stdout_is_terminal()
            && !self.dry_run;
        if to_terminal {
            let failure = Failure::new(FailureKind::Usage, "a core would be written to the terminal");
            let hint = "send it into a file or another program, or name a file with `--output`";
            return Err(failure.with_hint(Some(hint)));
        }
        let wrong = |message: &str, hint: &str| {
            Err(Failure::new(FailureKind::Usage, message.to_owned()).with_hint(Some(hint.to_owned())))
        };
        let is_named_sealed = self.output.as_deref().is_some_and(ends_with_age);
        if !self.to_key.is_empty() && !is_named_sealed {
            return wrong("the name of a sealed file ends in `.age`", "name it so with `--output`");
        }
        if self.to_key.is_empty() && is_named_sealed {
            let hint = "name the key with `--to-key`, or another output";
            return wrong("a name that ends in `.age` is of a sealed file, and there is no key", hint);
        }
        if self.count > 1 && self.on.is_empty() && !self.wait && self.wait_for.is_none() {
            let hint = "add `--on after:1s`, or use `--looks 3 --every 2s`, which says what did not move";
            return wrong("`--count` is for dumps that wait for something, and there is no `--on`", hint);
        }
        if self.format() == Format::Core {
            return match &self.output {
                Some(path) if is_minidump_name(path) => {
                    wrong("a core does not go into a file that ends in `.dmp`", "leave `--format` out")
                }
                _ => Ok(()),
            };
        }
        if self.kind() != Kind::Stacks {
            return wrong("a minidump holds stacks only", "leave `--kind` out, or leave `--format` out");
        }
        if self.raw || self.level.is_some() || self.max_size.is_some() {
            return wrong(
                "`--raw`, `--level` and `--max-size` are for cores",
                "a minidump is small, and is not compressed",
            );
        }
        Ok(())
    }

    /// What is to be done.
    pub fn plan(&self) -> Result<DumpPlan, Failure> {
        self.check()?;
        Ok(DumpPlan {
            target: self.target.clone(),
            command: typed(),
            tree: self.tree,
            kind: self.kind().into(),
            minidump: self.format() == Format::Minidump,
            scrub: self.scrub,
            dry_run: self.dry_run,
            max_pause: self.max_pause,
            collapse: self.collapse,
            output: self.output.clone(),
            sealed: if self.to_key.is_empty() { None } else { self.output.clone() },
            raw: self.raw,
            level: self.level,
            max_bytes: self.max_size.map(|megabytes| megabytes.saturating_mul(1 << 20)),
            on: self.on.iter().map(|text| trigger(text)).collect::<Result<_, _>>()?,
            count: self.count,
            every: self.every.unwrap_or(if self.looks > 1 { BETWEEN_LOOKS } else { BETWEEN_DUMPS }),
            looks: self.looks,
            wait: self.wait,
            wait_for: self.wait_for.clone(),
            length: self.duration,
        })
    }
}
