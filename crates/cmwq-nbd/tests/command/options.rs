//! Options, sockets, and the end of the command.

use super::served::{Served, key_file, path, terminate};
use crate::common::{Client, Deadline, Dir, pattern};
use cmwq_nbd::protocol::command;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process::{Command, Stdio};

#[test]
fn stopping_answers_what_is_in_flight_and_removes_the_socket() {
    let served = Served::start(Dir::new(), &["--memory", "16M"]);
    let mut client = Client::connect(&served.socket(), true);
    for n in 0..64 {
        client.send(command::READ, 0, n * 65536, 65536, &[]);
    }
    // An answer says that the requests have been read, all of them being in the socket.
    client.receive();
    let socket = served.socket();
    terminate(&served.child);
    let mut answered = 1;
    while !client.at_end() {
        client.receive();
        answered += 1;
    }
    assert!(answered >= 1);
    assert_eq!(served.stop(), 0);
    assert!(!socket.exists());
}

#[test]
fn the_socket_is_its_owners_and_the_key_is_told_nobody() {
    let served = Served::encrypted(1 << 20);
    let mode = std::fs::metadata(served.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let read = |name: &str| std::fs::read(format!("/proc/{}/{name}", served.child.id())).unwrap();
    let key = pattern(12345, 64, 77);
    for place in ["cmdline", "environ"] {
        assert!(
            !read(place).windows(16).any(|window| window == &key[..16]),
            "{place}"
        );
    }
}

/// What was asked wrongly: status 2 and one line that names the value.
fn refused(args: &[&str]) -> String {
    complaint(args, 2)
}

/// What was asked rightly and cannot be: status 1 and one line.
fn failed(args: &[&str]) -> String {
    complaint(args, 1)
}

/// One line, and nothing on standard output.
fn complaint(args: &[&str], status: i32) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(status), "{args:?}: {errors}");
    assert!(done.stdout.is_empty(), "{args:?}");
    assert_eq!(errors.lines().count(), 1, "{args:?}: {errors}");
    errors
}

#[test]
fn bad_options_are_refused_in_one_line() {
    let _deadline = Deadline::long("bad options");
    let dir = Dir::new();
    let (short, missing, socket) = (dir.file("short"), dir.file("missing"), dir.file("file"));
    std::fs::write(&short, pattern(5, 65, 1)).unwrap();
    std::fs::write(&socket, b"precious").unwrap();
    let (short, missing) = (path(&short), path(&missing));
    assert!(refused(&["serve"]).contains("FILE"));
    assert!(failed(&["serve", missing]).contains("No such file"));
    assert!(refused(&["serve", "--memory", "1M", short]).contains("cannot be used with"));
    let cipher = ["serve", "--memory", "1M", "--cipher", "aes-xts-plain64"];
    assert!(refused(&cipher).contains("--key-file"));
    let with_key = |key: &str| failed(&[&cipher[..], &["--key-file", key]].concat());
    assert!(with_key(short).contains("64 bytes (512 bits)"));
    assert!(with_key(missing).contains("No such file"));
    assert!(with_key("/").contains("directory"));
    let key = with_key(short);
    assert!(
        !key.contains(&format!("{:02x}", pattern(5, 65, 1)[0]).repeat(2)),
        "{key}"
    );
    let at = |place: &[&str]| refused(&[&["serve", "--memory", "1M"], place].concat());
    let cannot = |place: &[&str]| failed(&[&["serve", "--memory", "1M"], place].concat());
    assert!(at(&["--listen", "0.0.0.0:0"]).contains("--allow-remote"));
    assert!(cannot(&["--socket", "/nowhere/socket"]).contains("/nowhere/socket"));
    // What is no socket is not removed.
    assert!(cannot(&["--socket", path(&socket)]).contains("in use"));
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
    let key = key_file(&dir);
    let halves = [
        &["serve", "--memory", "512", "--sector-size", "4096"],
        &cipher[3..],
        &["--key-file", path(&key)],
    ];
    assert!(refused(&halves.concat()).contains("multiple of --sector-size, 4096"));
    // A key that every user can read is used, with a line that says so.
    std::fs::set_permissions(&key, Permissions::from_mode(0o604)).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
        .args(halves.concat())
        .output()
        .unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    let lines: Vec<&str> = errors.lines().collect();
    assert!(
        matches!(lines[..], [warning, refusal] if warning.contains("chmod 600") && refusal.contains("multiple")),
        "{errors}"
    );
    let both = at(&["--io-uring"]);
    assert!(
        both.contains("--memory") && both.contains("--io-uring"),
        "{both}"
    );
    let served = Served::start(Dir::new(), &["--memory", "1M"]);
    assert!(cannot(&["--socket", path(&served.socket())]).contains("another server"));
    let negative = at(&["--max-active", "-1"]) + &refused(&["serve", "--memory", "-1"]);
    for part in [
        "\"-1\" is not possible",
        "from 1 to",
        "\"-1\" is not a size",
    ] {
        assert!(negative.contains(part), "{negative}");
    }
}

