//! What is opened, what is refused, and that nothing waits.

use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;

use biopsy_testkit::{Privilege, require_all, require_that};

use super::*;

fn text(opened: Result<Opened, Refused>) -> String {
    read(opened.unwrap())
}

fn read(mut opened: Opened) -> String {
    let mut text = String::new();
    opened.file.read_to_string(&mut text).unwrap();
    text
}

fn refusal(opened: Result<Opened, Refused>) -> String {
    opened.map(|opened| format!("opened {opened:?}")).unwrap_err().to_string()
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
}

#[test]
fn only_regular_files_are_opened_and_nothing_waits() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), "x").unwrap();
    fifo(&at("fifo"));
    let _socket = UnixListener::bind(at("socket")).unwrap();
    symlink("fifo", at("to-fifo")).unwrap();
    symlink("file", at("to-file")).unwrap();
    symlink("/dev/zero", at("to-device")).unwrap();
    symlink("loop", at("loop")).unwrap();
    for links in [Links::Follow, Links::Refuse] {
        assert_eq!(text(open(&at("file"), links)), "x");
        assert_eq!(refusal(open(&at("fifo"), links)), "it is a FIFO, not a regular file");
        assert_eq!(refusal(open(&at("socket"), links)), "it is a socket, not a regular file");
        assert_eq!(refusal(open(folder.path(), links)), "it is a folder, not a regular file");
        assert!(
            matches!(open(&at("none"), links), Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound)
        );
        assert!(open(&at("file/below"), links).is_err());
    }
    let followed = open(&at("to-file"), Links::Follow).unwrap();
    assert_eq!(followed.link_to, Some(std::fs::canonicalize(at("file")).unwrap()));
    assert_eq!(refusal(open(&at("to-file"), Links::Refuse)), "`to-file` is a link");
    assert_eq!(refusal(open(&at("to-fifo"), Links::Follow)), "it is a FIFO, not a regular file");
    assert_eq!(refusal(open(&at("to-device"), Links::Follow)), "it is a device, not a regular file");
    assert_eq!(refusal(open(&at("loop"), Links::Follow)), "it is behind more than 40 links");
    assert!(matches!(open(Path::new("/proc/self/status"), Links::Follow), Err(Refused::FileSystem { .. })));
}

#[test]
fn paths_stay_inside_their_root() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("root");
    std::fs::create_dir_all(inside.join("opt/deep")).unwrap();
    std::fs::write(folder.path().join("secret"), "outside").unwrap();
    std::fs::write(inside.join("secret"), "inside").unwrap();
    symlink("/secret", inside.join("opt/absolute")).unwrap();
    symlink("../../../secret", inside.join("opt/upwards")).unwrap();
    symlink("/opt/deep", inside.join("folder")).unwrap();
    symlink("../../secret", inside.join("opt/deep/near")).unwrap();
    let root = Root::at(&inside).unwrap();
    for path in [
        "secret",
        "/secret",
        "../secret",
        "opt/absolute",
        "opt/upwards",
        "folder/near",
        "folder/../../secret",
        "./opt/./../secret",
    ] {
        let opened = root.open(Path::new(path), Links::Follow);
        assert_eq!(opened.map_err(|error| format!("{path}: {error}")).map(read), Ok("inside".to_owned()));
    }
    assert_eq!(refusal(root.open(Path::new("folder/near"), Links::Refuse)), "`folder` is a link");
}

#[test]
fn what_the_kernel_links_to_is_opened_whatever_became_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mapped");
    std::fs::write(&path, "mapped").unwrap();
    let held = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    fifo(&path);
    let link = format!("/proc/self/fd/{}", held.as_raw_fd());
    assert_eq!(text(open(Path::new(&link), Links::Refuse)), "mapped");
    assert!(open(&path, Links::Follow).is_err());
    assert!(open(Path::new("/proc/self/exe"), Links::Refuse).is_ok());
    let device = File::open("/dev/null").unwrap();
    let link = format!("/proc/self/fd/{}", device.as_raw_fd());
    assert_eq!(refusal(open(Path::new(&link), Links::Follow)), "it is a device, not a regular file");
}

