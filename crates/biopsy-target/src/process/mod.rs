//! One process, as `/proc` and `/sys` tell of it: what all else here stands on.

pub mod cgroup;
pub(crate) mod command;
pub(crate) mod elf;
pub mod identity;
pub(crate) mod maps;
pub mod proc_root;
pub(crate) mod runs;
pub(crate) mod seen;
pub(crate) mod stat;
pub(crate) mod status;
pub mod usage;
pub(crate) mod users;
