//! Comparing a recording with its manifest.

use std::io;

use biopsy_model::loss::Warning;

use super::Opening;
use crate::layout;
use crate::manifest::{Digester, Manifest};
use crate::warn::warning;

impl Opening<'_> {
    /// Warns of every member that is not as the manifest says. A folder gets its manifest when it is sealed; a
    /// bundle always has one.
    pub(super) fn verify(&mut self, is_zip: bool) {
        if !self.source.has(layout::MANIFEST) {
            if is_zip {
                self.warnings.push(warning(
                    "recording.no-manifest",
                    "the bundle has no manifest: whether it is whole cannot be checked".to_owned(),
                    None,
                ));
            }
            return;
        }
        let Some(manifest) = self.json::<Manifest>(layout::MANIFEST) else { return };
        self.warnings.extend(manifest.warnings());
        for member in &manifest.members {
            let problem = if self.source.has(&member.name) {
                match self.digest(&member.name) {
                    Ok((sha256, bytes)) if sha256 == member.sha256 && bytes == member.bytes => continue,
                    Ok((_, bytes)) if bytes != member.bytes => {
                        format!("it has {bytes} bytes, the manifest says {}", member.bytes)
                    }
                    Ok(_) => "its digest is not the one in the manifest".to_owned(),
                    Err(error) => format!("it cannot be read: {error}"),
                }
            } else {
                "it is missing".to_owned()
            };
            let message = format!("`{}` is not as it was recorded: {problem}", member.name);
            self.warnings.push(digest_mismatch(message));
        }
        let listed: std::collections::BTreeSet<&str> =
            manifest.members.iter().map(|member| member.name.as_str()).collect();
        let unlisted: Vec<&String> = self
            .source
            .members()
            .keys()
            .filter(|name| name.as_str() != layout::MANIFEST && !listed.contains(name.as_str()))
            .collect();
        if let Some(first) = unlisted.first() {
            let message = format!("{} members are not in the manifest, first `{first}`", unlisted.len());
            self.warnings.push(digest_mismatch(message));
        }
    }

    fn digest(&mut self, name: &str) -> io::Result<(String, u64)> {
        self.source.with(name, |reader| {
            let mut digester = Digester::new(reader);
            io::copy(&mut digester, &mut io::sink())?;
            Ok(digester.finish())
        })?
    }
}

fn digest_mismatch(message: String) -> Warning {
    warning("recording.digest-mismatch", message, Some("it was changed or damaged after it was written"))
}
