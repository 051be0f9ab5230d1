//! `cargo xtask distribution debian-13`: README's two commands in a fresh root file system of another distribution.
//!
//! The root is made by debootstrap from where this machine's apt has its packages, and the commands run in it by chroot. It has the
//! kernel of this machine; other kernels are `cargo xtask vm`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, output_of, root, succeed, target_folder};
use crate::vm::debian_archive;

/// What is in the first root: enough for `./x`, which installs the rest itself.
const INCLUDE: &str = "ca-certificates,git";

/// Which one, and what to run there.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// `debian-12`, `debian-13`, `ubuntu-24.04`
    name: String,
    /// Where its packages are; without it, the archive of Debian that this machine's apt uses. Needed for Ubuntu
    #[arg(long)]
    mirror: Option<String>,
    /// The keys of that archive; without it, those in /usr/share/keyrings
    #[arg(long)]
    keyring: Option<PathBuf>,
    /// Run this shell command, in the repository's folder, instead of README's
    #[arg(long)]
    command: Option<String>,
    /// Make the root anew
    #[arg(long)]
    fresh: bool,
}

/// Makes the root, where it is not there yet, and runs the commands.
pub(crate) fn run(options: &Options) -> Outcome {
    let (suite, components, keyring) = match options.name.as_str() {
        "debian-12" => ("bookworm", "main", "debian-archive-keyring.gpg"),
        "debian-13" => ("trixie", "main", "debian-archive-keyring.gpg"),
        "ubuntu-24.04" => ("noble", "main,universe", "ubuntu-archive-keyring.gpg"),
        other => return Err(format!("`{other}` is not known: debian-12, debian-13, ubuntu-24.04")),
    };
    let mirror = match &options.mirror {
        Some(mirror) => mirror.clone(),
        None if suite == "noble" => {
            return Err("Ubuntu's packages are not where Debian's are: name a `--mirror`".to_owned());
        }
        None => debian_archive()?,
    };
    let folder = target_folder()?.join("roots").join(&options.name);
    let problem = |error: std::io::Error| format!("cannot make `{}`: {error}", folder.display());
    let mounts = Mounts::new(&folder)?;
    if options.fresh && folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(problem)?;
    }
    let made = folder.join("etc/made-by-xtask");
    if !made.exists() {
        std::fs::create_dir_all(&folder).map_err(problem)?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .arg("--variant=minbase")
            .arg(format!("--include={INCLUDE}"))
            .arg(format!("--components={components}"));
        let keyring =
            options.keyring.clone().unwrap_or_else(|| Path::new("/usr/share/keyrings").join(keyring));
        if !keyring.exists() {
            return Err(format!(
                "there is no `{}` to check the packages of {} with: name a `--keyring`",
                keyring.display(),
                options.name
            ));
        }
        debootstrap.arg(format!("--keyring={}", keyring.display())).arg(suite).arg(&folder).arg(mirror);
        if suite == "noble" {
            // How all releases of Ubuntu since 2007 are made; a debootstrap older than a release does not know its name.
            debootstrap.arg("gutsy");
        }
        succeed(&mut debootstrap)?;
        std::fs::write(&made, "").map_err(problem)?;
    }
    for file in ["etc/resolv.conf", "etc/hosts"] {
        let _ = std::fs::copy(Path::new("/").join(file), folder.join(file));
    }
    trust(&folder)?;
    let source = folder.join("src/biopsy");
    std::fs::create_dir_all(&source).map_err(problem)?;
    // As a newcomer has it: a clone of what is committed, and nothing that was built here. What has not changed since an earlier run keeps
    // its times, and is not built again.
    let mut clone = Command::new("sh");
    clone.current_dir(&source).arg("-ec").arg(
        "git init -q && git fetch -q \"$0\" HEAD && git reset -q FETCH_HEAD && git checkout -q -f -- . && git clean -f -d -q",
    );
    output_of(clone.arg(root()))?;
    mounts.mount()?;
    let commands: Vec<&str> = match &options.command {
        Some(command) => vec![command],
        None => vec!["./x demo", "./x test"],
    };
    let mut failed = Vec::new();
    for command in commands {
        println!("{}: {command}", options.name);
        let mut chroot = Command::new("chroot");
        chroot.arg(&folder).args([
            "env",
            "-i",
            "HOME=/root",
            "LANG=C.UTF-8",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            // Node.js and pip bring their own lists of authorities.
            "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt",
            "PIP_CERT=/etc/ssl/certs/ca-certificates.crt",
        ]);
        chroot.args(["sh", "-c", "cd /src/biopsy && eval \"$0\""]).arg(command);
        if let Err(error) = succeed(&mut chroot) {
            println!("{}: {command}: FAIL: {error}", options.name);
            failed.push(command);
        } else {
            println!("{}: {command}: ok", options.name);
        }
    }
    drop(mounts);
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(format!("in `{}` failed: {}", folder.display(), failed.join(", "))),
    }
}

/// The root trusts the certificate authorities that were added to this machine: its way out may lead through a proxy.
fn trust(folder: &Path) -> Outcome {
    let mut copy = Command::new("sh");
    copy.args([
        "-ec",
        "cd /usr/local/share/ca-certificates && mkdir -p \"$0/$PWD\" && cp -r . \"$0/$PWD\" && \
         chroot \"$0\" env PATH=/usr/sbin:/usr/bin:/sbin:/bin update-ca-certificates",
    ]);
    output_of(copy.arg(folder)).map(drop)
}

/// What a root needs of the running system; taken away with this value.
struct Mounts {
    root: PathBuf,
}

impl Mounts {
    const ALL: [(&str, &str); 4] = [("proc", "proc"), ("sysfs", "sys"), ("/dev", "dev"), ("tmpfs", "tmp")];

    /// Takes away what an earlier run may have left.
    fn new(root: &Path) -> Outcome<Self> {
        let mounts = Self { root: root.to_path_buf() };
        mounts.unmount();
        let left = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let prefix = format!("{}/", root.display());
        match left.lines().find(|line| line.split(' ').nth(1).is_some_and(|place| place.starts_with(&prefix)))
        {
            // Removing the root would remove what is mounted there.
            Some(line) => Err(format!("still mounted: {line}")),
            None => Ok(mounts),
        }
    }

    fn mount(&self) -> Outcome {
        for (what, place) in Self::ALL {
            let mut mount = Command::new("mount");
            match what {
                // Its own copy: what is mounted there later is not ours.
                "/dev" => mount.args(["--rbind", "--make-rslave", what]),
                kind => mount.args(["-t", kind, kind]),
            };
            output_of(mount.arg(self.root.join(place)))?;
        }
        Ok(())
    }

    fn unmount(&self) {
        for (_, place) in Self::ALL.iter().rev() {
            let _ = Command::new("umount").args(["-R", "-q"]).arg(self.root.join(place)).output();
        }
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        self.unmount();
    }
}
