//! Licences: ours are one, and nobody's forbid giving the program away.

use cargo_metadata::Metadata;

const OURS: &str = "MIT OR Apache-2.0";

/// Licences we can ship. An expression is fine when each of its AND parts offers one of these.
const ACCEPTED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "Unicode-3.0",
    "Unlicense",
    "BSL-1.0",
    "MIT-0",
    // Of data: root certificates, below a crate that Linux does not use.
    "CDLA-Permissive-2.0",
];

/// Packages without a licence that can be shipped.
pub(crate) fn violations(metadata: &Metadata) -> Vec<String> {
    let mut found = Vec::new();
    for package in &metadata.packages {
        let licence = package.license.as_deref().unwrap_or("none");
        if metadata.workspace_members.contains(&package.id) {
            if licence != OURS {
                found.push(format!("crate `{}` is licensed `{licence}`, not `{OURS}`", package.name));
            }
        } else if !acceptable(licence) {
            found.push(format!("`{}` {} is licensed `{licence}`", package.name, package.version));
        }
    }
    found
}

/// Enough of SPDX for what occurs: alternatives by OR or `/`, parts by AND, parentheses around alternatives.
fn acceptable(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    plain.split(" AND ").all(|part| part.split(" OR ").any(|licence| ACCEPTED.contains(&licence.trim())))
}

#[cfg(test)]
mod tests {
    use super::acceptable;

    #[test]
    fn alternatives_and_parts() {
        assert!(acceptable("MIT"));
        assert!(acceptable("Unlicense OR MIT"));
        assert!(acceptable("MIT/Apache-2.0"));
        assert!(acceptable("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(acceptable("CDDL-1.0 OR MIT"));
        assert!(!acceptable("CDDL-1.0"));
        assert!(!acceptable("MIT AND GPL-3.0-only"));
        assert!(!acceptable("none"));
    }
}
