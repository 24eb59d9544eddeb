//! A file system inside, and what fio wrote.

use super::served::{Served, have, path, run, ways};
use crate::common::{Client, Deadline, Dir, pattern};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[test]
fn a_file_system_inside_survives() {
    if !have(
        "a_file_system_inside_survives",
        &["nbdfuse", "mkfs.ext4", "fusermount3"],
    ) {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        println!("a_file_system_inside_survives: skipped, because there is no /dev/fuse");
        return;
    }
    for way in ways() {
        keep_a_file_system(&Served::encrypted_by(64 << 20, way));
    }
}

fn keep_a_file_system(served: &Served) {
    let contents = served.dir.file("contents");
    std::fs::create_dir(&contents).unwrap();
    std::fs::write(contents.join("file"), pattern(0, 5 << 20, 8)).unwrap();
    let check = |first: bool| {
        let disk = Mounted::new(served);
        if first {
            run(
                "mkfs.ext4",
                &["-q", "-F", "-d", path(&contents), path(&disk.file)],
            );
        }
        run("e2fsck", &["-f", "-n", path(&disk.file)]);
        let out = served.dir.file("out");
        run(
            "debugfs",
            &["-R", &format!("dump file {}", path(&out)), path(&disk.file)],
        );
        assert!(std::fs::read(&out).unwrap() == pattern(0, 5 << 20, 8));
    };
    check(true);
    // Mounted anew, over a new connection.
    check(false);
}

/// The export as a file, by nbdfuse.
struct Mounted<'a> {
    file: PathBuf,
    child: Child,
    served: &'a Served,
}

impl<'a> Mounted<'a> {
    fn new(served: &'a Served) -> Self {
        let file = served.dir.file("disk");
        std::fs::write(&file, b"").unwrap();
        let ready = served.dir.file("nbdfuse.pid");
        let _ = std::fs::remove_file(&ready);
        let mut child = Command::new("nbdfuse")
            .args(["-P", path(&ready), path(&file), &served.uri])
            .spawn()
            .unwrap();
        // It writes its pid when the file is there.
        while !ready.exists() {
            assert!(child.try_wait().unwrap().is_none(), "nbdfuse has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        Mounted {
            file,
            child,
            served,
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3")
            .args(["-u", path(&self.file)])
            .status();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(self.served.dir.file("nbdfuse.pid"));
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !have("fio_verifies_what_it_wrote", &["fio"]) {
        return;
    }
    for way in ways() {
        let served = Served::encrypted_by(16 << 20, way);
        let uri = format!("--uri={}", served.uri);
        let said = run(
            "fio",
            &[
                "--name=t",
                "--ioengine=nbd",
                &uri,
                "--rw=randrw",
                "--bs=32k",
                "--iodepth=16",
                "--numjobs=4",
                "--size=4m",
                "--offset_increment=4m",
                "--verify=sha512",
                "--verify_state_save=0",
                "--thread=1",
                "--group_reporting",
            ],
        );
        assert!(said.contains("err= 0"), "{said}");
    }
}

/// The flags that a server of `image` announces; `None`: it has not started. `before` runs in a
/// mount namespace of its own, with `folder`.
fn announced(folder: &Path, before: &str) -> Option<u16> {
    let sockets = Dir::new();
    let socket = sockets.file("socket");
    let serve = "&& truncate --size 1M disk && exec \"$2\" serve disk --socket \"$3\"";
    let mut child = Command::new("unshare")
        .args(["--mount", "sh", "-c", &format!("{before} {serve}"), "sh"])
        .args([folder, Path::new(env!("CARGO_BIN_EXE_cmwq-nbd")), &socket])
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let flags = (!line.is_empty()).then(|| Client::connect(&socket, true).flags);
    let _ = child.kill();
    child.wait().unwrap();
    flags
}

#[test]
fn zeroes_that_the_file_system_must_write_out_are_not_called_fast() {
    let _deadline = Deadline::long("fast zeroes");
    let dir = Dir::new();
    let of = |kind: &str| {
        let mount = format!("mount -t {kind} none \"$1\" && cd \"$1\"");
        announced(&dir.file(""), &mount)
    };
    let (Some(with_holes), Some(without)) = (of("tmpfs"), of("ramfs")) else {
        println!("skipped, because nothing may be mounted");
        return;
    };
    let fast = |flags| flags & 1 << 11 != 0;
    assert!(fast(with_holes) && !fast(without));
}
