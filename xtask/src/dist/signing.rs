//! Signatures of what is given away, by minisign (<https://jedisct1.github.io/minisign/>, Ed25519): whoever releases has the key in a file of his own, and
//! anybody checks with `minisign` or another program of that format.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::{Outcome, output_of};

/// Where the signature of a file is.
pub(super) fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

/// Signs a file with the secret key in another; `what`: is signed with it, and shown to who checks. A key with a password asks for it.
pub(super) fn sign(file: &Path, key: &Path, what: &str) -> Outcome<PathBuf> {
    let signature = beside(file);
    let mut command = Command::new("minisign");
    command.arg("-S").arg("-s").arg(key).arg("-m").arg(file).arg("-x").arg(&signature);
    command.args(["-t", what, "-c", "signature of biopsy"]).stdout(Stdio::null());
    let status = command.status();
    let status = status.map_err(|error| format!("cannot run minisign (package minisign): {error}"))?;
    if !status.success() {
        return Err(format!("`{}` is not signed: minisign ended with {status}", file.display()));
    }
    Ok(signature)
}

/// Checks it with the public key, as who gets it does; gives what was signed with it.
pub(super) fn verify(file: &Path, public: &Path) -> Outcome<String> {
    let mut command = Command::new("minisign");
    command.arg("-V").arg("-p").arg(public).arg("-m").arg(file).arg("-x").arg(beside(file)).arg("-Q");
    output_of(&mut command).map(|said| said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use biopsy_testkit::{require_program, temp_dir};

    use super::*;

    #[test]
    fn what_is_signed_is_believed_as_it_was_and_by_that_key_alone() {
        if !require_program("minisign", &["-v"]) {
            return;
        }
        let folder = temp_dir("signing");
        let at = |name: &str| folder.path().join(name);
        for name in ["one", "other"] {
            let mut make = Command::new("minisign");
            make.args(["-G", "-W", "-p"]).arg(at(&format!("{name}.pub"))).arg("-s").arg(at(name));
            output_of(&mut make).unwrap();
        }
        let file = at("biopsy");
        std::fs::write(&file, "a program").unwrap();
        assert!(verify(&file, &at("one.pub")).is_err(), "there is no signature");
        assert_eq!(sign(&file, &at("one"), "biopsy 0.1.0").unwrap(), at("biopsy.sig"));
        assert_eq!(verify(&file, &at("one.pub")).unwrap(), "biopsy 0.1.0");
        assert!(verify(&file, &at("other.pub")).is_err());
        std::fs::write(&file, "another program").unwrap();
        assert!(verify(&file, &at("one.pub")).is_err());
        assert!(sign(&file, &at("none"), "").is_err());
    }
}