#[test]
fn a_closed_standard_output_is_an_error() {
    for arguments in [
        &["--help"][..],
        &["serve", "--memory", "1M", "--listen", "127.0.0.1:0"],
    ] {
        let _deadline = Deadline::long("closed output");
        let output = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" >&-"])
            .arg(env!("CARGO_BIN_EXE_cmwq-nbd"))
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("it is closed"), "{errors}");
    }
}

#[test]
fn a_pipe_is_no_disk_and_may_bring_the_key() {
    let deadline = Deadline::long("pipes");
    let dir = Dir::new();
    let pipe = dir.file("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // Nothing is ever written into it: it is not waited for.
    for more in [&[][..], &["--read-only"]] {
        let said = failed(&[&["serve", path(&pipe)], more].concat());
        assert!(said.contains("neither a regular file nor"), "{said}");
    }
    drop(deadline);
    // As from `<(...)` of a shell.
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::write(pipe, pattern(12345, 64, 77)))
    };
    let encrypted = ["--memory", "1M", "--cipher", "aes-xts-plain64"];
    let served = Served::start(
        dir,
        &[&encrypted[..], &["--key-file", path(&pipe)]].concat(),
    );
    writer.join().unwrap().unwrap();
    assert_eq!(served.stop(), 0);
}

/// A loop device, which is given back when dropped.
struct Loop(String);

