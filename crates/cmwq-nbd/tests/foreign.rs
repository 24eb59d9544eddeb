//! Other people's programs against the command: libnbd's, qemu's, and a file system inside. What is not installed is skipped,
//! with a line that says so.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cmwq_nbd::protocol::command;
use common::{Client, Dir, pattern};

/// Programs and the Debian packages they are in.
const PACKAGES: [(&str, &str); 9] = [
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdfuse", "libnbd-bin"),
    ("nbdsh", "python3-libnbd"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("mkfs.ext4", "e2fsprogs"),
    ("fusermount3", "fuse3"),
    ("fio", "fio"),
];

/// Whether all are there. Says which is not.
fn have(test: &str, programs: &[&str]) -> bool {
    for program in programs {
        let package = PACKAGES
            .iter()
            .find(|(name, _)| name == program)
            .expect("in the table")
            .1;
        let found = std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path)
                .chain(["/sbin".into(), "/usr/sbin".into()])
                .any(|dir| dir.join(program).exists())
        });
        if !found {
            println!("{test}: skipped: {program} is missing (apt-get install {package})");
            return false;
        }
    }
    true
}

/// The command, serving.
struct Served {
    child: Child,
    uri: String,
    dir: Dir,
}

impl Served {
    fn start(dir: Dir, args: &[&str]) -> Served {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
            .arg("serve")
            .args(args)
            .arg("--socket")
            .arg(dir.file("socket"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let uri = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(uri.starts_with("nbd+unix:///?socket="), "{line}");
        Served { child, uri, dir }
    }

    /// Encrypted, in a new sparse file.
    fn encrypted(size: u64) -> Served {
        Self::encrypted_by(size, &[])
    }

    fn encrypted_by(size: u64, way: &[&str]) -> Served {
        let dir = Dir::new();
        let (key, image) = (key_file(&dir), dir.file("image"));
        std::fs::File::create(&image)
            .unwrap()
            .set_len(size)
            .unwrap();
        Self::start(
            dir,
            &[
                &[
                    path(&image),
                    "--cipher",
                    "aes-xts-plain64",
                    "--key-file",
                    path(&key),
                ],
                way,
            ]
            .concat(),
        )
    }

    fn socket(&self) -> PathBuf {
        self.dir.file("socket")
    }

    /// SIGTERM; the exit status.
    fn stop(mut self) -> i32 {
        terminate(&self.child);
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Options for each way in which a file can be read and written here.
fn ways() -> impl Iterator<Item = &'static [&'static str]> {
    let dir = Dir::new();
    let file = dir.file("any");
    std::fs::write(&file, b"some").unwrap();
    let stores = common::ways(&file, 1).count();
    [&[][..], &["--io-uring"]].into_iter().take(stores)
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

fn key_file(dir: &Dir) -> PathBuf {
    let key = dir.file("key");
    std::fs::write(&key, pattern(12345, 64, 77)).unwrap();
    key
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a program to its end; what it printed. It must succeed.
fn run(program: &str, args: &[&str]) -> String {
    // The system's first: nbdsh wants the Python that it was installed for.
    let path =
        "/usr/sbin:/usr/bin:/sbin:/bin:".to_owned() + &std::env::var("PATH").unwrap_or_default();
    let done = Command::new(program)
        .args(args)
        .env("PATH", path)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let (out, errors) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(
        done.status.success(),
        "{program} {args:?}: {}\n{out}\n{errors}",
        done.status
    );
    out.into_owned()
}

/// A file that is partly data and partly holes.
fn some_file(dir: &Dir, size: usize) -> PathBuf {
    let file = dir.file("original");
    let mut bytes = pattern(0, size, 3);
    bytes[size / 4..size / 2].fill(0);
    std::fs::write(&file, bytes).unwrap();
    file
}

#[test]
fn nbdinfo_and_nbdcopy() {
    if !have("nbdinfo_and_nbdcopy", &["nbdinfo", "nbdcopy"]) {
        return;
    }
    for served in [
        Served::encrypted(8 << 20),
        Served::start(Dir::new(), &["--memory", "8M"]),
    ] {
        let info = run("nbdinfo", &["--json", &served.uri]);
        for expected in [
            "\"export-size\": 8388608",
            "\"can_multi_conn\": true",
            "\"can_fua\": true",
            "\"structured\": true",
        ] {
            assert!(info.contains(expected), "{expected}: {info}");
        }
        assert!(run("nbdinfo", &["--list", &served.uri]).contains("export="));
        run("nbdinfo", &["--map", &served.uri]);
        let original = some_file(&served.dir, 8 << 20);
        let back = served.dir.file("back");
        run("nbdcopy", &["--flush", path(&original), &served.uri]);
        run("nbdcopy", &[&served.uri, path(&back)]);
        assert!(std::fs::read(&original).unwrap() == std::fs::read(&back).unwrap());
        assert_eq!(served.stop(), 0);
    }
}

#[test]
fn nbdsh() {
    if !have("nbdsh", &["nbdsh"]) {
        return;
    }
    for way in ways() {
        script_of_nbdsh(&Served::encrypted_by(1 << 20, way));
    }
}

fn script_of_nbdsh(served: &Served) {
    let script = "
import errno
assert h.get_size() == 1 << 20 and h.can_multi_conn() and h.get_structured_replies_negotiated()
h.pwrite(b'x' * 4096, 8192, nbd.CMD_FLAG_FUA)
h.zero(1024, 8192)
h.trim(512, 0)
h.cache(65536, 0)
h.flush()
assert h.pread(4096, 8192) == b'\\0' * 1024 + b'x' * 3072
h.set_strict_mode(0)
for call, number in [(lambda: h.pread(512, 1 << 20), errno.EINVAL), (lambda: h.pwrite(b'y' * 512, 1 << 20), errno.ENOSPC),
                     (lambda: h.pread(511, 0), errno.EINVAL), (lambda: h.pwrite(b'z' * 100, 3), errno.EINVAL)]:
    try:
        call()
        raise SystemExit('not refused')
    except nbd.Error as error:
        assert error.errnum == number, error
buffers = [nbd.Buffer(65536) for _ in range(200)]
cookies = [h.aio_pread(b, 65536 * (n % 16)) for n, b in enumerate(buffers)]
while h.aio_in_flight() > 0:
    h.poll(-1)
assert all(h.aio_command_completed(c) for c in cookies)
print('all well')
";
    let said = run("nbdsh", &["-u", &served.uri, "-c", script]);
    assert!(said.contains("all well"), "{said}");
}

#[test]
fn qemu_img_and_qemu_io() {
    if !have("qemu_img_and_qemu_io", &["qemu-img", "qemu-io"]) {
        return;
    }
    let served = Served::encrypted(8 << 20);
    let original = some_file(&served.dir, 8 << 20);
    let raw = path(&original);
    run(
        "qemu-img",
        &["convert", "-n", "-f", "raw", "-O", "raw", raw, &served.uri],
    );
    run(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", raw, &served.uri],
    );
    let back = served.dir.file("back.qcow2");
    run(
        "qemu-img",
        &[
            "convert",
            "-f",
            "raw",
            "-O",
            "qcow2",
            &served.uri,
            path(&back),
        ],
    );
    run(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "qcow2", raw, path(&back)],
    );
    let commands = [
        "write -P 0xa5 1M 64k",
        "read -P 0xa5 1M 64k",
        "write -z 1M 32k",
        "read -P 0 1M 32k",
        "read -P 0xa5 1056k 32k",
        "aio_write -P 1 2M 1M",
        "aio_write -P 2 3M 1M",
        "aio_flush",
        "read -P 1 2M 1M",
        "read -P 2 3M 1M",
        "write -f -P 3 7M 1M",
        "discard 2M 1M",
        "flush",
        "read -P 3 7M 1M",
    ];
    let mut args = vec!["-f", "raw"];
    for command in &commands {
        args.extend(["-c", command]);
    }
    args.push(&served.uri);
    let said = run("qemu-io", &args);
    assert!(
        !said.contains("verification failed") && !said.contains("error"),
        "{said}"
    );
}

#[test]
fn a_file_system_inside_survives() {
    if !have(
        "a_file_system_inside_survives",
        &["nbdfuse", "mkfs.ext4", "fusermount3"],
    ) {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        println!("a_file_system_inside_survives: skipped: there is no /dev/fuse");
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

#[test]
fn nothing_that_was_made_durable_is_lost_to_a_kill() {
    for way in ways() {
        kill_after_flush_and_fua(way);
    }
}

fn kill_after_flush_and_fua(way: &[&str]) {
    let dir = Dir::new();
    let (key, image) = (key_file(&dir), dir.file("image"));
    std::fs::File::create(&image)
        .unwrap()
        .set_len(4 << 20)
        .unwrap();
    let (key, image) = (path(&key).to_owned(), path(&image).to_owned());
    let args = [&*image, "--cipher", "aes-xts-plain64", "--key-file", &*key];
    let args = [&args, way].concat();
    let mut served = Served::start(dir, &args);
    for round in 0..5u8 {
        let mut client = Client::connect(&served.socket(), true);
        // Flushed over this connection, and by FUA.
        client.write(0, &pattern(0, 1 << 20, round)).unwrap();
        client.ask(command::FLUSH, 0, 0, 0, &[]).unwrap();
        client
            .ask(
                command::WRITE,
                1,
                1 << 20,
                65536,
                &pattern(1 << 20, 65536, round),
            )
            .unwrap();
        // And some that are not acknowledged.
        for n in 0..32 {
            client.send(
                command::WRITE,
                0,
                (2 << 20) + n * 4096,
                4096,
                &[round; 4096],
            );
        }
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        // The dead server's socket is in the way, and is known to be dead.
        let dir = std::mem::replace(&mut served.dir, Dir::new());
        assert!(dir.file("socket").exists());
        served = Served::start(dir, &args);
        let mut client = Client::connect(&served.socket(), true);
        assert!(client.read(0, 1 << 20).unwrap() == pattern(0, 1 << 20, round));
        assert!(client.read(1 << 20, 65536).unwrap() == pattern(1 << 20, 65536, round));
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_full_disk_is_an_error_to_the_client_and_the_server_lives_on() {
    for way in ways() {
        fill_the_disk(way);
    }
}

fn fill_the_disk(way: &[&str]) {
    // The file may not grow beyond half of what is served: as if the disk were full.
    let dir = Dir::new();
    let image = dir.file("image");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(2 << 20)
        .unwrap();
    let limits = rustix::process::Rlimit {
        current: Some(1 << 20),
        maximum: Some(1 << 20),
    };
    let mut served = Served::start(dir, &[&[path(&image)], way].concat());
    let pid = rustix::process::Pid::from_child(&served.child);
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limits).unwrap();
    let mut client = Client::connect(&served.socket(), true);
    assert_eq!(client.write(1 << 20, &[1; 4096]), Err(28));
    // The part that has room is written, and then there is none.
    assert_eq!(client.write((1 << 20) - 512, &[1; 4096]), Err(28));
    assert_eq!(
        client.write(2 << 20, &[1; 4096]),
        Err(28),
        "beyond the end as well"
    );
    client.write(0, &[2; 4096]).unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), vec![2; 4096]);
    assert!(served.child.try_wait().unwrap().is_none());
}

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
    use std::os::unix::fs::PermissionsExt;
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

/// What the command refuses: status 2, one line that names the value, nothing on standard output.
fn refused(args: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{args:?}: {errors}");
    assert!(done.stdout.is_empty(), "{args:?}");
    assert_eq!(errors.lines().count(), 1, "{args:?}: {errors}");
    errors
}

#[test]
fn bad_options_are_refused_in_one_line() {
    let dir = Dir::new();
    let (short, missing, socket) = (dir.file("short"), dir.file("missing"), dir.file("file"));
    std::fs::write(&short, pattern(5, 65, 1)).unwrap();
    std::fs::write(&socket, b"precious").unwrap();
    let (short, missing) = (path(&short), path(&missing));
    assert!(refused(&[]).contains("--help"));
    assert!(refused(&["serve"]).contains("FILE"));
    assert!(refused(&["serve", missing]).contains("No such file"));
    assert!(refused(&["serve", "--memory", "1M", short]).contains("cannot be used with"));
    let cipher = ["serve", "--memory", "1M", "--cipher", "aes-xts-plain64"];
    assert!(refused(&cipher).contains("--key-file"));
    let with_key = |key: &str| refused(&[&cipher[..], &["--key-file", key]].concat());
    assert!(with_key(short).contains("64 bytes (512 bits)"));
    assert!(with_key(missing).contains("No such file"));
    assert!(with_key("/").contains("directory"));
    let key = with_key(short);
    assert!(
        !key.contains(&format!("{:02x}", pattern(5, 65, 1)[0]).repeat(2)),
        "{key}"
    );
    let at = |place: &[&str]| refused(&[&["serve", "--memory", "1M"], place].concat());
    assert!(at(&["--listen", "0.0.0.0:0"]).contains("--allow-remote"));
    assert!(at(&["--socket", "/nowhere/socket"]).contains("/nowhere/socket"));
    // What is no socket is not removed.
    assert!(at(&["--socket", path(&socket)]).contains("in use"));
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
    let both = at(&["--io-uring"]);
    assert!(
        both.contains("--memory") && both.contains("--io-uring"),
        "{both}"
    );
    let served = Served::start(Dir::new(), &["--memory", "1M"]);
    assert!(at(&["--socket", path(&served.socket())]).contains("another server"));
}

#[test]
fn tcp_on_the_loopback() {
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

/// Makes the system call fail with `error`, as old kernels and sandboxes do. For a process that is about to become another program.
fn without_io_uring(error: i32) -> std::io::Result<()> {
    // From linux/filter.h and linux/seccomp.h: load the call's number; if it is not io_uring_setup, skip one; fail; allow.
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
                println!("a_system_without_io_uring: skipped: no filter of system calls: {why}");
                return;
            }
        };
        let errors = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{errors}");
        assert!(done.stdout.is_empty());
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(
            errors.contains("--io-uring") && errors.contains(said),
            "{errors}"
        );
    }
}
