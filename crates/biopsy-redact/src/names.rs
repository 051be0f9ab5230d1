//! Names that are known to be personal: a rule pack of its own, so that they are masked wherever they stand.

/// Shortest name: shorter ones are parts of everything.
const NAME_MIN: usize = 3;
/// Names that say nothing about anybody, in lower case.
const NOBODY: [&str; 16] = [
    "localhost",
    "root",
    "nobody",
    "daemon",
    "user",
    "admin",
    "guest",
    "test",
    "app",
    "web",
    "server",
    "service",
    "node",
    "host",
    "default",
    "ubuntu",
];

/// A pack for [`crate::Options::extra_packs`] that masks the names of these machines and people; `None`: none of them is worth it.
#[must_use]
pub fn pack_of_names(hosts: &[String], users: &[String]) -> Option<String> {
    let rules =
        [("known-host", "Names of known machines.", hosts), ("known-user", "Names of known people.", users)];
    let rules = rules.into_iter().filter_map(|(id, description, names)| rule(id, description, names));
    let rules: String = rules.collect();
    (!rules.is_empty()).then(|| format!("description = \"Names known beforehand.\"\n{rules}"))
}

fn rule(id: &str, description: &str, names: &[String]) -> Option<String> {
    let mut names: Vec<&str> = names.iter().map(String::as_str).filter(|name| is_name(name)).collect();
    // A longer name first: `web-1.example.com` before `web-1`.
    names.sort_by_key(|name| (std::cmp::Reverse(name.len()), *name));
    names.dedup();
    let keywords: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let either: Vec<String> = names.iter().map(|name| name.replace('.', "\\.")).collect();
    (!names.is_empty()).then(|| {
        format!(
            "[[rule]]\nid = '{id}'\ndescription = '{description}'\nkind = 'shape'\nkeywords = [{}]\nafter = 300\n\
             regex = '\\b(?i)(?P<secret>{})\\b'\n",
            keywords.join(", "),
            either.join("|")
        )
    })
}

/// Letters, digits and what joins them: nothing that an expression or TOML could take for its own.
fn is_name(name: &str) -> bool {
    (NAME_MIN..=253).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && !NOBODY.contains(&name.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BundleKey, Options, Redactor};

    #[test]
    fn known_names_are_masked_wherever_they_stand() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let pack =
            pack_of_names(&names(&["shop-7", "shop-7.example.org"]), &names(&["alice", "x'y", "root"]));
        let options = Options {
            key: Some(BundleKey::from_bytes([7; 32])),
            personal: true,
            extra_packs: pack.into_iter().collect(),
            ..Options::default()
        };
        let redactor = Redactor::new(options).expect("a pack");
        let text =
            redactor.text("mail to Alice on shop-7.example.org (shop-7), malice, root").text.into_owned();
        assert!(text.starts_with("mail to [redacted:known-user:"), "{text}");
        assert!(text.ends_with("), malice, root") && !text.contains("shop-7"), "{text}");
        assert_eq!(pack_of_names(&names(&["localhost"]), &names(&["ab", "a b"])), None);
    }
}
