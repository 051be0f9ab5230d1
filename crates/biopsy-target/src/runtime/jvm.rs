//! The JVM: `libjvm.so` among the mappings; its version is in the `release` file of its home.

use biopsy_model::process::{Runtime, RuntimeKind};

use super::evidence::Evidence;
use crate::process::command;
use crate::process::proc_root::SMALL;

pub(super) fn detect(evidence: &Evidence<'_>) -> Option<Runtime> {
    let library = evidence.mapped(|name| name == "libjvm.so")?;
    let version = homes(library).find_map(|home| {
        let text = evidence.seen.dir.read_in_root(format!("{home}/release").as_bytes(), SMALL).ok()?;
        release_version(&String::from_utf8_lossy(&text))
    });
    let entry = command::entry(RuntimeKind::Jvm, &evidence.seen.arguments);
    Some(Runtime { kind: RuntimeKind::Jvm, version, entry })
}

/// `HOME/lib/server/libjvm.so` since Java 9, `HOME/jre/lib/amd64/server/libjvm.so` before: the folders above.
fn homes(library: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(library.rsplit_once('/'), |(folder, _)| folder.rsplit_once('/'))
        .map(|(folder, _)| folder)
        .take(5)
        .skip(1)
}

fn release_version(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="))?.trim().trim_matches('"');
    let is_version = !value.is_empty()
        && value.len() <= 32
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c));
    is_version.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(
            release_version("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.9\"\n").as_deref(),
            Some("17.0.9")
        );
        assert_eq!(release_version("JAVA_VERSION=\"1.8.0_392\"").as_deref(), Some("1.8.0_392"));
        assert_eq!(release_version("JAVA_VERSION=\"\u{1b}[2J\""), None);
        assert_eq!(release_version("root:x:0:0"), None);
    }

    #[test]
    fn homes_above_the_library() {
        let homes: Vec<_> = homes("/jdk/lib/server/libjvm.so").collect();
        assert_eq!(homes, ["/jdk/lib", "/jdk", ""]);
    }
}
