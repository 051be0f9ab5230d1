//! The program as distributions install it: a `.deb`, an `.rpm`, and the recipe of a container's image. Their moments are those of the
//! commit, so that two builds give the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, output_of, root, succeed};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const SUMMARY: &str = "captures what a misbehaving server does, with one command";
const DESCRIPTION: &str = "It finds the process, records a timeline of all its threads together with metrics,
logs and context on one clock, without restart and without harm, and leaves one
file with a report that a person can read.";

/// What is packed: `program` itself, and `folder` with manual pages and completions.
pub(super) struct Packing<'a> {
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
}

impl Packing<'_> {
    /// Writes all of them into the folder; gives their places.
    pub(super) fn write(&self) -> Outcome<Vec<PathBuf>> {
        let moment = output_of(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
        let scratch = self.folder.join("packing");
        let _ = fs::remove_dir_all(&scratch);
        let made = self
            .deb(&scratch, moment.trim())
            .and_then(|deb| Ok(vec![deb, self.rpm(&scratch, moment.trim())?, self.recipe()?]));
        let _ = fs::remove_dir_all(&scratch);
        made
    }

    /// Lays the files out as they are installed; `zsh` is where that shell looks.
    fn lay_out(&self, tree: &Path, zsh: &str) -> Outcome {
        let put = |from: &Path, to: &str, mode: &str| {
            output_of(Command::new("install").args(["-D", "-m", mode]).arg(from).arg(tree.join(to)))
        };
        put(self.program, "usr/bin/biopsy", "755")?;
        put(&self.folder.join("biopsy.bash"), "usr/share/bash-completion/completions/biopsy", "644")?;
        put(&self.folder.join("biopsy.zsh"), &format!("usr/share/zsh/{zsh}/_biopsy"), "644")?;
        put(&self.folder.join("biopsy.fish"), "usr/share/fish/vendor_completions.d/biopsy.fish", "644")?;
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            put(&root().join(licence), &format!("usr/share/doc/biopsy/{licence}"), "644")?;
        }
        let manual = self.folder.join("man1");
        let pages =
            fs::read_dir(&manual).map_err(|error| format!("cannot read `{}`: {error}", manual.display()))?;
        for page in pages.flatten() {
            let to = format!("usr/share/man/man1/{}", page.file_name().to_string_lossy());
            put(&page.path(), &to, "644")?;
            output_of(Command::new("gzip").arg("-9n").arg(tree.join(to)))?;
        }
        Ok(())
    }

    fn deb(&self, scratch: &Path, moment: &str) -> Outcome<PathBuf> {
        let tree = scratch.join("deb");
        self.lay_out(&tree, "vendor-completions")?;
        let architecture = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" };
        let described = DESCRIPTION.lines().map(|line| format!(" {line}\n")).collect::<String>();
        write(
            &tree.join("DEBIAN/control"),
            &format!(
                "Package: biopsy\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: The biopsy contributors <biopsy@localhost>\n\
                 Section: admin\nPriority: optional\nDescription: {SUMMARY}\n{described}"
            ),
        )?;
        let licences = "Copyright: The biopsy contributors\nLicense: MIT OR Apache-2.0\n\nBoth texts are beside this file.\n";
        write(&tree.join("usr/share/doc/biopsy/copyright"), licences)?;
        let file = self.folder.join(format!("biopsy_{VERSION}_{architecture}.deb"));
        // xz: what dpkg of Debian 11 and Ubuntu 20.04 reads.
        let mut pack = Command::new("dpkg-deb");
        pack.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&file);
        succeed(pack.env("SOURCE_DATE_EPOCH", moment))?;
        Ok(file)
    }

    fn rpm(&self, scratch: &Path, moment: &str) -> Outcome<PathBuf> {
        let tree = scratch.join("rpm");
        self.lay_out(&tree, "site-functions")?;
        let files = [
            "/usr/bin/biopsy",
            "/usr/share/doc/biopsy",
            "/usr/share/man/man1/*",
            "/usr/share/bash-completion/completions/biopsy",
            "/usr/share/zsh/site-functions/_biopsy",
            "/usr/share/fish/vendor_completions.d/biopsy.fish",
        ];
        let architecture = std::env::consts::ARCH;
        let spec = scratch.join("biopsy.spec");
        write(
            &spec,
            &format!(
                "Name: biopsy\nVersion: {VERSION}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\nAutoReqProv: no\n\
                 %description\n{DESCRIPTION}\n%install\ncp -a \"{}/.\" \"%{{buildroot}}\"\n%files\n%defattr(-,root,root)\n{}\n",
                tree.display(),
                files.join("\n")
            ),
        )?;
        let mut pack = Command::new("rpmbuild");
        pack.arg("-bb").arg(format!("--target={architecture}")).arg("--buildroot").arg(scratch.join("root"));
        let settings = [
            ("_rpmdir", scratch.display().to_string()),
            ("_topdir", scratch.join("top").display().to_string()),
            ("_rpmfilename", "biopsy.rpm".to_owned()),
            // What is packed is ready: nothing is stripped, compressed or searched.
            ("__os_install_post", "%{nil}".to_owned()),
            ("_build_id_links", "none".to_owned()),
            // xz: what rpm of RHEL 8 reads, and all since.
            ("_binary_payload", "w6.xzdio".to_owned()),
            ("_buildhost", "localhost".to_owned()),
            ("use_source_date_epoch_as_buildtime", "1".to_owned()),
            ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ];
        for (name, value) in settings {
            pack.arg("--define").arg(format!("{name} {value}"));
        }
        succeed(pack.arg(&spec).env("SOURCE_DATE_EPOCH", moment))?;
        let file = self.folder.join(format!("biopsy-{VERSION}-1.{architecture}.rpm"));
        fs::rename(scratch.join("biopsy.rpm"), &file)
            .map_err(|error| format!("cannot move to `{}`: {error}", file.display()))?;
        Ok(file)
    }

    /// An image with the program and nothing else.
    fn recipe(&self) -> Outcome<PathBuf> {
        let file = self.folder.join("Containerfile");
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        write(
            &file,
            &format!(
                "# podman build -t biopsy .\n\
                 # podman run --rm --pid=host --privileged -v \"$PWD:/work\" biopsy capture NAME --for 60s\n\
                 # It sees processes of the machine with --pid=host, and needs root of the machine (not of a user) to record them.\n\
                 FROM scratch\n\
                 COPY {name} /biopsy\n\
                 WORKDIR /work\n\
                 ENTRYPOINT [\"/biopsy\"]\n"
            ),
        )?;
        Ok(file)
    }
}

fn write(file: &Path, text: &str) -> Outcome {
    let problem = |error: std::io::Error| format!("cannot write `{}`: {error}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(problem)?;
    }
    fs::write(file, text).map_err(problem)
}
