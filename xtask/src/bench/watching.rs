//! Workload W: `biopsy watch` at rest, beside a build, of programs that start, and asked for the last minutes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{MariaDb, Signal, TempDir, dotnet_root, dotnet_run, proc_usage, send_signal, temp_dir};

use super::options::Options;
use super::statistics::{median, paired_ratio};
use super::table::{Column, Table};
use crate::run::{Outcome, output_of};

/// From the start of a watcher to when it stands by.
const SETTLE: Duration = Duration::from_secs(3);
const SLEEPERS: usize = 500;
const IDLE: Duration = Duration::from_secs(60);
/// How long a compile server lives that is started and ended again.
const LIFE: Duration = Duration::from_millis(1200);
/// How often that is done in one run, and the runs.
const STARTS: usize = 50;
const RUNS: usize = 3;
/// A kind that is not there, and one that is.
const NOTHING: &str = r#"{"watch":{"rules":{"none":{"who":"OctopusServer","when":"start","do":"trace"}}}}"#;
const COMPILERS: &str = r#"{"watch":{"minFree":"1MB","rules":{"compilers":{"who":"Compiler","when":"start","do":"trace","perDay":1000}}}}"#;

/// Measures all of it.
pub(crate) fn measure(biopsy: &Path, options: &Options, table: &mut Table) -> Outcome {
    let wants = |part: &str| options.recorders.is_empty() || options.recorders.iter().any(|one| one == part);
    let mut column = Column::new("biopsy watch");
    if wants("idle") {
        idle(biopsy, options, table, &mut column)?;
    }
    if wants("recent") {
        last_minutes(biopsy, options, table, &mut column)?;
    }
    if let Some(root) = dotnet_root() {
        if wants("build") {
            builds(biopsy, &root, options, table, &mut column)?;
        }
        if wants("starts") {
            starts(biopsy, &root, options, table, &mut column)?;
        }
    }
    table.add_column("W", column);
    Ok(())
}

/// A watcher with settings of its own, in a folder of its own.
struct Watcher {
    child: Child,
    folder: TempDir,
}

