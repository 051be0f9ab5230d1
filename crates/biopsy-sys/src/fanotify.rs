//! fanotify(7) permission events: a program that is about to be executed waits until we allow it.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use biopsy_model::Pid;

use crate::check;
use crate::file_table::OwnTable;

/// Most requests taken at once. Each brings an open file: a descriptor that the kernel cannot make for us (EMFILE)
/// would make it *deny* the execution, of a program that we have nothing to do with.
const AT_ONCE: usize = 16;

/// Size of `struct fanotify_event_metadata` (`linux/fanotify.h`), version 3.
const METADATA: usize = 24;

/// `FAN_MARK_EVICTABLE` (`linux/fanotify.h`): the mark does not keep the file in memory.
const MARK_EVICTABLE: u32 = 0x200;

/// How much of the file system a mark covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Coverage {
    /// One file.
    File,
    /// All files seen through one mount.
    Mount,
    /// All files of one file system, through whatever mount and in whatever mount namespace.
    FileSystem,
}

/// Holds executions of marked files until they are allowed.
///
/// When the last handle on it is closed, be it because our process was killed, the kernel allows everything that waits
/// (fanotify(7)). So there must never be a handle at which nobody serves, or no program starts on this machine any more: a
/// child that is forked with a copy of it and waits at the gate itself, while we close ours; a thread that shares the table of
/// open files and cannot be killed, while the one that serves is gone. That is why it is opened in a table of one thread's
/// own, and stays on that thread (it is not `Send`).
#[derive(Debug)]
pub struct ExecGate {
    group: Rc<File>,
}

impl ExecGate {
    /// Opens one without marks.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN in the initial user namespace, ENOSYS where the kernel is built without fanotify.
    pub fn open(_table: &OwnTable) -> io::Result<Self> {
        crate::fault::check("fanotify_init")?;
        // Events of a full queue are allowed without asking us, so they would be missed.
        let flags =
            libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_UNLIMITED_QUEUE;
        let file_flags = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC;
        // SAFETY: fanotify_init takes two integers and touches no memory of ours.
        let fd = check(unsafe { libc::syscall(libc::SYS_fanotify_init, flags, file_flags) })?;
        let fd = i32::try_from(fd).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        let group = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { group: Rc::new(File::from(group)) })
    }

    /// From now on executions of what `path` means wait (FAN_OPEN_EXEC_PERM). The mark ends with the gate.
    ///
    /// # Errors
    /// EINVAL before Linux 5.0 or where the kernel has no permission events, ENOENT and EACCES of the path, EXDEV or
    /// EOPNOTSUPP where the file system cannot be marked.
    pub fn mark(&self, coverage: Coverage, path: &Path) -> io::Result<()> {
        crate::fault::check("fanotify_mark")?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let flags = libc::FAN_MARK_ADD
            | match coverage {
                Coverage::File => libc::FAN_MARK_INODE,
                Coverage::Mount => libc::FAN_MARK_MOUNT,
                Coverage::FileSystem => libc::FAN_MARK_FILESYSTEM,
            };
        // SAFETY: `path` is a string with its zero at the end that outlives the call; the mask is one 64-bit argument, as
        // the system call has it on 64-bit machines.
        check(unsafe {
            libc::syscall(
                libc::SYS_fanotify_mark,
                self.group.as_raw_fd(),
                flags,
                libc::FAN_OPEN_EXEC_PERM,
                libc::AT_FDCWD,
                path.as_ptr(),
            )
        })?;
        Ok(())
    }

    /// From now on executions of this file do not wait, whatever is marked around it, until somebody writes to it. The kernel may forget
    /// that when it forgets the file (FAN_MARK_EVICTABLE, Linux 5.19).
    ///
    /// # Errors
    /// As of [`Self::mark`].
    pub fn ignore(&self, file: &File) -> io::Result<()> {
        crate::fault::check("fanotify_mark")?;
        let ignore = libc::FAN_MARK_ADD | libc::FAN_MARK_INODE | libc::FAN_MARK_IGNORED_MASK;
        let mark = |flags: u32| {
            // SAFETY: without a path the call is about the descriptor, which is open as long as `file` is borrowed, and touches no memory
            // of ours.
            check(unsafe {
                libc::syscall(
                    libc::SYS_fanotify_mark,
                    self.group.as_raw_fd(),
                    flags,
                    libc::FAN_OPEN_EXEC_PERM,
                    file.as_raw_fd(),
                    std::ptr::null::<libc::c_char>(),
                )
            })
        };
        mark(ignore | MARK_EVICTABLE).or_else(|_| mark(ignore)).map(drop)
    }

    /// Takes requests that wait, a few at a time; none: there are none. Does not block: poll the descriptor.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn take(&self) -> io::Result<Vec<ExecRequest>> {
        crate::fault::check("fanotify_read")?;
        let mut buffer = [0_u8; METADATA * AT_ONCE];
        let length = loop {
            match (&*self.group).read(&mut buffer) {
                Ok(length) => break length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        };
        let mut rest = buffer.get(..length).unwrap_or_default();
        let mut requests = Vec::new();
        while let Some((event, length)) = parse(rest) {
            rest = rest.get(length..).unwrap_or_default();
            // No descriptor: the queue overflowed. Nothing waits then.
            if event.fd < 0 {
                continue;
            }
            // SAFETY: the kernel opened this descriptor for us with the event, and nobody else owns it.
            let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
            let group = Rc::clone(&self.group);
            requests.push(ExecRequest { pid: event.pid, file: File::from(file), group });
        }
        Ok(requests)
    }
}

