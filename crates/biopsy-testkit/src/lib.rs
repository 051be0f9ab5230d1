//! Sick programs with a known cause, guards that never leave a process behind, and the check that the target survived.
//!
//! Development only: nothing in the product depends on this crate.
//!
//! ```no_run
//! use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, require};
//!
//! if !require(Privilege::Perf) {
//!     return; // said why on stderr; with BIOPSY_REQUIRE_LIVE=1 it would have panicked instead
//! }
//! let mut target = TargetProcess::start(Program::HotFunction, &[]);
//! let survival = Survival::before(target.pid());
//! // ... record target.pid() ...
//! survival.assert_unharmed();
//! target.stop();
//! ```
#![forbid(unsafe_code)]

mod asking;
mod at_once;
mod cgroup;
mod compile;
mod dotnet;
#[cfg(target_arch = "x86_64")]
pub mod faults;
mod grandchild;
mod kill;
mod machine;
mod machine_load;
mod mariadb;
mod names;
mod privilege;
mod proc_status;
pub mod proc_usage;
mod program;
mod skip;
mod survival;
mod target_process;
mod wrap;

pub use asking::{Answered, Askers, Window};
pub use at_once::at_once;
pub use cgroup::{CpuLimit, FreezerGroup, GroupLimit};
pub use compile::{compile_c, compile_cpp, compile_rust};
pub use dotnet::{
    DOTNET_RUNTIMES, DotNetLoad, DotNetServer, PACKAGED_DOTNET, PUBLISHED_DOTNET, dotnet_allocates,
    dotnet_command, dotnet_heaps, dotnet_held, dotnet_odd, dotnet_peer, dotnet_peer_command, dotnet_root,
    dotnet_target, dotnet_with_many_methods, packaged_dotnet, packaged_dotnet_command,
    packaged_dotnet_in_container, packaged_dotnet_target, published_dotnet, two_dotnet_runtimes,
};
pub use grandchild::GrandChild;
pub use kill::{is_running, send_signal};
pub use machine::{MachineLock, machine_to_myself};
pub use machine_load::MachineLoad;
pub use mariadb::{MariaDb, Sysbench};
pub use names::{ODD_NAMES, copy_under_odd_name};
pub use privilege::{Privilege, require, require_all, require_program, require_that};
pub use program::{Program, dotnet_run};
pub use rustix::process::Signal;
pub use survival::Survival;
pub use target_process::TargetProcess;
pub use tempfile::TempDir;
pub use wrap::{Namespaces, as_user, in_namespaces};

/// A fresh folder (0700) that is removed when the value is dropped.
///
/// # Panics
///
/// Where the temporary folder of the system cannot be written.
#[must_use]
pub fn temp_dir(label: &str) -> TempDir {
    tempfile::Builder::new()
        .prefix(&format!("biopsy-test-{label}-"))
        .tempdir()
        .expect("a temporary folder can be made")
}
