//! The program as it is given away: one static file, that runs wherever there is a Linux of the same processor.

mod packages;
mod sbom;
mod signing;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::run::{Outcome, cargo, metadata, output_of, root, succeed, target_folder};

/// Most bytes of it: what one still takes along.
const MOST_BYTES: u64 = 20_000_000;
/// Starts that are measured; the one in the middle is said.
const STARTS: usize = 21;

/// What to make, or to try.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Build it a second time, elsewhere and from nothing, and compare the digests
    #[arg(long)]
    twice: bool,
    /// Sign program, packages and bill of materials with the secret key of minisign in this file; where the public one lies beside it (`.pub`), check them
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Do not build, sign what was built
    #[arg(long, requires = "sign")]
    sign_only: bool,
    /// Do not build: run what was built in this root file system, by chroot. May be given often
    #[arg(long, value_name = "FOLDER")]
    root: Vec<PathBuf>,
}

/// Builds with link-time optimisation and puts the program, its digest, manual pages, completions, bill of materials and packages into
/// `target/dist-files`.
pub(crate) fn run(options: &Options) -> Outcome {
    let target = target_folder()?;
    let folder = target.join("dist-files");
    let name = format!("biopsy-{}-linux-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let program = folder.join(&name);
    if !options.root.is_empty() {
        return options.root.iter().try_for_each(|root| try_in(root, &program));
    }
    if let Some(key) = options.sign.as_ref().filter(|_| options.sign_only) {
        return sign_all(&folder, &name, key);
    }
    let built = build(&target)?;
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    std::fs::copy(&built, &program)
        .map_err(|error| format!("cannot copy to `{}`: {error}", program.display()))?;
    let manual = folder.join("man1");
    std::fs::create_dir_all(&manual)
        .map_err(|error| format!("cannot make `{}`: {error}", manual.display()))?;
    succeed(Command::new(&program).arg("man").arg(&manual))?;
    for shell in ["bash", "zsh", "fish"] {
        let completions = output_of(Command::new(&program).args(["completions", shell]))?;
        std::fs::write(folder.join(format!("biopsy.{shell}")), completions)
            .map_err(|error| format!("cannot write completions: {error}"))?;
    }
    let digest = digest(&program)?;
    std::fs::write(folder.join(format!("{name}.sha256")), format!("{digest}  {name}\n"))
        .map_err(|error| format!("cannot write the digest: {error}"))?;
    let bytes =
        std::fs::metadata(&program).map_err(|error| format!("cannot see the program: {error}"))?.len();
    println!("{}: {digest}, {bytes} bytes, starts in {:?}", program.display(), start(&program)?);
    if bytes > MOST_BYTES {
        return Err(format!("it has {bytes} bytes; {MOST_BYTES} is the most"));
    }
    let bill = folder.join(format!("{name}.cdx.json"));
    std::fs::write(&bill, sbom::of(&triple(), &digest)?)
        .map_err(|error| format!("cannot write `{}`: {error}", bill.display()))?;
    let packing = packages::Packing { program: &program, folder: &folder };
    for file in packing.write()? {
        println!("{}: {}", file.display(), self::digest(&file)?);
    }
    if let Some(key) = &options.sign {
        sign_all(&folder, &name, key)?;
    }
    if options.twice {
        let again = self::digest(&build(&target.join("dist-again"))?)?;
        if again != digest {
            return Err(format!("a second build has another digest: {again}"));
        }
        println!("a second build in another folder: the same digest");
    }
    Ok(())
}

/// Signs what is given away, and checks it where the public key is there.
fn sign_all(folder: &Path, name: &str, key: &Path) -> Outcome {
    let failed = |error: std::io::Error| format!("cannot read `{}`: {error}", folder.display());
    let is_given = |file: &Path| {
        let ending = file.extension().unwrap_or_default();
        file.file_name().is_some_and(|file| file == name)
            || ["deb", "rpm"].iter().any(|one| ending == *one)
            || file.to_string_lossy().ends_with(".cdx.json")
    };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).map_err(failed)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| is_given(file));
    files.sort();
    if files.is_empty() {
        return Err(format!("nothing in `{}` is to be signed", folder.display()));
    }
    let public = key.with_extension("pub");
    for file in files {
        let shown = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let signature = signing::sign(&file, key, &format!("{shown} sha256 {}", digest(&file)?))?;
        let checked = match public.is_file() {
            true => signing::verify(&file, &public).map(|said| format!("checked: {said}"))?,
            false => format!("not checked: there is no `{}`", public.display()),
        };
        println!("{}: {checked}", signature.display());
    }
    Ok(())
}

