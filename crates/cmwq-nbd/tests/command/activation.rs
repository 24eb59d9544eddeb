//! Under a service manager: the socket is the manager's, before, during and after; and the manager
//! gets notifications.
//!
//! Sabotage tried: shutting the passed socket down at the end fails the second start.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

use crate::common::{Client, Deadline, Dir, pattern};

/// The command with `socket` as descriptors 3 and 4, of which so many are passed by the manager's protocol.
fn activated(socket: OwnedFd, count: &str, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let pass = r#"export LISTEN_PID=$$ LISTEN_FDS="$1"; shift; exec "$@" 3<&0 4<&0 </dev/null"#;
    command
        .args(["-c", pass, "sh", count, env!("CARGO_BIN_EXE_cmwq-nbd")])
        .args(["serve", "--memory", "1M"])
        .args(args)
        .env_remove("NOTIFY_SOCKET")
        .stdin(socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The end of a server that must end by itself.
fn ended(mut child: Child) -> Output {
    let deadline = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it has not ended");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

struct Manager {
    socket: UnixDatagram,
    dir: Dir,
}

impl Manager {
    fn new() -> Manager {
        let dir = Dir::new();
        let socket = UnixDatagram::bind(dir.file("notify")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        Manager { socket, dir }
    }

    /// Starts the server and waits until it is ready; returns its notifications.
    fn start(&self, socket: OwnedFd) -> (Child, String) {
        let mut command = activated(socket, "1", &[]);
        command.env("NOTIFY_SOCKET", self.dir.file("notify"));
        let child = command.spawn().unwrap();
        (child, self.told())
    }

    fn told(&self) -> String {
        let mut bytes = [0; 1024];
        let n = self.socket.recv(&mut bytes).expect("a notice in time");
        String::from_utf8(bytes[..n].to_vec()).unwrap()
    }

    /// SIGTERM, and the end.
    fn stop(&self, child: Child) -> Output {
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.told().starts_with("STOPPING=1\n"));
        let output = ended(child);
        assert!(output.status.success(), "{output:?}");
        output
    }
}

#[test]
fn a_passed_socket_outlives_the_server() {
    let manager = Manager::new();
    let path = manager.dir.file("disk.sock");
    let listener = UnixListener::bind(&path).unwrap();
    for generation in 0..2 {
        let (child, told) = manager.start(listener.try_clone().unwrap().into());
        assert!(told.starts_with("READY=1\nSTATUS=serving memory"), "{told}");
        let mut client = Client::connect(&path, true);
        let data = pattern(0, 4096, generation);
        client.write(0, &data).unwrap();
        assert!(client.read(0, 4096).unwrap() == data);
        let output = manager.stop(child);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(path.to_str().unwrap()), "{text}");
    }
    assert!(path.exists());
}

#[test]
fn a_passed_tcp_socket_is_served() {
    let _deadline = Deadline::long("a passed TCP socket");
    let manager = Manager::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (child, _) = manager.start(listener.into());
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let mut greeting = [0; 8];
    std::io::Read::read_exact(&mut stream, &mut greeting).unwrap();
    assert_eq!(&greeting, b"NBDMAGIC");
    let output = manager.stop(child);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("nbd://{address}")), "{text}");
}

#[test]
fn what_cannot_be_served_is_refused_in_a_line() {
    let dir = Dir::new();
    let listener = UnixListener::bind(dir.file("socket")).unwrap();
    let other = UnixDatagram::bind(dir.file("datagrams")).unwrap();
    let packets = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new(dir.file("packets")).unwrap();
    bind(&packets, &address).unwrap();
    listen(&packets, 1).unwrap();
    let refusals = [
        (
            listener.try_clone().unwrap().into(),
            "2",
            &[][..],
            "must be 1",
        ),
        (
            listener.into(),
            "1",
            &["--listen", "127.0.0.1:0"],
            "already",
        ),
        (OwnedFd::from(other), "1", &[], "does not listen"),
        (packets, "1", &[], "stream"),
    ];
    for (socket, count, args, expected) in refusals {
        let output = ended(activated(socket, count, args).spawn().unwrap());
        let errors = String::from_utf8_lossy(&output.stderr);
        // A socket that will not do is no mistake of the command line.
        let status = if ["does not listen", "stream"].contains(&expected) {
            1
        } else {
            2
        };
        assert_eq!(output.status.code(), Some(status), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped, because systemd-analyze is missing; on Debian: apt-get install systemd");
        return;
    }
    // The command is where the test has it, and instances have no file of options.
    let dir = Dir::new();
    let units = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    for unit in ["cmwq-nbd@.service", "cmwq-nbd@.socket"] {
        let text = std::fs::read_to_string(units.join(unit)).unwrap();
        let text = text.replace("/usr/bin/cmwq-nbd", env!("CARGO_BIN_EXE_cmwq-nbd"));
        std::fs::write(dir.file(&unit.replace('@', "@disk")), &text).unwrap();
        std::fs::write(dir.file(unit), &text).unwrap();
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args([
            dir.file("cmwq-nbd@disk.service"),
            dir.file("cmwq-nbd@disk.socket"),
        ])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !errors.contains("cmwq-nbd"),
        "{errors}"
    );
}
