//! Processes that do not answer, as stopped ones: nothing waits for them for ever, and others are
//! not held up.

use crate::common::{Served, serve};
use crate::mount::Mounted;
use cmwq_control::Client;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Numbers that no process has here.
const SILENT: u32 = 4_100_000;
const FULL: u32 = 4_100_001;

fn socket_of(served: &Served, pid: u32) -> PathBuf {
    served.dir.path().join(format!("cmwq/{pid}.sock"))
}

#[test]
fn a_list_shows_processes_that_do_not_answer() {
    let served = serve();
    let _silent = UnixListener::bind(socket_of(&served, SILENT)).expect("it listens");
    // As many clients as may queue up have given up on this one.
    let full = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    let address = SocketAddrUnix::new(socket_of(&served, FULL)).expect("short");
    bind(&full, &address).expect("bound");
    listen(&full, 0).expect("it listens");
    let client = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    connect(&client, &address).expect("the only one that may queue up");

    let said = served.ok(&["list"]);
    let line = |pid: u32| {
        let pid = pid.to_string();
        said.lines().find(|line| line.contains(&pid)).expect(&pid)
    };
    assert!(line(SILENT).contains("no answer for 5s"), "{said}");
    assert!(line(FULL).contains("accepts no connection"), "{said}");
    assert!(line(std::process::id()).contains("0.3.0"), "{said}");

    for command in [["dump", "-p"], ["busy", "-p"], ["metrics", "-p"]] {
        let refused = served.failed(&[command[0], command[1], &FULL.to_string()]);
        assert!(refused.contains("is it stopped?"), "{refused}");
    }
    // It may be one of those that do not answer.
    let refused = served.failed(&["dump", "-p", "its-name"]);
    assert!(
        refused.contains("\"its-name\"; process 4100000: no answer"),
        "{refused}"
    );
}

/// The process may be another user's.
#[test]
fn no_text_of_a_process_controls_the_terminal() {
    let served = serve();
    let mut client = Client::connect_to(served.control.path()).expect("served");
    let mut state = client.call("state", json!({})).expect("an answer");
    let engine = &mut state["engines"][0];
    for text in ["cpus", "pod_cpus", "kind"] {
        engine["pools"][0][text] = json!("\u{1b}[2J");
    }
    engine["queues"][0]["kind"] = json!("\u{1b}[2J");
    engine["scopes"][0]["name"] = json!("\u{1b}[2J");
    engine["parameters"]["cpumask"] = json!("\u{1b}[2J");
    let listener = UnixListener::bind(socket_of(&served, SILENT)).expect("it listens");
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut asked = String::new();
            loop {
                let (connection, _) = listener.accept().expect("a client");
                let mut reader = BufReader::new(&connection);
                // A connection without a request is of a process that looked whether it serves.
                if reader.read_line(&mut asked).is_ok_and(|read| read > 0) {
                    let answer = format!("{}\n", json!({ "result": state }));
                    (&connection).write_all(answer.as_bytes()).expect("sent");
                    return;
                }
            }
        });
        served.ok(&["dump", "-p", &SILENT.to_string()])
    });
    assert!(said.contains("?[2J") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn the_files_of_a_silent_process_hold_up_no_others() {
    let served = serve();
    let Some(mounted) = Mounted::new(&served) else {
        return;
    };
    let listener = UnixListener::bind(socket_of(&served, SILENT)).expect("it listens");
    let silent = mounted.dir.join(SILENT.to_string());
    let lookup = |path: PathBuf| move || std::fs::metadata(path).map(drop);
    let errno = |result: std::io::Result<()>| result.expect_err("refused").raw_os_error();

    // The answer comes only after another process's file was read.
    let asking = std::thread::spawn(lookup(silent.join("io")));
    // The first connection is that of a process which looked whether it serves; what is asked comes
    // with a later one.
    let mut asked = String::new();
    let connection = loop {
        let (connection, _) = listener.accept().expect("a client");
        let mut reader = BufReader::new(connection);
        if reader.read_line(&mut asked).is_ok_and(|read| read > 0) {
            break reader.into_inner();
        }
    };
    assert!(asked.contains("queues"), "{asked}");
    let other = mounted.dir.join(std::process::id().to_string());
    let nice = std::fs::read_to_string(other.join("io/nice"));
    assert_eq!(nice.expect("a file"), "0\n");
    let refusal = br#"{"error":{"errno":"EBUSY","message":"a test"}}"#;
    (&connection).write_all(refusal).expect("sent");
    (&connection).write_all(b"\n").expect("sent");
    let answer = asking.join().expect("no panic");
    assert_eq!(errno(answer), Some(Errno::BUSY.raw_os_error()));

    // The process answers no more: the next read fails without a request.
    for path in ["io", "crypt", "cpumask"] {
        let answer = lookup(silent.join(path))();
        assert_eq!(errno(answer), Some(Errno::TIMEDOUT.raw_os_error()));
    }
    let mut reader = BufReader::new(connection);
    let mut requests = Vec::new();
    while reader.read_line(&mut asked).is_ok_and(|read| read > 0) {
        requests.push(std::mem::take(&mut asked));
    }
    assert_eq!(requests.len(), 1, "{requests:?}");
    drop(served);
}
