//! What a person may do.

use std::fmt;
use std::str::FromStr;

/// Something that not everybody may do. Each who logs in sees the names and states of cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Make requests, and end them.
    Ask,
    /// Read what was sent, and reports on it.
    Read,
    /// Delete cases.
    Delete,
    /// Read the log.
    ReadLog,
    /// Invite people, give them roles, remove them.
    Invite,
}

/// A set of rights with a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Asks customers; reads nothing.
    Intake,
    /// Reads.
    Analyst,
    /// Asks, reads, deletes.
    Lead,
    /// Reads the log.
    Auditor,
    /// Invites people; reads nothing.
    Administrator,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Intake, Self::Analyst, Self::Lead, Self::Auditor, Self::Administrator];

    /// As it is typed and kept.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Intake => "intake",
            Self::Analyst => "analyst",
            Self::Lead => "lead",
            Self::Auditor => "auditor",
            Self::Administrator => "administrator",
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Intake => "makes requests; reads nothing that was sent",
            Self::Analyst => "reads reports",
            Self::Lead => "makes requests, reads reports, deletes cases",
            Self::Auditor => "reads the log; reads nothing that was sent",
            Self::Administrator => "invites people; reads nothing that was sent",
        }
    }

    fn rights(self) -> &'static [Right] {
        match self {
            Self::Intake => &[Right::Ask],
            Self::Analyst => &[Right::Read],
            Self::Lead => &[Right::Ask, Right::Read, Right::Delete],
            Self::Auditor => &[Right::ReadLog],
            Self::Administrator => &[Right::Invite],
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join("`, `");
            format!("there is no role `{text}`; there are `{all}`")
        })
    }
}

/// The roles of a person.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roles(pub Vec<Role>);

impl Roles {
    /// From the database; words that are no roles give no rights.
    pub(super) fn kept(text: &str) -> Self {
        Self(text.split(',').filter_map(|word| word.parse().ok()).collect())
    }

    /// Whether one of them allows it.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.0.iter().any(|role| role.rights().contains(&right))
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|role| role.name()).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_it_says_and_no_more() {
        use Right::{Ask, Delete, Invite, Read, ReadLog};
        for (role, rights) in [
            (Role::Intake, &[Ask][..]),
            (Role::Analyst, &[Read]),
            (Role::Lead, &[Ask, Read, Delete]),
            (Role::Auditor, &[ReadLog]),
            (Role::Administrator, &[Invite]),
        ] {
            for right in [Ask, Read, Delete, ReadLog, Invite] {
                assert_eq!(Roles(vec![role]).may(right), rights.contains(&right), "{role:?} {right:?}");
            }
        }
    }

    #[test]
    fn roles_come_back_from_the_database_and_unknown_words_give_nothing() {
        let two = Roles(vec![Role::Lead, Role::Auditor]);
        assert_eq!(Roles::kept(&two.to_string()), two);
        for text in ["", "root", "Lead", "lead "] {
            assert_eq!(Roles::kept(text), Roles::default(), "{text:?}");
        }
    }
}