impl Watcher {
    fn start(biopsy: &Path, settings: &str) -> Outcome<Self> {
        let folder = temp_dir("bench-w");
        let file = folder.path().join("diagnostics.json");
        std::fs::write(&file, settings).map_err(|error| format!("`{}`: {error}", file.display()))?;
        let mut command = Self::command(biopsy, &folder);
        command
            .args(["watch", "--json", "--config"])
            .arg(&file)
            .arg("--output")
            .arg(folder.path().join("out"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("cannot run biopsy: {error}"))?;
        std::thread::sleep(SETTLE);
        Ok(Self { child, folder })
    }

    fn command(biopsy: &Path, folder: &TempDir) -> Command {
        let mut command = Command::new(biopsy);
        command.env("XDG_STATE_HOME", folder.path().join("state")).stdin(Stdio::null());
        command
    }

    fn cpu_seconds(&self) -> f64 {
        proc_usage::cpu_seconds(self.child.id())
    }

    /// Ends it, when what it has begun is finished; with what it said, and the folder of what it left.
    fn stop(mut self) -> Outcome<(Vec<serde_json::Value>, TempDir)> {
        send_signal(self.child.id(), Signal::INT);
        let said = self.child.stdout.take().ok_or("no pipe")?;
        let lines = BufReader::new(said).lines().map_while(Result::ok);
        let said = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
        self.child.wait().map_err(|error| error.to_string())?;
        Ok((said, self.folder))
    }
}

/// Beside 500 processes that sleep.
fn idle(biopsy: &Path, options: &Options, table: &mut Table, column: &mut Column) -> Outcome {
    let sleeper = || Command::new("sleep").arg("600").spawn();
    let mut sleepers = (0..SLEEPERS)
        .map(|_| sleeper().map_err(|error| format!("cannot run `sleep`: {error}")))
        .collect::<Outcome<Vec<Child>>>()?;
    let watcher = Watcher::start(biopsy, COMPILERS)?;
    let time = if options.quick { SETTLE } else { IDLE };
    let (cpu, forks, began) = (watcher.cpu_seconds(), forks(), Instant::now());
    std::thread::sleep(time);
    let seconds = began.elapsed().as_secs_f64();
    let percent = (watcher.cpu_seconds() - cpu) * 100.0 / seconds;
    let per_second = (self::forks() - forks) / seconds;
    let memory = resident_mb(watcher.child.id());
    watcher.stop()?;
    for one in &mut sleepers {
        // It ends by itself.
        let _ = one.kill();
        let _ = one.wait();
    }
    println!(
        "W: idle {percent:.2} % of a core, beside {per_second:.0} forks a second of others; {memory:.1} MB"
    );
    table.judge("W3a", Some(percent));
    table.judge("W3b", Some(memory));
    column.set("idle, % of a core", Some(percent));
    column.set("forks of others, /s", Some(per_second));
    column.set("memory, MB", Some(memory));
    Ok(())
}

/// `capture --recent=5m` of MariaDB at saturation.
fn last_minutes(biopsy: &Path, options: &Options, table: &mut Table, column: &mut Column) -> Outcome {
    let server = MariaDb::start()?;
    server.prepare_load()?;
    let load = server.load(3600)?;
    let pid = server.pid().to_string();
    let settings = r#"{"watch":{"minFree":"1MB","rules":{"minutes":{"who":{"name":"mariadbd"},"when":"start","do":"recent 5m"}}}}"#;
    let watcher = Watcher::start(biopsy, settings)?;
    std::thread::sleep(Duration::from_secs(if options.quick { 5 } else { 60 }));
    let mut seconds = Vec::new();
    for round in 0..5 {
        let output = watcher.folder.path().join(format!("minutes-{round}.zip"));
        let mut command = Watcher::command(biopsy, &watcher.folder);
        command.args(["capture", &pid, "--recent=5m", "--quiet", "--output"]).arg(&output);
        let began = Instant::now();
        output_of(&mut command)?;
        seconds.push(began.elapsed().as_secs_f64());
        output.metadata().map_err(|error| format!("`{}`: {error}", output.display()))?;
    }
    watcher.stop()?;
    drop(load.stop());
    println!("W: the last minutes written in {seconds:.2?} s");
    table.judge("W4", median(&seconds));
    column.set("last minutes written, s", median(&seconds));
    Ok(())
}

/// The compiler tree, built with two jobs and a new compile server: without a watcher, with one whose rules match nothing, and with the
/// compilers traced.
fn builds(biopsy: &Path, root: &Path, options: &Options, table: &mut Table, column: &mut Column) -> Outcome {
    let tree = Tree::make(root)?;
    tree.build()?;
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 5 });
    let mut walls = [Vec::new(), Vec::new(), Vec::new()];
    let (mut cpus, mut all) = (walls.clone(), walls.clone());
    for round in 0..rounds {
        let order = if round % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
        for kind in order {
            let watcher = match kind {
                0 => None,
                1 => Some(Watcher::start(biopsy, NOTHING)?),
                _ => Some(Watcher::start(biopsy, COMPILERS)?),
            };
            let (wall, cpu) = tree.build()?;
            let name = ["no watcher", "nothing matches", "compilers traced"][kind];
            walls[kind].push(wall);
            cpus[kind].push(cpu);
            let before = children_cpu();
            let mut own = 0.0;
            if let Some(watcher) = watcher {
                let made = watcher.stop()?.0.iter().filter(|line| line["event"] == "made").count();
                if kind == 2 && made == 0 {
                    return Err("no compiler was traced".to_owned());
                }
                // It and all that it has begun, from its start on, and what is made of the recordings.
                own = children_cpu() - before;
            }
            println!(
                "W round {round}: build with {name}: {wall:.2} s, {cpu:.2} CPU s, {own:.2} of the watcher"
            );
            all[kind].push(cpu + own);
        }
    }
    let ratio = |of: &[Vec<f64>; 3], kind: usize| paired_ratio(&of[kind], &of[0]);
    table.judge("W10a", ratio(&walls, 1));
    table.judge("W10b", ratio(&walls, 2));
    column.set("build, nothing matches", ratio(&walls, 1));
    column.set("the same, CPU", ratio(&cpus, 1));
    column.set("build, compilers traced", ratio(&walls, 2));
    column.set("the same, CPU of the build", ratio(&cpus, 2));
    column.set("the same, CPU of watcher and recorders with it", ratio(&all, 2));
    Ok(())
}

/// Compile servers that are started one after another, by a settings file alone.
fn starts(biopsy: &Path, root: &Path, options: &Options, table: &mut Table, column: &mut Column) -> Outcome {
    let server =
        find(&root.join("sdk"), "Roslyn/bincore/VBCSCompiler.dll").ok_or("there is no compile server")?;
    let (runs, starts) = if options.quick { (1, 3) } else { (options.rounds.unwrap_or(RUNS), STARTS) };
    let mut worst = 1.0_f64;
    for run in 0..runs {
        let watcher = Watcher::start(biopsy, COMPILERS)?;
        for start in 0..starts {
            let mut command = Command::new(root.join("dotnet"));
            let pipe = format!("biopsy-{run}-{start}-{}", std::process::id());
            command.arg("exec").arg(&server).arg(format!("-pipename:{pipe}"));
            command.env("DOTNET_ROOT", root).env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().map_err(|error| format!("cannot run `dotnet`: {error}"))?;
            std::thread::sleep(LIFE);
            send_signal(child.id(), Signal::TERM);
            child.wait().map_err(|error| error.to_string())?;
            // One that is ended leaves its pipe, wherever TMPDIR is.
            let _ = std::fs::remove_file(Path::new("/tmp").join(pipe));
        }
        let (said, folder) = watcher.stop()?;
        let readable = readable_reports(&folder.path().join("out/compilers"));
        let of = |event: &str| said.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
        let is_first = |line: &&&serde_json::Value| {
            line["text"].as_str().is_some_and(|text| text.contains("first instruction"))
        };
        let first = of("begun").iter().filter(is_first).count();
        println!(
            "W run {run}: {starts} starts, {first} from the first instruction, {readable} readable reports"
        );
        #[expect(clippy::cast_precision_loss, reason = "counts below a hundred")]
        let share = first.min(readable) as f64 / starts as f64;
        worst = worst.min(share);
    }
    table.judge("W6", Some(worst));
    column.set("starts recorded, worst run", Some(worst));
    Ok(())
}

