//! A fork's child serves none of its parent's clients, keeps none of them waiting, and may serve itself.

mod common;

use cmwq_control::{Client, ControlBuilder};
use common::turn;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Forks. The child does as it is told, and is ended by its alarm if it hangs.
fn fork(child: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child uses nothing of the parent's threads, and leaves by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: sets a timer whose signal ends the process.
        unsafe { libc::alarm(100) };
        let is_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(!is_well.unwrap_or(false))) }
    }
    assert!(pid > 0, "no fork");
    pid
}

fn status_of(child: libc::pid_t) -> i32 {
    let mut status = -1;
    // SAFETY: waits for our own child; `status` is valid for writes.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status
}

/// Whether the other side closes the connection.
fn ends(mut socket: impl Read) -> bool {
    match socket.read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn what_the_parent_closes_is_closed_though_a_child_lives() {
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let _turn = turn();
    let dir = tempfile::tempdir().expect("a folder");
    let builder = ControlBuilder::new().dir(dir.path().join("cmwq"));
    let control = builder.http(any).serve().expect("it serves");
    let (path, address) = (
        control.path().to_owned(),
        control.http().expect("asked for"),
    );
    let client = UnixStream::connect(&path).expect("it listens");
    let http_client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(LONG)).expect("a socket");
    http_client.set_read_timeout(Some(LONG)).expect("a socket");
    // Both are let in before this is answered, since they came first.
    Client::connect_to(&path)
        .and_then(|mut client| client.hello())
        .expect("it answers");
    let (until, go_on) = UnixStream::pair().expect("sockets");
    let mut go_on = Some(go_on);
    let child = fork(|| {
        drop(go_on.take());
        ends(&until)
    });
    drop(control);
    assert!(ends(client) && ends(http_client));
    assert!(TcpListener::bind(address).is_ok(), "the child has the port");
    assert!(UnixStream::connect(&path).is_err());
    drop(go_on);
    assert_eq!(status_of(child), 0);
}

#[test]
fn a_child_may_let_go_of_its_parents_endpoint_and_serve() {
    let _turn = turn();
    let dir = tempfile::tempdir().expect("a folder");
    let builder = ControlBuilder::new().dir(dir.path().join("cmwq"));
    let control = builder.serve().expect("it serves");
    let own = dir.path().join("child");
    let mut control = Some(control);
    let child = fork(|| {
        // It may get the id of the parent's thread.
        let thread = std::thread::spawn(|| ());
        drop(control.take());
        let joined = thread.join().is_ok();
        let served = ControlBuilder::new()
            .dir(own)
            .serve()
            .expect("the child serves not yet");
        let mut client = Client::connect_to(served.path()).expect("it listens");
        joined && client.hello().expect("it answers").pid == std::process::id()
    });
    assert_eq!(status_of(child), 0);
    let control = control.expect("the parent's");
    assert!(ControlBuilder::new().serve().is_err(), "one at a time");
    let mut client = Client::connect_to(control.path()).expect("it listens");
    assert_eq!(client.hello().expect("it answers").pid, std::process::id());
    drop(control);
}