/// What it is built for.
fn triple() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Builds it below `target`, with nothing in it of where that is; gives its place.
fn build(target: &Path) -> Outcome<PathBuf> {
    let triple = triple();
    let home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
    };
    let root = metadata().map(|known| known.workspace_root.into_std_path_buf()).unwrap_or_else(|_| root());
    let places = [(home.as_path(), "cargo"), (root.as_path(), "biopsy"), (target, "target")];
    let map = |flag: &str| -> Vec<String> {
        places.iter().map(|(place, name)| format!("{flag}={}={name}", place.display())).collect()
    };
    // The flags of the linker and compiler are of the target alone: what runs while it is built stays as it is.
    let of_target = triple.replace('-', "_");
    let rust_flags = format!("CARGO_TARGET_{}_RUSTFLAGS", of_target.to_uppercase());
    let mut build = cargo(&["build", "--profile", "dist", "--package", "biopsy", "--target", &triple]);
    build
        .env("CARGO_TARGET_DIR", target)
        .env(rust_flags, format!("{} {}", map("--remap-path-prefix").join(" "), link_flags()?))
        .env(format!("CFLAGS_{of_target}"), map("-ffile-prefix-map").join(" "));
    succeed(&mut build).map_err(|error| {
        format!("{error}; it needs `rustup target add {triple}` and the package musl-tools (for musl-gcc)")
    })?;
    let program = target.join(&triple).join("dist/biopsy");
    let headers = output_of(Command::new("readelf").args(["-lW"]).arg(&program))?;
    if headers.contains("INTERP") {
        return Err(format!("`{}` is not static: it names an interpreter", program.display()));
    }
    let bytes = std::fs::read(&program).map_err(|error| format!("cannot read the program: {error}"))?;
    match std::env::consts::ARCH != "x86_64" || holds(&bytes, COUNTS) {
        true => Ok(program),
        false => Err(format!("`{}` has no library that counts allocations in it", program.display())),
    }
}

/// In the library that counts allocations: what the program looks for where it writes into its copy (`biopsy_preload::layout::CONFIG`).
const COUNTS: &[u8] = b"biopsy-preload:1\xff\xff\xff\xff";

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The linker that comes with the compiler: it keeps one of several functions with the same code. Relative relocations are packed, a
/// thirtieth of their size; musl has read them since 1.2.4.
fn link_flags() -> Outcome<String> {
    let rustc = || Command::new("rustc");
    let sysroot = output_of(rustc().args(["--print", "sysroot"]))?;
    let about = output_of(rustc().arg("-vV"))?;
    let host =
        about.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("`rustc -vV` names no host")?;
    let linker = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/gcc-ld");
    let flags = [
        format!("-B{}", linker.display()),
        "-fuse-ld=lld".to_owned(),
        "-Wl,--icf=all".to_owned(),
        "-Wl,-z,pack-relative-relocs".to_owned(),
    ];
    Ok(flags.map(|flag| format!("-Clink-arg={flag}")).join(" "))
}

/// The digest of a file, as text.
fn digest(file: &Path) -> Outcome<String> {
    let line = output_of(Command::new("sha256sum").arg(file))?;
    Ok(line.split(' ').next().unwrap_or_default().trim_start_matches('\\').to_owned())
}

/// From the start to the end of a run that says its version.
fn start(program: &Path) -> Outcome<Duration> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        output_of(Command::new(program).arg("--version"))?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times[STARTS / 2])
}

/// What a root file system has to be good for: a process of its own is started in it, captured, dumped, looked at, sealed and analysed.
const TRY: &str = r#"set -eu
rm -rf /tmp/try; mkdir /tmp/try; cd /tmp/try
B=/tmp/biopsy
sh -c 'while :; do :; done' & victim=$!
trap 'kill $victim' EXIT
step() {
    if "$@" >out 2>&1 </dev/null; then echo "  $*"; else code=$?; cat out; echo "FAIL ($code): $*"; exit 1; fi
}
# 3: too short to tell noise from differences.
differ() { "$@" || [ $? = 3 ]; }
printf 'password=hunter2-%s\n' one two >app.log
step $B --version
step $B doctor
step $B ps
step $B stacks $victim
step $B dump $victim -o d.core
step $B dump $victim --format minidump -o d.dmp
step $B capture $victim --for 2s -o c.zip
step $B trace $victim --for 2s -o t.zip
# Only programs for glibc are counted.
[ ! -e /lib64/ld-linux-x86-64.so.2 ] || step $B trace --launch --allocations=full --quiet -o a.zip -- sleep 1
step $B snapshot $victim -o s.zip
step $B analyze c.zip --html r.html
step $B analyze d.core
step $B analyze d.dmp
step differ $B compare c.zip c.zip
step $B export c.zip --to speedscope -o c.json
step $B redact app.log -o app.redacted
! grep hunter2 app.redacted
step $B explain
step $B config show
step $B config check
step $B list
step $B restore
mkdir man1
step $B man man1
step $B completions bash
step $B send c.zip --seal-only --to-key age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj -o c.age
step $B config set profiling.processes.Compiler true
step $B watch --dry-run
step $B watch --for 2s
step $B config set profiling.processes.Compiler false
"#;

/// Runs the verbs in a root file system; it needs a shell and `sleep` there, and root here.
fn try_in(root: &Path, program: &Path) -> Outcome {
    println!("{}:", root.display());
    std::fs::copy(program, root.join("tmp/biopsy"))
        .map_err(|error| format!("cannot copy to `{}`: {error}", root.display()))?;
    let mut mounts = Command::new("unshare");
    mounts.args(["--mount", "--pid", "--fork", "sh", "-ec"]);
    mounts.arg("mount -t proc proc \"$0/proc\"; mount --rbind /sys \"$0/sys\"; mount --rbind /dev \"$0/dev\"; exec chroot \"$0\" /bin/sh -c \"$1\"");
    succeed(mounts.arg(root).arg(TRY))
        .map(|()| println!("{}: all of it went", root.display()))
        .map_err(|_| format!("`{}`: a step failed", root.display()))
}