impl AsFd for ExecGate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_fd()
    }
}

/// A process that waits in execve(2) or execveat(2) for our permission. Dropping it gives the permission.
#[derive(Debug)]
pub struct ExecRequest {
    pid: Pid,
    file: File,
    group: Rc<File>,
}

impl ExecRequest {
    /// The process; 0 when it is in a pid namespace that we do not see.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The file it executes: the program, the interpreter of a script, or the dynamic linker of a program (each of
    /// which is asked for by itself). Opened for reading.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Lets it go on.
    pub fn allow(self) {
        drop(self);
    }
}

impl Drop for ExecRequest {
    fn drop(&mut self) {
        let response = libc::fanotify_response { fd: self.file.as_raw_fd(), response: libc::FAN_ALLOW };
        let pointer = (&raw const response).cast();
        let size = size_of::<libc::fanotify_response>();
        // SAFETY: write reads `size` bytes from `response`, which is a plain structure of that size on this stack frame.
        // ENOENT says that the process was killed while it waited: nothing is left to do then.
        let _ = unsafe { libc::write(self.group.as_raw_fd(), pointer, size) };
    }
}

struct Event {
    fd: i32,
    pid: Pid,
}

/// `struct fanotify_event_metadata`: length (u32), version, reserved (u8), length of this structure (u16), mask (u64),
/// fd, pid (i32). Gives the length of the whole event too.
fn parse(bytes: &[u8]) -> Option<(Event, usize)> {
    let four = |at: usize| Some(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).expect("four bytes"));
    let length = usize::try_from(u32::from_ne_bytes(four(0)?)).ok()?;
    let fd = i32::from_ne_bytes(four(16)?);
    let pid = i32::from_ne_bytes(four(20)?);
    (METADATA..=bytes.len()).contains(&length).then(|| {
        let event = Event { fd, pid: Pid(u32::try_from(pid).unwrap_or(0)) };
        (event, length)
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::sync::mpsc::channel;

    use biopsy_testkit::{Privilege, require};

    use super::*;

    #[test]
    fn damaged_events_end_the_list() {
        assert!(parse(&[]).is_none());
        let mut event = [0_u8; 24];
        event[0] = 23;
        assert!(parse(&event).is_none(), "shorter than its own head");
        event[0] = 25;
        assert!(parse(&event).is_none(), "longer than what was read");
        event[0] = 24;
        event[16] = 7;
        let (event, length) = parse(&event).unwrap();
        assert_eq!((event.fd, event.pid, length), (7, Pid(0), 24));
    }

    #[test]
    fn an_execution_waits_until_it_is_allowed() {
        if !require(Privilege::Root) {
            return;
        }
        let folder = biopsy_testkit::temp_dir("gate");
        let program = folder.path().join("true");
        std::fs::copy("/bin/true", &program).unwrap();
        // Started before the thread below leaves the table of files.
        let (go, goes) = channel::<()>();
        let runner = {
            let program = program.clone();
            std::thread::spawn(move || goes.recv().is_ok().then(|| Command::new(program).status().unwrap()))
        };
        at_a_gate(move |gate| {
            gate.mark(Coverage::File, &program).unwrap();
            go.send(()).unwrap();
            let request = loop {
                if let Some(request) = gate.take().unwrap().pop() {
                    break request;
                }
                std::thread::yield_now();
            };
            assert_ne!(request.pid(), Pid(std::process::id()));
            assert!(!runner.is_finished());
            request.allow();
            assert!(runner.join().unwrap().unwrap().success());
        });
    }

    #[test]
    fn a_closed_gate_lets_go_what_waits() {
        if !require(Privilege::Root) {
            return;
        }
        let folder = biopsy_testkit::temp_dir("gate");
        let program = folder.path().join("true");
        std::fs::copy("/bin/true", &program).unwrap();
        let (go, goes) = channel::<PathBuf>();
        let runner = std::thread::spawn(move || {
            goes.recv().ok().map(|program| Command::new(program).status().unwrap())
        });
        let runner = at_a_gate(move |gate| {
            gate.mark(Coverage::File, &program).unwrap();
            go.send(program).unwrap();
            // It waits once the event can be seen; it is not even taken.
            while ready(gate) == 0 {}
            assert!(!runner.is_finished());
            runner
        });
        assert!(runner.join().unwrap().unwrap().success());
    }

    #[test]
    fn a_file_that_is_ignored_does_not_wait_until_it_is_written() {
        if !require(Privilege::Root) {
            return;
        }
        let folder = biopsy_testkit::temp_dir("gate");
        let program = folder.path().join("true");
        std::fs::copy("/bin/true", &program).unwrap();
        let (go, goes) = channel::<PathBuf>();
        let (said, says) = channel();
        let runner = std::thread::spawn(move || {
            while let Ok(program) = goes.recv() {
                said.send(Command::new(program).status().unwrap().success()).unwrap();
            }
        });
        at_a_gate(move |gate| {
            gate.mark(Coverage::Mount, &program).unwrap();
            gate.ignore(&File::open(&program).unwrap()).unwrap();
            go.send(program.clone()).unwrap();
            // Others execute files of the same mount, among them the dynamic linker.
            let mut asked = false;
            let mut runs = |until: &dyn Fn(bool) -> bool| {
                loop {
                    for request in gate.take().unwrap() {
                        let link = format!("/proc/thread-self/fd/{}", request.file().as_raw_fd());
                        asked |= std::fs::read_link(link).unwrap() == program;
                    }
                    if until(says.try_recv().is_ok_and(|success| success)) {
                        return std::mem::take(&mut asked);
                    }
                    std::thread::yield_now();
                }
            };
            assert!(!runs(&|ended| ended), "it was asked about");
            std::fs::copy("/bin/true", &program).unwrap();
            go.send(program.clone()).unwrap();
            assert!(runs(&|ended| ended), "it was not asked about although it is another program now");
            drop(go);
        });
        runner.join().unwrap();
    }

    /// On a thread with a table of its own, whose end closes the gate.
    fn at_a_gate<T: Send>(work: impl FnOnce(&ExecGate) -> T + Send) -> T {
        let null = File::open("/dev/null").unwrap();
        let work = || {
            let (table, _null) = OwnTable::leave(null.as_fd()).unwrap();
            work(&ExecGate::open(&table).unwrap())
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    /// How many events are ready.
    fn ready(gate: &ExecGate) -> i32 {
        let mut poll = libc::pollfd { fd: gate.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: poll reads and writes one pollfd; `poll` outlives the call and the count is 1.
        unsafe { libc::poll(&raw mut poll, 1, 100) }
    }
}