impl Loop {
    /// `None`, with a line that says so: there are none here.
    fn new(args: &[&str]) -> Option<Loop> {
        let made = Command::new("losetup")
            .args(["--find", "--show"])
            .args(args)
            .output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            println!("skipped, because losetup made no device");
            return None;
        };
        Some(Loop(
            String::from_utf8(made.stdout).unwrap().trim().to_owned(),
        ))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_device_that_is_in_use_is_not_written_to() {
    let deadline = Deadline::long("a device in use");
    let dir = Dir::new();
    let image = dir.file("image");
    std::fs::write(&image, [1; 1 << 20]).unwrap();
    let Some(device) = Loop::new(&[path(&image)]) else {
        return;
    };
    // As a mounted file system has it.
    let claimed = std::fs::File::options()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(&device.0)
        .unwrap();
    let said = failed(&["serve", &device.0]);
    assert!(
        said.contains("the device is in use: it is mounted"),
        "{said}"
    );
    let said = complaint(&["bench", "--print-jobs", "--device", &device.0], 2);
    assert!(
        said.contains("the device is in use: it is mounted"),
        "{said}"
    );
    drop(deadline);
    // A server that only reads does not change what is mounted.
    let served = Served::start(dir, &[&device.0, "--read-only"]);
    assert_eq!(served.stop(), 0);
    drop(claimed);
    // The device is free now, but too small for the loads.
    let said = complaint(&["bench", "--print-jobs", "--device", &device.0], 2);
    assert!(
        said.contains("has 1048576 bytes: it must have 67108864"),
        "{said}"
    );
    let served = Served::start(Dir::new(), &[&device.0]);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_read_only_device_is_served_only_if_that_is_said() {
    let deadline = Deadline::long("a read-only device");
    let dir = Dir::new();
    let image = dir.file("image");
    std::fs::write(&image, [1; 1 << 20]).unwrap();
    let Some(device) = Loop::new(&["--read-only", path(&image)]) else {
        return;
    };
    let said = failed(&["serve", &device.0]);
    assert!(
        said.contains("the device is read-only; --read-only serves"),
        "{said}"
    );
    drop(deadline);
    let served = Served::start(dir, &[&device.0, "--read-only"]);
    assert_eq!(served.stop(), 0);
}

#[test]
fn memory_of_clients_that_have_gone_goes_back_to_the_system() {
    let dir = Dir::new();
    let image = dir.file("image");
    std::fs::write(&image, [1; 1 << 20]).unwrap();
    let served = Served::start(Dir::new(), &[path(&image)]);
    let status = format!("/proc/{}/status", served.child.id());
    let rss_mib = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = rss.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<u64>().unwrap() >> 10
    };
    // Its own memory, and an emulator's.
    let before = rss_mib();
    // Waits, until the test's deadline.
    let wait_for = |met: fn(u64) -> bool| {
        while !met(rss_mib().saturating_sub(before)) {
            std::thread::yield_now();
        }
    };
    // Long buffers, and those that each slot has.
    for (many, requests, length) in [(6, 64, 1 << 20), (16, 250, 64 << 10)] {
        for _ in 0..6 {
            let clients = (0..many).map(|_| {
                let mut client = Client::connect(&served.socket(), true);
                for _ in 0..requests {
                    client.send(command::READ, 0, 0, length, &[]);
                }
                client
            });
            let clients: Vec<Client> = clients.collect();
            wait_for(|mib| mib > 190);
            drop(clients);
        }
        wait_for(|mib| mib < 64);
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn tcp_on_the_loopback() {
    let _deadline = Deadline::long("TCP");
    let mut child = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
        .args(["serve", "--memory", "1M", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().rsplit("nbd://").next().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let mut hello = [0; 18];
    std::io::Read::read_exact(&mut stream, &mut hello).unwrap();
    assert_eq!(&hello[..8], b"NBDMAGIC");
    stream.write_all(&[0; 4]).unwrap();
    terminate(&child);
    assert!(child.wait().unwrap().success());
}

/// Makes the system call fail with `error`, as old kernels and sandboxes do. For a process that is
/// about to become another program.
fn without_io_uring(error: i32) -> std::io::Result<()> {
    // From linux/filter.h and linux/seccomp.h: load the call's number; if it is not io_uring_setup,
    // skip one; fail; allow.
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(0x20, 0, 0, 0),
        step(0x15, 0, 1, libc::SYS_io_uring_setup as u32),
        step(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: numbers only.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: a valid program, which the kernel copies.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    match (done, set) {
        (0, 0) => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn a_system_without_io_uring_is_told_in_one_line() {
    use std::os::unix::process::CommandExt;
    let dir = Dir::new();
    let image = dir.file("image");
    std::fs::write(&image, [0; 4096]).unwrap();
    let cases = [
        (libc::ENOSYS, "no io_uring"),
        (libc::EPERM, "kernel.io_uring_disabled"),
    ];
    for (error, said) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"));
        command.args(["serve", path(&image), "--io-uring"]);
        // SAFETY: system calls only.
        unsafe { command.pre_exec(move || without_io_uring(error)) };
        let done = match command.output() {
            Ok(done) => done,
            Err(why) => {
                println!(
                    "a_system_without_io_uring: skipped, because there is no filter of system calls: {why}"
                );
                return;
            }
        };
        let errors = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{errors}");
        assert!(done.stdout.is_empty());
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(
            errors.contains("--io-uring") && errors.contains(said),
            "{errors}"
        );
    }
}