/// Results whose reports are JSON.
fn readable_reports(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_readable = |path: &PathBuf| {
        let mut unzip = Command::new("unzip");
        unzip.arg("-p").arg(path).arg("report.json");
        output_of(&mut unzip).is_ok_and(|text| serde_json::from_str::<serde_json::Value>(&text).is_ok())
    };
    entries.map(|entry| entry.path()).filter(is_readable).count()
}

/// Four projects with two hundred files.
struct Tree {
    folder: TempDir,
    root: PathBuf,
}

impl Tree {
    fn make(root: &Path) -> Outcome<Self> {
        let folder = temp_dir("bench-build");
        let targets = dotnet_run().and_then(|run| Some(run.parent()?.join("src/compiler")));
        let targets = targets.ok_or("the .NET targets are not there")?;
        let read = |name: &str| {
            let path = targets.join(name);
            std::fs::read_to_string(&path).map_err(|error| format!("`{}`: {error}", path.display()))
        };
        let write = |name: &str, text: &str| {
            let path = folder.path().join("src").join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(folder.path()))
                .and_then(|()| std::fs::write(&path, text))
                .map_err(|error| format!("`{}`: {error}", path.display()))
        };
        let (project, source) = (read("library.csproj.in")?, read("Generated.cs.in")?);
        for name in ["Alpha", "Beta", "Gamma", "Delta"] {
            write(&format!("{name}/{name}.csproj"), &project)?;
            for file in 1..=50 {
                let text = source.replace("@PROJECT@", name).replace("@NUMBER@", &file.to_string());
                write(&format!("{name}/Generated{file}.cs"), &text)?;
            }
        }
        write("NuGet.config", &read("NuGet.config.in")?)?;
        write("Build.slnx", &read("Build.slnx.in")?)?;
        Ok(Self { folder, root: root.to_owned() })
    }

    fn dotnet(&self, words: &[&str]) -> Command {
        let at = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(self.root.join("dotnet"));
        command.args(words).env("DOTNET_ROOT", &self.root).env("TMPDIR", self.folder.path());
        command.env("DOTNET_CLI_HOME", at("home")).env("NUGET_PACKAGES", at("packages"));
        for name in ["DOTNET_NOLOGO", "DOTNET_CLI_TELEMETRY_OPTOUT", "DOTNET_SKIP_FIRST_TIME_EXPERIENCE"] {
            command.env(name, "1");
        }
        command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1").env("MSBUILDDISABLENODEREUSE", "1");
        command.env("DOTNET_GENERATE_ASPNET_CERTIFICATE", "0").stdin(Stdio::null());
        command
    }

    /// Seconds by the clock, and of CPU, its compile server with it, which ends afterwards.
    fn build(&self) -> Outcome<(f64, f64)> {
        let solution = self.folder.path().join("src/Build.slnx");
        let words =
            ["build", &solution.to_string_lossy(), "-c", "Release", "-m:2", "-v:quiet", "--no-incremental"];
        let mut command = self.dotnet(&words);
        command.args(["-p:NuGetAudit=false", "-p:UseAppHost=false", "-p:UseSharedCompilation=true"]);
        let (cpu, began) = (children_cpu(), Instant::now());
        output_of(&mut command)?;
        let wall = began.elapsed().as_secs_f64();
        let servers: f64 = self.servers().into_iter().map(proc_usage::cpu_seconds).sum();
        let cpu = children_cpu() - cpu + servers;
        output_of(&mut self.dotnet(&["build-server", "shutdown"]))?;
        Ok((wall, cpu))
    }

    /// Processes that outlive a build.
    fn servers(&self) -> Vec<u32> {
        let mark = format!("TMPDIR={}\0", self.folder.path().display());
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_one = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        };
        pids.filter(is_one).collect()
    }
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut versions = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path().join(name));
    versions.find(|path| path.exists())
}

/// Seconds of CPU of children that were waited for (`cutime` and `cstime` of proc_pid_stat(5), in hundredths).
fn children_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(13).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Processes made on this machine since its start.
fn forks() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("processes "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0.0)
}

fn resident_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0 / 1e6
}
