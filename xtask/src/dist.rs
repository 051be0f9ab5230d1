//! The program as it is given away.

use std::process::Command;

use crate::run::{Outcome, cargo, output_of, succeed, target_folder};

/// Builds with link-time optimisation and puts the program, its digest, manual pages and completions into `target/dist-files`.
pub(crate) fn run() -> Outcome {
    succeed(&mut cargo(&["build", "--profile", "dist", "--package", "biopsy"]))?;
    let target = target_folder()?;
    let folder = target.join("dist-files");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    let name = format!("biopsy-{}-linux-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let program = folder.join(&name);
    std::fs::copy(target.join("dist/biopsy"), &program)
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
    let digest = output_of(Command::new("sha256sum").arg(&name).current_dir(&folder))?;
    std::fs::write(folder.join(format!("{name}.sha256")), &digest)
        .map_err(|error| format!("cannot write the digest: {error}"))?;
    print!("{}: {digest}", folder.display());
    Ok(())
}
