//! The kernel's files of a running process, mounted.

use crate::common::{refused, serve};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Ends a program that runs on.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn the_mounted_files_are_the_kernels() {
    if !Path::new("/dev/fuse").exists() {
        println!("skipped, because /dev/fuse is not there");
        return;
    }
    let served = serve();
    let dir = served.dir.path().join("mnt");
    std::fs::create_dir(&dir).expect("made");
    let name = dir.to_str().expect("text");
    let mut child = served
        .command(&["mount", name])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut said = [0; 7];
    if child
        .stdout
        .as_mut()
        .expect("piped")
        .read_exact(&mut said)
        .is_err()
    {
        let mut why = String::new();
        let _ = child.stderr.take().expect("piped").read_to_string(&mut why);
        println!("skipped, because mounting is not permitted: {why}");
        let _ = child.wait();
        return;
    }
    let running = Running(child);
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
    let nowhere = served.refused(&["mount", "/nowhere"]);
    assert!(
        nowhere.contains("/nowhere: it is not a folder"),
        "{nowhere}"
    );
    std::fs::write(dir.join("own"), "").expect("a file");
    // One that mounts runs on.
    let mut command = Command::new("timeout");
    let full = refused(command.args(["60", env!("CARGO_BIN_EXE_cmwq"), "mount", name]));
    assert!(full.contains("the folder is not empty"), "{full}");
}
