//! Why the part in the kernel is not there.

use std::io;

use biopsy_sys::bpf::LoadError;

/// Why the kernel part could not be used. The caller falls back, and says why.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KernelError {
    /// The kernel lacks type information.
    #[error("the kernel's type information cannot be read from /sys/kernel/btf/vmlinux")]
    NoTypes(#[source] io::Error),
    /// The kernel's types lack something.
    #[error("the kernel's type information does not name `{0}`")]
    MissingType(&'static str),
    /// biopsy runs in a pid namespace of its own, where the kernel's thread ids mean nothing.
    #[error("biopsy runs in a pid namespace of its own")]
    PidNamespace,
    /// This architecture has no register layout yet.
    #[error("no register layout for this architecture")]
    Architecture,
    /// A map was refused.
    #[error("the kernel refused a BPF map")]
    Map(#[source] io::Error),
    /// Maps were refused that a smaller one was not, with a limit of locked memory that could not be raised.
    #[error(
        "this kernel counts BPF maps as locked memory, of which {limit} bytes are allowed here, and raising that was refused \
         (no CAP_SYS_RESOURCE)"
    )]
    LockedMemory {
        /// The hard limit.
        limit: u64,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A program was refused.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A program could not be attached.
    #[error("the BPF program cannot be attached to `{tracepoint}`")]
    Attach {
        /// Name of the tracepoint.
        tracepoint: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}