#[test]
fn links_below_the_root_of_a_process_are_resolved_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    symlink(folder.path().join("file"), folder.path().join("link")).unwrap();
    let path = PathBuf::from(format!("/proc/self/root{}/link", folder.path().display()));
    assert_eq!(text(open(&path, Links::Follow)), "x");
    assert_eq!(refusal(open(&path, Links::Refuse)), "`link` is a link");
}

/// A link of the application's user, or a folder that is one, must not lead root to what that user cannot read.
#[test]
fn a_link_leads_only_where_its_maker_may_go() {
    const USER: u32 = 4711;
    if !rustix::process::geteuid().is_root() {
        // Only root can make links for others; without that there is nothing to test.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = |path: PathBuf, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(folder.path().to_owned(), 0o755);
    std::fs::create_dir(at("private")).unwrap();
    std::fs::create_dir(at("open")).unwrap();
    std::fs::create_dir(at("users")).unwrap();
    for (name, bits) in [("private/log", 0o644), ("open/log", 0o644), ("open/shadow", 0o640)] {
        std::fs::write(at(name), name).unwrap();
        mode(at(name), bits);
    }
    mode(at("private"), 0o700);
    symlink("../private", at("users/folder")).unwrap();
    symlink("../open", at("users/good")).unwrap();
    symlink("../open/shadow", at("users/file")).unwrap();
    for name in ["users", "users/folder", "users/good", "users/file"] {
        lchown(at(name), Some(USER), None).unwrap();
    }
    let opened = |name: &str| open(&at(name), Links::Follow);
    assert!(matches!(opened("users/folder/log"), Err(Refused::Foreign { maker: USER, owner: 0 })));
    assert!(matches!(opened("users/file"), Err(Refused::Foreign { maker: USER, owner: 0 })));
    assert_eq!(text(opened("users/good/log")), "open/log", "everybody may read it");
    assert_eq!(text(opened("private/log")), "private/log", "no link is on the way");
    chown(at("open/shadow"), Some(USER), None).unwrap();
    assert_eq!(text(opened("users/file")), "open/shadow", "their own file behind their own link");
    std::fs::write(at("open/root"), "root").unwrap();
    mode(at("open/root"), 0o600);
    std::fs::hard_link(at("open/root"), at("users/named")).unwrap();
    assert!(matches!(opened("users/named"), Err(Refused::Foreign { maker: USER, owner: 0 })));
    assert_eq!(text(opened("open/root")), "root");
}

/// Reading a file of an overlay reads it where it really is.
#[test]
fn an_overlay_is_as_near_as_what_it_is_laid_over() {
    if !require_all(&[Privilege::Root, Privilege::Namespaces]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["near", "base", "over", "far", "twice"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("near/file"), "near").unwrap();
    // The kernel's own files stand for those of a server. The mounts go with the process.
    let script = "mount -t overlay over -o lowerdir=$PWD/near:$PWD/base over &&
        mount -t overlay far -o lowerdir=$PWD/near:/sys/kernel/mm far &&
        mount -t overlay twice -o lowerdir=$PWD/near:$PWD/far twice && echo mounted && read end";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).current_dir(folder.path());
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = [0; 7];
    let is_mounted = child.stdout.as_mut().unwrap().read_exact(&mut said).is_ok();
    let opened = |name: &str| {
        let path = folder.path().join(name).join("file");
        open(&PathBuf::from(format!("/proc/{}/root{}", child.id(), path.display())), Links::Refuse)
    };
    if require_that(is_mounted, "no overlay can be mounted") {
        assert_eq!(text(opened("over")), "near");
        let refused =
            "`far` is on a file system of type overlay over sysfs, which can keep its readers waiting";
        assert_eq!(refusal(opened("far")), refused);
        assert!(refusal(opened("twice")).contains("of type overlay over overlay over sysfs"));
    }
    drop(child.stdin.take());
    child.wait().unwrap();
}
