//! What the worker gives up, and cannot get back: limits of the system, Landlock for files and network, a filter of system calls.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// Most memory, in bytes of addresses.
const MEMORY: u64 = 6 << 30;
/// Most time of processors, in seconds.
const SECONDS: u64 = 1200;
/// Most open files.
const FILES: u64 = 64;

/// Puts it up around this process, which has one thread yet.
pub(super) fn put_up(only: &Path) -> Result<(), Box<dyn Error>> {
    for (what, most) in
        [(Resource::As, MEMORY), (Resource::Cpu, SECONDS), (Resource::Nofile, FILES), (Resource::Core, 0)]
    {
        setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    keep_files(only)?;
    let refused = i64::from(libc::EPERM).unsigned_abs();
    let action = |errno: u64| SeccompAction::Errno(u32::try_from(errno).unwrap_or(1));
    apply(refused_calls()?, action(refused))?;
    // The C library takes the older call where there is none of these, and that one can be looked into.
    let newer = BTreeMap::from([(libc::SYS_clone3, vec![])]);
    apply(newer, action(i64::from(libc::ENOSYS).unsigned_abs()))
}

/// One file can be read, and nothing be written. Without Landlock (kernels before 5.13, or where it is switched off) nothing is analysed.
fn keep_files(only: &Path) -> Result<(), Box<dyn Error>> {
    let abi = ABI::V5;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .create()?
        .add_rule(PathBeneath::new(PathFd::new(only)?, AccessFs::ReadFile))?
        .restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("this kernel has no Landlock, or it is switched off".into());
    }
    Ok(())
}

type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that reading a file and thinking about it do not need.
fn refused_calls() -> Result<Calls, Box<dyn Error>> {
    let mut calls: Calls = [
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept4,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_open_by_handle_at,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_mkdirat,
        libc::SYS_mknodat,
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
        libc::SYS_truncate,
    ]
    .into_iter()
    .map(|call| (call, vec![]))
    .collect();
    #[cfg(target_arch = "x86_64")]
    calls.extend([libc::SYS_fork, libc::SYS_vfork].map(|call| (call, vec![])));
    // Threads are made, processes are not.
    let thread = u64::try_from(libc::CLONE_THREAD)?;
    let none = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), 0)?;
    calls.insert(libc::SYS_clone, vec![SeccompRule::new(vec![none])?]);
    Ok(calls)
}

fn apply(calls: Calls, refused: SeccompAction) -> Result<(), Box<dyn Error>> {
    let here = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter: BpfProgram = SeccompFilter::new(calls, SeccompAction::Allow, refused, here)?.try_into()?;
    seccompiler::apply_filter(&filter)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use super::*;

    #[test]
    fn memory_time_and_files_have_an_end() {
        // Limits are of the whole process: in one of its own, which ends with it.
        if std::env::var_os("BIOPSY_TEST_OF_LIMITS").is_none() {
            let this = "worker::fence::tests::memory_time_and_files_have_an_end";
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", this, "--nocapture"]).env("BIOPSY_TEST_OF_LIMITS", "1");
            let done = command.output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            return;
        }
        put_up(&std::env::current_exe().unwrap()).unwrap();
        for (what, most) in
            [(Resource::As, MEMORY), (Resource::Cpu, SECONDS), (Resource::Nofile, FILES), (Resource::Core, 0)]
        {
            let Rlimit { current, maximum } = rustix::process::getrlimit(what);
            assert!(current == Some(most) && maximum == Some(most), "Resource::{what:?} has {current:?}");
        }
    }

    #[test]
    fn behind_it_there_is_one_file_and_nothing_else() {
        if !biopsy_testkit::require_that(Path::new("/sys/kernel/security").is_dir(), "needs Landlock") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("only"), "sealed").unwrap();
        std::fs::write(at("other"), "not for you").unwrap();
        let (only, other, new) = (at("only"), at("other"), at("new"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Landlock and filters are of the thread, and of those that it starts.
        let fenced = std::thread::spawn(move || {
            put_up(&only).unwrap();
            assert_eq!(std::fs::read(&only).unwrap(), b"sealed");
            assert!(File::options().write(true).open(&only).is_err(), "it cannot be written");
            for refused in
                [other.as_path(), Path::new("/etc/passwd"), Path::new("/proc/self/environ"), Path::new("/")]
            {
                assert!(std::fs::read(refused).is_err(), "{}", refused.display());
            }
            assert!(std::fs::write(&new, "mine").is_err());
            assert!(std::fs::remove_file(&other).is_err());
            assert!(std::fs::rename(&other, &new).is_err());
            assert!(TcpStream::connect(address).is_err());
            assert!(UdpSocket::bind("127.0.0.1:0").is_err());
            assert!(UnixStream::pair().is_err());
            assert!(Command::new("/bin/true").status().is_err());
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7, "threads go on");
            assert!(rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).is_ok());
        });
        fenced.join().unwrap();
        assert!(at("other").is_file() && !at("new").exists());
    }
}
