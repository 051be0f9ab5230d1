//! Names of users, from `/etc/passwd` alone: asking the network for a name could block.

use std::collections::HashMap;

use super::proc_root::ProcRoot;

/// Most bytes read of `/etc/passwd`.
const LIMIT: usize = 4 << 20;

/// uid to name.
#[derive(Debug, Default)]
pub(crate) struct Users(HashMap<u32, String>);

impl Users {
    pub(crate) fn read(root: &ProcRoot) -> Self {
        let text = root.bytes("etc/passwd", LIMIT).unwrap_or_default();
        let mut names = HashMap::new();
        for line in String::from_utf8_lossy(&text).lines() {
            let mut fields = line.split(':');
            let (name, uid) = (fields.next(), fields.nth(1));
            if let (Some(name), Some(Ok(uid))) = (name, uid.map(str::parse)) {
                names.entry(uid).or_insert_with(|| name.to_owned());
            }
        }
        Self(names)
    }

    /// The name, or the number where there is none.
    pub(crate) fn name(&self, uid: u32) -> String {
        self.0.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

/// Name of a user of this machine, or the number where `/etc/passwd` has none.
#[must_use]
pub fn user_name(uid: u32) -> String {
    Users::read(&ProcRoot::live()).name(uid)
}
