//! The kernel's files of a running process, mounted.

use crate::common::{Served, cmwq, failed, serve};
use cmwq::ConcurrencyGroup;
use cmwq_control::Client;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The command, and where it shows the processes. It ends with the value.
pub(crate) struct Mounted {
    pub(crate) dir: PathBuf,
    child: Child,
}

impl Mounted {
    /// `None`: not permitted here.
    pub(crate) fn new(served: &Served) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() {
            println!("skipped, because /dev/fuse is not there");
            return None;
        }
        let dir = served.dir.path().join("mnt");
        std::fs::create_dir(&dir).expect("made");
        let mut child = served
            .command(&["mount", dir.to_str().expect("text")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut said = [0; 7];
        let stdout = child.stdout.as_mut().expect("piped");
        if stdout.read_exact(&mut said).is_err() {
            let mut why = String::new();
            let _ = child.stderr.take().expect("piped").read_to_string(&mut why);
            println!("skipped, because mounting is not permitted: {why}");
            let _ = child.wait();
            return None;
        }
        Some(Mounted { dir, child })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// What the system says of a helper that is missing could be meant of the folder.
#[test]
fn a_user_who_may_not_mount_is_told_what_is_needed() {
    let dir = tempfile::tempdir().expect("a folder");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("the own folder");
    let mut command = cmwq(&["mount", dir.path().to_str().expect("text")]);
    command.env("FUSERMOUNT_PATH", "/nowhere/fusermount3");
    if rustix::process::geteuid().is_root() {
        // Nobody, who may not be allowed to run what root has built.
        command.uid(65_534);
        if let Err(error) = command.output() {
            println!("skipped: {error}");
            return;
        }
    }
    let refused = failed(&mut command);
    assert!(
        refused.contains("fusermount3") || refused.contains("/dev/fuse is missing"),
        "{refused}"
    );
}

#[test]
fn a_file_is_read_with_few_requests() {
    let served = serve();
    let Some(mounted) = Mounted::new(&served) else {
        return;
    };
    let own = mounted.dir.join(std::process::id().to_string());
    let mut client = Client::connect_to(served.control.path()).expect("served");
    let mut requests = || client.hello().expect("an answer").endpoint.requests;
    let before = requests();
    for _ in 0..20 {
        assert_eq!(
            std::fs::read_to_string(own.join("io/nice")).expect("a file"),
            "0\n"
        );
    }
    // One each, and up to three more if a second has passed since the last; one more is the second `hello`.
    let asked = requests() - before;
    assert!((20..=20 * 4 + 1).contains(&asked), "{asked} for 20 files");

    // What was read is new each time, and a queue is seen at once.
    served.queue.set_max_active(7).expect("allowed");
    let read = |path: &str| std::fs::read_to_string(own.join(path));
    assert_eq!(read("io/max_active").expect("a file"), "7\n");
    let later = served.engine.workqueue("later").build().expect("a queue");
    assert_eq!(read("later/per_cpu").expect("a file"), "0\n");
    drop(later);
    assert!(read("later/nice").is_err());
}

#[test]
fn a_file_that_is_read_in_pieces_is_read_to_its_end() {
    let served = serve();
    let Some(mounted) = Mounted::new(&served) else {
        return;
    };
    let group = ConcurrencyGroup::new("größe", 4);
    let grouped = served.engine.workqueue("grouped").group(&group).build();
    let _grouped = grouped.expect("a queue");
    let own = mounted.dir.join(std::process::id().to_string());
    let mut file = std::fs::File::open(own.join("grouped/group")).expect("a file");
    let (mut text, mut piece) = (Vec::new(), [0]);
    while file.read(&mut piece).expect("a piece") > 0 {
        text.push(piece[0]);
    }
    assert_eq!(String::from_utf8_lossy(&text), "größe\n");
}

/// What programs ask of folders whose files come and go by themselves; the answers are those of
/// /sys in Linux 6.18.
#[test]
fn what_sysfs_refuses_is_refused_alike() {
    use rustix::fs::{self, AtFlags, CWD, FileType, Mode};
    use rustix::io::Errno;
    let served = serve();
    let Some(mounted) = Mounted::new(&served) else {
        return;
    };
    let own = mounted.dir.join(std::process::id().to_string());
    let (file, folder) = (own.join("io/nice"), own.join("io"));
    let (new, read_only) = (own.join("io/new"), own.join("io/per_cpu"));
    let mode = Mode::RUSR;
    let made = |kind| fs::mknodat(CWD, &new, kind, mode, 0);
    let linked = fs::linkat(CWD, &file, CWD, &new, AtFlags::empty());
    let answers = [
        ("mkdir", fs::mkdir(&new, mode), Errno::PERM),
        ("mkdir of one there", fs::mkdir(&folder, mode), Errno::EXIST),
        ("rmdir", fs::rmdir(&folder), Errno::PERM),
        ("rmdir of a process", fs::rmdir(&own), Errno::PERM),
        ("rmdir of a file", fs::rmdir(&file), Errno::NOTDIR),
        ("unlink", fs::unlink(&file), Errno::PERM),
        ("unlink of a folder", fs::unlink(&folder), Errno::ISDIR),
        ("unlink of none", fs::unlink(&new), Errno::NOENT),
        ("rename", fs::rename(&file, &new), Errno::PERM),
        ("rename over", fs::rename(&file, &read_only), Errno::PERM),
        (
            "rename of a folder",
            fs::rename(&folder, own.join("new")),
            Errno::PERM,
        ),
        ("symlink", fs::symlink("there", &new), Errno::PERM),
        ("link", linked, Errno::PERM),
        (
            "mknod of a file",
            made(FileType::RegularFile),
            Errno::ACCESS,
        ),
        ("mkfifo", made(FileType::Fifo), Errno::PERM),
        ("mknod of a socket", made(FileType::Socket), Errno::PERM),
    ];
    for (call, answer, expected) in answers {
        assert_eq!(answer, Err(expected), "{call}");
    }
    // Of these it says that they have happened.
    let opened = std::fs::File::create(&file).expect("nothing to cut");
    opened.set_len(10).expect("as little");
    opened.sync_all().expect("nothing to write");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "0\n");
}

/// Everything in such a mount fails, and the system's words, "Transport endpoint is not connected",
/// do not say what is to be done.
#[test]
fn a_mount_whose_command_was_killed_gives_a_hint() {
    let served = serve();
    let Some(mut mounted) = Mounted::new(&served) else {
        return;
    };
    mounted.child.kill().expect("it runs");
    mounted.child.wait().expect("it has ended");
    let name = mounted.dir.to_str().expect("text");
    let hint = served.failed(&["mount", name]);
    let inside = mounted.dir.join("inside/it");
    let hint_inside = served.failed(&["mount", inside.to_str().expect("text")]);
    let unmounted = Command::new("umount")
        .arg(name)
        .output()
        .expect("a command");
    let is_unmounted = unmounted.status.success();
    if !is_unmounted {
        let mut helper = Command::new("fusermount3");
        let helped = helper.args(["-u", name]).output().expect("a command");
        assert!(helped.status.success(), "{name} is left mounted");
    }
    // Of a folder in it, too, the mount point is what can be unmounted.
    for hint in [hint, hint_inside] {
        assert!(hint.contains(&format!("`fusermount3 -u {name}`")), "{hint}");
        assert!(hint.contains(&format!("`umount {name}`")), "{hint}");
    }
}

#[test]
fn the_mounted_files_are_the_kernels() {
    let served = serve();
    let Some(running) = Mounted::new(&served) else {
        return;
    };
    let dir = running.dir.clone();
    let own = dir.join(std::process::id().to_string());
    let read = |path: &str| std::fs::read_to_string(own.join(path));
    let shell = |script: &str| {
        let output = Command::new("sh")
            .args(["-c", script])
            .current_dir(&own)
            .output();
        output.expect("a shell").status.success()
    };
    assert_eq!(
        read("io/affinity_scope").expect("a file"),
        "default (cache_shard)\n"
    );
    assert!(shell(
        "echo cache > io/affinity_scope && echo 1 > io/affinity_strict && echo 3 > io/cpumask"
    ));
    assert_eq!(read("io/affinity_scope").expect("a file"), "cache\n");
    assert_eq!(read("io/cpumask").expect("a file"), "3\n");
    assert!(served.queue.attrs().affinity_strict);
    let mut names: Vec<String> = std::fs::read_dir(own.join("io"))
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    let live = served.engine.live_queues();
    let io = live
        .iter()
        .find(|queue| queue.name() == "io")
        .expect("there");
    let expected: Vec<&str> = io.attributes().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, expected);
    assert!(shell("echo numa > parameters/default_affinity_scope"));
    assert_eq!(
        read("parameters/default_affinity_scope").expect("a file"),
        "numa\n"
    );
    assert_eq!(read("cpumask").expect("a file"), "f\n");

    // Each write is a value, wherever the file's end is said to be.
    assert!(shell(
        "echo 3 >> io/nice && { echo 4; echo 5; } > io/nice && echo 2 > io/max_active"
    ));
    assert_eq!(read("io/nice").expect("a file"), "5\n");

    let errno = |path: &str, text: &str| {
        let result = std::fs::OpenOptions::new()
            .write(true)
            .open(own.join(path))
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        result
            .expect_err(path)
            .raw_os_error()
            .expect("the system's")
    };
    let code = |errno: rustix::io::Errno| errno.raw_os_error();
    use rustix::io::Errno;
    assert_eq!(errno("io/affinity_scope", "Cache\n"), code(Errno::INVAL));
    assert_eq!(errno("io/nice", "20\n"), code(Errno::INVAL));
    assert_eq!(errno("io/per_cpu", "1\n"), code(Errno::ACCESS));
    assert_eq!(
        errno("parameters/watchdog_thresh", "99999999999999999999999\n"),
        code(Errno::RANGE)
    );
    assert_eq!(errno("io/none", "1\n"), code(Errno::NOENT));
    // As a shell's `>` opens it.
    let made = std::fs::write(own.join("io/none"), "1\n");
    let made = made.expect_err("no file is made").raw_os_error();
    assert_eq!(made, Some(code(Errno::ACCESS)));
    assert_eq!(errno("cpumask_requested", "1\n"), code(Errno::ACCESS));
    let mode = |path: &str| {
        std::fs::metadata(own.join(path))
            .expect("a file")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (mode("io/nice"), mode("io/per_cpu"), mode("io")),
        (0o644, 0o444, 0o755)
    );
    let used = std::fs::File::open(own.join("io")).expect("a folder");
    drop(running);
    let left = std::fs::read_dir(&dir).map(Iterator::count);
    assert_eq!(
        left.expect("a folder"),
        0,
        "it is unmounted when the command is told to end, though it is in use"
    );
    drop(used);
    let nowhere = served.failed(&["mount", "/nowhere"]);
    assert!(
        nowhere.contains("/nowhere: it is not a folder"),
        "{nowhere}"
    );
    std::fs::write(dir.join("own"), "").expect("a file");
    // One that mounts runs on.
    let mut command = Command::new("timeout");
    let full = failed(command.args([
        "60",
        env!("CARGO_BIN_EXE_cmwq"),
        "mount",
        dir.to_str().expect("text"),
    ]));
    assert!(full.contains("the folder is not empty"), "{full}");
}
